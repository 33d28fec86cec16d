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
