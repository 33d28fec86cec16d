"""Committees of regressors: their intervals and covariances are those of the mixture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from mercer import GPRegressor
from mercer.estimators.kernel.regressor import mixture_quantile
from mercer.kernels import RBF, White
from mercer.losses import Gamma, Gaussian, Poisson, StudentT
from mercer.search import HMC

LEVELS = (0.02, 0.3, 0.5, 0.9)


def latents(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(rng.normal(size=(6, 1)), rng.uniform(0.1, 2.0, size=(6, 1))) for _ in range(3)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "losses",
    [[Gaussian(0.1), Gaussian(0.5), Gaussian(2.0)], [StudentT(0.3), StudentT(1.0), StudentT(2.0)]],
    ids=["gaussian", "student"],
)
def test_the_share_below_a_quantile(losses, level: float, rng: np.random.Generator) -> None:
    f = latents(rng)
    found = mixture_quantile(losses, f, level)
    share = np.mean([loss.cdf(found, *part) for loss, part in zip(losses, f, strict=True)], axis=0)
    np.testing.assert_allclose(share, level, atol=1e-10)


def test_gaussian_members_by_the_normal_distribution(rng: np.random.Generator) -> None:
    f, noise = latents(rng), (0.1, 0.5, 2.0)
    found = mixture_quantile([Gaussian(s) for s in noise], f, 0.9)
    share = [norm.cdf(found, m, np.sqrt(v + s)) for (m, v), s in zip(f, noise, strict=True)]
    np.testing.assert_allclose(np.mean(share, axis=0), 0.9, atol=1e-10)


@pytest.mark.parametrize("level", LEVELS)
def test_counts_have_the_smallest_number_that_is_enough(
    level: float, rng: np.random.Generator
) -> None:
    f, losses = latents(rng), [Poisson()] * 3
    found = mixture_quantile(losses, f, level)

    def share(k: np.ndarray) -> np.ndarray:
        return np.mean([loss.cdf(k, *part) for loss, part in zip(losses, f, strict=True)], axis=0)

    assert np.all(found == np.round(found))
    assert np.all(share(found) >= level)
    assert np.all((found == 0.0) | (share(np.maximum(found - 1.0, 0.0)) < level))


def test_positive_targets_have_positive_quantiles(rng: np.random.Generator) -> None:
    f, losses = latents(rng), [Gamma(shape=2.0)] * 3
    found = mixture_quantile(losses, f, 0.05)
    share = np.mean([loss.cdf(found, *part) for loss, part in zip(losses, f, strict=True)], axis=0)
    assert np.all(found > 0.0)
    np.testing.assert_allclose(share, 0.05, atol=1e-10)


@pytest.fixture(scope="module")
def committee() -> tuple[GPRegressor, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-3.0, 3.0, size=(15, 1))
    y = 5.0 + 2.0 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=15)
    search = HMC(samples=20, warmup=20, chains=2, keep=6)
    model = GPRegressor(1.0 * RBF() + White(0.05), search=search, random_state=0).fit(X, y)
    assert len(model.posteriors_) > 2
    return model, np.linspace(-5.0, 5.0, 7)[:, None]


def test_covariance_is_within_plus_between(committee) -> None:
    model, Z = committee
    mean, cov = model.predict(Z, return_cov=True)
    same, std = model.predict(Z, return_std=True)
    np.testing.assert_allclose(mean, same, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-10)
    inside, scale = model.units_.standardised(Z), float(model.units_.y_scale[0])
    within, means = np.zeros((7, 7)), []
    for posterior, loss in zip(model.posteriors_, model.losses_, strict=True):
        own = posterior.cov(inside) + np.diag(posterior.noise(inside))
        within += (own + float(loss.noise) * np.eye(7)) / len(model.posteriors_)
        means.append(posterior.mean(inside)[:, 0])
    expected = scale**2 * (within + np.cov(np.array(means).T, bias=True))
    np.testing.assert_allclose(cov, expected, rtol=1e-8, atol=1e-12)
    assert np.linalg.eigvalsh(cov)[0] > 0.0


def test_intervals_hold_their_share_of_the_mixture(committee) -> None:
    model, Z = committee
    low, high = model.predict_interval(Z, coverage=0.8)
    grid = np.linspace(-1.0, 1.0, 4001)
    for i in range(len(Z)):
        y = 0.5 * (low[i] + high[i]) + 0.5 * (high[i] - low[i]) * grid
        density = np.exp(model.predictive_log_density(np.repeat(Z[i : i + 1], 4001, axis=0), y))
        assert np.trapezoid(density, y) == pytest.approx(0.8, abs=1e-5)
