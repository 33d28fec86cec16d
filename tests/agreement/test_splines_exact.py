"""Smoothing splines against exact fractions: curve, derivatives, integral, spread, evidence."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from mercer import SmoothingSpline
from tests.reference.spline_rational import Rational

BIT = 2.0**-10  # inputs are multiples of small powers of two: fractions stay short


def uneven(rng):
    x = np.unique(rng.integers(0, 4096, 10)) * BIT
    return x, np.ones(len(x))


def repeated(rng):
    """Unsorted, with repeats and weights."""
    x = rng.integers(0, 4096, 8) * BIT
    return np.concatenate([x, x[[3, 3, 6]]]), rng.integers(1, 4, 11) * 1.0


def coincident(rng):
    """Three leading points 1e-9 apart, and an inner pair."""
    x = np.arange(9.0)
    x[1:3] = [2.0**-30, 2.0**-29]
    x[6] = 5.0 + 2.0**-33
    return x, np.ones(9)


def geometric(rng):
    """Gaps over eight decades."""
    return np.cumsum(2.0 ** np.arange(-26.0, 2.0, 3.0)), np.ones(10)


def far(rng):
    """Two groups four thousand spacings apart."""
    x = np.concatenate([np.arange(5.0), 2.0**12 + np.arange(5.0)])
    return x, np.ones(10)


DESIGNS = [uneven, repeated, coincident, geometric]
CASES = [(design, m) for design in DESIGNS for m in (1, 2, 3, 4)] + [(far, 1), (far, 2)]
CASES += [(uneven, 6), (coincident, 6)]


@cache
def fitted(design, m, share=10.0):
    """The model, its rows, places within and beyond them, and the same in fractions."""
    rng = np.random.default_rng(7)
    x, w = design(rng)
    y = np.round(np.cos(2.0 * x / (1.0 + np.ptp(x) / 8.0)) + 0.2 * rng.normal(size=len(x)), 2)
    points = np.unique(x)
    gap = np.ptp(points) / (len(points) - 1)
    model = SmoothingSpline(m, lam=share * gap ** (2 * m - 1))
    model.fit(x[:, None], y, sample_weight=w)
    low, high = points[0] - gap, points[-1] + gap
    at = np.sort(np.concatenate([points, 0.5 * (points[1:] + points[:-1]), [low, high]]))
    return model, x, y, w, at, Rational(x, y, w, m, model.lam, model.loss_.noise, low)


@pytest.mark.parametrize(("design", "m"), CASES)
def test_curve_derivatives_and_spread(design, m):
    """Everywhere: at the points, between them, however close, and outside."""
    model, _, _, _, at, slow = fitted(design, m)
    for i in range(m):
        got, std = model.derivative(at[:, None], i, return_std=True)
        expected = np.array([slow.mean(t, i) for t in at])
        spread = np.sqrt([slow.cov(t, t, i, i) for t in at])
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11 * spread.max())
        np.testing.assert_allclose(std, spread, rtol=1e-10)
    mean, std = model.predict_latent(at[:, None])
    np.testing.assert_array_equal(mean, model.derivative(at[:, None], 0))
    spread = np.sqrt([slow.cov(t, t) for t in at])
    np.testing.assert_allclose(std, spread, rtol=1e-10)
    _, noisy = model.predict(at[:, None], return_std=True)
    np.testing.assert_allclose(noisy**2, spread**2 + model.loss_.noise, rtol=1e-10)


@pytest.mark.parametrize("share", [1e-9, 1e12])
@pytest.mark.parametrize(("design", "m"), [(uneven, 2), (coincident, 3), (geometric, 4), (far, 3)])
def test_nearly_interpolating_and_nearly_a_polynomial(design, m, share):
    model, _, _, _, at, slow = fitted(design, m, share)
    mean, std = model.predict_latent(at[:, None])
    expected = np.array([slow.mean(t) for t in at])
    spread = np.sqrt([slow.cov(t, t) for t in at])
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(std, spread, rtol=1e-8)
    assert model.log_evidence_ == pytest.approx(slow.evidence, rel=1e-9)


@pytest.mark.parametrize(("design", "m"), CASES)
def test_derivatives_of_the_mean_beyond_those_of_the_process(design, m):
    """Orders m to 2m - 1, zero outside the data and from 2m on; right limits where they jump."""
    model, x, _, _, at, slow = fitted(design, m)
    scale = model.loss_.noise / model.lam
    for order in range(m, 2 * m):
        k = 2 * m - 1 - order  # sum of a_i (x_i - t)_+^k / k!, GPML (6.25)
        slopes = [slow.upper(t, k) for t in at]
        last = at == x.max()
        if k == 0:
            slopes = np.where(last, slow.upper(np.nextafter(x.max(), -np.inf), 0), slopes)
        got = model.derivative(at[:, None], order)
        expected = (-1.0) ** (order - m) * scale * np.array(slopes)
        # nine points and six coefficients: what the curve bends is small beside the curve itself
        near = 1e-8 if m < 6 else 1e-2
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=near * np.abs(expected).max())
    assert not np.any(model.derivative(at[:, None], 2 * m))


@pytest.mark.parametrize(("design", "m"), CASES)
def test_integral(design, m):
    model, _, _, _, at, slow = fitted(design, m)
    ends = at[[0, 2, len(at) // 2, -2, -1]]
    for low, high in pairwise(ends):
        size = (high - low) * np.abs(model.predict(at[:, None])).max()
        got = model.integral(low, high)
        assert got == pytest.approx(slow.integral(low, high), rel=1e-10, abs=1e-12 * size)
        assert model.integral(high, low) == -got


@pytest.mark.parametrize(("design", "m"), CASES)
def test_evidence_and_left_out_rows(design, m):
    """E of GPML (2.45); leave-one-out by elimination of each row, exactly."""
    model, x, y, w, _, slow = fitted(design, m)
    noise = model.loss_.noise
    every_x, every_y = np.repeat(x, w.astype(int)), np.repeat(y, w.astype(int))
    rows = slow
    if len(every_x) > len(x):
        rows = Rational(every_x, every_y, np.ones(len(every_x)), m, model.lam, noise, x.min())
    assert model.log_evidence_ == pytest.approx(rows.evidence, rel=1e-10)
    left = model.loo_
    for i in (0, len(x) // 2, len(x) - 1):
        others = np.arange(len(x)) != i
        counts = w - (1.0 - others)  # a row of weight w leaves w - 1 of its kind behind
        keep = counts > 0.0
        one = Rational(x[keep], y[keep], counts[keep], m, model.lam, noise, x.min())
        variance = one.cov(x[i], x[i]) + noise
        near = 1e-8 + 1e-15 * variance / noise  # digits of 1 - leverage
        if np.isnan(left.mean[i]):
            assert variance > 1e11 * noise
            continue
        assert left.mean[i] == pytest.approx(one.mean(x[i]), rel=near, abs=1e-9)
        assert left.variance[i] == pytest.approx(variance, rel=near)


@pytest.mark.parametrize(("m", "share"), [(2, 1e-9), (5, 1e-6), (5, 1e-9), (6, 1e-6), (6, 1e-9)])
def test_left_out_rows_of_leverage_nearly_one(m, share):
    """Of 1 - leverage = 1e-8 few digits are left: no formula may go through that difference."""
    model, x, y, w, _, _ = fitted(uneven, m, share)
    left, noise = model.loo_, model.loss_.noise
    highest = 0.0
    for i in (0, 1, len(x) // 2, len(x) - 1):
        keep = np.arange(len(x)) != i
        one = Rational(x[keep], y[keep], w[keep], m, model.lam, noise, x.min())
        variance = one.cov(x[i], x[i]) + noise
        highest = max(highest, 1.0 - noise / variance)
        if np.isnan(left.mean[i]):
            assert variance > 1e11 * noise
            continue
        std = np.sqrt(variance)
        assert left.mean[i] == pytest.approx(one.mean(x[i]), rel=1e-8, abs=1e-8 * std)
        assert left.variance[i] == pytest.approx(variance, rel=1e-8)
    assert highest > 1.0 - 1e-6


@pytest.mark.parametrize("m", [1, 2, 3])
def test_joint_covariance_and_draws(m):
    model, x, _, _, _, slow = fitted(coincident, m)
    at = np.array([x.min() - 1.0, 0.0, 2.0**-30, 1.5, 5.0 + 2.0**-34, 6.0, x.max() + 1.0])
    expected = np.array([[slow.cov(t, s) for s in at] for t in at])
    _, cov = model.predict(at[:, None], return_cov=True)
    np.testing.assert_allclose(
        cov - model.loss_.noise * np.eye(len(at)), expected, rtol=1e-9, atol=1e-11
    )
    drawn = model.sample_y(at[:, None], 3000, random_state=0)
    mean = np.array([slow.mean(t) for t in at])
    std = np.sqrt(np.diag(expected))
    assert np.abs((drawn.mean(axis=1) - mean) / std).max() < 4.5 / np.sqrt(3000)
    np.testing.assert_allclose(np.corrcoef(drawn), expected / np.outer(std, std), atol=0.08)


@pytest.mark.parametrize(("m", "n"), [(2, 20000), (3, 20000), (4, 2000)])
def test_derivatives_between_crowded_points_are_smooth(m, n):
    """Random designs have gaps of 1 / n^2: differences over them would drown in rounding."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(3.0 * x) + 0.3 * rng.normal(size=n)
    model = SmoothingSpline(m).fit(x[:, None], y)
    j = np.argsort(np.diff(x))[:50]  # the closest neighbours
    middle = 0.5 * (x[j] + x[j + 1])
    for order in range(1, 2 * m - 1):
        ends = [model.derivative(t[:, None], order) for t in (x[j], x[j + 1])]
        got = model.derivative(middle[:, None], order)
        size = np.abs(model.derivative(x[:, None], order)).max()
        # continuous, and nearly straight over such a gap
        np.testing.assert_allclose(got, 0.5 * (ends[0] + ends[1]), atol=1e-5 * size)
        if order < m:
            _, std = model.derivative(middle[:, None], order, return_std=True)
            _, near = model.derivative(x[j][:, None], order, return_std=True)
            np.testing.assert_allclose(std, near, rtol=1e-3)


@pytest.mark.slow
def test_counts_at_many_points_take_no_more_steps_than_at_few():
    """The search ends where what is left drowns in the rounding of the evidence."""
    steps = []
    for n in (1000, 100_000):
        rng = np.random.default_rng(5)
        x = np.sort(rng.uniform(0.0, 10.0, n))
        y = rng.poisson(np.exp(0.5 * np.sin(3.0 * x)))
        model = SmoothingSpline(loss="poisson").fit(x[:, None], y)
        search = model.report_["search"]
        assert search["converged"]
        steps.append(search["evaluations"] / search["starts"])
    assert steps[1] < 2.0 * steps[0]
