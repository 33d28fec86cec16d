"""The kernel of periodic splines: Bernoulli polynomials against their Fourier series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import bernoulli as numbers
from scipy.special import zeta

from mercer import GPRegressor
from mercer.kernels import PeriodicSpline
from mercer.kernels.operators.splines import bernoulli
from mercer.losses import Gaussian
from mercer.testing import check_kernel


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_fourier_series(m: int, rng: np.random.Generator) -> None:
    x, period = rng.uniform(-20, 20, (6, 1)), 3.7
    j = np.arange(1, 200_001 if m == 1 else 3001)
    angle = 2 * np.pi * (x - x.T)[:, :, None] / period
    series = np.zeros((6, 6))
    for part in np.array_split(j, 50):
        series += (np.cos(angle * part) / part ** (2.0 * m)).sum(axis=2)
    series /= zeta(2 * m)
    tolerance = 1e-5 if m == 1 else 1e-11
    np.testing.assert_allclose(PeriodicSpline(period, m)(x), series, atol=tolerance)


def test_bernoulli_polynomials() -> None:
    for n in range(1, 9):
        coefficients = [float(c) for c in bernoulli(n)]
        assert coefficients[0] == pytest.approx(numbers(n)[n] if n > 1 else -0.5, abs=1e-9)
        u = np.polynomial.Polynomial(coefficients)  # B_n(1 + u) - B_n(u) = n u^(n - 1)
        assert u(1.3) - u(0.3) == pytest.approx(n * 0.3 ** (n - 1), rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_reproduces_the_penalty(m: int, rng: np.random.Generator) -> None:
    """<k(., x), k(., z)> = k(x, z), the inner product the integral of m-th derivatives."""
    period, x, z = 2.3, 0.4, 1.9
    kernel = PeriodicSpline(period, m)
    raw = np.polynomial.Polynomial([float(c) for c in bernoulli(2 * m)]).deriv(m)

    def derivative(t: float, at: float) -> float:
        u = (t - at) / period % 1.0
        return float(raw(u)) / float(bernoulli(2 * m)[0]) / period**m

    pieces = sorted([0.0, x, z, period])
    total = sum(
        quad(lambda t: derivative(t, x) * derivative(t, z), low, high)[0]
        for low, high in pairwise(pieces)
    )
    v = kernel.penalty_variance()
    assert v**2 * total == pytest.approx(v * kernel(np.array([[x]]), np.array([[z]]))[0, 0])


@pytest.mark.parametrize("m", [1, 2, 4])
def test_contract_of_other_orders(m: int) -> None:
    check_kernel(PeriodicSpline(period=0.9, order=m))


def test_whole_periods_apart() -> None:
    x = np.array([[0.0], [3.0], [6.0], [7.5]])
    K = PeriodicSpline(3.0, 1)(x)
    np.testing.assert_allclose(K[:3, :3], 1.0, atol=1e-15)
    assert K[0, 3] == pytest.approx(-0.5)
    slope = PeriodicSpline(3.0, 1).pullback(x[:3], None, np.ones((3, 3)))["period"]
    assert slope == 0.0  # a kink: neither side is preferred


def test_is_the_periodic_smoothing_spline(rng: np.random.Generator) -> None:
    """On an even grid the smoother is diagonal in the discrete Fourier basis (Craven, Wahba)."""
    n, period, m, lam = 32, 4.0, 2, 1e-3
    x = np.arange(n) * period / n
    y = np.sin(2 * np.pi * x / period) + 0.3 * rng.normal(size=n) + 5.0
    kernel = PeriodicSpline(period, m)
    variance, noise = 2.0, 2.0 * lam / kernel.penalty_variance()
    model = GPRegressor(
        (variance * kernel).fix(), basis="constant", loss=Gaussian(noise=noise), search=None
    ).fit(x[:, None], y)
    frequency = np.fft.fftfreq(n, 1.0 / n)
    j = np.arange(-2000, 2001)
    aliased = np.array([np.sum(_powers(f + n * j, m)) for f in frequency])
    aliased *= n * period ** (2 * m - 1)  # eigenvalues of the reproducing kernel on the grid
    shrink = aliased / (aliased + lam)
    shrink[0] = 1.0
    fitted = np.fft.ifft(shrink * np.fft.fft(y)).real
    np.testing.assert_allclose(model.predict(x[:, None]), fitted, rtol=1e-8)
    np.testing.assert_allclose(
        model.predict(x[:, None] + 7 * period), model.predict(x[:, None]), rtol=1e-9
    )


def _powers(f: np.ndarray, m: int) -> np.ndarray:
    safe = np.where(f == 0, 1.0, f)
    return np.where(f == 0, 0.0, (2 * np.pi * np.abs(safe)) ** (-2.0 * m))


def test_period_is_found(rng: np.random.Generator) -> None:
    x = np.sort(rng.uniform(0, 30, 90))
    y = np.abs(np.sin(np.pi * x / 2.5)) + 0.05 * rng.normal(size=90)
    kernel = 1.0 * PeriodicSpline(period=2.4).bound(period=(2.2, 2.8))
    model = GPRegressor(kernel, basis="constant").fit(x[:, None], y)
    assert model.kernel_.kernel.period == pytest.approx(2.5, abs=0.01)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="one column, and the inputs have 2"):
        PeriodicSpline()(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="order must be an integer"):
        PeriodicSpline(order=0)(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="period must be positive"):
        PeriodicSpline(period=-1.0)(np.zeros((3, 1)))
