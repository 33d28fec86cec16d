"""A Gaussian process with the linear kernel is Bayesian linear regression (GPML section 2.1)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import GPRegressor
from mercer.kernels import Constant, Linear, Polynomial
from mercer.losses import Gaussian

NOISE = 0.4
VARIANCES = np.array([0.5, 2.0, 1.3])  # prior variances of bias and two slopes


def data(rng: np.random.Generator, n: int = 25) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    y = 0.5 + X @ [1.0, -0.7] + np.sqrt(NOISE) * rng.normal(size=n)
    return X, y, rng.normal(size=(6, 2))


def design(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def weights(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and covariance of the weights: GPML (2.8)."""
    F = design(X)
    cov = np.linalg.inv(F.T @ F / NOISE + np.diag(1 / VARIANCES))
    return cov @ F.T @ y / NOISE, cov


def fitted(X: np.ndarray, y: np.ndarray, search: object = None) -> GPRegressor:
    kernel = Constant(VARIANCES[0]) + Linear(VARIANCES[1:])
    return GPRegressor(kernel, loss=Gaussian(noise=NOISE), search=search).fit(X, y)


def test_predictions(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    mean, cov = weights(X, y)
    model = fitted(X, y)
    predicted, joint = model.predict(Z, return_cov=True)
    latent, std = model.predict_latent(Z)
    F = design(Z)
    np.testing.assert_allclose(predicted, F @ mean, atol=1e-11)
    np.testing.assert_allclose(latent, F @ mean, atol=1e-11)
    np.testing.assert_allclose(std**2, np.diagonal(F @ cov @ F.T), atol=1e-12)
    np.testing.assert_allclose(joint, F @ cov @ F.T + NOISE * np.eye(6), atol=1e-12)


def test_evidence(rng: np.random.Generator) -> None:
    X, y, _ = data(rng)
    F = design(X)
    full = F @ np.diag(VARIANCES) @ F.T + NOISE * np.eye(len(y))
    expected = multivariate_normal(np.zeros(len(y)), full).logpdf(y)
    assert fitted(X, y).log_evidence_ == pytest.approx(expected, abs=1e-10)


def test_degrees_of_freedom_are_those_of_ridge(rng: np.random.Generator) -> None:
    X, y, _ = data(rng)
    F = design(X)
    smoother = F @ np.linalg.solve(F.T @ F / NOISE + np.diag(1 / VARIANCES), F.T) / NOISE
    assert fitted(X, y).report_["degrees_of_freedom"] == pytest.approx(np.trace(smoother))


def test_the_search_finds_the_maximum_of_the_closed_form(rng: np.random.Generator) -> None:
    X, y, _ = data(rng)
    model = fitted(X, y, search="evidence")
    assert model.log_evidence_ > fitted(X, y).log_evidence_
    F = design(X)

    def evidence(v: np.ndarray) -> float:
        full = F @ np.diag(v[:3]) @ F.T + v[3] * np.eye(len(y))
        return float(multivariate_normal(np.zeros(len(y)), full).logpdf(y))

    bias, slopes = model.kernel_.parts
    best = np.array([bias(X)[0, 0], *slopes.weight, model.loss_.noise])
    assert evidence(best) == pytest.approx(model.log_evidence_, abs=1e-9)
    for i in range(4):
        for factor in (0.9, 1.1):
            moved = best.copy()
            moved[i] *= factor
            assert evidence(moved) < model.log_evidence_


def test_polynomial_kernel_is_regression_on_monomials(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)
    model = GPRegressor(Polynomial(degree=2), loss=Gaussian(noise=NOISE), search=None).fit(X, y)
    F = np.column_stack([np.ones(12), np.sqrt(2) * X, X**2])  # (1 + x z)^2
    mean = np.linalg.solve(F.T @ F + NOISE * np.eye(3), F.T @ y)
    np.testing.assert_allclose(model.predict(X), F @ mean, atol=1e-11)


def test_vague_linear_basis_is_least_squares(rng: np.random.Generator) -> None:
    """A basis beside a kernel that is almost zero: ordinary least squares with its variance."""
    X, y, Z = data(rng)
    kernel = 1e-12 * Linear()
    model = GPRegressor(kernel, loss=Gaussian(NOISE), search=None, basis="linear").fit(X, y)
    F, G = design(X), design(Z)
    np.testing.assert_allclose(model.predict(Z), G @ np.linalg.lstsq(F, y)[0], atol=1e-8)
    std = np.sqrt(NOISE * np.diagonal(G @ np.linalg.inv(F.T @ F) @ G.T))
    np.testing.assert_allclose(model.predict_latent(Z)[1], std, rtol=1e-8)
