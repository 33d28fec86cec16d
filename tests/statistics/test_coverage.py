"""Honest by default: accuracy and coverage over many draws, and draws from the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from mercer import GPRegressor, SmoothingSpline
from mercer.kernels import RBF, Matern
from mercer.losses import Gaussian
from mercer.process import Prior


def raw_table(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in 0..100, targets about 50: where a unit kernel without a scale fails."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 100, (n, 2))
    y = 50 + 10 * np.sin(X[:, 0] / 12) + 0.1 * X[:, 1] + rng.normal(size=n)
    return X, y


def test_raw_tables_right_by_default() -> None:
    inside = []
    for seed in range(6):
        X, y = raw_table(seed, 240)
        model = GPRegressor().fit(X[:120], y[:120])
        assert model.score(X[120:], y[120:]) > 0.95
        low, high = model.predict_interval(X[120:], 0.9)
        inside.append((low <= y[120:]) & (y[120:] <= high))
    assert 0.86 < np.mean(inside) < 0.94
    assert min(np.mean(row) for row in inside) > 0.78


@pytest.mark.slow
def test_raw_tables_over_many_seeds() -> None:
    inside = []
    for seed in range(40):
        X, y = raw_table(100 + seed, 300)
        low, high = GPRegressor().fit(X[:100], y[:100]).predict_interval(X[100:], 0.9)
        inside.append(np.mean((low <= y[100:]) & (y[100:] <= high)))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("basis", [None, "linear"])
def test_coverage_of_data_from_the_model(basis: object) -> None:
    """With the true kernel and noise: exact coverage at every level, and whitened residuals."""
    rng = np.random.default_rng(0)
    kernel = 2.0 * Matern(nu=1.5, length_scale=0.7)
    levels, hits, scores = (0.5, 0.8, 0.95), [], []
    for _ in range(60):
        X = rng.uniform(0, 5, (40, 1))
        f = Prior(kernel).sample(X, 1, rng)[:, 0, 0]
        f = f if basis is None else f + 3.0 - 2.0 * X[:, 0]
        y = f + np.sqrt(0.3) * rng.normal(size=40)
        model = GPRegressor(kernel, loss=Gaussian(0.3), search=None, basis=basis)
        model.fit(X[:25], y[:25])
        intervals = [model.predict_interval(X[25:], level) for level in levels]
        hits.append([np.mean((lo < y[25:]) & (y[25:] < hi)) for lo, hi in intervals])
        mean, cov = model.predict(X[25:], return_cov=True)
        scores.append((y[25:] - mean) @ np.linalg.solve(cov, y[25:] - mean))
    np.testing.assert_allclose(np.mean(hits, axis=0), levels, atol=0.035)
    assert kstest(scores, chi2(15).cdf).pvalue > 0.01


def test_evidence_is_calibrated() -> None:
    """E log p(y) over y from the model is minus its entropy, exactly known."""
    rng = np.random.default_rng(1)
    kernel = 1.5 * RBF(0.8)
    X = rng.uniform(0, 5, (20, 1))
    Ky = kernel(X) + 0.4 * np.eye(20)
    L = np.linalg.cholesky(Ky)
    values = [
        GPRegressor(kernel, loss=Gaussian(0.4), search=None)
        .fit(X, L @ rng.normal(size=20))
        .log_evidence_
        for _ in range(200)
    ]
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * Ky)[1]
    assert np.mean(values) == pytest.approx(-entropy, abs=4 * np.sqrt(10 / 200))


def test_leave_one_out_residuals_are_standard_normal() -> None:
    rng = np.random.default_rng(2)
    kernel = 1.5 * RBF(0.8)
    z = []
    for _ in range(100):
        X = rng.uniform(0, 5, (15, 1))
        y = np.linalg.cholesky(kernel(X) + 0.4 * np.eye(15)) @ rng.normal(size=15)
        loo = GPRegressor(kernel, loss=Gaussian(0.4), search=None).fit(X, y).loo_
        z.append((y[0] - loo.mean[0]) / loo.std[0])
    assert kstest(z, norm.cdf).pvalue > 0.01


def test_true_parameters_are_recovered() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 40, (250, 1))
    kernel = 4.0 * RBF(1.5)
    y = Prior(kernel).sample(X, 1, rng)[:, 0, 0] + 0.5 * rng.normal(size=250)
    model = GPRegressor(1.0 * RBF(1.0)).fit(X, y)
    assert model.kernel_.kernel.length_scale == pytest.approx(1.5, rel=0.2)
    assert model.kernel_.variance == pytest.approx(4.0, rel=0.6)
    assert model.loss_.noise == pytest.approx(0.25, rel=0.25)


def test_posterior_samples_have_the_predicted_law() -> None:
    X, y = raw_table(0, 60)
    model = GPRegressor().fit(X, y)
    Z = np.random.default_rng(1).uniform(0, 100, (4, 2))
    draws = model.sample_y(Z, 4000, random_state=3)
    mean, std = model.predict_latent(Z)
    for row, m, s in zip(draws, mean, std, strict=True):
        assert kstest((row - m) / s, norm.cdf).pvalue > 1e-3
    cov = model.predict(Z, return_cov=True)[1] - model.loss_.noise * np.eye(4)
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.08 * np.max(std) ** 2)


def test_noise_of_pure_noise() -> None:
    """Without signal the model says so: the mean is flat and the noise is the variance."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(80, 2)), 3.0 + rng.normal(size=80)
    model = GPRegressor().fit(X, y)
    low, high = model.predict_interval(rng.normal(size=(400, 2)), 0.9)
    fresh = 3.0 + rng.normal(size=400)
    assert 0.84 < np.mean((low < fresh) & (fresh < high)) < 0.96


CURVES = (
    lambda x: np.sin(2 * np.pi * x),
    lambda x: np.sin(6 * np.pi * x),
    lambda x: np.exp(-(((x - 0.4) / 0.1) ** 2)) + x,
    lambda x: 4 * x**2,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "by_gcv", "by_evidence"), [(20, 0.69, 0.83), (50, 0.81, 0.90), (100, 0.87, 0.91)]
)
def test_bands_of_splines_hold_what_is_said_of_them(
    n: int, by_gcv: float, by_evidence: float
) -> None:
    """The figures of ``report_["search"]["bands"]`` and of the guide, 480 samples each."""
    rng, held = np.random.default_rng(n), {"gcv": [], "evidence": []}
    for _ in range(120):
        for curve in CURVES:
            x = np.sort(rng.uniform(0, 1, n))
            y = curve(x) + 0.3 * rng.standard_normal(n)
            for search, shares in held.items():
                model = SmoothingSpline(search=search).fit(x[:, None], y)
                mean, std = model.predict_latent(x[:, None])
                shares.append(np.mean(np.abs(mean - curve(x)) < 1.645 * std))
    said = model.report_["search"].get("bands")
    assert said is None  # of the evidence there is nothing to say
    assert abs(np.mean(held["gcv"]) - by_gcv) < 0.04
    assert abs(np.mean(held["evidence"]) - by_evidence) < 0.02


def test_gcv_says_that_its_bands_are_narrow() -> None:
    x = np.linspace(0, 1, 30)
    model = SmoothingSpline(search="gcv").fit(x[:, None], np.sin(6 * x) + 0.1 * np.cos(90 * x))
    assert "81 % at 50" in model.report_["search"]["bands"]
    assert "81 % at 50" in str(model.summary())
