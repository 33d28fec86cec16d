"""Derivatives, Gaussian averages, normalisation and conjugates against independent computation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from mercer import losses
from mercer.losses.numbers import quadrature
from tests.reference import losses as reference

from .cases import SCALAR, SMOOTH_STEP, away_from_kinks, name

NORMALISED = [loss for loss in SCALAR if loss.normalised]
CONVEX = [loss for loss in SCALAR if loss.convex]
EXPONENTIAL = (losses.Poisson, losses.Gamma, losses.Exponential)


def targets_and_points(loss, rng, n=40, far=3.0):
    y = loss.example_targets(rng, n)
    return y, away_from_kinks(loss, y, rng.uniform(-far, far, n))


@pytest.mark.parametrize("loss", SMOOTH_STEP, ids=name)
def test_derivatives_are_those_of_the_value(loss, rng):
    y, f = targets_and_points(loss, rng)
    h = 2e-3 * np.broadcast_to(loss.width(y), y.shape)

    def slope(function):
        wide = (function(f + 2 * h) - function(f - 2 * h)) / (4 * h)
        return (4 * (function(f + h) - function(f - h)) / (2 * h) - wide) / 3

    d1, d2, d3 = loss.derivatives(y, f)
    scale = 1.0 / np.broadcast_to(loss.width(y), y.shape)
    for got, lower, power in (
        (d1, lambda x: loss.value(y, x), 1),
        (d2, lambda x: loss.derivatives(y, x)[0], 2),
        (d3, lambda x: loss.derivatives(y, x)[1], 3),
    ):
        tolerance = 1e-7 * (np.abs(got) + np.max(scale**power))
        assert np.all(np.abs(got - slope(lower)) <= tolerance)
    if loss.convex:
        assert np.all(d2 >= 0)


@pytest.mark.parametrize("loss", SCALAR, ids=name)
@pytest.mark.parametrize("v", [1e-4, 0.03, 1.0, 30.0, 1e4])
def test_averages_against_dense_sums(loss, v, rng):
    y = loss.example_targets(rng, 4)
    m = np.array([-3.0, -0.4, 0.6, 4.0])
    got = loss.tilted(y, m, np.full(4, v))
    want = np.array([reference.tilted(loss, *point) for point in zip(y, m, [v] * 4, strict=True)]).T
    # the dense second derivative is (Var - v) / v^2: its own error is about 1e-13 / v
    for a, b, tol in zip(got, want, (1e-10, 1e-11 / np.sqrt(v), 1e-11 / v), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-9, atol=tol)
    if isinstance(loss, EXPONENTIAL) and v > 1.0:
        return  # the average lives far out in the tail: see the test of closed forms
    got = loss.expected(y, m, np.full(4, v))
    want = np.array([reference.expected(loss, *point) for point in zip(y, m, [v] * 4, strict=True)])
    size = 1 + np.abs(want[:, 0])
    for a, b, tol in zip(got, want.T, (1e-11, 1e-11 / np.sqrt(v), 1e-11 / v), strict=True):
        assert np.all(np.abs(a - b) <= 2e-9 * np.abs(b) + tol * size)


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


@pytest.mark.parametrize("loss", SCALAR, ids=name)
def test_derivatives_of_the_averages(loss, rng):
    n = 30
    y = loss.example_targets(rng, n)
    m, v = 2 * rng.normal(size=n), 10 ** rng.uniform(-1, 1, n)
    if isinstance(loss, EXPONENTIAL):
        v = np.minimum(v, 2.0)
    h = 1e-3 * np.sqrt(v) * np.minimum(1, np.broadcast_to(loss.width(y), y.shape))

    def slope(function, x, h):
        wide = (function(x + 2 * h) - function(x - 2 * h)) / (4 * h)
        return (4 * (function(x + h) - function(x - h)) / (2 * h) - wide) / 3

    _, d1, d2 = loss.tilted(y, m, v)
    np.testing.assert_allclose(d1, slope(lambda x: loss.tilted(y, x, v)[0], m, h), 1e-6, 1e-8)
    np.testing.assert_allclose(d2, slope(lambda x: loss.tilted(y, x, v)[1], m, h), 1e-6, 1e-8)
    _, dm, dv = loss.expected(y, m, v)
    np.testing.assert_allclose(dm, slope(lambda x: loss.expected(y, x, v)[0], m, h), 1e-6, 1e-8)
    step = 1e-3 * v
    np.testing.assert_allclose(dv, slope(lambda x: loss.expected(y, m, x)[0], v, step), 1e-6, 1e-8)


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


@pytest.mark.parametrize("loss", NORMALISED, ids=name)
def test_probabilities_sum_to_one(loss):
    f = np.array([-2.3, -0.4, 0.0, 1.0, 2.9])
    if loss.response == "binary":
        total = sum(np.exp(-loss.value(np.float64(y), f)) for y in (-1, 1))
    elif loss.response in ("ordinal", "count"):
        top = 20_000 if loss.response == "count" else len(loss.cutpoints) + 1
        total = np.exp(-loss.value(np.arange(top)[:, None], f)).sum(axis=0)
    else:
        # the kinks in y lie where the same distance from f is one in f
        total = []
        for x in f:
            edges = [x - 0.5, x, x + 0.5]
            edges += [2 * x - k for k in reference.kinks_of(loss, x)]
            cuts = [0.0 if loss.response == "positive" else -np.inf, *sorted(edges), np.inf]
            cuts = [c for c in cuts if c >= 0] if loss.response == "positive" else cuts
            density = lambda y, x=x: float(np.exp(-loss.value(np.float64(y), np.float64(x))))  # noqa: E731
            total.append(
                sum(
                    integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-12)[0]
                    for a, b in pairwise(cuts)
                )
            )
    np.testing.assert_allclose(total, 1.0, atol=1e-10)


@pytest.mark.parametrize("loss", CONVEX, ids=name)
def test_fenchel_young(loss, rng):
    y, f = targets_and_points(loss, rng)
    d1 = loss.derivatives(y, f)[0]
    at_slope = loss.value(y, f) + loss.conjugate(y, d1) - d1 * f
    np.testing.assert_allclose(at_slope, 0.0, atol=1e-10)
    u = d1 + rng.normal(size=len(y))
    gap = loss.value(y, f) + loss.conjugate(y, u) - u * f
    assert np.all(gap >= -1e-10)
    assert not np.any(np.isnan(gap))


@pytest.mark.parametrize("loss", CONVEX, ids=name)
def test_conjugate_is_the_supremum(loss, rng):
    y, f = targets_and_points(loss, rng, n=8)
    u = 0.5 * (loss.derivatives(y, f)[0] + loss.derivatives(y, f + 0.7)[0])
    want = [reference.conjugate(loss, *pair) for pair in zip(y, u, strict=True)]
    np.testing.assert_allclose(loss.conjugate(y, u), want, rtol=1e-8, atol=3e-7)


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
