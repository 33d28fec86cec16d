"""Kernels by their power spectrum: any density that a user states; theory (F9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import gamma, pi
from typing import Self

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel, positive, rescaled
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import Stationary

ORDER = 16  # nodes of Gauss and Legendre on a piece of the frequencies
PHASE = 16.0  # most radians of a wave on such a piece, which these nodes integrate to 1e-13
MOST = 20_000  # nodes in all
DEGREE = 23  # of Chebyshev polynomials on a piece of the distances
STRETCH = 12.0  # radians of the fastest wave on such a piece: they leave 1e-13 of it
TABLE = 4_000_000  # pairs of distances and frequencies up to which a table is made


class PowerSpectrum(Stationary):
    """A kernel by its power spectrum S, as frequencies s_j and the power p_j at each of them.

        k(r) = sum_j p_j w_D(2 pi s_j r),    w_D the mean of exp(i s'r) over the sphere |s| = s,

    cos in one dimension, J_0 in two, sin(x) / x in three, r the distance in length scales. Powers
    are scaled to sum one. :meth:`of` makes these from a density S(s) of your own, to a stated
    accuracy; whatever the frequencies, k is a kernel, in up to ``dims`` columns.

    Parameters
    ----------
    frequencies : array (J,); not negative, in cycles per length scale.
    powers : array (J,); not negative, of positive sum.
    dims : int, default=1; D, the largest number of columns of the inputs.
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equations (4.5) to (4.7) and
    (6.13).

    Examples
    --------
    A band of frequencies, 1 to 2 cycles: (sin(4 pi r) - sin(2 pi r)) / (2 pi r).

    >>> kernel = PowerSpectrum.of(lambda s: np.where((s > 1.0) & (s < 2.0), 1.0, 0.0), reach=5.0)
    >>> kernel(np.array([[0.0]]), np.array([[0.3]])).round(6)
    array([[-0.816381]])
    """

    def __init__(
        self,
        frequencies: Array,
        powers: Array,
        dims: int = 1,
        length_scale: float | Array = 1.0,
    ) -> None:
        self.frequencies, self.powers, self.dims = frequencies, powers, dims
        self.length_scale = length_scale

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([0.0, 0.4, 1.1]), np.array([0.5, 0.3, 0.2]), length_scale=1.4)

    @classmethod
    def of(
        cls,
        density: Callable[[Array], Array],
        *,
        dims: int = 1,
        reach: float = 10.0,
        tol: float = 1e-8,
        length_scale: float | Array = 1.0,
    ) -> Self:
        """Return the kernel of a density S(s), s the distance from frequency zero.

        Its values are within ``tol`` of the largest, k(0), for distances of up to ``reach`` length
        scales. That is checked as the frequencies are chosen, and refused where it cannot be had:
        S must be integrable, and its tail beyond the highest frequency below ``tol``. For tails
        like 1 / s^2, of rough functions, use :class:`Operator` or :class:`Matern`, which are exact.

        Parameters
        ----------
        density : of frequencies (n,) > 0 in cycles per length scale; not negative.
        dims : D; S(s) is a density in as many dimensions.
        reach : largest distance, in length scales.
        tol : largest error of k, relative to k(0).
        length_scale : of the kernel that is returned.
        """
        nodes, powers = spectrum_nodes(density, dims, reach, tol)
        return cls(nodes, powers, dims, length_scale)

    def coordinates(self, X: Array, d: int) -> Array:
        if d > whole(self, "dims", 1):
            raise ValueError(
                f"PowerSpectrum(dims={self.dims}) is a kernel of up to {self.dims} columns, and "
                f"the inputs have {d}; give dims={d}"
            )
        return super().coordinates(X, d)

    def profile(self, s: Array) -> Array:
        return self._summed(s, 0)

    def slope(self, s: Array) -> Array:
        # w_D(x)' = -x w_{D+2}(x) / D, and dx/ds = (2 pi f)^2 / (2 x)
        return self._summed(s, 1)

    def _summed(self, s: Array, order: int) -> Array:
        f, p, D = self._spectrum()
        if order:
            p, D = -0.5 * p * (2.0 * pi * f) ** 2 / D, D + 2
        r = np.sqrt(np.asarray(s, dtype=np.float64))
        largest, fastest = float(r.max(initial=0.0)), float(f.max(initial=0.0))
        pieces = int(np.ceil(2.0 * pi * fastest * largest / STRETCH)) + 1
        if pieces * (DEGREE + 1) < r.size and pieces * (DEGREE + 1) * f.size <= TABLE:
            end = 2.0 ** np.ceil(np.log2(max(largest, 1e-300)))
            return _table(f.tobytes(), p.tobytes(), D, end)(r)
        return _waves(r, f, p, D)

    def _spectrum(self) -> tuple[Array, Array, int]:
        f, p = (np.asarray(a, dtype=np.float64) for a in (self.frequencies, self.powers))
        if f.ndim != 1 or not f.size or f.shape != p.shape:
            raise ValueError(
                "PowerSpectrum: frequencies and powers must be as many, in arrays (J,), got "
                f"shapes {f.shape} and {p.shape}"
            )
        fine = np.isfinite(f).all() and np.isfinite(p).all() and min(f.min(), p.min()) >= 0.0
        if not fine or not p.sum() > 0.0:
            raise ValueError(
                "PowerSpectrum: frequencies and powers must be finite and not negative, and the "
                "powers of positive sum"
            )
        return f, p / p.sum(), whole(self, "dims", 1)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(
            length_scale=rescaled(positive(self, "length_scale", len(scale)), scale)
        )

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, whole(self, "dims", 1)))


def sphere_mean(D: int, x: Array) -> Array:
    """Return w_D(x), the mean of exp(i x u_1) over unit vectors u in D dimensions; w_D(0) = 1.

    Gamma(D/2) (2 / x)^(D/2 - 1) J_{D/2 - 1}(x): GPML (4.7).
    """
    if D == 1:
        return np.cos(x)
    if D == 3:
        return np.asarray(np.sinc(x / pi))
    from scipy.special import jv

    nu = 0.5 * D - 1.0
    small = np.abs(x) < 1e-3
    safe = np.where(small, 1.0, x)
    series = 1.0 - x**2 / (2.0 * D) * (1.0 - x**2 / (4.0 * (D + 2.0)))
    return np.where(small, series, gamma(0.5 * D) * (2.0 / safe) ** nu * jv(nu, safe))


def _waves(r: Array, f: Array, p: Array, D: int) -> Array:
    """Return sum_j p_j w_D(2 pi f_j r) in the shape of r, by blocks."""
    flat, size = np.ravel(r), max(1, (1 << 20) // f.size)
    found = np.empty(flat.size)
    for i in range(0, flat.size, size):
        found[i : i + size] = sphere_mean(D, np.outer(flat[i : i + size], 2.0 * pi * f)) @ p
    return found.reshape(np.shape(r))


@lru_cache(maxsize=8)
def _table(f: bytes, p: bytes, D: int, end: float) -> Callable[[Array], Array]:
    """Return the sum of waves on [0, end] by pieces of Chebyshev polynomials, as accurate."""
    frequencies, powers = np.frombuffer(f), np.frombuffer(p)
    pieces = int(np.ceil(2.0 * pi * frequencies.max() * end / STRETCH)) + 1
    width = end / pieces
    nodes = np.cos(pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    at = width * (np.arange(pieces)[:, None] + 0.5 * (nodes + 1.0))
    values = _waves(at, frequencies, powers, D)
    angles = np.outer(np.arange(DEGREE + 1), np.arccos(nodes))
    C = values @ np.cos(angles).T * (2.0 / (DEGREE + 1))  # (pieces, degree + 1)
    C[:, 0] *= 0.5
    C = np.ascontiguousarray(C.T)

    def evaluate(r: Array) -> Array:
        piece = np.minimum((r / width).astype(np.intp), pieces - 1)
        x = 2.0 * (r / width - piece) - 1.0
        b, c = np.zeros_like(x), np.zeros_like(x)  # Clenshaw's recursion
        for k in range(DEGREE, 0, -1):
            b, c = 2.0 * x * b - c + C[k][piece], b
        return np.asarray(x * b - c + C[0][piece])

    return evaluate


def spectrum_nodes(
    density: Callable[[Array], Array], D: int, reach: float, tol: float
) -> tuple[Array, Array]:
    """Return frequencies (J,) and powers (J,), of sum one, for which k is within ``tol``.

    Pieces of the frequencies are halved until Gauss and Legendre's rule on a piece agrees with that
    on its halves, for waves at distances 0 and ``reach``; the tail is below a quarter of ``tol``.
    """
    if not (0.0 < reach < np.inf and 1e-14 <= tol < 1.0):
        raise ValueError(f"reach must be positive and tol in [1e-14, 1), got {reach!r} and {tol!r}")

    def power(s: Array) -> Array:
        S = np.asarray(density(s), dtype=np.float64)
        if S.shape != s.shape or not np.isfinite(S).all() or (S < 0.0).any():
            raise ValueError("a power spectrum must be finite and not negative at every s > 0")
        return np.asarray(S * s ** (D - 1))

    ends = 2.0 ** np.arange(-40.0, 41.0)
    coarse = np.array([_gauss(power, a, b)[1].sum() for a, b in pairwise(ends)])
    total = float(coarse.sum())
    if not (0.0 < total < np.inf):
        raise ValueError("the power spectrum has no power between 1e-12 and 1e12 cycles")
    above = np.cumsum(coarse[::-1])[::-1]  # of the piece and all beyond it
    if above[-1] > 0.25 * tol * total:
        raise ValueError("the power spectrum is not integrable: its tail does not end")
    last = int(np.flatnonzero(above > 0.25 * tol * total)[-1])
    highest = ends[last + 1]
    if 2.0 * pi * reach * highest / PHASE * ORDER > MOST:
        reached = highest * MOST / (2.0 * pi * reach * highest / PHASE * ORDER)
        share = above[np.searchsorted(ends, reached) - 1] / total
        raise ValueError(
            f"the tail of the power spectrum is too heavy for tol = {tol:g} at a reach of "
            f"{reach:g}: {MOST} frequencies reach about {share:.1g}; give a larger tol or a "
            "smaller reach, or use Operator or Matern for the rough part"
        )
    pieces = [(0.0, ends[0]), *pairwise(ends[: last + 2])]
    found: list[tuple[Array, Array]] = []
    while pieces:
        a, b = pieces.pop()
        middle = 0.5 * (a + b)
        one, halves = _gauss(power, a, b), [_gauss(power, a, middle), _gauss(power, middle, b)]
        errors = [abs(_wave_sum([one], D, r) - _wave_sum(halves, D, r)) for r in (0.0, reach)]
        fine = 2.0 * pi * reach * (b - a) <= PHASE and max(errors) <= 2e-4 * tol * total
        tiny = max(part[1].sum() for part in halves) <= 1e-3 * tol * total / 80.0
        if fine or tiny or b - a <= 1e-14 * b:
            found += [one] if fine else halves
        else:
            pieces += [(a, middle), (middle, b)]
        if ORDER * len(found) > 2 * MOST:
            raise ValueError(
                f"the power spectrum is too rough for tol = {tol:g}: more than {2 * MOST} "
                "frequencies would be needed; give a larger tol"
            )
    nodes, powers = (np.concatenate(part) for part in zip(*found, strict=True))
    kept = powers > 1e-18 * powers.sum()
    order = np.argsort(nodes[kept])
    return nodes[kept][order], powers[kept][order] / powers[kept].sum()


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(ORDER)
    return np.asarray(x, dtype=np.float64), np.asarray(w, dtype=np.float64)


def _gauss(power: Callable[[Array], Array], a: float, b: float) -> tuple[Array, Array]:
    """Return nodes and powers of a piece."""
    x, w = _legendre()
    s = 0.5 * (a + b) + 0.5 * (b - a) * x
    return s, 0.5 * (b - a) * w * power(s)


def _wave_sum(parts: list[tuple[Array, Array]], D: int, r: float) -> float:
    return float(sum(powers @ sphere_mean(D, 2.0 * pi * r * s) for s, powers in parts))
