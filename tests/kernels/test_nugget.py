"""Nugget: equal rows share it, and a posterior with it against the obvious computation."""

from __future__ import annotations

import numpy as np

import mercer
from mercer.kernels import RBF, Categorical, Nugget
from mercer.losses import Gaussian


def test_the_limit_of_categories_without_correlation(rng):
    X = rng.integers(0, 3, (30, 2)).astype(float)
    Z = rng.integers(0, 3, (20, 2)).astype(float)
    limit = 0.7 * Categorical(correlation=1e-14)
    np.testing.assert_allclose(Nugget(0.7)(X, Z), limit(X, Z), atol=1e-13)
    np.testing.assert_allclose(Nugget(0.7)(X), limit(X), atol=1e-13)


def test_zeros_of_both_signs_are_one_place():
    assert Nugget()(np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]])) == 1.0


def test_a_place_seen_twice_keeps_its_own_value(rng):
    """Dense conditioning, no merging of equal rows: mean and variance at old and new places."""
    X = rng.normal(size=(25, 1))
    X = np.vstack([X, X[:10]])
    y = rng.normal(size=35)
    kernel = RBF() + Nugget(0.6)
    model = mercer.GPRegressor(kernel, loss=Gaussian(0.2), search=None).fit(X, y)
    Z = np.vstack([X[:5], rng.normal(size=(5, 1))])

    def k(A, B):
        return np.exp(-0.5 * (A - B.T) ** 2) + 0.6 * (B.T == A)

    inverse = np.linalg.inv(k(X, X) + 0.2 * np.eye(35))
    mean, std = model.predict(Z, return_std=True)
    np.testing.assert_allclose(mean, k(Z, X) @ inverse @ y, atol=1e-10)
    variance = 1.8 - np.einsum("ij,jk,ik->i", k(Z, X), inverse, k(Z, X))
    np.testing.assert_allclose(std**2, variance, atol=1e-10)


def test_by_name_it_stands_beside_a_rough_function():
    kernel = mercer.kernels.as_kernel("matern52_nugget")
    X = np.array([[0.0], [0.0], [50.0]])
    expected = [[1.5, 1.5, 0.0], [1.5, 1.5, 0.0], [0.0, 0.0, 1.5]]
    np.testing.assert_allclose(kernel(X), expected, atol=1e-9)
