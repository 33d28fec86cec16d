"""Pivots: the points that tell most about all others, one after the other, without the matrix."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array, Index
from mercer.kernels.base import Kernel

LEAST = 1e-10  # share of the variance that a point must have left, to be taken


def pivots(
    kernel: Kernel, X: Array, size: int, known: Array | None = None, *, relative: bool = True
) -> tuple[Index, Array]:
    """Return at most ``size`` rows of X (n, d) and their part of a pivoted Cholesky factor.

    The rows are taken greedily, each the one of which those before it, and what was known, leave
    the largest share of its variance unexplained: k(x, x) - |phi(x)|^2 in units of k(x, x). It
    ends where no point has a share of 1e-10.

    Parameters
    ----------
    known : (m, n) factor phi of what is known of X already: k(X, X) is near phi'phi.
    relative : measure what is left of a point by its own variance; if False, by the largest of all,
        so that the point with most variance left comes first.

    Returns
    -------
    chosen (p,) the rows, and more (p, n), by which the factor grows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> chosen, L = pivots(RBF(), X, 2)
    >>> chosen, np.abs(RBF()(X) - L.T @ L).max() < 0.02
    (array([0, 2]), np.True_)
    """
    size = max(0, min(size, len(X)))
    variance = kernel.diag(X) if len(X) else np.zeros(0)
    own = variance if relative else np.full(len(X), variance.max(initial=0.0))
    unit = np.where(own > 0.0, own, 1.0)
    have = 0 if known is None else len(known)
    L = np.empty((have + size, len(X)))
    left = variance.copy()
    if known is not None:
        L[:have] = known
        left -= np.einsum("ij,ij->j", known, known)
    chosen: list[int] = []
    for j in range(have, have + size):
        i = int(np.argmax(left / unit))
        if not left[i] > LEAST * unit[i]:
            break
        L[j] = (kernel(X[i : i + 1], X)[0] - L[:j, i] @ L[:j]) / np.sqrt(left[i])
        left -= L[j] ** 2
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp), np.ascontiguousarray(L[have : have + len(chosen)])
