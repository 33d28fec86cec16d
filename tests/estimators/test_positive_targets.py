"""Positive targets: y -> b y moves everything with it, and a logarithm is a transformed target."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mercer import GPRegressor
from mercer.losses import BoxCox, LogGaussian, Loss
from mercer.process.function import representer


def data(n: int = 25) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.exp(np.sin(X[:, 0]) + 0.2 * rng.normal(size=n))
    return X, y, np.array([[-2.0], [0.3], [60.0]])


@pytest.mark.parametrize("loss", ["gamma", "log_gaussian"])
@pytest.mark.parametrize("b", [2.0**20, 1e-7])
def test_the_unit(loss: str, b: float) -> None:
    X, y, Z = data()
    first = GPRegressor(loss=loss, search=None).fit(X, y)
    other = GPRegressor(loss=loss, search=None).fit(X, b * y)
    n = len(y)
    np.testing.assert_allclose(other.predict(Z) / b, first.predict(Z), rtol=1e-6)
    for mine, theirs in zip(other.predict_interval(Z), first.predict_interval(Z), strict=True):
        np.testing.assert_allclose(mine / b, theirs, rtol=1e-6)
        assert np.all(mine > 0.0)
    for k, shift in ((0, np.log(b)), (1, 0.0)):
        latent, plain = other.predict_latent(Z)[k], first.predict_latent(Z)[k]
        np.testing.assert_allclose(latent - shift, plain, rtol=1e-6, atol=1e-6)
    draws, plain = other.sample_y(Z, 2, 0) - np.log(b), first.sample_y(Z, 2, 0)
    np.testing.assert_allclose(draws, plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(representer(other)(Z), other.predict_latent(Z)[0], atol=1e-9)
    parts = sum(other.predict_component(Z, part) for part in other.components_)
    np.testing.assert_allclose(parts, other.predict_latent(Z)[0], atol=1e-9)
    assert other.log_evidence_ + n * np.log(b) == pytest.approx(first.log_evidence_, abs=1e-6)
    left = other.left_out_.log_density + np.log(b), first.left_out_.log_density
    np.testing.assert_allclose(*left, rtol=1e-6, atol=1e-6)
    assert other.kernel_.variance == pytest.approx(first.kernel_.variance, rel=1e-6)


@pytest.mark.parametrize("loss", ["gamma", "log_gaussian"])
def test_far_from_the_data_the_level_is_that_of_the_target(loss: str) -> None:
    X, y, _ = data()
    far = GPRegressor(loss=loss).fit(X, 1e6 * y).predict([[1e9]])[0]
    assert 3e5 < far < 1e7


def test_a_logarithm_is_a_gaussian_process_of_the_logarithm() -> None:
    """The evidence and the left-out densities with the Jacobian, intervals without."""
    X, y, Z = data()
    log = GPRegressor().fit(X, np.log(y))
    model = GPRegressor(loss="log_gaussian").fit(X, y)
    assert model.log_evidence_ == pytest.approx(log.log_evidence_ - np.log(y).sum(), abs=0.02)
    ends = zip(model.predict_interval(Z), log.predict_interval(Z), strict=True)
    for mine, theirs in ends:
        np.testing.assert_allclose(np.log(mine), theirs, atol=0.02)
    density = log.left_out_.log_density - np.log(y)
    np.testing.assert_allclose(model.left_out_.log_density, density, atol=0.05)
    f, s = log.predict(Z, return_std=True)
    found = model.predict(Z, return_std=True)
    other = stats.lognorm(s, scale=np.exp(f))
    np.testing.assert_allclose(found[0][:2], other.mean()[:2], rtol=0.02)
    np.testing.assert_allclose(found[1][:2], other.std()[:2], rtol=0.05)


def test_moments_and_quantiles() -> None:
    loss, m, v = LogGaussian(0.3), np.array([0.2, -1.0]), np.array([0.1, 0.7])
    other = stats.lognorm(np.sqrt(v + 0.3), scale=np.exp(m))
    np.testing.assert_allclose(loss.predict(m, v), (other.mean(), other.var()), rtol=1e-12)
    np.testing.assert_allclose(loss.quantile(0.9, m, v), other.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(loss.log_predictive(2.0, m, v), other.logpdf(2.0), rtol=1e-12)


@pytest.mark.parametrize("loss", [LogGaussian(0.04), BoxCox(0.5, 0.04), BoxCox(0.9, 0.04)])
def test_no_density_at_zero_and_below(loss: Loss) -> None:
    X, y, _ = data()
    model = GPRegressor(loss=loss, search=None).fit(X, y)
    new = np.array([0.0, -1.0, y[2]])
    found = model.predictive_log_density(X[:3], new)
    assert np.isneginf(found[:2]).all()
    assert found[2] == model.predictive_log_density(X[:3], y[:3])[2]
    np.testing.assert_array_equal(model.predictive_cdf(X[:3], new)[:2], 0.0)
    # the answer is the limit from above, and nothing of the probability is missing
    near = model.predictive_log_density(np.repeat(X[:1], 3, axis=0), np.array([1e-3, 1e-5, 1e-7]))
    assert near[0] > near[1] > near[2]
    assert near[2] < -100.0
    grid = np.geomspace(1e-6, 1e3, 20_000)
    density = np.exp(model.predictive_log_density(np.repeat(X[:1], len(grid), axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(ValueError, match="contains NaN in row 0"):
        model.predictive_log_density(X[:1], [np.nan])
    with pytest.raises(ValueError, match="a positive number"):
        GPRegressor(loss=loss, search=None).fit(X, np.r_[0.0, y[1:]])
