"""Noise that depends on the level of the function: its mode, its calibration, its price."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize

import mercer
from mercer import OnlineRegressor
from mercer.estimators.online.spread import KNOTS, NoiseByLevel
from mercer.kernels import RBF
from mercer.losses import Gaussian


def table(n, by_level, seed=0):
    """Return rows of a sine whose noise grows with it, or does not, and the deviations of it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 1))
    f = np.sin(X[:, 0])
    deviation = 0.3 * np.exp(f) if by_level else np.full(n, 0.3)
    return X, f + deviation * rng.normal(size=n), deviation


def streamed(X, y, size=50, **given):
    model = OnlineRegressor(budget=30, reservoir=300, **given)
    for i in range(0, len(X), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


def test_a_block_ends_at_the_mode():
    """(O24) by a general minimiser, where no row reaches the limit."""
    rng = np.random.default_rng(0)
    mean, var, w = rng.normal(size=40), rng.uniform(0.0, 0.2, 40), rng.uniform(0.5, 2.0, 40)
    square = 0.5 * np.exp(mean) * rng.normal(size=40) ** 2
    start = NoiseByLevel(0.1, 1.2).given(mean, square, var, 0.5, w, np.zeros(40))
    found = start.given(mean[::-1], square, var, 0.5, w, np.zeros(40))
    F = start.features(mean[::-1])

    def lost(b):
        V = var + 0.5 * np.exp(b @ F)
        step = b - start.weights
        return 0.5 * w @ (np.log(V) + square / V) + 0.5 * step @ start.precision @ step

    best = optimize.minimize(lost, start.weights, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.weights, best.x, atol=1e-4)
    share = 0.5 * np.exp(found.weights @ F) / (var + 0.5 * np.exp(found.weights @ F))
    expected = start.precision + (F * (0.5 * w * share**2)) @ F.T
    np.testing.assert_allclose(found.precision, expected, rtol=1e-12, atol=1e-12)


def test_forgetting_returns_to_the_prior():
    rng = np.random.default_rng(0)
    mean = rng.normal(size=200)
    one, none = np.ones(200), np.zeros(200)
    learned = NoiseByLevel().given(mean, 9.0 * rng.normal(size=200) ** 2, none, 1.0, one, one)
    np.testing.assert_allclose(learned.forget(1.0).weights, learned.weights, rtol=1e-10)
    gone = learned.forget(1e-12)
    np.testing.assert_allclose(gone.precision, np.eye(len(KNOTS)), atol=1e-9)
    np.testing.assert_allclose(gone.weights, 0.0, atol=1e-9)


def test_calibrated_where_the_noise_follows_the_level():
    X, y, _ = table(4000, True)
    model, even = streamed(X, y), streamed(X, y, calibration=None)
    assert model.report_["calibration"]["used"]
    assert model.prequential_.nlpd < even.prequential_.nlpd - 0.1
    assert model.log_evidence_ == even.log_evidence_
    new, target, deviation = table(4000, True, seed=1)
    np.testing.assert_array_equal(model.predict(new), even.predict(new))
    std = model.predict(new, return_std=True)[1]
    assert np.abs(np.log(std / deviation)).mean() < 0.15
    low, high = model.predict_interval(new, 0.9)
    inside = (low <= target) & (target <= high)
    for half in (deviation < 0.3, deviation >= 0.3):  # each by itself, to four deviations
        assert abs(inside[half].mean() - 0.9) < 0.03


def test_no_harm_where_it_does_not():
    X, y, _ = table(2000, False)
    lost = streamed(X, y).prequential_.nlpd - streamed(X, y, calibration=None).prequential_.nlpd
    assert lost < 0.005


def test_one_distribution_in_all_that_is_said():
    X, y, _ = table(1500, True)
    model = streamed(X, y)
    assert model.spread_.used
    at = np.array([[1.2]])
    mean, std = (float(each[0]) for each in model.predict(at, return_std=True))

    def density(t):
        return float(np.exp(model.predictive_log_density(at, [t])[0]))

    low, high = mean - 12.0 * std, mean + 12.0 * std
    assert integrate.quad(density, low, high)[0] == pytest.approx(1.0, abs=1e-6)
    second = integrate.quad(lambda t: (t - mean) ** 2 * density(t), low, high)[0]
    assert np.sqrt(second) == pytest.approx(std, rel=1e-4)
    ends = model.predict_interval(at, 0.8)
    assert integrate.quad(density, ends[0][0], ends[1][0])[0] == pytest.approx(0.8, abs=1e-6)
    weight, total = model.prequential_.weight, model.prequential_.log_density_sum
    new, target, _ = table(50, True, seed=2)
    total += float(model.predictive_log_density(new, target).sum())
    model.partial_fit(new, target)
    assert model.prequential_.log_density_sum == pytest.approx(total, rel=1e-9)
    assert model.prequential_.weight == weight + 50


def test_files_hold_it_and_refuse_another(tmp_path):
    X, y, _ = table(1000, True)
    model = streamed(X, y)
    mercer.save(model, tmp_path / "a.mercer")
    again = mercer.load(tmp_path / "a.mercer")
    for each in (model, again):
        each.partial_fit(X[:50], y[:50])
    assert again.report_ == model.report_
    for a, b in zip(again.predict(X, True), model.predict(X, True), strict=True):
        np.testing.assert_array_equal(a, b)
    model.spread_.precision[0, 1] = model.spread_.precision[1, 0] = 1e9
    with pytest.raises(ValueError, match="positive definite"):  # by the check that reading has
        mercer.save(model, tmp_path / "b.mercer")


def test_a_known_noise_is_known_everywhere():
    X, y, _ = table(200, True)
    given = OnlineRegressor(1.0 * RBF(1.0), noise=0.1, search=None).partial_fit(X, y)
    assert given.spread_ is None
    assert given.report_["calibration"] is None
    none = OnlineRegressor(RBF(1.0), loss=Gaussian(0.1), search=None, calibration=None)
    assert none.partial_fit(X, y).spread_ is None
    with pytest.raises(ValueError, match="calibration must be"):
        OnlineRegressor(calibration="late").partial_fit(X, y)
