"""Processes: formulas (1) and (2), conditioning again and again, projection, samples."""

from __future__ import annotations

import numpy as np
import pytest

import mercer.process.process
from mercer.inference import Exact
from mercer.kernels import RBF, Linear, Matern, Noise, White
from mercer.linalg import DenseGram
from mercer.losses import Gaussian
from mercer.process import Posterior, Prior, Process
from mercer.testing import check_process
from tests.reference import gp

KERNEL = 1.7 * RBF(0.9) + 0.3 * Linear()


def line(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def given(
    process: Process, X: np.ndarray, y: np.ndarray, noise: object = 0.3, basis: object = None
) -> Posterior:
    gram, H = DenseGram(process, X), None if basis is None else basis(X)
    solution = Exact().solve(gram, y, Gaussian(noise), mean=process.mean(X), basis=H)
    return process.condition(X, solution, basis)


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.uniform(-2, 2, (13, 1))
    return (
        X,
        np.sin(2 * X) + np.array([0.0, 3.0]) + 0.4 * rng.normal(size=(13, 2)),
        np.linspace(-3, 3, 7)[:, None],
    )


@pytest.mark.parametrize("basis", [None, line])
def test_posterior_is_the_dense_formula(table, basis) -> None:
    X, Y, Z = table
    posterior = given(Prior(KERNEL, 2), X, Y, basis=basis)
    H = (None, None) if basis is None else (basis(X), basis(Z))
    Ky = KERNEL(X) + 0.3 * np.eye(13)
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), Y, *H)
    np.testing.assert_allclose(posterior.mean(Z), mean, atol=1e-10)
    np.testing.assert_allclose(posterior.cov(Z), cov, atol=1e-10)
    np.testing.assert_allclose(posterior.var(Z), np.diagonal(cov), atol=1e-10)
    np.testing.assert_allclose(posterior(Z[:3], Z[2:]), cov[:3, 2:], atol=1e-10)
    check_process(posterior, Z)


def test_noise_parts_are_not_signal(table) -> None:
    X, Y, Z = table
    coloured = 0.4 * Matern(nu=0.5, length_scale=0.3)
    kernel = KERNEL + White(0.1) + Noise(coloured)
    posterior = Prior(kernel, 2).condition(
        X, Exact().solve(DenseGram(kernel, X), Y, Gaussian(noise=0.2))
    )
    Ky = KERNEL(X) + coloured(X) + 0.3 * np.eye(13)
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), Y)
    np.testing.assert_allclose(posterior.mean(Z), mean, atol=1e-10)
    np.testing.assert_allclose(posterior.cov(Z), cov, atol=1e-10)


def test_noise_alone_is_no_prior() -> None:
    with pytest.raises(ValueError, match="noise parts only"):
        Prior(White(0.5))


@pytest.mark.parametrize("basis", [None, line])
def test_conditioning_twice_is_conditioning_once(table, basis) -> None:
    """A posterior is a prior: mean, covariance, and thrice as well."""
    X, Y, Z = table
    noise = np.linspace(0.1, 0.6, 13)
    once = given(Prior(KERNEL, 2), X, Y, noise, basis)
    again: Process = given(Prior(KERNEL, 2), X[:6], Y[:6], noise[:6], basis)
    for part in (slice(6, 10), slice(10, 13)):
        again = given(again, X[part], Y[part], noise[part])
    np.testing.assert_allclose(again.mean(Z), once.mean(Z), atol=1e-9)
    np.testing.assert_allclose(again.cov(Z), once.cov(Z), atol=1e-9)
    np.testing.assert_allclose(again.var(Z), once.var(Z), atol=1e-9)
    assert np.abs(again.mean(Z) - given(Prior(KERNEL, 2), X[:6], Y[:6]).mean(Z)).max() > 0.05


def test_evidence_of_two_halves_multiplies(table) -> None:
    """log p(y1, y2) = log p(y1) + log p(y2 | y1), the second by the posterior as prior."""
    X, Y, _ = table
    y, loss = Y[:, :1], Gaussian(noise=0.3)

    def evidence(process: Process, part: slice) -> float:
        gram = DenseGram(process, X[part])
        solution = Exact().solve(gram, y[part], loss, mean=process.mean(X[part]))
        return Exact().evidence(gram, y[part], loss, solution).value

    prior = Prior(KERNEL)
    first = given(prior, X[:6], y[:6])
    parts = evidence(prior, slice(0, 6)) + evidence(first, slice(6, 13))
    assert parts == pytest.approx(evidence(prior, slice(0, 13)), abs=1e-9)


