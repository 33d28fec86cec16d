"""Stationary kernels: the compiled path equals the plain one, limits, units, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.kernels import assert_pullback

from mercer.core.component import POSITIVE
from mercer.kernels import RBF, Linear, Matern, Periodic, RationalQuadratic, Stationary, Wendland
from mercer.kernels.stationary.matern import bessel_profile

ARD = np.array([0.7, 1.4, 2.3])


def plain(kernel):
    """The same kernel without the compiled profile."""

    class Plain(type(kernel)):
        native = None

    again = Plain.__new__(Plain)
    again.__dict__.update(kernel.__dict__)
    return again


@pytest.mark.parametrize("scale", [0.8, ARD], ids=["tied", "ard"])
@pytest.mark.parametrize("n", [3, 128, 300])
@pytest.mark.parametrize("make", [RBF, *(lambda s, nu=nu: Matern(nu, s) for nu in (0.5, 1.5, 2.5))])
def test_compiled_equals_plain(make, n, scale, rng):
    kernel = make(scale)
    X, Z = rng.standard_normal((n, 3)), rng.standard_normal((150, 3))
    X[1] = X[0]
    Q = rng.standard_normal((n, n))
    for Y, weights in ((None, Q + Q.T), (Z, rng.standard_normal((n, 150)))):
        np.testing.assert_allclose(kernel(X, Y), plain(kernel)(X, Y), rtol=1e-12, atol=1e-15)
        fast = kernel._value_and_pullback(X, Y, weights)
        slow = plain(kernel)._value_and_pullback(X, Y, weights)
        size = np.abs(weights).sum()
        assert abs(fast[0] - slow[0]) < 1e-13 * size
        np.testing.assert_allclose(
            fast[1]["length_scale"], slow[1]["length_scale"], rtol=1e-10, atol=1e-13 * size
        )


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_general_matern_equals_the_closed_forms(nu, rng):
    s = np.concatenate([[0.0], 10.0 ** rng.uniform(-30, 3, 400)])
    r = np.sqrt(2 * nu * s)
    polynomial = {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[nu]
    kernel = Matern(nu)
    np.testing.assert_allclose(kernel.profile(s), polynomial * np.exp(-r), rtol=1e-11, atol=1e-300)
    X, near = np.sqrt(s)[:, None], np.zeros((1, 1))
    np.testing.assert_allclose(kernel(X, near)[:, 0], kernel.profile(s), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("nu", [0.05, 0.5, 1.0, 2.0, 7.3, 30.0, 100.0])
def test_matern_limits(nu):
    r = np.array([0.0, 1e-300, 1e-160, 1e-30, 1e-8, 1e-3, 0.05, 1.0, 30.0, 1e3, 1e5, 1e12])
    k = bessel_profile(nu, r)
    assert np.isfinite(k).all()
    assert (k >= 0).all()
    assert k[0] == 1.0
    assert (np.diff(k) <= 1e-13).all()
    kernel = Matern(nu)
    s = r**2 / (2 * nu)
    slope = kernel.slope(s)
    assert np.isfinite(slope[s < 1e300]).all()
    middle = (r > 1e-4) & (r < 100)
    h = 1e-3
    numeric = (kernel.profile(s * (1 + h)) - kernel.profile(s * (1 - h))) / (2 * h)
    np.testing.assert_allclose((slope * s)[middle], numeric[middle], rtol=1e-5, atol=1e-9)


def test_matern_tends_to_rbf(rng):
    X = rng.standard_normal((10, 2))
    assert np.abs(Matern(100.0)(X) - RBF()(X)).max() < 3e-3
    with pytest.raises(ValueError, match=r"nu must lie in \(0, 100\].*RBF"):
        Matern(nu=1000)(X)


def test_rational_quadratic_tends_to_rbf(rng):
    X = rng.standard_normal((10, 2))
    np.testing.assert_allclose(RationalQuadratic(alpha=1e9)(X), RBF()(X), atol=1e-8)


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_wendland_is_positive_definite(dims, q, rng):
    kernel = Wendland(dims, q, 1.5)
    X = rng.uniform(-1.0, 1.0, (60, dims))
    assert np.linalg.eigvalsh(kernel(X))[0] > -1e-10
    assert kernel(X, X + 4.0).max() == 0.0
    Q = rng.standard_normal((60, 60))
    # a small step, since some derivative jumps at the edge of the support
    assert_pullback(kernel, X, None, Q + Q.T, step=1e-6)


def test_wendland_needs_enough_dims(rng):
    with pytest.raises(ValueError, match=r"at most 2 columns, but the inputs have 3; give dims=3"):
        Wendland(dims=2)(rng.standard_normal((4, 3)))
    with pytest.raises(ValueError, match="smoothness must be 0, 1, 2 or 3"):
        Wendland(smoothness=4)(rng.standard_normal((4, 3)))


def test_number_of_length_scales_is_named(rng):
    with pytest.raises(ValueError, match="length_scale has 2 entries but the inputs have 3 col"):
        RBF(np.ones(2))(rng.standard_normal((4, 3)))
    with pytest.raises(ValueError, match=r"length_scale must be positive, got -1\.0"):
        RBF(-1.0)(rng.standard_normal((4, 3)))
    with pytest.raises(ValueError, match="X has 3 columns but Z has 2"):
        RBF()(rng.standard_normal((4, 3)), rng.standard_normal((4, 2)))


def test_units_keep_a_shared_scale_where_they_can():
    shift = np.array([1.0, 2.0])
    assert RBF(2.0).in_units(shift, np.array([3.0, 3.0])) == RBF(6.0)
    assert RBF(2.0).in_units(shift, np.array([3.0, 5.0])) == RBF(np.array([6.0, 10.0]))
    assert Periodic(2.0, 0.5).in_units(shift, np.array([3.0, 3.0])) == Periodic(6.0, 0.5)
    linear = Linear(2.0).in_units(shift, np.array([2.0, 2.0]))
    assert linear == Linear(0.5, centre=shift)


def test_units_keep_what_is_fixed_and_drop_what_was_in_other_units():
    kernel = RBF(2.0).fix("length_scale").bound(length_scale=(1.0, 3.0))
    stated = kernel.in_units(np.zeros(1), np.array([10.0]))
    assert stated.free == {}
    assert stated.mark("length_scale").bounds is None
    assert kernel.mark("length_scale").bounds == (1.0, 3.0)


def test_a_new_stationary_kernel_is_two_functions(rng):
    class Cauchy(Stationary):
        def profile(self, s):
            return 1.0 / (1.0 + s)

        def slope(self, s):
            return -1.0 / (1.0 + s) ** 2

    X, Z, Q = (rng.standard_normal(shape) for shape in ((9, 3), (4, 3), (9, 9)))
    assert Cauchy().free == {"length_scale": POSITIVE}
    assert_pullback(Cauchy(ARD), X, None, Q + Q.T)
    assert_pullback(2.0 * Cauchy(1.3).on([0, 2]), X, Z, Q[:, :4])


def test_distances_do_not_cancel():
    """Two points 1e-6 apart, a million away from the origin."""
    X = np.array([[1e6], [1e6 + 1e-6]])
    gap = float(X[1, 0] - X[0, 0]) * 2.0**20
    np.testing.assert_allclose(RBF(2.0**-20)(X)[0, 1], np.exp(-0.5 * gap**2), rtol=1e-9)
