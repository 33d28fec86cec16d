"""Support vector machines without one row: the path of its multiplier against a fit of the rest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from mercer import SVC
from mercer.kernels import RBF, Linear
from mercer.left_out import unlearning

TOL = 1e-8


def refitted(model: SVC, X: np.ndarray, y: np.ndarray, rows, weights=None) -> np.ndarray:
    """y f(x) of each of the rows by a machine that never saw it, (rows, machines)."""
    found = []
    for i in rows:
        rest = np.arange(len(X)) != i
        w = None if weights is None else weights[rest]
        other = SVC(**model.get_params(deep=False)).fit(X[rest], y[rest], w)
        f = np.atleast_1d(other.decision_function(X[i : i + 1])[0])
        own = y[i] == (model.classes_[1:] if len(f) == 1 else model.classes_)
        found.append(np.where(own, f, -f))
    return np.array(found)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(X))[:90]
    return X[some], y[some]


@pytest.mark.parametrize(
    ("kernel", "C", "scaled"),
    [
        (Linear(), 1.0, False),  # columns of very different size: the first-order change is absurd
        (Linear(), 0.01, False),
        (RBF(5.0), 1.0, True),
        (RBF(2.0), 100.0, True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("bias", [True, False])
def test_every_row_is_predicted_as_if_it_had_not_been_there(cancer, kernel, C, scaled, bias):
    X, y = cancer
    X = (X - X.mean(axis=0)) / X.std(axis=0) if scaled else X / np.abs(X).mean()
    model = SVC(kernel=kernel, C=C, tol=TOL, bias=bias).fit(X, y)
    figures = model.left_out_
    assert figures.estimates == 0
    rows = model.support_[:: max(1, len(model.support_) // 12)]
    expected = refitted(model, X, y, rows)
    np.testing.assert_allclose(figures.margin[rows], expected, rtol=1e-3, atol=1e-3)


def test_several_classes_and_weights():
    X, y = load_iris(return_X_y=True)
    X, y = X[::2] + 1e-3 * np.random.default_rng(0).normal(size=(75, 4)), y[::2]
    w = np.where(np.arange(75) % 3 == 0, 2.5, 0.5)
    model = SVC(kernel=RBF(1.0), C=2.0, tol=TOL).fit(X, y, w)
    rows = model.support_[::4]
    expected = refitted(model, X, y, rows, w)
    np.testing.assert_allclose(model.left_out_.margin[rows], expected, rtol=1e-3, atol=1e-3)


def test_a_path_without_free_vectors_moves_the_bias():
    # equal numbers at the bound and nothing in between: the bias alone is free
    X = np.array([[-1.0], [-0.5], [0.5], [1.0], [-0.2], [0.2]])
    y = np.array([0, 0, 1, 1, 1, 0])
    model = SVC(kernel=RBF(1.0), C=0.05, tol=TOL).fit(X, y)
    assert model.report_["inference"]["free"] == [0]
    rows = np.arange(6)
    np.testing.assert_allclose(
        np.sign(model.left_out_.margin[rows]), np.sign(refitted(model, X, y, rows))
    )


def test_rows_beyond_the_work_keep_their_estimates(cancer, monkeypatch):
    X, y = cancer
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    exact = SVC(tol=TOL).fit(X, y).left_out_
    monkeypatch.setattr(unlearning, "WORK", 2e6)
    rough = SVC(tol=TOL).fit(X, y).left_out_
    assert exact.estimates == 0 < rough.estimates
    np.testing.assert_allclose(rough.margin, exact.margin, atol=0.6)
