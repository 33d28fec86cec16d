"""Fits on tables in blocks, against the same fits on all rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    SVC,
    SVR,
    BlockTable,
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    NuSVC,
    ProbabilisticLeastSquaresClassifier,
    QuantileRegressor,
    RVRegressor,
    SmoothingSpline,
    load,
    save,
)
from mercer.inference import EP, Primal, Variational
from mercer.kernels import RBF, White
from mercer.linalg import Inducing, Iterative
from mercer.losses import (
    EpsilonInsensitive,
    Gamma,
    Gaussian,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    Poisson,
    StudentT,
)

RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 2)) * [1.0, 20.0] + [0.0, 100.0]
F = np.sin(1.5 * X[:, 0]) + 0.02 * (X[:, 1] - 100.0)
NUMBERS = F + 0.2 * RNG.normal(size=N)
TWO = np.where(NUMBERS > 0.3, "yes", "no")
THREE = np.digitize(NUMBERS, [-0.5, 0.5]) * 10
COUNTS = RNG.poisson(np.exp(0.5 * F)).astype(float)
WEIGHTS = RNG.integers(0, 3, N).astype(float)
Z = X[:12]
FEW = Inducing(m=Z)
EXACT = Variational(tol=1e-9)
KERNEL = 2.0 * RBF([1.0, 20.0])


def table(y, w=WEIGHTS, **told) -> BlockTable:
    return BlockTable(X, y, w, **{"block_rows": 50, "workers": 1, **told})


FIXED = {
    "gaussian": (GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW), NUMBERS),
    "basis": (
        GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW, basis="linear"),
        NUMBERS,
    ),
    "noise part": (
        GPRegressor(KERNEL + White(0.3), loss=Gaussian(0.1), search=None, gram=FEW),
        NUMBERS,
    ),
    "outputs": (
        GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW),
        np.column_stack([NUMBERS, F]),
    ),
    "standardised": (GPRegressor(search=None, gram=FEW), NUMBERS),
    "positive": (
        GPRegressor(KERNEL, loss=Gamma(2.0), inference=EXACT, search=None, gram=FEW),
        np.exp(NUMBERS),
    ),
    "robust": (
        GPRegressor(
            KERNEL, loss=StudentT(0.2, 4.0), inference=Variational(tol=1e-8), search=None, gram=FEW
        ),
        NUMBERS,
    ),
    "counts": (
        GPRegressor(KERNEL, loss=Poisson(), inference=EXACT, search=None, gram=FEW),
        COUNTS,
    ),
    "two classes": (
        GPClassifier(KERNEL, inference=EXACT, search=None, gram=FEW),
        TWO,
    ),
    "three classes": (
        GPClassifier(
            KERNEL, loss=Logistic(), inference=EXACT, search=None, gram=FEW,
            class_weight="balanced",
        ),
        THREE,
    ),
    "expectation propagation": (
        GPClassifier(KERNEL, loss="probit", inference=EP(tol=1e-8), search=None, gram=FEW),
        TWO,
    ),
    "least squares": (LeastSquaresClassifier(KERNEL, lam=0.3, gram=FEW), TWO),
    "least squares, three": (
        LeastSquaresClassifier(KERNEL, lam=0.3, gram=FEW, targets="fisher"),
        THREE,
    ),
    "least squares, weighted": (
        LeastSquaresClassifier(gram=FEW, lam=0.1, targets=(2.0, 0.0), class_weight={"yes": 3.0}),
        TWO,
    ),
    "logistic mode": (
        KernelClassifier(gram=FEW, inference=Primal(1e-12), class_weight="balanced"),
        TWO,
    ),
    "hinge mode": (KernelClassifier(loss=Hinge(), gram=FEW, inference=Primal(1e-9)), THREE),
    "huber mode": (
        KernelRegressor(KERNEL, loss=Huber(0.3), search=None, gram=FEW, inference=Primal(1e-12)),
        NUMBERS,
    ),
    "quantile": (
        KernelRegressor(
            KERNEL, loss=Pinball(0.8, 0.2), search=None, gram=FEW, inference=Primal(1e-9),
            basis="constant",
        ),
        NUMBERS,
    ),
    "tube": (
        KernelRegressor(
            KERNEL, loss=EpsilonInsensitive(2.0, 0.1), search=None, gram=FEW,
            inference=Primal(1e-9),
        ),
        NUMBERS,
    ),
    "svc": (SVC(C=2.0, gram=FEW, tol=1e-8), TWO),
    "svc, three": (SVC(gram=FEW, tol=1e-8, class_weight="balanced"), THREE),
    "svr": (SVR(C=3.0, gram=FEW, tol=1e-8), NUMBERS),
}  # fmt: skip


def latent(model):
    found = model.predict_latent(X) if hasattr(model, "predict_latent") else model.predict(X)
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", FIXED)
def test_the_same_parts_and_points_give_the_same_machine(name) -> None:
    model, y = FIXED[name]
    w = None if name == "noise part" else WEIGHTS  # a draw for each row cannot be weighted
    whole = clone(model).fit(X, y, sample_weight=w)
    parts = clone(model).fit(table(y, w))
    scale = np.abs(latent(whole)).max()
    mode = "tol" in whole.get_params() or "Primal" in str(whole.report_["inference"]["name"])
    np.testing.assert_allclose(latent(parts), latent(whole), atol=(1e-5 if mode else 1e-8) * scale)
    if getattr(whole, "log_evidence_", None) is not None:
        assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-8)
    if hasattr(whole, "predict_interval") and whole.posteriors_[0].has_spread:
        pair = (m.predict(X, return_std=True)[1] for m in (parts, whole))
        np.testing.assert_allclose(*pair, rtol=1e-7)
    if hasattr(whole, "classes_"):
        assert parts.classes_.tolist() == whole.classes_.tolist()
        assert parts.score(X, y) == pytest.approx(whole.score(X, y), abs=0.01)
    assert parts.left_out_ is None
    assert parts.report_["rows"]["used"] == (N if w is None else np.count_nonzero(w))
    assert parts.report_["blocks"]["blocks"] == 5
    assert "blocks" in str(parts.summary())


def test_a_sample_of_all_rows_finds_what_all_rows_find() -> None:
    """Points by k-means, parameters by the evidence; the sample is the table."""
    model = GPRegressor(gram=Inducing(m=10, move=False, max_iter=15))
    whole, parts = clone(model).fit(X, NUMBERS), clone(model).fit(table(NUMBERS, None))
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, abs=0.05)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=0.02)
    assert parts.report_["inducing"]["rows_of_first_search"] == N
    assert parts.n_features_in_ == 2
    assert not hasattr(parts, "feature_names_in_")


@pytest.mark.parametrize("inference", ["variational", "ep"])
def test_kernels_of_classifiers_come_from_exact_rows_not_from_a_bound(inference) -> None:
    """Two points leave much unexplained: their bound would give columns up to lower its price."""
    kernel = 1.0 * RBF([1.0, 1.0])
    exact = GPClassifier(kernel, loss="logistic", inference="laplace").fit(X, TWO)
    given = {"loss": "logistic", "inference": inference, "gram": Inducing(m=2, move=False)}
    few = GPClassifier(kernel, **given)
    found = clone(few).fit(table(TWO, None))
    scales = exact.kernel_.kernel.length_scale
    np.testing.assert_allclose(found.kernel_.kernel.length_scale, scales, rtol=0.02)
    assert found.report_["search"]["inference"] == "Laplace"
    assert found.report_["inducing"]["rows_of_first_search"] == N
    inside = few.set_params(gram=Inducing(m=2, move=False, max_iter=0)).fit(X, TWO)
    np.testing.assert_allclose(inside.kernel_.kernel.length_scale, scales, rtol=0.02)


def test_points_are_moved_by_the_gradient_of_all_rows() -> None:
    given = {"kernel": KERNEL, "loss": Gaussian(0.1)}
    still = GPRegressor(**given, gram=Inducing(m=8, move=False, max_iter=5))
    moved = GPRegressor(**given, gram=Inducing(m=8, move=True, max_iter=5))
    few = {"sample": 60, "w": None}
    before, after = (m.fit(table(NUMBERS, **few)) for m in (still, moved))
    assert after.log_evidence_ > before.log_evidence_ + 1.0
    assert after.report_["blocks"]["passes"] > 8
    assert before.report_["blocks"] | {"passes": 2} == before.report_["blocks"]
    assert before.report_["blocks"]["sample"] == 60


def test_moved_points_of_a_classifier() -> None:
    rough = {"inference": Variational(tol=1e-2), "gram": Inducing(m=4, move=True, max_iter=1)}
    model = GPClassifier(2.0 * RBF([1.0, 20.0]).fix(), **rough)
    found = model.fit(table(TWO, None, sample=60))
    assert found.report_["inference"]["name"] == "Variational"
    assert found.score(X, TWO) > 0.8


def test_auto_takes_inducing_points_and_the_variational_bound() -> None:
    found = GPClassifier(KERNEL, search=None).fit(table(TWO))
    assert "took Inducing()" in found.report_["blocks"]["gram"]
    assert found.report_["inference"]["name"] == "Variational"
    assert found.report_["inducing"]["points"] > 20
    assert found.get_params()["gram"] == "auto"
    assert found.get_params()["inference"] == "auto"


@pytest.mark.parametrize("name", ["gaussian", "two classes", "three classes", "svc", "quantile"])
def test_whoever_reads_the_blocks_the_bits_are_the_same(name) -> None:
    model, y = FIXED[name]
    found = [clone(model).fit(table(y, workers=workers)) for workers in (1, 3)]
    np.testing.assert_array_equal(*(latent(m) for m in found))


@pytest.mark.parametrize("name", ["basis", "three classes", "least squares", "svc", "quantile"])
def test_a_file_gives_the_same_predictions(name, tmp_path) -> None:
    model, y = FIXED[name]
    found = clone(model).fit(table(y))
    save(found, tmp_path / "model.mercer")
    again = load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(latent(again), latent(found))
    assert again.report_["blocks"] == found.report_["blocks"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (GPRegressor(gram=Iterative()), "Inducing"),
        (GPRegressor(gram="dense"), "Inducing"),
        (GPClassifier(inference="ep", gram=Inducing(move=True)), "'variational'"),
        (GPClassifier(inference="ep", gram="inducing", basis="constant"), "'variational'"),
        (GPRegressor(loss=StudentT(), inference="ep", gram="inducing"), "'variational'"),
        (GPRegressor(loss=Poisson(), inference="laplace", gram="inducing"), "'variational'"),
        (GPClassifier(inference=Variational(factors=2), gram="inducing"), "inducing|variational"),
        (GPClassifier(discriminant="mode", gram="inducing"), "leave 'mean'"),
        (GPRegressor(search="hmc", gram="inducing"), "search='evidence'"),
        (GPRegressor(loss=Gaussian(np.full(N, 0.1)), gram="inducing"), "one for all|sample_weight"),
        (RVRegressor(), "GPRegressor"),
        (SmoothingSpline(), "GPRegressor"),
        (QuantileRegressor(), "Pinball"),
        (ProbabilisticLeastSquaresClassifier(), "GPClassifier"),
        (NuSVC(), "SVC"),
        (SVC(probability="loo"), "KernelClassifier"),
        (SVC(C=np.inf), "finite C"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_read(model, said) -> None:
    """A pass over this table, which has no rows, would say so."""
    with pytest.raises((ValueError, TypeError), match=said):
        model.fit(BlockTable(X[:0], TWO[:0] if hasattr(model, "class_weight") else NUMBERS[:0]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y": np.full(N, "a")}, "only one class, 'a'"),
        ({"y": None}, "y is missing"),
        ({"y": TWO, "w": np.zeros(N)}, "all sample weights are zero"),
        ({"y": TWO, "w": np.where(TWO == "no", 0.0, 1.0)}, "one class|weight zero"),
        ({"y": TWO, "sample": 1}, "sample must be"),
    ],
)
@pytest.mark.parametrize("model", [GPClassifier(gram=FEW, search=None), SVC(gram=FEW)])
def test_tables_from_which_nothing_can_be_learned(given, said, model) -> None:
    with pytest.raises(ValueError, match=said):
        clone(model).fit(table(**given))


def test_no_rows() -> None:
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        GPRegressor().fit(BlockTable(X[:0], NUMBERS[:0]))


def test_an_error_leaves_the_machine_as_it_was() -> None:
    model = GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW).fit(table(NUMBERS))
    before, wrong = model.predict(X), X.copy()
    wrong[77, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 77 \(block 1\)"):
        model.fit(BlockTable(wrong, NUMBERS, block_rows=50))
    np.testing.assert_array_equal(model.predict(X), before)


def test_targets_are_stated_once() -> None:
    with pytest.raises(ValueError, match="stated there"):
        GPRegressor().fit(table(NUMBERS), NUMBERS)
    given = BlockTable(X, block_rows=50)
    model = GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW)
    one, two = model.fit(given, NUMBERS).predict(X), model.fit(table(NUMBERS, None)).predict(X)
    np.testing.assert_array_equal(one, two)


def test_a_rare_class_is_learned_of() -> None:
    rare = np.full(N, "often")
    rare[[17, 203]] = "rare"
    model = SVC(gram=Inducing(m=10)).fit(table(rare, None, sample=40))
    assert model.classes_.tolist() == ["often", "rare"]


def test_progress_is_told(capsys) -> None:
    told = []
    model = GPRegressor(KERNEL, loss=Gaussian(0.1), search=None, gram=FEW)
    model.fit(table(NUMBERS, progress=told.append))
    assert [(e["stage"], e["step"], e["steps"]) for e in told] == [
        (f"pass {p}", b, 5) for p in (1, 2) for b in range(1, 6)
    ]
    assert told[3]["left"] >= 0.0
    model.fit(table(NUMBERS, progress=True))
    assert "pass 2: block 5 of 5" in capsys.readouterr().err
