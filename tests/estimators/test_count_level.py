"""Counts have a level of their own: far from the data the rate returns to it, not to one."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor, KernelRegressor


def counts(seed: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (60, 1))
    return X, rng.poisson(level * np.exp(0.6 * np.sin(2 * X[:, 0]))).astype(np.float64)


@pytest.mark.parametrize(
    ("seed", "level", "loss"),
    [(0, 200, "poisson"), (1, 200, "negative_binomial"), (2, 5, "poisson"), (3, 1000, "poisson")],
)
def test_far_from_the_data_the_rate_is_that_of_the_counts(monkeypatch, seed, level, loss) -> None:
    X, y = counts(seed, level)
    model = GPRegressor(loss=loss).fit(X, y)
    assert 1 / 3 < model.predict([[1e3]])[0] / y.mean() < 3
    monkeypatch.setattr(GPRegressor, "_begin", KernelRegressor._begin)  # without the level
    assert model.log_evidence_ > GPRegressor(loss=loss).fit(X, y).log_evidence_


@pytest.mark.parametrize("loss", ["poisson", "negative_binomial"])
def test_far_away_the_mean_is_that_of_a_wide_rate(loss) -> None:
    """A trend has a large variance v: E exp(f) = exp(m + v / 2), far above the median exp(m)."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (60, 2))
    y = rng.poisson(5.0 * np.exp(0.6 * np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1])).astype(float)
    model = GPRegressor(loss=loss).fit(X, y)
    far = np.array([[1e3, 1e3]])
    (m,), (s,) = model.predict_latent(far)
    assert model.predict(far)[0] == pytest.approx(np.exp(m + 0.5 * s**2), rel=1e-6)
    assert 1 / 2 < np.exp(m) / y.mean() < 2  # the median is at the level of the counts
    low, high = model.predict_interval(far)
    assert low[0] < y.mean() < high[0]