def test_projection_keeps_the_law_on_its_points(table) -> None:
    X, Y, Z = table
    posterior = given(Prior(KERNEL, 2), X, Y)
    points = np.array([[-1.5], [0.2], [1.1], [2.5]])
    projected = posterior.project(points)
    np.testing.assert_allclose(projected.mean(points), posterior.mean(points), atol=1e-9)
    np.testing.assert_allclose(projected.cov(points), posterior.cov(points), atol=1e-9)
    far = np.array([[40.0]])  # and the prior elsewhere
    np.testing.assert_allclose(
        Prior(RBF()).condition(points, _solution(points)).project(points[:2]).var(far), 1.0
    )
    assert np.abs(projected.mean(Z) - posterior.mean(Z)).max() > 1e-3
    check_process(projected, Z)


def _solution(points: np.ndarray):
    return Exact().solve(DenseGram(RBF(), points), np.ones((len(points), 1)), Gaussian(0.1))


def test_projection_on_the_training_points_loses_nothing(table) -> None:
    X, Y, Z = table
    kernel = 1.7 * Matern(nu=0.5)
    posterior = given(Prior(kernel, 2), X, Y)
    projected = posterior.project(X)
    np.testing.assert_allclose(projected.mean(Z), posterior.mean(Z), atol=1e-8)
    np.testing.assert_allclose(projected.cov(Z), posterior.cov(Z), atol=1e-8)


def test_projection_with_a_basis_is_refused(table) -> None:
    X, Y, _ = table
    with pytest.raises(ValueError, match="unpenalised basis"):
        given(Prior(KERNEL, 2), X, Y, basis=line).project(X[:3])


def test_samples_have_the_moments_of_the_posterior(table, rng: np.random.Generator) -> None:
    X, Y, Z = table
    posterior = given(Prior(KERNEL, 2), X, Y)
    draws = posterior.sample(Z, 20_000, rng)
    assert draws.shape == (7, 2, 20_000)
    std = np.sqrt(posterior.var(Z))[:, None]
    error = (draws.mean(axis=2) - posterior.mean(Z)) / std
    assert np.abs(error).max() < 5 / np.sqrt(20_000)
    for j in range(2):
        cov = np.cov(draws[:, j])
        spread = std @ std.T
        assert np.abs((cov - posterior.cov(Z)) / spread).max() < 0.05
    cross = np.cov(np.vstack([draws[:, 0], draws[:, 1]]))[:7, 7:]
    assert np.abs(cross / (std @ std.T)).max() < 0.05  # outputs are independent


def test_prior_samples_on_a_fine_grid(rng: np.random.Generator) -> None:
    """The covariance is singular there; samples are finite and have the right variance."""
    X = np.linspace(0, 1, 60)[:, None]
    draws = Prior(2.0 * RBF()).sample(X, 4000, rng)[:, 0]
    np.testing.assert_allclose(draws.var(axis=1), 2.0, rtol=0.12)
    np.testing.assert_allclose(np.cov(draws[[0, -1]])[0, 1], 2 * np.exp(-0.5), atol=0.2)


def test_batches_change_nothing(table, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = table
    Z = np.linspace(-3, 3, 50)[:, None]
    posterior = given(Prior(KERNEL, 2), X, Y, basis=line)
    mean, var = posterior.mean(Z), posterior.var(Z)
    monkeypatch.setattr(mercer.process.process, "BATCH_BYTES", 8 * 13 * 7)
    np.testing.assert_allclose(posterior.mean(Z), mean, rtol=1e-13)
    np.testing.assert_allclose(posterior.var(Z), var, rtol=1e-11)


def test_variance_is_never_negative() -> None:
    X = np.linspace(0, 1, 30)[:, None]
    posterior = given(Prior(1e6 * RBF(3.0)), X, np.sin(X), 1e-10)
    assert np.all(posterior.var(X) >= 0.0)
