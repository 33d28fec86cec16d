"""Logistic and softmax probabilities averaged over Gaussian latent values.

E[sigma(z)], z ~ N(m, v), by two trapezoid sums, each exact to rounding on its side: over z for a
narrow Gaussian; for a wide one over the logistic's density, P = E_u[Phi((m + u)/sqrt(v))].

To 1e-7, for many thousand values at a time: sigma(x) = sum_i MASS_i Phi(RATE_i x) to 9e-8, a scale
mixture of Gaussians with closed average A(m, v). For a few variances and many means each there is a
table of log A(-x) in cells of equal width: the polynomials of degree 7 with the values and three
derivatives at both ends, to 1e-12; past the last cell, where A < 1e-16, the parabola at its end.

For the softmax, f ~ N(m, V), a plain average meets a step where the latent values are far apart.
Given all others, f_j is Gaussian and its average is one-dimensional,

    p_j = E_{f_-j} [ A(mean of f_j given f_-j - log sum_{k != j} e^{f_k}, its variance) ],

with an integrand that is smooth at the scale of the Gaussian: the fixed rule gives it to 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from scipy import special
from scipy.special import erfcx, expit, log_expit, log_ndtr, logsumexp, ndtr

from mercer._native import averages
from mercer.core.arrays import Array
from mercer.core.deadline import check_time

STEP = 0.5  # of the sum over u, in which the density is analytic in a strip of width pi
_T = np.arange(-9.0, 9.125, 0.25)
_WT = np.exp(-0.5 * _T**2) / np.exp(-0.5 * _T**2).sum()
_U = np.arange(-40.0, 40.25, STEP)
_WU = expit(_U) * expit(-_U) / (expit(_U) * expit(-_U)).sum()
WIDE = 2.0  # variance above which the second sum is used
WIDEST = 2.0**40  # variances above it would need sums of millions of terms
BLOCK = 1 << 18  # values at nodes held at a time
# Least squares in the largest error, seen again in the tests.
RATE = np.array([0.26954119, 0.3668196, 0.49570885, 0.66851908, 0.89751863, 1.21140004])
MASS = np.array([0.00910848, 0.10911897, 0.31713836, 0.37373563, 0.17248012, 0.01841843])


def averaged(m: Array, v: Array) -> Array:
    """Return E[sigma(z)] for z ~ N(m, v), m and v of shapes that broadcast, v >= 0."""
    m, v = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64))
    p, wide = np.empty(m.shape), v > WIDE
    narrow = ~wide
    if narrow.any():
        p[narrow] = _by_blocks(lambda a, s: expit(a + s * _T) @ _WT, m[narrow], v[narrow], len(_T))
    if wide.any():
        p[wide] = _by_blocks(lambda a, s: ndtr((a + _U) / s) @ _WU, m[wide], v[wide], len(_U))
    return p


def log_averaged(m: Array, v: Array) -> Array:
    """Return log E[sigma(z)], z ~ N(m, v), with relative accuracy in both tails.

    m >= 0 from the other tail; below, by the tilt log P = m + v/2 + log E[sigma(z')],
    z' ~ N(-m - v, v), where that mean is positive; else by the second sum in logarithms.
    """
    m, v = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64))
    out, up = np.empty(m.shape), m >= 0.0
    tilt = ~up & (m + v <= 0.0)
    rest = ~up & ~tilt
    if up.any():
        out[up] = np.log1p(-averaged(-m[up], v[up]))
    if tilt.any():
        a, b = m[tilt], v[tilt]
        out[tilt] = a + 0.5 * b + np.log(averaged(-a - b, b))
    if not rest.any():
        return out
    narrow = rest & (v <= WIDE)  # then -2 < m < 0 and P is not small
    if narrow.any():
        out[narrow] = np.log(averaged(m[narrow], v[narrow]))
    wide = rest & ~narrow
    if not wide.any():
        return out
    if np.any(v[wide] > WIDEST):
        raise ValueError(f"a variance of f above {WIDEST:.3g} leaves no probability to compute")
    # where m is close to -v the sum goes on for 9 sqrt(v): so far, up to a power of two
    octave = np.ceil(0.5 * np.log2(np.where(wide, v, 1.0)))
    for power in np.unique(octave[wide]):
        rows = wide & (octave == power)
        u = np.arange(-40.0, 40.25 + 9.0 * 2.0**power, STEP)
        log_w = log_expit(u) + log_expit(-u) + np.log(STEP)  # weights that sum to one
        work = partial(_log_sum, u, log_w)
        out[rows] = _by_blocks(work, m[rows], v[rows], len(u))
    return out


def mixture(m: Array, v: Array | float) -> Array:
    """Return E[sigma(z)] for z ~ N(m, v), to 1e-7."""
    result = np.zeros(np.shape(m))
    for rate, mass in zip(RATE, MASS / MASS.sum(), strict=True):
        result += mass * ndtr(rate * m / np.sqrt(1.0 + rate**2 * v))
    return result


def _log_sum(u: Array, log_w: Array, a: Array, s: Array) -> Array:
    """Return log sum_u w Phi((a + u)/s) (r,) for a and s (r, 1)."""
    return np.asarray(logsumexp(log_w + log_ndtr((a + u) / s), axis=1))


def _by_blocks(work: Callable[[Array, Array], Array], m: Array, v: Array, nodes: int) -> Array:
    """work(m, sqrt(v)), columns (r, 1), for some rows of m and v (n,) at a time."""
    rows = max(BLOCK // nodes, 1)
    s, found = np.sqrt(v), np.empty(len(m))
    for i in range(0, len(m), rows):
        part = slice(i, i + rows)
        found[part] = work(m[part, None], s[part, None])
    return found


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


FEW, MANY = 4096, 32768  # points of the fixed rule for up to FEW_CLASSES classes, and for more
FEW_CLASSES = 4
CLOSE = 1.0  # largest deviation of a difference at which the plain average is as good
TABLES = 256  # of one-dimensional averages held at a time


def softmax_average(m: Array, V: Array) -> Array:
    """p (n, c) for m (n, c) and V (n, c, c), c > 2; a row depends on its own m and V alone."""
    c, p = m.shape[1], np.empty(m.shape)
    own = np.diagonal(V, axis1=1, axis2=2)
    differences = own[:, :, None] + own[:, None, :] - 2.0 * V
    close = differences.max(axis=(1, 2)) <= CLOSE**2
    points = normal_points(c, FEW if c <= FEW_CLASSES else MANY).T
    for i in np.flatnonzero(close).tolist():  # the softmax hardly bends over the Gaussian
        check_time()
        averages.plain(m[i], symmetric_root(V[i]) @ points, p[i])
    rows = np.flatnonzero(~close)
    step = max(TABLES // c, 1)
    for i in range(0, len(rows), step):
        part = rows[i : i + step]
        p[part] = _conditional(m[part], independent_as_possible(V[part]))
    return p


def _conditional(m: Array, V: Array) -> Array:
    """p (n, c) by the average over the other latent values of the average over one."""
    n, c = m.shape
    points = normal_points(c - 1, FEW if c <= FEW_CLASSES else MANY).T
    others = np.array([np.delete(np.arange(c), j) for j in range(c)])  # (c, c - 1)
    roots, back = _roots(V[:, others[:, :, None], others[:, None, :]])  # (n, c, c - 1, c - 1)
    cross = np.take_along_axis(np.swapaxes(V, 1, 2), others[None], axis=2)  # V_ij, i != j
    # f_j given the others: its mean moves along with them, this variance is left
    along = np.einsum("njkl,njl->njk", back, cross)
    rest = np.diagonal(V, axis1=1, axis2=2) - (along**2).sum(axis=2)
    table, rates = tables(np.maximum(rest, 0.0).ravel())
    p = np.empty((n, c))
    for i, j in np.ndindex(n, c):
        check_time()
        shift = np.vstack([roots[i, j], along[i, j]]) @ points  # (c, count)
        k = i * c + j
        p[i, j] = averages.conditional(
            float(m[i, j]), shift[-1], m[i, others[j]], shift[:-1], table[k], rates[k]
        )
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def symmetric_root(V: Array) -> Array:
    """The symmetric root of V (..., c, c); it moves little with V, where eigenvectors may not."""
    return _roots(V)[0]


def _roots(V: Array) -> tuple[Array, Array]:
    """The symmetric roots of V and of its pseudo-inverse, (..., c, c)."""
    values, vectors = np.linalg.eigh(V)
    root = np.sqrt(np.maximum(values, 0.0))
    there = root > 1e-12 * root[..., -1:]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=there)
    turned = np.swapaxes(vectors, -1, -2)
    return (vectors * root[..., None, :]) @ turned, (vectors * inverse[..., None, :]) @ turned


def independent_as_possible(V: Array) -> Array:
    """V + 1 b' + b 1' (..., c, c): the same covariances of differences, small off the diagonal.

    b minimises the squares off the diagonal; it is shortened if the result is not a covariance.
    """
    c = V.shape[-1]
    row = V.sum(axis=-1) - np.diagonal(V, axis1=-2, axis2=-1)
    b = (-row + row.sum(axis=-1, keepdims=True) / (2.0 * (c - 1))) / (c - 2)
    common = b[..., :, None] + b[..., None, :]
    lowest = -1e-12 * np.trace(V, axis1=-2, axis2=-1)
    out = V
    for length in (0.25, 0.5, 1.0):  # the longest that is a covariance stays
        moved = V + length * common
        fine = np.linalg.eigvalsh(moved)[..., 0] >= lowest
        out = np.where(fine[..., None, None], moved, out)
    return np.asarray(out)


@cache
def normal_points(c: int, count: int) -> Array:
    """Return the fixed rule (count, c): a scrambled Sobol sequence through Phi^-1."""
    from scipy.stats import qmc  # imported here: it costs more than the rest of this module

    x = qmc.Sobol(c, seed=0).random(count)
    points: Array = np.asarray(special.ndtri(np.clip(x, 1e-12, 1.0 - 1e-12)))
    points.setflags(write=False)
    return points
