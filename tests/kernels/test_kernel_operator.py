"""Operator kernels: quadrature, special cases, repeated roots, r = 0, gradients, refusals."""

from __future__ import annotations

from itertools import pairwise
from math import factorial, gamma, pi

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import solveh_banded
from scipy.special import kv
from tests.reference import kernels as slow

from mercer.core.component import POSITIVE, REAL
from mercer.kernels import Operator, OrnsteinUhlenbeck, SquaredExponentialOperator

R = np.array([0.0, 0.1, 0.5, 1.3, 3.0])
ORIGIN = np.zeros((1, 1))
LISTS = [
    [4.0, 1.0],
    [1.0, 0.3, 0.2],
    [2.0, 0.0, 1.0],
    [1.0, -1.0, 1.0],
    [1.0, 2.0, 0.5, 0.1],
    [2.25, 3.0, 1.0],
    [1.0, 3.0, 3.0, 1.0],
    [1.0, 2.0, 1.0 + 1e-9],
    [1.0, 2.0, 0.999],
]


def at(kernel, r, dims=1):
    """k at distances r along a diagonal direction."""
    X = np.outer(r, np.ones(dims) / np.sqrt(dims))
    return kernel(X, np.zeros((1, dims)))[:, 0]


@pytest.mark.parametrize("a", LISTS, ids=str)
def test_quadrature_in_one_dimension(a):
    expected = [slow.operator(a, 1, r) for r in R]
    np.testing.assert_allclose(at(Operator(np.array(a)), R), expected, atol=1e-7)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("a", LISTS[1:], ids=str)
def test_hankel_in_more_dimensions(a, dims):
    expected = [slow.operator(a, dims, r) for r in R]
    np.testing.assert_allclose(at(Operator(np.array(a), dims), R, dims), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("p", "dims"), [(p, dims) for p in range(1, 5) for dims in range(1, 8) if 2 * p > dims]
)
@pytest.mark.parametrize("rate", [0.3, 1.0, 4.0])
def test_matern(p, dims, rate):
    """P = (rate^2 + z)^p: every root the same."""
    a = np.array(
        [
            rate ** (2 * (p - m)) * factorial(p) / factorial(m) / factorial(p - m)
            for m in range(p + 1)
        ]
    )
    nu = p - dims / 2
    r = np.concatenate([R, 10.0 ** np.arange(-9, 0)])
    k0 = gamma(nu) / ((4 * pi) ** (dims / 2) * gamma(p) * rate ** (2 * p - dims))
    x = np.where(r > 0, r, 1.0)
    bessel = (
        2 ** (1 - p) / ((2 * pi) ** (dims / 2) * gamma(p)) * (x / rate) ** nu * kv(nu, rate * x)
    )
    expected = np.where(r > 0, bessel, k0)
    np.testing.assert_allclose(at(Operator(a, dims), r, dims), expected, atol=3e-12 * k0)


def test_special_cases(rng):
    X = rng.standard_normal((6, 1))
    np.testing.assert_allclose(Operator([4.0, 1.0])(X), OrnsteinUhlenbeck(2.0)(X), rtol=1e-12)
    np.testing.assert_allclose(
        OrnsteinUhlenbeck(2.0)(X), np.exp(-2 * np.abs(X - X.T)) / 4, rtol=1e-12
    )
    for dims in (1, 2, 3):
        Y = rng.standard_normal((6, dims))
        s = ((Y[:, None] - Y) ** 2).sum(-1)
        np.testing.assert_allclose(
            SquaredExponentialOperator(0.8, dims)(Y),
            (2 * pi * 0.64) ** (-dims / 2) * np.exp(-s / 1.28),
            rtol=1e-12,
        )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_truncated_series_converges_to_the_gaussian(dims):
    sigma, r = 0.9, np.array([0.0, 0.1, 0.5, 1.3])
    exact = at(SquaredExponentialOperator(sigma, dims), r, dims)
    errors = []
    for M in (4, 8, 12):
        a = np.array([sigma ** (2 * m) / (factorial(m) * 2.0**m) for m in range(M + 1)])
        stated = at(Operator(a, dims), r, dims)
        expected = [slow.operator(a, dims, x) for x in r]
        np.testing.assert_allclose(stated, expected, atol=1e-7)
        errors.append(np.abs(stated - exact).max())
    assert errors[0] > 5 * errors[1] > 25 * errors[2]


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "a", [[1.0, 2.0, 0.5, 0.1], [1.0, 3.0, 3.0, 1.0], [1.0, 1.0, -0.5, 0.3]], ids=str
)
def test_smooth_at_zero(a, dims):
    """The series near r = 0 and the Bessel form meet; k(r) is even and flat at zero."""
    kernel = Operator(np.array(a), dims)
    r = np.sort(np.concatenate([np.geomspace(1e-12, 3.0, 2000), [0.0]]))
    k = at(kernel, r, dims)
    assert k.max() - k[0] < 1e-14
    assert np.abs(np.diff(k)).max() < 0.02 * k[0]
    near = r < 1e-9
    np.testing.assert_allclose(k[near], k[0], rtol=1e-8 if 2 * 3 - dims > 1 else 1e-6)


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
def test_wide_spread_of_roots(dims):
    """Roots from 1e-3 to 1e3 in q: against the sum of two Maternlike terms by differences."""
    q = np.array([1e-3, 1.0, 1e3])
    a = np.polynomial.polynomial.polyfromroots(-(q**2))
    kernel = Operator(a, dims)
    k = at(kernel, np.geomspace(1e-6, 1e3, 200), dims)
    assert np.isfinite(k).all()
    assert (np.diff(k) <= 1e-12 * k[0]).all()


