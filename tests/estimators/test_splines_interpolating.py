"""lam = 0: the natural spline through all observations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import mercer
from mercer import SmoothingSpline


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 25))
    x[7] = x[6] + 1e-3
    return x, 1e3 + 50.0 * np.sin(x)


def test_it_is_the_natural_cubic_spline(rows, tmp_path) -> None:
    x, y = rows
    model = SmoothingSpline(lam=0).fit(x[:, None], y)
    natural = CubicSpline(x, y, bc_type="natural")
    t = np.linspace(x[0], x[-1], 301)
    np.testing.assert_allclose(model.predict(t[:, None]), natural(t), atol=1e-8)
    np.testing.assert_allclose(model.predict(x[:, None]), y, atol=1e-9)
    np.testing.assert_allclose(model.derivative(t[:, None]), natural(t, 1), atol=1e-5)
    assert model.integral(x[0], x[-1]) == pytest.approx(natural.integrate(x[0], x[-1]), abs=1e-7)
    assert model.lam_ == 0.0
    assert model.edf_ == pytest.approx(25.0, abs=1e-6)
    assert "smoothing parameter lam" in str(model.summary())
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.lam_ == 0.0
    np.testing.assert_array_equal(again.predict(t[:, None]), model.predict(t[:, None]))


def test_deviations_are_those_of_the_process_between_the_knots() -> None:
    """Zero at the observations; elsewhere the limit of small lam, and left-out rows likewise."""
    x = np.linspace(0.0, 10.0, 21)
    y = 1e3 + 50.0 * np.sin(x)
    model = SmoothingSpline(lam=0.0).fit(x[:, None], y)
    near = SmoothingSpline(lam=1e-9).fit(x[:, None], y)
    t = 0.5 * (x[1:] + x[:-1])[:, None]
    np.testing.assert_allclose(model.predict_latent(t)[1], near.predict_latent(t)[1], rtol=1e-4)
    np.testing.assert_allclose(model.predict_latent(x[:, None])[1], 0.0, atol=1e-6)
    assert model.log_evidence_ == pytest.approx(near.log_evidence_, abs=1e-3)
    np.testing.assert_allclose(model.left_out_.mean, near.left_out_.mean, rtol=1e-5)


@pytest.mark.parametrize("order", [1, 3])
def test_other_orders_pass_through_the_observations(rows, order) -> None:
    x, y = rows
    x, y = np.delete(x, 7), np.delete(y, 7)
    model = SmoothingSpline(order, lam=0).fit(x[:, None], y)
    np.testing.assert_allclose(model.predict(x[:, None]), y, atol=1e-7)
    if order == 1:
        t = np.linspace(x[0], x[-1], 50)
        np.testing.assert_allclose(model.predict(t[:, None]), np.interp(t, x, y), atol=1e-7)


def test_what_cannot_be_met_is_refused(rows) -> None:
    x, y = rows
    twice = np.r_[x, x[3]]
    with pytest.raises(ValueError, match="same x and different y"):
        SmoothingSpline(lam=0).fit(twice[:, None], np.r_[y, y[3] + 1.0])
    SmoothingSpline(lam=0).fit(twice[:, None], np.r_[y, y[3]])  # said twice
    with pytest.raises(ValueError, match="give lam > 0"):
        SmoothingSpline(lam=0, loss="poisson").fit(x[:, None], np.round(np.abs(y)))
