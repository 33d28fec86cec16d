"""Estimators on few inducing points: classes, other losses, rows left out, weights, refusals."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor, KernelRegressor
from mercer.core.arrays import Array
from mercer.inference import EP, Exact, Variational
from mercer.kernels import RBF, Linear, Precomputed
from mercer.left_out.cavity import cavities, gaussian_figures
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.representation import Inducing, Iterative
from mercer.losses import Gaussian, Logistic, Probit
from mercer.search import Optimize
from mercer.search.criteria.evidence import simple_problem

KERNEL = 2.0 * RBF(length_scale=0.8)
SHORT = Optimize(restarts=0, max_iter=4)


def table(n: int = 120, classes: int = 2) -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, np.floor((angle % (2.0 * np.pi)) / (2.0 * np.pi) * classes).astype(int)


def numbers(n: int = 120) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


# ---------------------------------------------------------------------- classes
@pytest.mark.parametrize("inference", ["auto", "ep", "laplace", "variational"])
def test_two_classes_close_to_the_exact_machine(inference: str) -> None:
    X, y = table()
    few = GPClassifier(KERNEL, inference=inference, search=None, gram=Inducing(m=60)).fit(X, y)
    all_ = GPClassifier(KERNEL, inference=inference, search=None).fit(X, y)
    new = np.random.default_rng(3).normal(size=(50, 2))
    assert few.predict_proba(new) == pytest.approx(all_.predict_proba(new), abs=0.03)
    assert few.left_out_.proba == pytest.approx(all_.left_out_.proba, abs=0.08)
    assert few.report_["inference"]["name"] == {"auto": "EP", "ep": "EP"}.get(
        inference, inference.capitalize()
    )
    bounds = few.evidence_bounds_
    if inference == "variational":
        assert bounds == (few.log_evidence_, None)
        assert few.log_evidence_ <= all_.log_evidence_
    else:
        assert bounds is None


def test_many_rows_are_variational() -> None:
    assert Inducing(m=1000).work(20_000) > 1e10 > Inducing(m=100).work(20_000)
    X, y = table(60)
    model = GPClassifier(search=None, gram=Inducing(m=X[:9]))
    assert model.fit(X, y).report_["inference"]["name"] == "EP"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.estimators.gaussian_process.classifier.LARGE", 100.0)
        assert model.fit(X, y).report_["inference"]["name"] == "Variational"


@pytest.mark.parametrize("inference", ["auto", "variational"])
def test_several_classes_are_each_against_the_rest(inference: str) -> None:
    X, y = table(150, 3)
    given: dict[str, Any] = {"search": None, "inference": inference}
    few = GPClassifier(KERNEL, gram=Inducing(m=60), **given).fit(X, y)
    loss = "probit" if inference == "auto" else "logistic"
    all_ = GPClassifier(KERNEL, loss=loss, **given).fit(X, y)
    new = np.random.default_rng(3).normal(size=(50, 2))
    proba = few.predict_proba(new)
    assert proba.sum(axis=1) == pytest.approx(1.0)
    assert proba == pytest.approx(all_.predict_proba(new), abs=0.04)
    assert few.left_out_.proba.shape == (150, 3)
    assert few.summary().rows()
    twin = pickle.loads(pickle.dumps(few))
    assert np.array_equal(twin.predict_proba(new), proba)
    with pytest.raises(ValueError, match=r"softmax.*one machine per class"):
        GPClassifier(loss="softmax", gram="inducing").fit(X, y)


def test_search_with_several_classes() -> None:
    X, y = table(90, 3)
    model = GPClassifier(KERNEL, search=SHORT, gram=Inducing(m=12, max_iter=5, rows=40)).fit(X, y)
    report = model.report_["inducing"]
    assert (report["points"], report["chosen"]) == (12, "kmeans")  # no bound: not moved
    assert report["rows_of_first_search"] == 40
    assert np.mean(model.predict(X) == y) > 0.7


def test_bounds_are_moved() -> None:
    X, y = table(90)
    given = Inducing(m=8, max_iter=5, rows=40)
    model = GPClassifier(KERNEL, search=SHORT, inference="variational", gram=given).fit(X, y)
    assert model.report_["inducing"]["chosen"] == "kmeans, moved"
    assert model.evidence_bounds_[0] == model.log_evidence_


@pytest.mark.parametrize("loss", ["poisson", "student_t", "negative_binomial"])
@pytest.mark.parametrize("inference", ["auto", "variational"])
def test_other_losses(loss: str, inference: str) -> None:
    X, f = numbers()
    counts = np.random.default_rng(2).poisson(np.exp(1.0 + f)).astype(float)
    y = f if loss == "student_t" else counts
    given = Inducing(m=30, max_iter=5, rows=60)
    parts: dict[str, Any] = {"loss": loss, "inference": inference, "search": SHORT, "gram": given}
    model = GPRegressor(KERNEL, **parts).fit(X, y)
    found = model.predict(X)
    assert np.corrcoef(found, f if loss == "student_t" else np.exp(1.0 + f))[0, 1] > 0.8
    assert np.all(np.isfinite(model.left_out_.total))
    twin = deepcopy(model)
    assert np.array_equal(twin.predict(X), found)


def test_weights_are_repeated_rows() -> None:
    X, y = table(60)
    times = np.random.default_rng(2).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), times)
    new = np.random.default_rng(3).normal(size=(20, 2))
    for inference in ("ep", "variational", "laplace"):
        model = GPClassifier(KERNEL, inference=inference, search=None, gram=Inducing(m=X[:9]))
        once = model.fit(X, y, sample_weight=times).predict_proba(new)
        value = model.log_evidence_
        again = model.fit(X[rows], y[rows])
        assert again.predict_proba(new) == pytest.approx(once, abs=1e-6)
        assert again.log_evidence_ == pytest.approx(value, rel=1e-8)


# ---------------------------------------------------------------------- rows left out
@pytest.mark.parametrize("basis", [False, True])
def test_gaussian_rows_left_out_by_refitting(basis: bool) -> None:
    X, y = numbers(40)
    w, Z, loss = np.linspace(0.5, 1.0, 40), X[:7] + 0.03, Gaussian(0.1)
    H = np.column_stack([np.ones(40), X[:, 0]]) if basis else None
    problem = replace(simple_problem(X, y[:, None], H), weights=w, row_weights=w)
    gram = ReducedGram(KERNEL, X, Z)
    solution = Exact().solve(gram, problem.y, loss, basis=H, weights=w)
    found = gaussian_figures(problem, loss, solution)
    for i in (0, 13, 39):
        rest = np.arange(40) != i
        few = ReducedGram(KERNEL, X[rest], Z)
        h = None if H is None else H[rest]
        other = Exact().solve(few, y[rest, None], loss, basis=h, weights=w[rest])
        at = KERNEL(X[[i]], Z)
        mean = at @ few.carry(other.alpha)
        hi = None if H is None else H[[i]]
        mean = mean if H is None else mean + hi @ other.beta
        var = KERNEL.diag(X[[i]]) - other.factor.operator().reduce_diag(at.T, hi)
        assert found.mean[i] == pytest.approx(mean[0], rel=1e-8)
        assert found.variance[i, 0] == pytest.approx(var[0] + 0.1, rel=1e-8)


@pytest.mark.parametrize(
    ("inference", "loss", "corrected"),
    [(EP(), Probit(), True), (Variational(), Logistic(), False)],
)
def test_labels_left_out_by_refitting(inference: Any, loss: Any, corrected: bool) -> None:
    X, labels = table(80)
    y = np.where(labels > 0, 1.0, -1.0)[:, None]
    Z = X[:9] + 0.03
    gram = ReducedGram(KERNEL, X, Z, corrected=corrected)
    solution = inference.solve(gram, y, loss)
    m, v = cavities(simple_problem(X, y), gram, loss, solution)
    found = loss.predict(m[:, 0], v[:, 0])
    for i in (0, 11, 40, 79):
        rest = np.arange(80) != i
        few = ReducedGram(KERNEL, X[rest], Z, corrected=corrected)
        other = inference.solve(few, y[rest], loss)
        at = KERNEL(X[[i]], Z)
        mean = (at @ few.carry(other.alpha))[0, 0]
        var = float((KERNEL.diag(X[[i]]) - other.factor.operator().reduce_diag(at.T, None))[0])
        assert v[i, 0] == pytest.approx(var, rel=0.1)
        assert found[i] == pytest.approx(float(loss.predict(mean, var)), abs=0.02)


# ---------------------------------------------------------------------- what is refused
def test_refusals() -> None:
    X, y = numbers(50)
    bad = X[:5].copy()
    bad[2, 1] = np.nan
    for given, said in [
        (Inducing(m=bad), "inducing point 2 is not finite"),
        (Inducing(m=np.zeros((3, 4))), "have 4 columns, and X has 2"),
        (Inducing(m=50), "save nothing"),
        (Inducing(m=0), "m is a number of points"),
        (Inducing(m="many"), "m is a number of points"),
        (Inducing(choose="best"), "choose must be one of"),
        (Inducing(rows=3), "rows must be an integer of at least 10"),
        (Inducing(rows="some"), "rows must be an integer of at least 10"),
        (Inducing(tol=0.0), "tol must be positive"),
    ]:
        model = GPRegressor(gram=given)
        with pytest.raises(ValueError, match=said):
            model.fit(X, y)
        assert not hasattr(model, "posteriors_")
    with pytest.raises(ValueError, match="by the evidence"):
        GPRegressor(search="hmc", gram="inducing").fit(X, y)
    with pytest.raises(ValueError, match="factors=2"):
        GPClassifier(inference=Variational(factors=2), gram="inducing").fit(X, y > 0)
    with pytest.raises(ValueError, match="do not serve Bound"):
        GPClassifier(inference="bound", gram="inducing").fit(X, y > 0)
    K = KERNEL(X)
    with pytest.raises(ValueError, match="a kernel of the inputs"):
        GPRegressor(Precomputed(), search=None, gram=Inducing(m=8)).fit(K, y)


def test_repeated_points_are_dropped_and_reported() -> None:
    X, y = numbers(50)
    Z = np.vstack([X[:6], X[:2]])
    model = GPRegressor(KERNEL, search=None, gram=Inducing(m=Z)).fit(X, y)
    assert (model.report_["inducing"]["points"], model.report_["inducing"]["dropped"]) == (6, 2)
    once = GPRegressor(KERNEL, search=None, gram=Inducing(m=X[:6])).fit(X, y)
    assert model.predict(X) == pytest.approx(once.predict(X), rel=1e-9)


def test_a_kernel_of_rows_takes_rows() -> None:
    X, y = numbers(50)
    kernel = 1.0 * Linear() + KERNEL
    model = KernelRegressor(kernel, search=None, gram=Inducing(m=20)).fit(X, y)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9


# ---------------------------------------------------------------------- files
MADE: dict[str, Any] = {
    "basis": lambda: GPRegressor(gram=Inducing(m=9), search=None, basis="linear").fit(*numbers(40)),
    "outputs": lambda: GPRegressor(KERNEL, gram=Inducing(m=9), search=None).fit(
        numbers(40)[0], np.column_stack([numbers(40)[1]] * 2)
    ),
    "classes": lambda: GPClassifier(gram=Inducing(m=9), search=None).fit(*table(60, 3)),
    "bound": lambda: GPClassifier(
        gram=Inducing(m=9), inference="variational", search=None
    ).fit(*table(60)),
    "counts": lambda: GPRegressor(
        loss="poisson", inference="variational", gram=Inducing(m=9), search=None
    ).fit(numbers(40)[0], np.round(np.exp(numbers(40)[1]))),
    "iterative": lambda: GPRegressor(gram=Iterative(rank=9), search=None).fit(*numbers(40)),
    "iterative outputs": lambda: GPRegressor(
        KERNEL, gram=Iterative(rank=9, precision="double", tol=1e-8), search=None
    ).fit(numbers(40)[0], np.column_stack([numbers(40)[1]] * 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_models_go_to_files_and_back(name: str, tmp_path: Any) -> None:
    model = MADE[name]()
    new = np.random.default_rng(5).normal(size=(7, 2))

    def answers(model: Any) -> list[Array]:
        if hasattr(model, "predict_proba"):
            return [model.predict_proba(new)]
        return list(model.predict(new, return_std=True))

    path = tmp_path / "model.mercer"
    mercer.save(model, path)
    for twin in (mercer.load(path), pickle.loads(pickle.dumps(model)), deepcopy(model)):
        for found, wanted in zip(answers(twin), answers(model), strict=True):
            assert np.array_equal(found, wanted)
        assert repr(twin.gram) == repr(model.gram)
        assert twin.evidence_bounds_ == model.evidence_bounds_
    if name.startswith("iterative"):  # the features of all rows are not in it
        assert len(pickle.dumps(model.posteriors_[0].operator)) < 8 * 40 * 9 + 4000
