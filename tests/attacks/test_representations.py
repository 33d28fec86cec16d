"""Bad input to the representations for many rows: a sentence, a remedy that works, no change."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from mercer import (
    SVC,
    SVR,
    AdditiveRegressor,
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    KernelRegressor,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from mercer.core import memory
from mercer.kernels import RBF, Matern, Periodic, Precomputed
from mercer.linalg import Inducing, Iterative
from mercer.losses import Gaussian

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=N)
CLASSES = (Y > 0).astype(int)
COUNTS = np.round(np.exp(Y))
Z = X[:6] + 0.02
BROKEN = Z.copy()
BROKEN[2, 1] = np.nan
FIXED: dict[str, Any] = {"search": None}


def gp(gram: Any, **more: Any) -> GPRegressor:
    return GPRegressor(**(FIXED | more), gram=gram)


# what is given, a piece of the sentence, and the same with the remedy that the sentence names
Case = tuple[Any, Any, str, dict[str, Any]]
CASES: dict[str, Case] = {
    "a point that is no number": (
        gp(Inducing(m=BROKEN)), Y, "point 2 is not finite.*leave it out",
        {"gram__m": np.delete(BROKEN, 2, axis=0)},
    ),
    "another width": (
        gp(Inducing(m=np.zeros((3, 5)))), Y, "5 columns, and X has 2: give the points the columns",
        {"gram__m": Z},
    ),
    "points that are words": (
        gp(Inducing(m=[["a", "b"]])), Y, "the points as numbers", {"gram__m": Z},
    ),
    "points of different lengths": (
        gp(Inducing(m=[[1.0, 2.0], [3.0]])), Y, "the points as numbers", {"gram__m": Z},
    ),
    "points that are complex": (
        gp(Inducing(m=Z + 1j)), Y, "the points as numbers", {"gram__m": Z},
    ),
    "points that are dates": (
        gp(Inducing(m=Z.astype("M8[D]"))), Y, "the points as numbers", {"gram__m": Z},
    ),
    "as many points as rows": (
        gp(Inducing(m=N)), Y, f"{N} inducing points for {N} distinct rows.*gram='auto'",
        {"gram": "auto"},
    ),
    "as many landmarks as rows": (
        SVC(gram=Inducing(m=N)), CLASSES, "save nothing: use gram='auto'", {"gram": "auto"},
    ),
    "points of a kernel that cannot move": (
        gp(Inducing(m=5, move=True), kernel=1.0 * Periodic().on(0), search="evidence"), Y,
        "cannot move the points.*move=False", {"gram__move": False},
    ),
    "points of a kernel on row numbers": (
        gp(Inducing(m=5, move=True), kernel=Precomputed(RBF()(X)), search="evidence"), Y,
        "cannot move the points.*use move=False", {"gram__move": False},
    ),
    "moving without a search": (
        gp(Inducing(m=5, move=True)), Y, "without a search.*leave move='auto'",
        {"gram__move": "auto"},
    ),
    "moving landmarks": (
        SVR(gram=Inducing(m=5, move=True)), Y, "leave move='auto'", {"gram__move": "auto"},
    ),
    "moving by a word": (
        gp(Inducing(m=5, move="yes")), Y, "move must be True, False or 'auto'",
        {"gram__move": "auto"},
    ),
    "counts": (
        gp("iterative", loss="poisson"), COUNTS, "Gaussian noise: use gram='inducing'",
        {"gram": "inducing"},
    ),
    "classes": (
        GPClassifier(**FIXED, gram="iterative"), CLASSES, "Gaussian noise: use gram='inducing'",
        {"gram": "inducing"},
    ),
    "a convex loss": (
        KernelRegressor(**FIXED, loss="huber", gram=Iterative()), Y,
        "Gaussian noise: use gram='inducing'", {"gram": "inducing"},
    ),
    "a convex classifier": (
        KernelClassifier(gram="iterative"), CLASSES, "Gaussian noise.*gram='auto'",
        {"gram": "auto"},
    ),
    "a basis": (
        gp("iterative", basis="linear"), Y, "no unpenalised basis: use gram='inducing'",
        {"gram": "inducing"},
    ),
    "values of a kernel": (
        gp(Iterative(rank=5), kernel="precomputed"), Y, "use gram='auto'", {"gram": "auto"},
    ),
    "no noise, by points": (
        gp(Inducing(m=5), kernel=1.0 * RBF(), loss=Gaussian(0.0)), Y,
        "give the loss a positive noise", {"loss": Gaussian(0.1)},
    ),
    "no noise, by products": (
        gp(Iterative(rank=5), kernel=1.0 * RBF(), loss=Gaussian(0.0)), Y, "raise the noise",
        {"loss": Gaussian(0.1)},
    ),
    "a share of errors": (
        NuSVC(nu=0.4, gram="inducing"), CLASSES, "gram='auto'", {"gram": "auto"},
    ),
    "a share of rows": (NuSVR(gram="inducing"), Y, "gram='auto'", {"gram": "auto"}),
    "one class": (OneClassSVM(gram="inducing"), None, "gram='auto'", {"gram": "auto"}),
    "an additive model that is none": (
        AdditiveRegressor(RBF(), **FIXED), Y, r"Matern\(\).on\(0\) \+ Matern\(\).on\(1\)",
        {"kernel": Matern().on(0) + Matern().on(1)},
    ),
    "no grid": (
        gp("kronecker", kernel=RBF().on(0) * RBF().on(1)), Y, "gram='auto'", {"gram": "auto"},
    ),
}  # fmt: skip
for _gram in (5, 3.5, True, np.zeros((3, 2)), ["inducing"], Inducing, {"m": 5}, b"inducing"):
    _what = f"gram is a {type(_gram).__name__} {_gram!r:.20}"
    CASES[_what] = (gp(_gram), Y, r"unknown gram.*'auto'.*Inducing\(", {"gram": Inducing(m=5)})
    CASES[_what + ", SVC"] = (SVC(gram=_gram), CLASSES, "gram must be 'auto'", {"gram": "auto"})
    CASES[_what + ", additive"] = (
        AdditiveRegressor(**FIXED, gram=_gram), Y, "unknown gram.*'auto'", {"gram": "auto"},
    )  # fmt: skip
for _name, _bad, _good in (("tol", np.nan, 0.1), ("rows", 2.5, 20), ("max_iter", -1, 0)):
    _part = Inducing(**{"m": 5, _name: _bad})
    CASES[f"Inducing({_name})"] = (gp(_part), Y, f"{_name} must be", {f"gram__{_name}": _good})
for _name, _bad, _good in (("tol", np.inf, 0.1), ("rank", 0, 9), ("probes", 1, 3), ("rows", 1, 20)):
    _part = Iterative(**{_name: _bad})
    CASES[f"Iterative({_name})"] = (gp(_part), Y, f"{_name} must be", {f"gram__{_name}": _good})


def rows_of(model: Any) -> np.ndarray:
    if isinstance(model.kernel, Precomputed):
        return np.arange(N, dtype=float)[:, None]
    return RBF()(X) if isinstance(model.kernel, str) and model.kernel == "precomputed" else X


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_whose_remedy_works(name: str) -> None:
    model, y, sentence, remedy = CASES[name]
    model = model.__sklearn_clone__()
    before = dict(vars(model))
    with pytest.raises(ValueError, match=f"(?s){sentence}") as caught:
        model.fit(rows_of(model), y)
    assert "setting an array" not in str(caught.value)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
    model.set_params(**remedy).fit(rows_of(model), y)
    assert np.all(np.isfinite(model.predict(rows_of(model)).astype(float)))


def test_points_on_one_another_are_dropped_and_said() -> None:
    model = gp(Inducing(m=np.vstack([Z, Z[:2]]))).fit(X, Y)
    assert (model.report_["inducing"]["points"], model.report_["inducing"]["dropped"]) == (6, 2)
    assert np.allclose(model.predict(X), gp(Inducing(m=Z)).fit(X, Y).predict(X))
    machine = SVC(gram=Inducing(m=np.vstack([Z, Z[:2]]))).fit(X, CLASSES)
    assert machine.report_["inducing"]["dropped"] == 2


@pytest.mark.parametrize("beyond", ["iterative", "inducing"])
def test_memory_beyond_the_machine(beyond: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(400, 2))
    b = np.sin(A[:, 0]) + 0.1 * rng.normal(size=400)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 300**2)
    model = gp("auto", kernel=1.0 * RBF(), loss=Gaussian(0.1))
    with pytest.raises(
        MemoryError, match=r"(?s)iterative.*inducing.*random sample of at most"
    ) as e:
        model.fit(A, b)
    assert not hasattr(model, "posteriors_")
    largest = int(str(e.value).split("at most ")[1].split()[0])
    few = {"iterative": Iterative(rank=20), "inducing": Inducing(m=20)}[beyond]
    model.set_params(gram=few).fit(A, b)
    assert model.score(A, b) > 0.8
    model.set_params(gram="auto").fit(A[:largest], b[:largest])  # the third remedy
    asked = {"iterative": Iterative(rank=150), "inducing": Inducing(m=150)}[beyond]
    with pytest.raises(MemoryError, match="choose a smaller"):
        gp(asked, kernel=1.0 * RBF()).fit(A, b)


def test_landmarks_beyond_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 20_000)
    model = SVC(gram=Inducing(m=30))
    with pytest.raises(MemoryError, match="choose a smaller m"):
        model.fit(X, CLASSES)
    assert not hasattr(model, "dual_coef_")
    assert model.set_params(gram__m=8).fit(X, CLASSES).score(X, CLASSES) > 0.7


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (gp(Iterative(rank=9)), {"gram": "inducing"}),
        (gp(Iterative(rank=9)), {"gram": "dense"}),
        (AdditiveRegressor(**FIXED, gram="iterative"), {"gram": "dense"}),
    ],
)
def test_rows_left_out_of_solutions_by_products(model: Any, remedy: dict[str, Any]) -> None:
    model.fit(X, Y)
    assert model.loo_ is None
    assert model.left_out_ is None
    assert repr(remedy["gram"]) in model.report_["left_out"]
    assert model.report_["left_out"] in str(model.summary())
    assert model.set_params(**remedy).fit(X, Y).left_out_.mean.shape == (N,)


# ---------------------------------------------------------------------- interrupts
class Rang(KeyboardInterrupt):
    """What the alarm raises: as Ctrl-C does."""


FITS: dict[str, Any] = {
    "inducing": GPRegressor(gram=Inducing(m=200, rows=30, max_iter=10_000)),
    "few rows of inducing": GPRegressor(gram=Inducing(m=5, rows=2000)),
    "iterative": gp(Iterative(rank=50, tol=1e-12, precision="double")),
    "search of iterative": GPRegressor(gram=Iterative(rank=50, rows=600)),
    "additive": AdditiveRegressor(gram="iterative", rows=500, tol=1e-12, rank=10),
    "landmarks": SVR(gram=Inducing(m=200), tol=1e-12, C=1e3),
}


@pytest.mark.parametrize("name", FITS)
def test_an_interrupt_keeps_the_best_or_leaves_nothing(name: str) -> None:
    """By a signal after 0.15 s of CPU time; how long it takes is measured in test_interrupts."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3000, 4))
    b = np.sin(A[:, 0]) + A[:, 1] + 0.1 * rng.normal(size=3000)
    model = FITS[name].__sklearn_clone__()

    def ring(number: int, frame: object) -> None:
        raise Rang

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.15)
        model.fit(A, b)
    except Rang:
        assert not [key for key in vars(model) if key.endswith("_")]
    except KeyboardInterrupt:  # in the search on few rows: all would take much longer
        assert not [key for key in vars(model) if key.endswith("_")]
        assert name in ("search of iterative", "additive")
    else:
        if model.report_.get("search"):
            told = str(model.report_)
            assert "'interrupted': True" in told
        assert np.all(np.isfinite(model.predict(A[:5])))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
