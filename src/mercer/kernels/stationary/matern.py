"""Matern kernels: as many derivatives as the caller asks for."""

from __future__ import annotations

from math import factorial
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Names
from mercer.kernels.base import Gradient, inner, positive
from mercer.kernels.markov import Block, MarkovProcess, Slopes, StateSpace, matern_block
from mercer.kernels.stationary.base import Stationary

_NATIVE = {0.5: 1, 1.5: 2, 2.5: 3}
_LARGEST = 100.0
_STATES = 8  # the most that a process of its own may have on a line: nu = 15/2
_POLYNOMIAL = 20.5  # the largest nu for which the factorials of (4.16) lose no digits
# There exp(-r) has made the kernel zero for every nu allowed; the Bessel routine ends near 1e9.
_FAR = 5000.0


class Matern(Stationary):
    """Matern kernel of smoothness nu: its functions have as many derivatives as integers below nu.

    With r = sqrt(2 nu s) and s the squared scaled distance,

        k = 2^(1 - nu) / Gamma(nu) r^nu K_nu(r),

    which for nu = 1/2, 3/2, 5/2 is exp(-r), (1 + r) exp(-r), (1 + r + r^2 / 3) exp(-r). As nu
    grows it tends to the RBF kernel.

    Parameters
    ----------
    nu : float, default=1.5; smoothness, 0 < nu <= 100, without units; not searched.
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equations (4.14) and (4.17).

    Examples
    --------
    >>> Matern(nu=0.5)(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    names: ClassVar[Names] = {
        "matern12": lambda: Matern(nu=0.5),
        "matern32": lambda: Matern(nu=1.5),
        "matern52": lambda: Matern(nu=2.5),
    }

    def __init__(self, nu: float = 1.5, length_scale: float | Array = 1.0) -> None:
        self.nu, self.length_scale = nu, length_scale

    @property
    def expects(self) -> str:
        return {
            0.5: "rough functions without jumps",
            1.5: "functions without corners whose slope may change suddenly",
            2.5: "smooth functions of the inputs that may bend quickly",
        }.get(self.nu, "")

    @property
    def native(self) -> int | None:
        return _NATIVE.get(self._smoothness())

    def profile(self, s: Array) -> Array:
        nu = self._smoothness()
        return self._correlation(nu, np.sqrt(2.0 * nu * s))

    @staticmethod
    def _correlation(nu: float, r: Any) -> Array:
        """Return :func:`bessel_profile`, of formulas and on a device, without it, where it is."""
        if isinstance(r, np.ndarray) or nu % 1.0 != 0.5 or nu > _POLYNOMIAL:
            return bessel_profile(nu, r)
        return half_integer_profile(nu, r)

    def slope(self, s: Array) -> Array:
        # d/dr [r^nu K_nu(r)] = -r^nu K_{nu-1}(r) and dr/ds = nu / r
        nu = self._smoothness()
        r: Any = np.sqrt(2.0 * nu * s)
        if nu > 1.0:
            return -0.5 * nu / (nu - 1.0) * self._correlation(nu - 1.0, r)
        from scipy.special import gamma, kve

        positive = r > 0.0
        if nu == 0.5 and not isinstance(r, np.ndarray):
            r = np.where(positive, r, 1.0)
            return np.where(positive, -0.5 * np.exp(-r) / r, 0.0)
        r = np.where(positive, np.minimum(r, _FAR), 1.0)
        steep = 2.0 ** (1.0 - nu) / gamma(nu) * nu * r ** (nu - 1.0) * kve(nu - 1.0, r) * np.exp(-r)
        return np.where(positive, -steep, 0.0)

    def state_space(self) -> StateSpace | None:
        order = self.native
        if order is None or np.size(self.length_scale) != 1:
            return None
        rate = np.sqrt(2.0 * order - 1.0) / np.ravel(positive(self, "length_scale", 1))
        return StateSpace(np.array([order], dtype=np.int32), rate, np.ones(1))

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        slope = -rates[0] / self.length_scale
        return {"length_scale": np.reshape(slope, np.shape(self.length_scale))}

    def markov_process(self) -> MarkovProcess | None:
        nu = self._smoothness()
        if nu % 1.0 != 0.5 or nu > _STATES or np.size(self.length_scale) != 1:
            return None
        rate, unit = self._rate(), matern_block(int(nu + 0.5))
        return MarkovProcess((Block(rate * unit.F, rate * unit.N, unit.P),))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        # F is proportional to 1 / length_scale, and P, of scaled derivatives, does not change
        rate, unit = self._rate(), matern_block(int(self.nu + 0.5))
        slope = -inner(slopes[0][0], rate * unit.F) / np.asarray(self.length_scale, dtype=float)
        return {"length_scale": float(slope) if np.ndim(slope) == 0 else slope}

    def _rate(self) -> float:
        return float(np.sqrt(2.0 * self.nu) / np.ravel(positive(self, "length_scale", 1))[0])

    def _smoothness(self) -> float:
        nu: Any = self.nu
        if not (isinstance(nu, (int, float, np.number)) and 0.0 < nu <= _LARGEST):
            remedy = "RBF is the kernel of unlimited smoothness"
            raise ValueError(f"Matern: nu must lie in (0, {_LARGEST:g}], got {nu!r}; {remedy}")
        return float(nu)


def half_integer_profile(nu: float, r: Array) -> Array:
    """Return :func:`bessel_profile` for nu = p + 1/2 by GPML (4.16).

    e^-r p!/(2p)! sum_i (p + i)! / (i! (p - i)!) (2 r)^(p - i).
    """
    p = int(nu)
    terms = [
        factorial(p) / factorial(2 * p) * factorial(2 * p - j) / factorial(p - j) / factorial(j)
        for j in range(p + 1)
    ]
    return np.exp(-r) * np.polynomial.polynomial.polyval(2.0 * r, terms)


def bessel_profile(nu: float, r: Array) -> Array:
    """Return 2^(1 - nu) / Gamma(nu) r^nu K_nu(r), which is one at r = 0; nu > 0, r >= 0.

    Computed in logarithms, so that neither factor overflows. Where K_nu itself does (r near 0) by
    the ascending series, whose singular part is below 1e-600 (Abramowitz and Stegun 9.6.2, 9.6.10).
    """
    from scipy.special import gammaln, kve

    r = np.minimum(r, _FAR)
    bessel = kve(nu, r)
    near = ~np.isfinite(bessel)
    safe = np.where(near, 1.0, r)
    bessel[near] = 1.0
    k = np.exp(nu * np.log(safe) - safe + np.log(bessel) + ((1.0 - nu) * np.log(2.0) - gammaln(nu)))
    if near.any():
        z = -0.25 * r[near] ** 2
        term, total = np.ones_like(z), np.ones_like(z)
        for i in range(1, min(8, int(np.ceil(nu)) - 1) + 1):
            term = term * z / (i * (nu - i))
            total = total + term
        k[near] = total
    return np.asarray(np.minimum(k, 1.0))  # a correlation: rounding may have left 1 + 1e-14
