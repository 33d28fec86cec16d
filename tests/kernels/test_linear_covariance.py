"""Linear kernels whose coefficients are correlated in the prior."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor
from mercer.kernels import Constant, Linear
from mercer.testing import check_kernel

S = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])


def test_it_is_the_quadratic_form() -> None:
    rng = np.random.default_rng(0)
    X, Z, c = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), np.array([0.2, -1.0, 0.5])
    kernel = Linear(1.7, c, S)
    np.testing.assert_allclose(kernel(X, Z), 1.7 * (X - c) @ S @ (Z - c).T, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diagonal(kernel(X)), atol=1e-12)
    F = kernel.features(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-12)
    check_kernel(kernel, X)
    order = np.array([2, 0, 1])
    np.testing.assert_allclose(kernel.reordered(order)(X[:, order]), kernel(X), atol=1e-12)
    scale, shift = np.array([2.0, 0.5, 3.0]), np.array([1.0, 0.0, -1.0])
    moved = kernel.in_units(shift, scale)
    np.testing.assert_allclose(moved(X), kernel((X - shift) / scale), atol=1e-12)
    np.testing.assert_allclose(Linear(2.0, None, np.eye(3))(X), Linear(2.0)(X), atol=1e-12)


def test_regression_is_the_bayesian_linear_model(tmp_path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=12)
    model = GPRegressor(Linear(covariance=S), loss=mercer.losses.Gaussian(0.01), search=None)
    model.fit(X, y)
    w = np.linalg.solve(X.T @ X / 0.01 + np.linalg.inv(S), X.T @ y / 0.01)
    np.testing.assert_allclose(model.predict(np.eye(3)), w, atol=1e-9)
    mercer.save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict(X), model.predict(X))
    searched = GPRegressor(Linear(covariance=S) + Constant()).fit(X, y)  # one weight is learned
    np.testing.assert_array_equal(searched.kernel_.parts[0].covariance, S)


def test_a_singular_covariance_is_one_too() -> None:
    """Coefficients that are certain to be equal: the kernel of the sum."""
    X = np.array([[1.0, 2.0], [0.5, -1.0]])
    kernel = Linear(covariance=np.ones((2, 2)))
    np.testing.assert_allclose(kernel(X), np.outer(X.sum(axis=1), X.sum(axis=1)), atol=1e-12)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Linear(covariance=np.eye(2)), r"shape \(3, 3\)"),
        (Linear([1.0, 2.0, 3.0], covariance=np.eye(3)), "one weight"),
        (Linear(covariance=-np.eye(3)), "negative eigenvalue"),
        (Linear(covariance=np.triu(np.ones((3, 3)))), "symmetric"),
    ],
)
def test_what_is_no_covariance_is_refused(made, words) -> None:
    with pytest.raises(ValueError, match=words):
        made(np.ones((2, 3)))
