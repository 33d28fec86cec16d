"""Support vector problems that make solvers stall or drift, against libsvm and the optimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.svm
from scipy.optimize import linprog
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from mercer import SVC, SVR, NuSVC, NuSVR
from mercer.kernels import RBF


def table(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    f = X[:, 0] - 0.5 * X[:, 1] + 0.3 * X[:, 2] * X[:, 3]
    return X, np.where(f + 0.5 * rng.normal(size=n) > 0, 1, -1), f + 0.1 * rng.normal(size=n)


def primal(model: SVC, X: np.ndarray, y: np.ndarray, C: float) -> float:
    """1/2 |w|^2 + C sum of hinge losses of a linear machine."""
    w = model.dual_coef_ @ model.support_vectors_
    f = model.decision_function(X)
    return float(0.5 * (w**2).sum() + C * np.maximum(0.0, 1.0 - y * f).sum())


def test_a_column_of_another_scale() -> None:
    """An ordinary unscaled table, on which steps along pairs run for minutes."""
    X, y, _ = table()
    X[:, 3] *= 1000.0
    model = SVC(kernel="linear", C=1.0).fit(X, y)
    solver = model.report_["inference"]
    assert solver["converged"]
    assert solver["method"] == "pairs, then interior points"
    assert solver["newton_steps"] > 5
    assert solver["violation"] <= 1e-3
    # the dual value is a lower bound of the primal one, and both meet
    assert primal(model, X, y, 1.0) == pytest.approx(solver["objective"][0], rel=1e-6)


@pytest.mark.parametrize("C", [1e5, 1e8])
def test_a_huge_weight(C: float) -> None:
    X, _, t = table()
    model = SVR(kernel="linear", C=C, epsilon=0.1).fit(X, t)
    assert model.report_["inference"]["converged"]
    w = (model.dual_coef_ @ model.support_vectors_)[0]
    residual = np.abs(t - model.predict(X))
    value = 0.5 * w @ w + C * np.maximum(0.0, residual - 0.1).sum()
    assert value == pytest.approx(model.report_["inference"]["objective"][0], rel=1e-5)


def test_a_tolerance_that_no_double_can_certify_is_raised_and_reported() -> None:
    X, y, _ = table()
    model = SVC(tol=1e-17, C=10.0).fit(X, y)
    solver = model.report_["inference"]
    assert solver["converged"]
    assert 1e-17 < solver["tol"] < 1e-10
    assert solver["violation"] <= solver["tol"]


def test_what_cannot_be_certified_is_said() -> None:
    X, y, _ = table()
    X[:, 3] *= 1e6
    with pytest.warns(ConvergenceWarning, match=r"duality gap of .* scale the columns"):
        SVC(kernel="linear", C=1e9, tol=1e-3).fit(X, y)


def test_coordinates_beyond_single_precision() -> None:
    """One sentinel of 1e9: the others must not be rounded to its resolution."""
    X, _, t = table(200)
    X[0, 0] = 1e9
    mine = SVR(kernel=RBF(2.0)).fit(X, t)
    assert mine.report_["inference"]["precision"] == "float64"
    theirs = sklearn.svm.SVR(gamma=1.0 / 8.0).fit(X, t)
    np.testing.assert_allclose(mine.predict(X), theirs.predict(X), atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_many_rows_against_libsvm(seed: int) -> None:
    n = 16_000
    X, y = make_classification(
        n + 2000,
        10,
        n_informative=6,
        n_clusters_per_class=3,
        class_sep=0.8,
        flip_y=0.05,
        weights=[0.65],
        random_state=seed,
    )
    for mine, theirs in (
        (NuSVC(nu=0.3), sklearn.svm.NuSVC(nu=0.3)),
        (SVC(C=1.0), sklearn.svm.SVC(C=1.0)),
    ):
        a = mine.fit(X[:n], y[:n]).decision_function(X[n:])
        b = theirs.fit(X[:n], y[:n]).decision_function(X[n:])
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())
        f = mine.decision_function(X[:n]) * np.where(y[:n] == mine.classes_[1], 1.0, -1.0)
        margin_errors = np.mean(f < 1.0 - 1e-2) if isinstance(mine, NuSVC) else 0.0
        assert margin_errors <= 0.3 + 1e-3  # what nu promises
    target = X[:, 0] + np.sin(X[:, 1])
    a = NuSVR(nu=0.3).fit(X[:n], target[:n]).predict(X[n:])
    b = sklearn.svm.NuSVR(nu=0.3).fit(X[:n], target[:n]).predict(X[n:])
    np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())


def test_ordinary_machines_do_not_warn() -> None:
    X, y, t = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, target in ((SVC(), y), (SVR(), t), (NuSVC(nu=0.3), y), (NuSVR(), t)):
            solver = model.fit(X, target).report_["inference"]
            assert solver["method"] == "pairs"
            assert solver["tol"] == 1e-3


def overlapping(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Classes of which no straight line has more than about two thirds on their side."""
    rng = np.random.default_rng(3)
    y = np.where(rng.uniform(size=n) < 0.5, 1, -1)
    return rng.normal(size=(n, 3)) + 0.4 * y[:, None], y


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_a_margin_is_zero_where_reduced_hulls_meet(scale: float, tol: float) -> None:
    """Hulls with weights of at most 1/(nu n/2) meet up to some nu: a linear programme says so."""
    X, y = overlapping()
    X[:, 1] *= scale
    n, least = len(y), 2.0 * min((y > 0).mean(), (y < 0).mean())
    seen = set()
    for nu in (0.1, 0.3, 0.8, 0.99 * least):
        meet = linprog(
            np.zeros(n),
            A_eq=np.vstack([y * X.T / X.std(axis=0)[:, None], y > 0, y < 0]),
            b_eq=np.r_[np.zeros(3), 0.5 * nu * n, 0.5 * nu * n],
            bounds=(0.0, 1.0),
        )
        seen.add(meet.success)
        model = NuSVC(kernel="linear", nu=nu, tol=tol)
        if meet.success:
            with pytest.raises(ValueError, match="choose a larger nu"):
                model.fit(X, y)
        else:
            assert model.fit(X, y).report_["inference"]["converged"]
    assert seen == {True, False}


def test_small_weights_are_no_small_margin() -> None:
    X, y = overlapping()
    model = NuSVC(nu=0.6, tol=1e-9).fit(X, y)
    f = model.decision_function(X)
    for factor in (1e-6, 1e-3, 2.0):
        again = NuSVC(nu=0.6, tol=1e-9).fit(X, y, sample_weight=np.full(len(y), factor))
        np.testing.assert_allclose(again.decision_function(X), f, atol=1e-6)
