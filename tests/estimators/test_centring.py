"""Left out means left out of centring, too: figures against refits without each row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import mercer
from mercer import GPRegressor, KernelRegressor


def without_each(model, X, y, weights):
    """Mean and variance of each row, hyperparameters kept: the mean of the others, then (2.25)."""
    found = np.empty((2, len(y)))
    noise = float(model.loss_.noise)
    for i in range(len(y)):
        w = weights.copy()
        w[i] = max(w[i] - 1.0, 0.0)
        keep = w > 0.0
        centre = np.average(y[keep], weights=w[keep])
        C = np.linalg.inv(model.kernel_(X[keep]) + np.diag(noise / w[keep]))
        k = model.kernel_(X[keep], X[i : i + 1])[:, 0]
        found[0, i] = centre + k @ C @ (y[keep] - centre)
        found[1, i] = model.kernel_.diag(X[i : i + 1])[0] - k @ C @ k + noise
    return found


@pytest.mark.parametrize("machine", [GPRegressor, KernelRegressor])
@pytest.mark.parametrize("case", ["plain", "repeated", "weighted"])
def test_the_mean_of_the_targets_is_that_of_the_others(machine, case, rng) -> None:
    X = rng.normal(size=(14, 2))
    X = np.vstack([X, X[:3], X[:1]]) if case == "repeated" else X
    y = 50.0 + np.sin(X[:, 0]) + 0.2 * rng.normal(size=len(X))
    w = rng.choice([0.4, 1.0, 3.0], len(X)) if case == "weighted" else np.ones(len(X))
    model = machine("rbf", search=None).fit(X, y, sample_weight=w)
    mean, variance = without_each(model, X, y, w)
    np.testing.assert_allclose(model.left_out_.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(model.left_out_.variance, variance, rtol=1e-8)
    density = norm.logpdf(y, mean, np.sqrt(variance))
    np.testing.assert_allclose(model.left_out_.log_density, density, atol=1e-8)


def test_on_a_line_in_linear_time(rng) -> None:
    X = np.sort(rng.uniform(0, 10, 300))[:, None]
    y = 5.0 + np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    line = GPRegressor("matern52", search=None, gram="markov").fit(X, y)
    dense = GPRegressor("matern52", search=None, gram="dense").fit(X, y)
    np.testing.assert_allclose(line.left_out_.mean, dense.left_out_.mean, atol=1e-8)


def test_several_outputs(rng) -> None:
    X, Y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + np.array([3.0, -8.0])
    both = GPRegressor("rbf", search=None).fit(X, Y)
    for j in range(2):
        K, noise = both.posteriors_[0].parent.kernel, float(both.losses_[0].noise)
        Z, scale = both.units_.standardised(X), both.units_.y_scale[j]
        for i in range(12):
            keep = np.arange(12) != i
            centre, C = Y[keep, j].mean(), np.linalg.inv(K(Z[keep]) + noise * np.eye(11))
            k = K(Z[keep], Z[i : i + 1])[:, 0]
            expected = centre + scale * (k @ C @ ((Y[keep, j] - centre) / scale))
            assert both.left_out_.mean[i, j] == pytest.approx(expected, rel=1e-10)


def straight(X, y, i, slopes, noise):
    """Row i by a straight line with a free constant through the others."""
    keep = np.arange(len(y)) != i
    centre, level = X[keep].mean(axis=0), y[keep].mean()
    K = slopes * (X[keep] - centre) @ (X[keep] - centre).T + noise * np.eye(len(y) - 1)
    k = slopes * (X[keep] - centre) @ (X[i] - centre)
    return level + k @ np.linalg.solve(K, y[keep] - level)


@pytest.mark.parametrize("noise", [1e-8, 0.3])
def test_more_columns_than_rows(noise, rng) -> None:
    """With noise at its floor a centred line read each row off the sum of the others."""
    X, y = rng.normal(size=(30, 90)), rng.normal(size=30)
    model = GPRegressor("linear", loss=mercer.losses.Gaussian(noise), search=None).fit(X, y)
    assert model.basis_ == mercer.basis.PolynomialBasis(0)
    slopes = model.posteriors_[0].parent.kernel.variance * model.units_.y_scale[0] ** 2
    Z = model.units_.standardised(X)
    expected = [straight(Z, y, i, slopes, noise) for i in range(30)]
    np.testing.assert_allclose(model.left_out_.mean, expected, atol=1e-6)
    assert np.sqrt(np.mean((y - model.left_out_.mean) ** 2)) > 0.8


def test_pure_noise_is_not_reported_as_foretold(rng) -> None:
    X, y = rng.normal(size=(50, 200)), rng.normal(size=50)
    model = GPRegressor("linear", random_state=0).fit(X, y)
    assert np.sqrt(np.mean((y - model.left_out_.mean) ** 2)) > 0.8 * y.std()
    table = {f"g{j}": X[:, j] for j in range(200)} | {"y": y}
    found = mercer.fit(table, target="y", candidates=["linear"], time_budget=20)
    row = next(row for row in found.ranking_ if row.name == "linear")
    assert row.error > 0.8 * y.std()


def test_a_line_by_name_has_a_flat_constant(rng) -> None:
    """Its predictions are those of centring, for rows that count alike."""
    X, y = rng.normal(size=(20, 2)), 7.0 + rng.normal(size=20)
    model = GPRegressor("linear", search=None).fit(X, y)
    given = GPRegressor("linear", search=None, basis="constant").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), given.predict(X))
    assert model.log_evidence_ == given.log_evidence_
    assert GPRegressor("linear", search=None).fit(X[:2], y[:2]).basis_ is None
    assert mercer.ProbabilisticLeastSquaresClassifier("linear").fit(X, y > 7).basis_ is None
