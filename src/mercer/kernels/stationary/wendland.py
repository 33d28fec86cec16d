"""Kernels of compact support."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import Stationary


class Wendland(Stationary):
    """Piecewise polynomial kernel: zero beyond one length scale, positive definite up to D = dims.

    With r the scaled distance, j = floor(dims / 2) + smoothness + 1 and (1 - r)_+ = max(1 - r, 0):

    ==========  ================================================================
    smoothness  k
    ==========  ================================================================
    0           (1 - r)_+^j
    1           (1 - r)_+^(j+1) ((j+1) r + 1)
    2           (1 - r)_+^(j+2) ((j^2+4j+3) r^2 + (3j+6) r + 3) / 3
    3           (1 - r)_+^(j+3) ((j^3+9j^2+23j+15) r^3 + (6j^2+36j+45) r^2 + (15j+45) r + 15) / 15
    ==========  ================================================================

    The functions have ``smoothness`` mean-square derivatives.

    Parameters
    ----------
    dims : int, default=3; the largest number of columns on which the kernel is used, 1 or more.
    smoothness : {0, 1, 2, 3}, default=1; number of mean-square derivatives; not searched.
    length_scale : float or array (d,), default=1.0; positive radius of the support, in input units.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.21);
    Wendland, Scattered Data Approximation (2005), section 9.4.

    Examples
    --------
    >>> Wendland(dims=1)(np.array([[0.0]]), np.array([[0.5], [1.5]]))
    array([[0.3125, 0.    ]])
    """

    def __init__(
        self, dims: int = 3, smoothness: int = 1, length_scale: float | Array = 1.0
    ) -> None:
        self.dims, self.smoothness, self.length_scale = dims, smoothness, length_scale

    def profile(self, s: Array) -> Array:
        j, q = self._orders()
        return piecewise(j, q, np.sqrt(s))

    def slope(self, s: Array) -> Array:
        # dk_q/dr = -c_q r k_{q-1}(r) with the same j, hence dk_q/ds = -c_q k_{q-1} / 2
        j, q = self._orders()
        r = np.sqrt(s)
        if q == 0:
            steep = j * np.maximum(1.0 - r, 0.0) ** (j - 1) * (r < 1.0)
            return np.asarray(np.divide(-0.5 * steep, r, out=np.zeros_like(r), where=r > 0.0))
        c = {1: (j + 1) * (j + 2), 2: (j + 3) * (j + 4) / 3.0, 3: (j + 5) * (j + 6) / 5.0}[q]
        return -0.5 * c * piecewise(j, q - 1, r)

    def _orders(self) -> tuple[int, int]:
        q = whole(self, "smoothness", 0)
        if q > 3:
            raise ValueError(f"Wendland: smoothness must be 0, 1, 2 or 3, got {q}")
        return whole(self, "dims", 1) // 2 + q + 1, q

    def _scaled(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        X, Z, same = super()._scaled(X, Z)
        if X.shape[1] > whole(self, "dims", 1):
            what = f"Wendland(dims={self.dims}) is positive definite on at most {self.dims} columns"
            raise ValueError(f"{what}, but the inputs have {X.shape[1]}; give dims={X.shape[1]}")
        return X, Z, same


def piecewise(j: int, q: int, r: Array) -> Array:
    """Return the piecewise polynomial of smoothness q and order j at r (see :class:`Wendland`)."""
    inside = np.maximum(1.0 - r, 0.0) ** (j + q)
    if q == 0:
        return np.asarray(inside)
    series = {  # lowest power first
        1: [1.0, j + 1.0],
        2: [1.0, j + 2.0, (j * j + 4 * j + 3) / 3.0],
        3: [1.0, j + 3.0, (6 * j**2 + 36 * j + 45) / 15.0, (j**3 + 9 * j**2 + 23 * j + 15) / 15.0],
    }[q]
    return np.asarray(inside * np.polynomial.polynomial.polyval(r, series))
