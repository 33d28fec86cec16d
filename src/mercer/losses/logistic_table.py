"""The logistic averaged over Gaussians of a few variances, tabled for many thousand means each.

log A(-x), A(m) = ``mixture(m, v)``, in cells of equal width; A(x) = 1 - A(-x). In a cell it is the
polynomial of degree 7 with the values and three derivatives at both ends, to 1e-12 of A; past the
last cell, where A is below 1e-16, the parabola at its end.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

from mercer.arrays import Array
from mercer.losses.logistic_average import MASS, RATE

WIDTH = 0.3  # of a cell, in deviations of the narrowest Gaussian of the mixture
CELLS = int(np.ceil(8.5 * RATE.max() / RATE.min() / WIDTH))  # until the widest is below 1e-16
# coefficients 4 to 7 from what is left at the far end: of the value and of each derivative
_REST = np.array(
    [
        [35.0, -15.0, 5.0 / 2.0, -1.0 / 6.0],
        [-84.0, 39.0, -7.0, 1.0 / 2.0],
        [70.0, -34.0, 13.0 / 2.0, -1.0 / 2.0],
        [-20.0, 10.0, -2.0, 1.0 / 6.0],
    ]
)
# value and derivatives at the far end of the first four powers
_FAR = np.array(
    [[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 2.0, 6.0], [0.0, 0.0, 0.0, 6.0]]
)
_FACTORIALS = np.array([1.0, 1.0, 2.0, 6.0])


def tables(v: Array) -> tuple[Array, Array]:
    """Return the coefficients (b, CELLS + 1, 8), lowest power first, and 1 / width (b,); v (b,)."""
    s = RATE / np.sqrt(1.0 + RATE**2 * v[:, None])  # (b, 6)
    width = WIDTH / s.max(axis=1)
    x = np.arange(CELLS + 1.0) * width[:, None]  # (b, cells)
    jets = _log_jets(x, s) * width[:, None, None] ** np.arange(4)
    found = np.zeros((len(v), CELLS + 1, 8))
    found[:, :, :4] = jets / _FACTORIALS
    near = found[:, :-1, :4]
    found[:, :-1, 4:] = (jets[:, 1:] - near @ _FAR.T) @ _REST.T
    found[:, -1, 3] = 0.0
    return found, 1.0 / width


def _log_jets(x: Array, s: Array) -> Array:
    """log A(-x) and its three derivatives in x, (b, cells, 4); x (b, cells) >= 0, s (b, 6).

    A(-x) = sum_i MASS_i Phi(-s_i x), by which the slowest exponential is divided: it underflows.
    """
    slowest = 0.5 * (s.min(axis=1)[:, None] * x) ** 2
    value, first, second, third = np.zeros((4, *x.shape))
    for i, mass in enumerate(MASS / MASS.sum()):
        own = s[:, i, None]
        z = own * x
        fall = mass * np.exp(slowest - 0.5 * z**2)
        value += 0.5 * fall * erfcx(np.sqrt(0.5) * z)
        fall *= np.sqrt(0.5 / np.pi) * own
        first -= fall
        second += fall * own * z
        third += fall * own**2 * (1.0 - z**2)
    first, second, third = first / value, second / value, third / value
    curvature = second - first**2
    bend = third - 3.0 * first * second + 2.0 * first**3
    return np.stack([np.log(value) - slowest, first, curvature, bend], axis=2)
