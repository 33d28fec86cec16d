"""Periodic smoothing splines: against dense regression with the same kernel, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import GPRegressor, SmoothingSpline
from mercer.kernels import PeriodicSpline
from mercer.losses import Gaussian, StudentT
from tests.estimators.test_splines_sklearn import FirstColumn

PERIOD = 24.0


def data(n=90, seed=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.uniform(-30.0, 70.0, n) * 4.0) / 4.0  # quarters: exact phases, some repeated
    return x[:, None], 10.0 + 3.0 * np.sin(2.0 * np.pi * x / PERIOD) + rng.normal(0.0, 0.3, n)


GRID = np.linspace(-50.0, 50.0, 41)[:, None]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_is_regression_with_the_kernel_and_a_level(order):
    X, y = data()
    weights = np.random.default_rng(1).choice([1.0, 2.0], len(y))
    curve = SmoothingSpline(order, period=PERIOD).fit(X, y, sample_weight=weights)
    # the same parts, taken as they are; rows of one phase are one point
    whole = GPRegressor(
        curve.kernel_, loss=Gaussian(curve.loss_.noise), basis="constant", search=None
    ).fit(np.mod(X, PERIOD), y, sample_weight=weights)
    np.testing.assert_allclose(curve.predict(GRID), whole.predict(GRID), rtol=1e-8)
    np.testing.assert_allclose(
        curve.predict_latent(GRID)[1], whole.predict_latent(GRID)[1], rtol=1e-6
    )
    assert abs(curve.log_evidence_ - whole.log_evidence_) < 1e-6
    np.testing.assert_allclose(curve.loo_.mean, whole.loo_.mean, rtol=1e-7)
    np.testing.assert_allclose(curve.loo_.log_density, whole.loo_.log_density, rtol=1e-6)
    assert abs(curve.edf_ - whole.report_["degrees_of_freedom"]) < 1e-6


def test_lam_weighs_the_integral_over_one_period():
    X, y = data(40)
    lam = 5.0
    curve = SmoothingSpline(2, lam=lam, period=PERIOD).fit(X, y)
    # cosines and sines up to 60 per period: the penalty is diagonal for them
    j = np.arange(1, 61)
    angle = 2.0 * np.pi * X * j / PERIOD
    H = np.hstack([np.ones_like(X), np.cos(angle), np.sin(angle)])
    each = 0.5 * PERIOD * (2.0 * np.pi * j / PERIOD) ** 4
    penalty = np.concatenate([[0.0], each, each])
    beta = np.linalg.solve(H.T @ H + lam * np.diag(penalty), H.T @ y)
    np.testing.assert_allclose(curve.predict(X), H @ beta, atol=1e-4)
    assert curve.lam_ == lam


def test_it_repeats_and_knows_the_wave():
    X, y = data()
    curve = SmoothingSpline(period=PERIOD).fit(X, y)
    np.testing.assert_allclose(curve.predict(GRID), curve.predict(GRID + 5 * PERIOD), rtol=1e-9)
    truth = 10.0 + 3.0 * np.sin(2.0 * np.pi * GRID[:, 0] / PERIOD)
    mean, std = curve.predict_latent(GRID)
    assert np.mean(np.abs(mean - truth) < 2.5 * std) > 0.9
    assert 0.2 < np.sqrt(curve.loss_.noise) < 0.4
    draws = curve.sample_y(GRID, 50, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5.0 * std.max() / np.sqrt(50))
    gcv = SmoothingSpline(period=PERIOD, search="gcv").fit(X, y)
    np.testing.assert_allclose(gcv.predict(GRID), truth, atol=0.4)
    assert isinstance(curve.kernel_.kernel, PeriodicSpline)
    assert "period" in str(curve.summary())


def test_model_files_are_exact(tmp_path):
    X, y = data()
    for lam in (None, np.inf):
        curve = SmoothingSpline(period=PERIOD, lam=lam).fit(X, y)
        mercer.save(curve, tmp_path / "cycle.mercer")
        again = mercer.load(tmp_path / "cycle.mercer")
        for one, two in zip(again.predict_latent(GRID), curve.predict_latent(GRID), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(again.loo_.mean, curve.loo_.mean)
        assert (again.lam_, again.edf_) == (curve.lam_, curve.edf_)
        assert str(again.summary()) == str(curve.summary())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"period": 0.0}, "positive number"),
        ({"period": True}, "positive number"),
        ({"period": "day"}, "positive number"),
        ({"period": np.inf}, "positive number"),
        ({"period": 1.0, "search": "loo"}, "'evidence' or 'gcv'"),
        ({"period": 1.0, "loss": "poisson"}, "Gaussian noise"),
        ({"period": 0.25}, "needs 3"),  # every quarter is a whole period
    ],
)
def test_what_cannot_be_is_refused(params, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        SmoothingSpline(**params).fit(X, np.abs(np.round(y)))


def test_derivatives_and_integrals_are_refused_with_a_remedy():
    X, y = data()
    curve = SmoothingSpline(period=PERIOD).fit(X, y)
    with pytest.raises(ValueError, match="take differences"):
        curve.derivative(X)
    with pytest.raises(ValueError, match="take differences"):
        curve.integral(0.0, 1.0)


def test_too_many_points_are_refused_before_any_work(monkeypatch):
    from mercer.core import memory

    monkeypatch.setattr(memory, "available_bytes", lambda: 1_000_000)
    x = np.linspace(0.0, 1.0, 1000)[:, None]
    with pytest.raises(MemoryError, match="GiB"):
        SmoothingSpline(period=2.0).fit(x, np.sin(x[:, 0]))


@parametrize_with_checks([FirstColumn(period=3.0), FirstColumn(loss=StudentT().fix(), lam=1.0)])
def test_conventions_on_one_column(estimator, check):
    check(estimator)