@pytest.mark.parametrize(
    ("a", "dims"),
    [(a, dims) for a in LISTS for dims in range(1, 5) if 2 * (len(a) - 1) > dims],
    ids=str,
)
def test_pullback(a, dims, rng):
    X, Z, Q = (rng.standard_normal(s) for s in ((10, dims), (5, dims), (10, 10)))
    X[1] = X[0]
    slow.assert_pullback(Operator(np.array(a), dims), X, None, Q + Q.T)
    slow.assert_pullback(Operator(np.array(a), dims), X, Z, Q[:, :5])


@pytest.mark.parametrize("a", LISTS[1:], ids=str)
def test_gradient_is_the_spectral_one(a):
    """dk/da_m at r = 0 is minus the integral of z^m / P(z)^2."""
    stated = Operator(np.array(a)).pullback(ORIGIN, None, np.ones((1, 1)))["coefficients"]
    for m in range(len(a) if len(a) > 1 else 0):
        expected = -quad(
            lambda w, m=m: w ** (2 * m) / np.polynomial.polynomial.polyval(w**2, a) ** 2 / pi,
            0,
            np.inf,
        )[0]
        np.testing.assert_allclose(stated[m], expected, rtol=1e-7)


CLUSTERS = [
    [1.0, 1.0 + 1e-7, 1.0 + 1e-4],
    [2.35, 2.35, 2.35, 2.21, 2.21, 0.43],
    [0.78, 0.7822, 0.7822, 0.78, 2.8],
    [0.2 + 1.67j, 0.2 - 1.67j, 0.2 + 1.67j, 0.2 - 1.67j],
    [1.95 + 0.22j, 1.95 - 0.22j, 2.03 + 0.22j, 2.03 - 0.22j, 2.03],
    [0.01, 0.01, 10.0, 10.0],
    [1.0, 1.5, 2.0, 2.7, 3.5, 5.0],
]


@pytest.mark.parametrize("q", CLUSTERS, ids=str)
def test_clusters_of_roots(q):
    """Against the same process in state-space form, and the gradient against its integral."""
    a = np.poly(-np.square(q))[::-1].real
    kernel = Operator(a)
    expected = slow.state_space(q, R)
    np.testing.assert_allclose(at(kernel, R), expected, atol=1e-10 * expected[0])
    stated = kernel.pullback(ORIGIN, None, np.ones((1, 1)))["coefficients"]
    peaks = sorted({abs(np.imag(x)) for x in q} | {abs(x) for x in q})
    for m in range(len(a)):
        pieces = [
            quad(
                lambda w, m=m: w ** (2 * m) / abs(np.prod([w**2 + x**2 for x in q])) ** 2 / pi,
                *ends,
                epsabs=0.0,
                limit=200,
            )[0]
            for ends in pairwise([*sorted({0.0, *peaks, 3 * peaks[-1]}), np.inf])
        ]
        np.testing.assert_allclose(stated[m], -sum(pieces), rtol=1e-6)


