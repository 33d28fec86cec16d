"""The triangle of inducing points: L with L L' = k(Z, Z), of the points that say something new."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mercer.core.arrays import Array, mirror
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import JITTERS, cholesky, solve_rows

FOLD = 256  # rows of a symmetric result that are solved for at a time
NEAR = 1e-8  # of its variance is left at a point that is known from the others: it is dropped


def triangle(K: Array) -> tuple[Array, NDArray[np.bool_], float]:
    """Return L (m, m) lower with L L' = K, which points were used, and the jitter, relative."""
    if not np.all(np.isfinite(K)):
        raise ValueError("the kernel has no finite values at the inducing points")
    scale = np.sqrt(np.diagonal(K))
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = K / scale
        unit /= scale[:, None]
    # a point that lies on another says nothing more
    same = unit >= 1.0 - 4.0 * np.finfo(float).eps
    used = (scale > 0.0) & ~np.triu(same, 1).any(axis=0)
    kept = unit if used.all() else unit[np.ix_(used, used)]
    if not used.any():
        raise ValueError("the kernel is zero at all inducing points: nothing is known there")
    for jitter in JITTERS:
        L = kept.copy()
        L[np.diag_indices(len(L))] += jitter
        if cholesky(L) == 0:
            return np.ascontiguousarray(scale[used, None] * np.triu(L).T), used, jitter
    # rows that are not determined by the others, in the order of what they add
    _, order, rank, _ = lapack.dpstrf(np.asfortranarray(unit), tol=NEAR, lower=1)
    used = np.zeros(len(K), dtype=bool)
    used[order[:rank] - 1] = True
    L, info = lapack.dpotrf(unit[np.ix_(used, used)], lower=1, clean=1)
    if info:
        raise NotPositiveDefiniteError(
            "the kernel is not positive semidefinite at the inducing points: is it a kernel?"
        )
    return np.asarray(scale[used, None] * L), used, 0.0


def folded(triangle: Array, A: Array) -> Array:
    """L^-T A L^-1 in place of A (m, m), which is symmetric up to rounding; L is the triangle."""
    whole = np.ascontiguousarray(solve_rows(triangle, A, back=True).T)
    for i in range(0, len(whole), FOLD):  # one triangle is computed: solutions go to the left
        j = slice(i, i + FOLD)
        L = np.ascontiguousarray(triangle[i:, i:])
        whole[j, i:] = solve_rows(L, whole[j, i:].copy(), back=True)
    return mirror(whole)
