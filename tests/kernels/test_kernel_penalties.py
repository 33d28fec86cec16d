"""Tension splines, splines on the sphere and infinite networks, against integrals and series."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_legendre

import mercer
from mercer import GPRegressor
from mercer.kernels import RBF, Operator, RBFNetwork, SphereSpline, Spline, TensionSpline
from mercer.losses import Gaussian
from mercer.testing import check_kernel


def test_a_tension_kernel_is_the_twice_integrated_slope():
    kernel, slope = TensionSpline(np.array([0.7, 2.0, 0.3]), 0.0), Operator([0.7, 2.0, 0.3])

    t, w = np.polynomial.legendre.leggauss(80)
    for x, z in ((1.3, 0.6), (-0.8, 0.9), (-1.0, -0.4)):
        u, v = 0.5 * x * (t + 1.0), 0.5 * z * (t + 1.0)
        wanted = 0.25 * x * z * w @ slope(u[:, None], v[:, None]) @ w
        assert kernel(np.array([[x]]), np.array([[z]]))[0, 0] == pytest.approx(wanted, abs=1e-8)


def test_a_tension_spline_minimises_its_penalty():
    """Natural boundary conditions and the Euler equation of a_1 f'^2 + a_2 f''^2, by collocation.

    Between the points f = A + B x + C e^(t x) + D e^(-t x); f, f', f'' are continuous, f''' jumps,
    and beyond the ends f' dies away like e^(-t r). Penalty plus squared residuals are least.
    """
    x, y = np.array([0.0, 0.7, 1.5, 3.0]), np.array([0.3, 1.0, -0.5, 0.4])
    a1, a2, noise = 2.0, 0.5, 0.1
    t = np.sqrt(a1 / a2)

    def rows(u):
        up, down = np.exp(t * u), np.exp(-t * u)
        value = [1.0, u, up, down]
        first = [0.0, 1.0, t * up, -t * down]
        second = [0.0, 0.0, t**2 * up, t**2 * down]
        third = [0.0, 0.0, t**3 * up, -(t**3) * down]
        return np.array([value, first, second, third])

    n = len(x)
    A, b = np.zeros((4 * (n - 1), 4 * (n - 1))), np.zeros(4 * (n - 1))
    line = 0

    def put(piece, row, sign=1.0):
        A[line, 4 * piece : 4 * piece + 4] += sign * row

    for i, u in enumerate(x):
        here, left, right = rows(u), i - 1, i
        if 0 < i < n - 1:
            for j in range(3):
                put(left, here[j])
                put(right, here[j], -1.0)
                line += 1
        else:
            put(min(right, n - 2), here[2] - (t if i == 0 else -t) * here[1])
            line += 1
        # a_1 f' - a_2 f''' falls by (y - f) / noise over a point, and is zero outside
        flux = a1 * here[1] - a2 * here[3]
        if i:
            put(left, flux)
        if i < n - 1:
            put(right, flux, -1.0)
        put(min(right, n - 2), here[0], 1.0 / noise)
        b[line] = y[i] / noise
        line += 1
    c = np.linalg.solve(A, b).reshape(n - 1, 4)
    model = GPRegressor(
        TensionSpline(np.array([a1, a2])), loss=Gaussian(noise), basis="constant", search=None
    ).fit(x[:, None], y)
    at = np.linspace(0.0, 3.0, 13)
    piece = np.clip(np.searchsorted(x, at, side="right") - 1, 0, n - 2)
    wanted = [rows(u)[0] @ c[p] for u, p in zip(at, piece, strict=True)]
    np.testing.assert_allclose(model.predict(at[:, None]), wanted, atol=1e-9)
    other = GPRegressor(
        TensionSpline(np.array([a1, a2]), origin=1.1),
        loss=Gaussian(noise),
        basis="constant",
        search=None,
    ).fit(x[:, None], y)
    np.testing.assert_allclose(other.predict(at[:, None]), wanted, atol=1e-9)
    assert other.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-9)


def test_limits_of_a_tension_spline():
    """Much tension is a linear spline, little a cubic one with its straight line."""
    x = np.linspace(0.0, 4.0, 9)[:, None]
    strong = TensionSpline(np.array([1.0, 1e-8]))(x)
    np.testing.assert_allclose(strong, Spline(1)(x), atol=1e-3)
    y, at = np.sin(2.0 * x[:, 0]), np.linspace(0.0, 4.0, 21)[:, None]
    weak = GPRegressor(
        TensionSpline(np.array([1e-7, 1.0])), loss=Gaussian(0.01), basis="constant", search=None
    ).fit(x, y)
    cubic = GPRegressor(Spline(2), loss=Gaussian(0.01), basis=1, search=None).fit(x, y)
    np.testing.assert_allclose(weak.predict(at), cubic.predict(at), atol=1e-4)


def test_tension_is_searched_and_stored(tmp_path):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 6.0, 40))[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(40)
    model = GPRegressor(TensionSpline(np.array([1.0, 1.0])), basis="constant").fit(x, y)
    assert model.score(x, y) > 0.95
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(x), model.predict(x))


def test_tension_refusals():
    with pytest.raises(ValueError, match=r"TensionSpline\(\[1.0, 1.0\]\)"):
        Operator([0.0, 1.0, 1.0])(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="Spline"):
        TensionSpline(np.array([1.0]))(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="one column"):
        TensionSpline(np.array([1.0, 1.0]))(np.zeros((2, 2)))


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_sphere_is_its_series(order):
    z = np.array([1.0, 0.999, 0.4, 0.0, -0.7, -1.0])
    level = np.arange(1, 3000)
    xi = 1.0 / (level + 0.5)
    for j in range(1, 2 * order):
        xi = xi / (level + j)
    series = ((2 * level + 1) / (4.0 * np.pi) * xi) @ eval_legendre(level[:, None], z)
    places = np.column_stack([np.sqrt(1.0 - z**2), 0.0 * z, z])
    found = SphereSpline(order)(np.array([[0.0, 0.0, 1.0]]), places)[0]
    np.testing.assert_allclose(found, series, rtol=1e-7, atol=1e-11 if order > 2 else 2e-8)


def test_a_sphere_in_degrees_turns_round():
    check_kernel(SphereSpline(3))
    places = np.array([[10.0, 179.0], [10.0, -181.0], [10.0, 539.0], [90.0, 5.0], [90.0, 130.0]])
    K = SphereSpline()(places)
    np.testing.assert_allclose(K[:3, :3], K[0, 0], rtol=1e-12)
    np.testing.assert_allclose(K[3:, 3:], K[0, 0], rtol=1e-12)
    with pytest.raises(ValueError, match="latitude and longitude"):
        SphereSpline()(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="direction"):
        SphereSpline()(np.zeros((2, 3)))


def test_a_field_on_the_globe(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-80.0, 80.0, 80), rng.uniform(-180.0, 180.0, 80)])
    field = 10.0 + np.sin(np.deg2rad(X[:, 0])) + 0.5 * np.cos(np.deg2rad(2.0 * X[:, 1]))
    model = GPRegressor(1.0 * SphereSpline(), basis="constant").fit(X[:60], field[:60])
    assert model.score(X[60:], field[60:]) > 0.9
    seam = model.predict(np.array([[20.0, 180.0], [20.0, -180.0]]))
    assert seam[0] == pytest.approx(seam[1], abs=1e-9)
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(X), model.predict(X))


def test_an_infinite_network_is_the_mean_over_its_units():
    width, spread = 0.8, 1.5
    kernel = RBFNetwork(width, spread)

    def product(c, x, z):
        units = np.exp(-((x - c) ** 2) / (2 * width**2)) * np.exp(-((z - c) ** 2) / (2 * width**2))
        return units * np.exp(-0.5 * (c / spread) ** 2) / (spread * np.sqrt(2.0 * np.pi))

    pairs = [(0.0, 0.0), (0.7, -0.4), (2.0, 1.5)]
    for x, z in pairs:
        wanted = quad(product, -20.0, 20.0, args=(x, z), epsabs=1e-13)[0]
        assert kernel(np.array([[x]]), np.array([[z]]))[0, 0] == pytest.approx(wanted, rel=1e-9)
    plane = kernel(np.array([[0.7, 2.0]]), np.array([[-0.4, 1.5]]))[0, 0]  # columns are independent
    each = [quad(product, -20.0, 20.0, args=pair, epsabs=1e-13)[0] for pair in pairs[1:]]
    assert plane == pytest.approx(each[0] * each[1], rel=1e-9)


def test_a_wide_network_is_an_rbf():
    X = np.random.default_rng(0).standard_normal((6, 2))
    wide = RBFNetwork(0.7, 1e4)
    correlation = wide(X) / wide.diag(X)[0]
    np.testing.assert_allclose(correlation, RBF(0.7 * np.sqrt(2.0))(X), atol=1e-6)
