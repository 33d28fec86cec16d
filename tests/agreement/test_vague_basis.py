"""Unpenalised basis functions: every line of the Assert list of the vague prior (GPML 2.7)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import GPRegressor
from mercer.inference import Exact
from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.losses import Gaussian
from tests.reference import gp

KERNEL = 1.7 * RBF(np.array([0.8, 1.9]))
NOISE = 0.3


def columns(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X, np.sin(3 * X[:, 0])])


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, Z = rng.normal(size=(18, 2)), rng.normal(size=(5, 2))
    y = 3.0 + X @ [2.0, -1.0] + np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=18)
    return X, y, Z, KERNEL(X) + NOISE * np.eye(18)


def fitted(X: np.ndarray, y: np.ndarray, basis: object = columns) -> GPRegressor:
    return GPRegressor(KERNEL, loss=Gaussian(NOISE), search=None, basis=basis).fit(X, y)


def test_limit_of_a_wide_proper_prior(table) -> None:
    X, y, Z, Ky = table
    H, Hs, s = columns(X), columns(Z), 1e7
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), y, H, Hs, s)
    model = fitted(X, y)
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-6)
    np.testing.assert_allclose(model.predict_latent(Z)[1] ** 2, np.diagonal(cov), atol=1e-6)
    proper = multivariate_normal(np.zeros(18), Ky + s * H @ H.T).logpdf(y)
    limit = proper + 0.5 * H.shape[1] * np.log(2 * np.pi * s)
    assert model.log_evidence_ == pytest.approx(limit, abs=1e-5)


def test_literal_formula(table) -> None:
    X, y, Z, Ky = table
    model = fitted(X, y)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y, columns(X)), abs=1e-8)
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), y, columns(X), columns(Z))
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-9)
    predicted = model.predict(Z, return_cov=True)[1]
    np.testing.assert_allclose(predicted, cov + NOISE * np.eye(5), atol=1e-9)


def test_contrast_form(table) -> None:
    X, y, _, Ky = table
    contrast = gp.contrasts(Ky, y, columns(X))
    assert fitted(X, y).log_evidence_ == pytest.approx(contrast, abs=1e-9)


def test_universal_kriging_variance(table) -> None:
    """The variance by contrasts: k** - 2 w'k* + w'Ky w - |Ls^-1 Q2'(k* - Ky w)|^2."""
    X, y, Z, Ky = table
    Q, R = np.linalg.qr(columns(X), mode="complete")
    Q1, Q2, R = Q[:, :4], Q[:, 4:], R[:4]
    Ls = np.linalg.cholesky(Q2.T @ Ky @ Q2)
    model = fitted(X, y)
    for z in Z:
        k = KERNEL(X, z[None])[:, 0]
        w = Q1 @ np.linalg.solve(R.T, columns(z[None])[0])
        rest = np.linalg.solve(Ls, Q2.T @ (k - Ky @ w))
        var = KERNEL.diag(z[None])[0] - 2 * w @ k + w @ Ky @ w - rest @ rest
        assert model.predict_latent(z[None])[1][0] ** 2 == pytest.approx(var, abs=1e-9)


def test_leave_one_out_by_refitting(table) -> None:
    X, y, _, Ky = table
    mean, variance, density = gp.leave_one_out(Ky, y, columns(X))
    loo = fitted(X, y).loo_
    np.testing.assert_allclose(loo.mean, mean, atol=1e-9)
    np.testing.assert_allclose(loo.variance, variance, atol=1e-9)
    np.testing.assert_allclose(loo.log_density, density, atol=1e-9)
    for i in range(3):  # and by the estimator itself
        rest = np.arange(18) != i
        again = fitted(X[rest], y[rest]).predict(X[i : i + 1], return_std=True)
        assert again[0][0] == pytest.approx(loo.mean[i], abs=1e-9)
        assert again[1][0] == pytest.approx(loo.std[i], abs=1e-9)


def test_dual_weights_are_orthogonal_to_the_basis(table) -> None:
    X, y, _, _ = table
    posterior = fitted(X, y).posteriors_[0]
    H = columns(posterior.points)
    assert np.abs(posterior.alpha).max() > 0.1
    np.testing.assert_allclose(H.T @ posterior.alpha, 0.0, atol=1e-12)


def test_change_of_basis(table, rng: np.random.Generator) -> None:
    """h -> T h changes E by -log |det T| and no prediction."""
    X, y, Z, _ = table
    T = rng.normal(size=(4, 4))
    plain, turned = fitted(X, y), fitted(X, y, lambda X: columns(X) @ T.T)
    change = -np.linalg.slogdet(T)[1]
    assert abs(change) > 0.01
    assert turned.log_evidence_ == pytest.approx(plain.log_evidence_ + change, abs=1e-9)
    np.testing.assert_allclose(turned.predict(Z), plain.predict(Z), atol=1e-9)
    np.testing.assert_allclose(turned.loo_.variance, plain.loo_.variance, atol=1e-9)


def test_coefficients_have_their_posterior(table) -> None:
    """Far from the data the variance is that of h'beta, N(betabar, A^-1), plus the prior's."""
    X, y, _, Ky = table
    H, far = columns(X), np.array([[60.0, -40.0]])
    A = H.T @ np.linalg.solve(Ky, H)
    beta = np.linalg.solve(A, H.T @ np.linalg.solve(Ky, y))
    model, h = fitted(X, y), columns(far)[0]
    mean, std = model.predict_latent(far)
    assert mean[0] == pytest.approx(h @ beta, rel=1e-10)
    assert std[0] ** 2 == pytest.approx(1.7 + h @ np.linalg.solve(A, h), rel=1e-9)
    np.testing.assert_allclose(model.posteriors_[0].beta[:, 0], beta, atol=1e-10)


def test_outputs_have_their_own_coefficients(rng: np.random.Generator) -> None:
    X = rng.normal(size=(12, 2))
    Y = rng.normal(size=(12, 2)) + np.array([100.0, -5.0])
    H = np.column_stack([np.ones(12), X])
    gram, loss = DenseGram(KERNEL, X), Gaussian(NOISE)
    both = Exact().solve(gram, Y, loss, basis=H)
    for j in range(2):
        one = Exact().solve(gram, Y[:, j : j + 1], loss, basis=H)
        np.testing.assert_allclose(both.beta[:, j], one.beta[:, 0], rtol=1e-12)
