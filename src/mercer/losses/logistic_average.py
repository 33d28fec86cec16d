"""The logistic averaged over a Gaussian, E[sigma(z)] for z ~ N(m, v): to all digits, or to 1e-7.

To all digits by two trapezoid sums, each exact to rounding on its side: over z for a narrow
Gaussian, and over the logistic's own density for a wide one, where P = E_u[Phi((m + u)/sqrt(v))]
with u logistic. Gauss-Hermite errs by 1e-2 at v = 100.

To 1e-7, for many thousand values at a time: sigma(x) = sum_i MASS_i Phi(RATE_i x) to 9e-8, the
logistic as a scale mixture of Gaussians, whose average is closed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr

from mercer.arrays import Array

STEP = 0.5  # of the sum over u, in which the density is analytic in a strip of width pi
_T = np.arange(-9.0, 9.125, 0.25)
_WT = np.exp(-0.5 * _T**2) / np.exp(-0.5 * _T**2).sum()
_U = np.arange(-40.0, 40.25, STEP)
_WU = expit(_U) * expit(-_U) / (expit(_U) * expit(-_U)).sum()
WIDE = 2.0  # variance above which the second sum is used
BLOCK = 1 << 18  # values at nodes held at a time
# Least squares in the largest error, seen again in the tests.
RATE = np.array([0.26954119, 0.3668196, 0.49570885, 0.66851908, 0.89751863, 1.21140004])
MASS = np.array([0.00910848, 0.10911897, 0.31713836, 0.37373563, 0.17248012, 0.01841843])


def averaged(m: Array, v: Array) -> Array:
    """Return E[sigma(z)] for z ~ N(m, v), m and v of shapes that broadcast, v >= 0.

    Examples
    --------
    >>> averaged(np.array([0.0, 1.5]), np.array([9.0, 4.0])).round(6)
    array([0.5     , 0.715006])
    """
    m, v = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64))
    p, wide = np.empty(m.shape), v > WIDE
    p[~wide] = _by_blocks(lambda a, s: expit(a + s * _T) @ _WT, m[~wide], v[~wide], len(_T))
    p[wide] = _by_blocks(lambda a, s: ndtr((a + _U) / s) @ _WU, m[wide], v[wide], len(_U))
    return p


def log_averaged(m: Array, v: Array) -> Array:
    """Return log E[sigma(z)], z ~ N(m, v), with relative accuracy in both tails.

    m >= 0 from the other tail; below, by the tilt log P = m + v/2 + log E[sigma(z')],
    z' ~ N(-m - v, v), where that mean is positive; else by the second sum in logarithms. Each value
    depends on its own m and v alone.
    """
    m, v = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64))
    out, up = np.empty(m.shape), m >= 0.0
    tilt = ~up & (m + v <= 0.0)
    rest = ~up & ~tilt
    out[up] = np.log1p(-averaged(-m[up], v[up]))
    a, b = m[tilt], v[tilt]
    out[tilt] = a + 0.5 * b + np.log(averaged(-a - b, b))
    narrow = rest & (v <= WIDE)  # then -2 < m < 0 and P is not small
    out[narrow] = np.log(averaged(m[narrow], v[narrow]))
    wide = rest & ~narrow
    # where m is close to -v the sum goes on for 9 sqrt(v): so far, up to a power of two
    octave = np.ceil(0.5 * np.log2(np.where(wide, v, 1.0)))
    for power in np.unique(octave[wide]):
        rows = wide & (octave == power)
        u = np.arange(-40.0, 40.25 + 9.0 * 2.0**power, STEP)
        log_w = log_expit(u) + log_expit(-u) + np.log(STEP)  # weights that sum to one
        out[rows] = _by_blocks(_log_sum(u, log_w), m[rows], v[rows], len(u))
    return out


def mixture(m: Array, v: Array | float) -> Array:
    """Return E[sigma(z)] for z ~ N(m, v), to 1e-7."""
    result = np.zeros(np.shape(m))
    for rate, mass in zip(RATE, MASS / MASS.sum(), strict=True):
        result += mass * ndtr(rate * m / np.sqrt(1.0 + rate**2 * v))
    return result


def _log_sum(u: Array, log_w: Array) -> Callable[[Array, Array], Array]:
    """Return (a, s), both (r, 1) -> log sum_u w Phi((a + u)/s), shape (r,)."""
    return lambda a, s: np.asarray(logsumexp(log_w + log_ndtr((a + u) / s), axis=1))


def _by_blocks(work: Callable[[Array, Array], Array], m: Array, v: Array, nodes: int) -> Array:
    """work(m, sqrt(v)), columns (r, 1), for some rows of m and v (n,) at a time."""
    rows = max(BLOCK // nodes, 1)
    s, found = np.sqrt(v), np.empty(len(m))
    for i in range(0, len(m), rows):
        part = slice(i, i + rows)
        found[part] = work(m[part, None], s[part, None])
    return found
