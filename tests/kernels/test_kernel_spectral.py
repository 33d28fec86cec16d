"""Kernels by their power spectrum, against integrals and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import j0

import mercer
from mercer import GPRegressor
from mercer.kernels import RBF, Cosine, Kernel, Matern, PowerSpectrum, SpectralMixture
from mercer.kernels.stationary.spectral import sphere_mean
from mercer.testing import check_kernel

R = np.array([0.0, 0.01, 0.3, 1.0, 2.7, 6.0, 10.0])


def at(kernel, r, d=1):
    Z = np.zeros((len(r), d))
    Z[:, 0] = r
    return kernel(np.zeros((1, d)), Z)[0]


def gaussian(s):
    return np.exp(-2.0 * np.pi**2 * s**2)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_gaussian_spectrum_is_the_rbf_kernel(d):
    kernel = PowerSpectrum.of(gaussian, dims=d, reach=10.0, tol=1e-10)
    np.testing.assert_allclose(at(kernel, R, d), np.exp(-0.5 * R**2), atol=1e-10)


def test_heavier_tails_to_the_stated_accuracy():
    """Matern 7/2: its spectrum falls like s^-8, and what is cut off is below tol."""
    nu = 3.5

    def density(s):
        return (2.0 * nu + 4.0 * np.pi**2 * s**2) ** (-nu - 0.5)

    exact = at(Matern(nu=nu), R)
    for tol in (1e-4, 1e-8):
        kernel = PowerSpectrum.of(density, reach=10.0, tol=tol)
        assert np.abs(at(kernel, R) - exact).max() <= tol


def test_any_density_against_adaptive_integrals():
    def density(s):
        return s**2 * np.exp(-3.0 * s) * (1.0 + 0.5 * np.sin(4.0 * s))

    one = PowerSpectrum.of(density, reach=6.0, tol=1e-9)
    total = quad(density, 0.0, 40.0, epsabs=1e-13, limit=500)[0]
    two = PowerSpectrum.of(density, dims=2, reach=6.0, tol=1e-9)
    plane = quad(lambda s: s * density(s), 0.0, 40.0, epsabs=1e-13, limit=500)[0]
    for r in (0.2, 1.7, 5.9):
        wave = quad(density, 0.0, np.inf, weight="cos", wvar=2.0 * np.pi * r, limlst=200)[0]
        assert at(one, [r])[0] == pytest.approx(wave / total, abs=1e-8)
        ring = quad(
            lambda s, r=r: s * density(s) * j0(2.0 * np.pi * r * s), 0, 40, epsabs=1e-13, limit=2000
        )[0]
        assert at(two, [r], 2)[0] == pytest.approx(ring / plane, abs=1e-8)


@pytest.mark.parametrize("dims", [2, 3, 5])
def test_contract_in_more_dimensions(dims):
    check_kernel(PowerSpectrum(np.array([0.0, 0.4, 1.1]), np.array([0.5, 0.3, 0.2]), dims, 1.3))


def test_a_spectrum_that_jumps():
    kernel = PowerSpectrum.of(lambda s: np.where(s < 1.5, 1.0, 0.0), reach=8.0)
    np.testing.assert_allclose(at(kernel, R[:6]), np.sinc(3.0 * R[:6]), atol=1e-8)


def test_the_table_is_the_sum():
    """Many distances go through a table of Chebyshev polynomials: the same numbers."""
    kernel = PowerSpectrum.of(gaussian, dims=3, reach=5.0)
    s = np.linspace(0.0, 30.0, 3000)
    x = 2.0 * np.pi * np.outer(np.sqrt(s), kernel.frequencies)
    np.testing.assert_allclose(kernel.profile(s), np.sinc(x / np.pi) @ kernel.powers, atol=1e-12)
    np.testing.assert_allclose(kernel.slope(s[::30]), kernel.slope(s)[::30], atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_mean_of_a_wave_over_the_sphere(d):
    rng = np.random.default_rng(0)
    u = rng.standard_normal((100_000, d))
    first = u[:, 0] / np.linalg.norm(u, axis=1)
    x = np.array([0.0, 1e-4, 0.7, 4.0])
    drawn = np.cos(np.outer(x, first)).mean(axis=1)
    np.testing.assert_allclose(sphere_mean(d, x), drawn, atol=1e-2)
    assert sphere_mean(d, np.array([1e-3 * 0.999]))[0] == pytest.approx(
        float(sphere_mean(d, np.array([1e-3 * 1.001]))[0]), abs=1e-8
    )


@pytest.mark.parametrize(
    ("density", "given", "reason"),
    [
        (lambda s: 1.0 / (1.0 + s**2), {}, "too heavy"),
        (lambda s: 1.0 + 0.0 * s, {}, "not integrable"),
        (lambda s: np.sin(s), {}, "not negative"),
        (lambda s: 0.0 * s, {}, "no power"),
        (gaussian, {"tol": 0.0}, "tol"),
    ],
)
def test_densities_that_cannot_be_had(density, given, reason):
    with pytest.raises(ValueError, match=reason):
        PowerSpectrum.of(density, **given)


def test_refusals_of_the_kernel():
    with pytest.raises(ValueError, match="up to 1 columns"):
        PowerSpectrum(np.ones(1), np.ones(1))(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="as many"):
        PowerSpectrum(np.ones(2), np.ones(1))(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="positive sum"):
        PowerSpectrum(np.ones(2), np.zeros(2))(np.zeros((2, 1)))


def test_a_spectrum_is_searched_stored_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (40, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    kernel = 1.0 * PowerSpectrum.of(lambda s: s**2 * np.exp(-8.0 * s**2), reach=20.0)
    model = GPRegressor(kernel).fit(X, y)
    assert model.score(X, y) > 0.95
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(X[:5]), again.predict(X[:5]))


def test_a_mixture_is_the_formula():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    kernel = SpectralMixture.example()
    w, m, s = kernel.weights, kernel.means, kernel.scales
    r = X[:, None] - Z
    slow = np.zeros((6, 4))
    for q in range(2):  # Wilson and Adams (12)
        damp = np.exp(-2.0 * np.pi**2 * (r * s[q]) ** 2).prod(axis=2)
        slow += w[q] * damp * np.cos(2.0 * np.pi * r * m[q]).prod(axis=2)
    np.testing.assert_allclose(kernel(X, Z), slow, atol=1e-14)


def test_a_mixture_is_the_spectrum_of_its_density():
    def density(s):
        return np.exp(-50.0 * (s - 0.5) ** 2) + np.exp(-50.0 * (s + 0.5) ** 2)

    mixture = SpectralMixture(np.array([1.0]), np.array([0.5]), np.array([0.1]))
    spectrum = PowerSpectrum.of(density, reach=10.0)
    np.testing.assert_allclose(at(mixture, R), at(spectrum, R), atol=1e-8)
    form = RBF(1.0 / (0.2 * np.pi)) * Cosine(2.0)
    np.testing.assert_allclose(at(mixture, R), at(form, R), atol=1e-14)


def test_a_mixture_starts_at_the_peaks_and_finds_two_waves():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 20.0, 120))
    y = np.sin(2.0 * np.pi * 0.35 * x) + 0.6 * np.cos(2.0 * np.pi * 0.8 * x)
    start = SpectralMixture.of(x, y, 2)
    np.testing.assert_allclose(np.sort(start.means), [0.35, 0.8], atol=0.02)
    keep = x < 15.0
    model = GPRegressor(start).fit(x[keep, None], y[keep] + 0.05 * rng.standard_normal(keep.sum()))
    far = model.predict(x[~keep, None])  # extrapolated over three waves and more
    assert np.sqrt(np.mean((far - y[~keep]) ** 2)) < 0.2


def test_refusals_of_a_mixture():
    with pytest.raises(ValueError, match="means and scales"):
        SpectralMixture(np.ones(2), np.ones(2), np.ones(3))(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="must be positive"):
        SpectralMixture(np.ones(1), np.zeros(1), np.ones(1))(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="needs its weights"):
        Kernel.by_name("spectral_mixture")
