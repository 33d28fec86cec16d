"""Mercer's expansion under a measure: eigenvalues, orthonormality, norms."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF, Matern, Spline, White
from mercer.rkhs import Eigenfunctions, Expansion


def normal_rule(count=80):
    """Points of N(0, 1) and their weights: those of Gauss, or a fine grid."""
    if count <= 200:
        x, w = np.polynomial.hermite_e.hermegauss(count)
        return x, w / w.sum()
    x = np.linspace(-12.0, 12.0, count)
    return x, np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()


@pytest.mark.parametrize(
    ("ell", "mean", "std"), [(1.0, 0.0, 1.0), (0.4, 2.0, 1.5), (3.0, -1.0, 0.5)]
)
def test_closed_form_under_a_normal_measure(ell, mean, std):
    found = Eigenfunctions.gaussian(2.5 * RBF(ell), mean, std, count=12)
    x, w = normal_rule(1200)
    X = (mean + std * x)[:, None]
    phi = found(X)
    np.testing.assert_allclose(phi.T @ (w[:, None] * phi), np.eye(12), atol=1e-8)
    # the integral equation itself
    at = mean + std * np.array([[0.0], [0.8], [-1.3]])
    integral = (2.5 * RBF(ell))(at, X) @ (w[:, None] * phi)
    np.testing.assert_allclose(integral, found.values * found(at), atol=1e-7)


def test_products_over_columns_are_in_order():
    kernel = RBF(np.array([0.5, 2.0]))
    found = Eigenfunctions.gaussian(kernel, count=300, d=2)
    assert (np.diff(found.values) <= 1e-15).all()
    X = np.array([[0.3, -0.2], [1.0, 0.5], [-0.7, 0.1]])
    np.testing.assert_allclose(found.kernel(X, X), kernel(X), atol=1e-6)
    assert found.values.sum() == pytest.approx(1.0, abs=1e-6)  # the mean of k(x, x)


def test_nystroem_tends_to_the_closed_form():
    x, w = normal_rule()
    exact = Eigenfunctions.gaussian(RBF(0.8), count=6)
    found = Eigenfunctions.sampled(RBF(0.8), x[:, None], w, 6)
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-8)
    at = np.linspace(-2.0, 2.0, 7)[:, None]
    sign = np.sign((found(at) * exact(at)).sum(axis=0))
    np.testing.assert_allclose(found(at) * sign, exact(at), atol=1e-6)


def test_the_linear_spline_has_sines():
    """min(x, z) on [0, 1] has the eigenvalues ((i - 1/2) pi)^-2, and sines."""
    x, w = np.polynomial.legendre.leggauss(200)
    found = Eigenfunctions.sampled(Spline(1), 0.5 * (x + 1.0)[:, None], w, 4)
    wanted = ((np.arange(1, 5) - 0.5) * np.pi) ** -2.0
    np.testing.assert_allclose(found.values, wanted, rtol=1e-3)
    at = np.array([[0.3]])
    np.testing.assert_allclose(
        np.abs(found(at)[0, 0]), np.sqrt(2.0) * np.sin(0.15 * np.pi), rtol=1e-3
    )


def test_norms_by_coefficients():
    rng = np.random.default_rng(0)
    f = Expansion(RBF(0.9), rng.standard_normal((4, 1)), rng.standard_normal(4))
    found = Eigenfunctions.gaussian(RBF(0.9), count=60)
    c = found.coefficients(f)
    assert found.norm(c) == pytest.approx(f.norm(), rel=1e-6)
    at = np.linspace(-1.0, 1.0, 5)[:, None]
    np.testing.assert_allclose(found(at) @ c, f(at), atol=1e-7)


def test_draws_have_as_many_degrees_of_freedom_as_functions():
    rng = np.random.default_rng(0)
    for m in (5, 40):
        found = Eigenfunctions.gaussian(RBF(), count=m)
        squares = [found.norm(found.draw(rng)) ** 2 for _ in range(400)]
        assert np.mean(squares) == pytest.approx(m, rel=0.1)
        assert np.var(squares) == pytest.approx(2.0 * m, rel=0.3)


def test_refusals():
    with pytest.raises(ValueError, match="sampled"):
        Eigenfunctions.gaussian(Matern())
    with pytest.raises(ValueError, match="positive"):
        Eigenfunctions.gaussian(RBF(), std=0.0)
    with pytest.raises(ValueError, match="weights must be 2"):
        Eigenfunctions.sampled(RBF() + White(), np.zeros((2, 1)), np.array([1.0, -1.0]))
