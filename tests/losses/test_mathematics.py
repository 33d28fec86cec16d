"""Averages against their own quadrature, exact exponentials, the domain of a conjugate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from mercer import losses
from mercer.losses.numbers import quadrature
from mercer.testing.loss import away_from_kinks

from .cases import SCALAR, SMOOTH_STEP, name

CONVEX = [loss for loss in SCALAR if loss.convex]
EXPONENTIAL = (losses.Poisson, losses.Gamma, losses.Exponential)


@pytest.mark.parametrize("loss", SMOOTH_STEP, ids=name)
def test_closed_averages_against_own_quadrature(loss, rng):
    n = 60
    y = loss.example_targets(rng, n)
    m, v = 3 * rng.normal(size=n), 10 ** rng.uniform(-4, 4, n)
    closed, by_sum = loss.tilted(y, m, v), quadrature.tilted(loss, y, m, v)
    for a, b, tol in zip(closed, by_sum, (1e-11, 1e-11 / np.sqrt(v), 1e-11 / v), strict=True):
        assert np.all(np.abs(a - b) <= 1e-9 * np.abs(b) + tol * 10)
    if isinstance(loss, EXPONENTIAL):
        v = np.minimum(v, 1.0)
    closed, by_sum = loss.expected(y, m, v), quadrature.expected(loss, y, m, v)
    for a, b in zip(closed, by_sum, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def test_exponential_averages_are_exact():
    m, v = np.array([-1.0, 0.5]), np.array([9.0, 30.0])
    for loss, y, sign in (
        (losses.Poisson(), np.array([2.0, 0.0]), 1),
        (losses.Gamma(2.0), np.array([0.3, 4.0]), -1),
        (losses.Exponential(), np.array([1.0, -1.0]), None),
    ):
        toward = sign if sign is not None else -y  # g grows like e^{toward f}
        f0, _ = m + toward * v, v  # the mean of the Gaussian tilted by that exponential
        for i in range(2):
            s = np.sqrt(v[i])
            want = integrate.quad(
                lambda f, loss=loss, y=y, i=i: (
                    float(loss.value(y[i], np.float64(f)) * np.exp(-((f - m[i]) ** 2) / (2 * v[i])))
                    / np.sqrt(2 * np.pi * v[i])
                ),
                min(m[i], f0[i]) - 10 * s,
                max(m[i], f0[i]) + 10 * s,
                points=[m[i], f0[i]],
                epsabs=0,
                epsrel=1e-11,
                limit=500,
            )[0]
            np.testing.assert_allclose(loss.expected(y, m, v)[0][i], want, rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "y", "outside", "edges"),
    [
        (losses.Logistic(), 1.0, [0.1, -1.1], {0.0: 0.0, -1.0: 0.0}),
        (losses.Probit(), 1.0, [0.1], {0.0: 0.0}),
        (losses.Hinge(2.0), -1.0, [-0.1, 2.1], {0.0: 0.0, 2.0: -2.0}),
        (losses.SquaredHinge(2.0), 1.0, [0.1], {0.0: 0.0}),
        (losses.Margin(5.0), 1.0, [0.1, -5.0], {0.0: 0.0}),
        (losses.LaplaceProbit(2.0), 1.0, [0.1, -2.1], {-2.0: -np.log(2.0), 0.0: 0.0}),
        (losses.Poisson(), 3.0, [-3.1], {-3.0: -np.log(6.0)}),
        (losses.Ordinal([0.0, 1.0]), 0.0, [-0.1, 1.1], {0.0: 0.0, 1.0: 0.0}),
        (losses.Exponential(), 1.0, [0.1], {0.0: 0.0}),
        (losses.LaplaceNoise(0.5), 1.0, [-2.1, 2.1], {2.0: 2.0 - np.log(1.0)}),
    ],
    ids=name,
)
def test_domain_of_the_conjugate(loss, y, outside, edges):
    for u in outside:
        assert loss.conjugate(np.float64(y), np.float64(u)) == np.inf
    for u, value in edges.items():
        got = loss.conjugate(np.float64(y), np.float64(u))
        np.testing.assert_allclose(got, value, atol=1e-12)


@pytest.mark.parametrize("loss", CONVEX, ids=name)
def test_fenchel_young(loss, rng):
    y = loss.example_targets(rng, 40)
    f = away_from_kinks(loss, y, rng.uniform(-3.0, 3.0, 40))
    d1 = loss.derivatives(y, f)[0]
    at_slope = loss.value(y, f) + loss.conjugate(y, d1) - d1 * f
    np.testing.assert_allclose(at_slope, 0.0, atol=1e-10)
    u = d1 + rng.normal(size=len(y))
    gap = loss.value(y, f) + loss.conjugate(y, u) - u * f
    assert np.all(gap >= -1e-10)
    assert not np.any(np.isnan(gap))
