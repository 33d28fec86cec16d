"""What must not matter does not: copies or weights, order of rows and columns, ties, constants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import mercer
from mercer.core.arrays import column_order
from mercer.estimators.support_vector.dual import DualMachine
from mercer.kernels import RBF, Columns, Linear, Matern
from mercer.search import Optimize

from ..export.common import run

RBFS = {"kernel": 2.0 * RBF(0.8), "search": None}
CLASSIFIERS = {
    "GPClassifier": RBFS,
    "KernelClassifier": {"kernel": RBF(0.8)},
    "LeastSquaresClassifier": RBFS | {"lam": 0.1},
    "ProbabilisticLeastSquaresClassifier": RBFS,
    "RVClassifier": {"kernel": RBF(0.8), "search": None},
    "SVC": {"tol": 1e-9},
    "NuSVC": {"nu": 0.2, "tol": 1e-9},
    "MEDClassifier": {"C": 5.0},
    "LapSVC": {"n_neighbors": 3, "tol": 1e-9},
    "LapLSClassifier": {"n_neighbors": 3},
    "LapMEDClassifier": {"n_neighbors": 3},
}


def blobs(k: int = 2, n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = np.arange(n) % k
    return rng.normal(size=(n, 2)) + 1.2 * np.column_stack([np.cos(2.1 * y), np.sin(2.1 * y)]), y


def scores(model, X) -> np.ndarray:
    ways = ("predict_proba", "decision_function", "predict")
    return next(getattr(model, way)(X) for way in ways if hasattr(model, way))


def test_every_estimator_with_class_weights_is_here() -> None:
    every = {name: getattr(mercer, name) for name in mercer.__all__}
    fitted = {name for name, made in every.items() if hasattr(made, "_get_param_names")}
    assert {n for n in fitted if "class_weight" in every[n]._get_param_names()} == set(CLASSIFIERS)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("how", ["balanced", {0: 3.0}, {0: 2.0, 1: 3.0}])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_weights_of_rows_and_classes_are_copies(name: str, how, k: int) -> None:
    X, y = blobs(k)
    rows = np.where(np.arange(len(y)) % 5 == 0, 2, 1)
    rows[3] = 0  # and a row of weight zero is none
    copies = np.repeat(np.arange(len(y)), rows)
    make = getattr(mercer, name)
    weighted = make(**CLASSIFIERS[name], class_weight=how).fit(X, y, rows.astype(float))
    if how == "balanced":
        factors = len(copies) / (k * np.bincount(y[copies]))
        by_hand = make(**CLASSIFIERS[name]).fit(X[copies], y[copies], factors[y[copies]])
        twice = make(**CLASSIFIERS[name], class_weight=how).fit(X[copies], y[copies])
        others = [by_hand, twice]
    else:  # a class of weight three is each of its rows three times
        more = np.repeat(copies, [int(how.get(c, 1)) for c in y[copies]])
        others = [make(**CLASSIFIERS[name]).fit(X[more], y[more])]
    for other in others:
        np.testing.assert_allclose(scores(weighted, X), scores(other, X), rtol=0, atol=2e-6)


SYMMETRIC = np.random.default_rng(0).normal(size=(8, 2))
ANGLES = 2.0 * np.pi * np.arange(18) / 18
TIED = {
    2: (np.vstack([SYMMETRIC, -SYMMETRIC]), np.repeat([0, 1], 8)),
    3: (np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]), np.repeat([0, 1, 2], 6)),
}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", [*CLASSIFIERS, "OnlineLogisticClassifier"])
def test_labels_at_ties_are_the_same_in_onnx(name: str, k: int) -> None:
    X, y = TIED[k]
    model = getattr(mercer, name)(**CLASSIFIERS.get(name, {})).fit(X, y)
    far = np.vstack([np.zeros((1, 2)), np.full((1, 2), 1e5), [[-3e4, 2e5]], X])
    found = run(mercer.to_onnx(model), far, False)["label"]
    s = scores(model, far)
    s = s if s.ndim == 2 else np.column_stack([np.zeros(len(s)), s])
    behind = s.max(axis=1, keepdims=True) - s
    decided = ~np.any((behind > 0.0) & (behind < 1e-9), axis=1)  # what lies between is rounding
    np.testing.assert_array_equal(found[decided], model.predict(far)[decided])


REGRESSORS = ("GPRegressor", "KernelRegressor", "QuantileRegressor", "RVRegressor", "SVR", "NuSVR")


@pytest.mark.parametrize("value", [-7.0, 0.1])
@pytest.mark.parametrize(
    "name", [*CLASSIFIERS, *REGRESSORS, "OneClassSVM", "OnlineLogisticClassifier"]
)
def test_constant_columns_change_nothing_or_are_reported(name: str, value: float) -> None:
    X, y = blobs()
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] if name in REGRESSORS else y
    make = {k: v for k, v in CLASSIFIERS.get(name, {}).items() if k not in ("kernel", "search")}
    wide = np.column_stack([X[:, :1], np.full(len(X), value), X[:, 1:]])
    plain = getattr(mercer, name)(**make).fit(X, y)
    model = getattr(mercer, name)(**make).fit(wide, y)
    if isinstance(plain, DualMachine):  # scikit-learn's gamma="scale" is of all entries
        assert model.report_["constant_columns"] == [1]
        assert "constant columns" in str(model.summary())
        assert "constant_columns" not in plain.report_
        return
    np.testing.assert_allclose(scores(model, wide), scores(plain, X), rtol=0, atol=1e-9)


KERNELS = {
    "ard": 1.0 * RBF(np.ones(3)),
    "sum": RBF([1.0, 2.0, 3.0]) + Linear(centre=[0.1, 0.2, 0.3]),
    "rbf": "rbf",
}


SEARCHED = [
    *(("GPRegressor", kernel) for kernel in KERNELS),
    pytest.param("GPClassifier", "ard", marks=pytest.mark.slow),
    pytest.param("GPClassifier", "rbf", marks=pytest.mark.slow),
    ("ProbabilisticLeastSquaresClassifier", "sum"),
]


@pytest.mark.parametrize(("name", "kernel"), SEARCHED)
def test_a_search_does_not_know_the_order_of_columns(name: str, kernel: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 3)) * [1.0, 2.0, 0.5]
    X[7] = X[3]  # and equal rows are merged in the same order
    y = np.sin(3.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=30)
    y = y if name == "GPRegressor" else y > 0.0
    criterion = "plsc" if name.startswith("Prob") else "evidence"
    given, search = KERNELS[kernel], Optimize(criterion, restarts=2)
    first = getattr(mercer, name)(given, search=search).fit(X, y)
    order = np.array([2, 0, 1])
    other = given if isinstance(given, str) else given.reordered(order)
    second = getattr(mercer, name)(other, search=search).fit(X[:, order], y)
    assert second.log_evidence_ == pytest.approx(first.log_evidence_, rel=1e-9)
    ask = "predict" if name == "GPRegressor" else "predict_proba"
    a, b = getattr(first, ask)(X), getattr(second, ask)(X[:, order])
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_columns_are_ordered_by_what_they_hold(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 4))
    X[:, 2:] = X[:, :2] > 0.0  # two columns of the same values
    y, weights, order = rng.normal(size=(20, 1)), rng.uniform(1.0, 2.0, 20), rng.permutation(4)
    rows = rng.permutation(20)
    once = column_order(X, y, weights)
    np.testing.assert_array_equal(
        order[column_order(X[rows][:, order], y[rows], weights[rows])], once
    )
    twice = np.repeat(np.arange(20), 2)
    np.testing.assert_array_equal(column_order(X[twice], y[twice], weights[twice] / 2), once)


def test_kernels_of_columns_in_another_order_are_the_same_function(
    rng: np.random.Generator,
) -> None:
    X, order = rng.normal(size=(5, 3)), np.array([2, 0, 1])
    for kernel in (KERNELS["ard"], KERNELS["sum"], 2.0 * Matern(1.5, [1.0, 2.0, 3.0]) ** 2):
        np.testing.assert_allclose(kernel.reordered(order)(X[:, order]), kernel(X), rtol=1e-14)
    assert Columns(RBF(), [1]).reordered(order) is None  # which column it is matters


@pytest.mark.parametrize("table", ["dense", "sparse", "precomputed", "features"])
def test_calibrated_discrimination_does_not_know_the_order_of_rows(table: str) -> None:
    X, y = blobs(3, 40)
    X[5], y[5] = X[4], 0  # equal rows of other classes
    order = np.random.default_rng(1).permutation(40)
    kernel = {"sparse": "linear", "features": "linear", "precomputed": "precomputed"}
    given = csr_array(X) if table == "sparse" else X
    new, newer, other = given, given, given[order]
    if table == "precomputed":
        new = RBF()(X)
        other, newer = new[np.ix_(order, order)], new[:, order]
        given = new
    make = {"kernel": kernel.get(table, "rbf"), "C": 4.0, "calibration": "sigmoid"}
    first = mercer.MEDClassifier(**make).fit(given, y)
    second = mercer.MEDClassifier(**make).fit(other, y[order])
    np.testing.assert_allclose(first.slope_, second.slope_, rtol=1e-6)
    np.testing.assert_allclose(first.predict_proba(new), second.predict_proba(newer), atol=1e-6)