def test_many_points(rng):
    """More points than a block holds."""
    X = rng.standard_normal((300, 2))
    kernel = Operator(np.array([1.0, 2.0, 0.5, 0.1]), 2)
    K = kernel(X)
    assert np.array_equal(K, K.T)
    np.testing.assert_allclose(K[:, 250], kernel(X, X[250:251])[:, 0], rtol=1e-10)
    Q = rng.standard_normal((300, 300))
    one = kernel.pullback(X, None, Q + Q.T)["coefficients"]
    two = kernel.pullback(X, X, Q + Q.T)["coefficients"]
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_norm_of_the_space():
    """a'Ka = int rate^2 f^2 + f'^2 dx for f = sum_i a_i k(., x_i)."""
    rate, x, c = 1.3, np.array([-1.0, 0.2, 0.9]), np.array([0.5, -1.0, 2.0])
    kernel = OrnsteinUhlenbeck(rate)

    def density(t):
        f = c @ kernel(x[:, None], np.array([[t]]))[:, 0]
        slope = c @ (-np.sign(t - x) * np.exp(-rate * np.abs(t - x)) / 2)
        return rate**2 * f**2 + slope**2

    ends = [-25.0, *x, 25.0]
    total = sum(quad(density, a, b, epsabs=1e-13, epsrel=1e-13)[0] for a, b in pairwise(ends))
    assert abs(total - c @ kernel(x[:, None]) @ c) < 1e-10


def test_inverse_of_the_discrete_operator():
    """The middle column of (h (rate^2 I + D'D))^-1 on a grid is Green's function."""
    rate, h, N = 1.0, 0.02, 1501
    band = np.zeros((2, N))
    band[0, 1:] = -1.0 / h
    band[1] = h * rate**2 + 2.0 / h
    band[1, [0, -1]] -= 1.0 / h
    unit = np.zeros(N)
    unit[N // 2] = 1.0
    column = solveh_banded(band, unit)
    r = h * np.abs(np.arange(N) - N // 2)
    near = r < 5
    np.testing.assert_allclose(column[near], at(OrnsteinUhlenbeck(rate), r[near]), atol=1e-3)


def test_domain_follows_the_signs():
    assert Operator(np.array([1.0, 2.0])).free == {"coefficients": POSITIVE}
    assert Operator(np.array([2.0, 0.0, 1.0])).free == {"coefficients": REAL}


@pytest.mark.parametrize(
    ("a", "dims", "sentence"),
    [
        ([1.0, 1.0], 2, "order M = 1 is too low for dims = 2"),
        ([1.0], 1, "at least two coefficients"),
        ([0.0, 1.0], 1, "must be positive"),
        ([1.0, 2.0, -1.0], 1, "must be positive"),
        ([1.0, -3.0, 1.0], 1, "must be positive for z >= 0, but it is zero at or near z = 0.38"),
        ([1.0, -2.0, 1.0], 1, "zero at or near z = 1;"),
        ([1.0, np.nan, 1.0], 1, "must be finite"),
    ],
)
def test_refusals(a, dims, sentence):
    with pytest.raises(ValueError, match=sentence):
        Operator(np.array(a), dims)(np.zeros((2, dims)))


def test_columns_must_be_dims(rng):
    with pytest.raises(
        ValueError, match="is for inputs of 1 columns, but they have 3; give dims=3"
    ):
        Operator([1.0, 1.0])(rng.standard_normal((4, 3)))
    with pytest.raises(ValueError, match="inputs of 1 columns"):
        OrnsteinUhlenbeck()(rng.standard_normal((4, 3)))


def test_units():
    kernel = Operator(np.array([1.0, 2.0, 0.5]), 2)
    stated = kernel.in_units(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    assert isinstance(stated, Operator)
    np.testing.assert_allclose(at(stated, 3.0 * R, 2), at(kernel, R, 2), rtol=1e-10)


@pytest.mark.parametrize("a", [[4.6e-5, 2.6e3, 4.6e-5], [3.4e-5, 2.0e3, 9.4e-2], [1e-3, 1e5, 1e-4]])
def test_roots_of_very_different_size(a):
    """k(0) of a_0 + a_1 z + a_2 z^2 in closed form; also by the process on a line."""
    product = np.sqrt(a[0] / a[2])  # of the roots q
    exact = 0.5 / (a[2] * product * np.sqrt(a[1] / a[2] + 2.0 * product))
    kernel = Operator(np.array(a))
    assert kernel.diag(np.zeros((1, 1)))[0] == pytest.approx(exact, rel=1e-8)
    # P solves a linear system, which loses the digits by which the roots q are apart
    assert kernel.markov_process().blocks[0].P[0, 0] == pytest.approx(exact, rel=1e-6)
