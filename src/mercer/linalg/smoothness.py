"""Smoothness: a prior conditioned on f'M f, for a singular matrix M of a graph.

    k_new(x, z) = k(x, z) - k(x, X) P k(X, z),    P = (I + M K)^-1 M = T T'

With M = B B' and R R' = I + B'K B, whose eigenvalues are at least one, T = B R^-T: neither M, which
no graph Laplacian allows, nor K is inverted. Theory (M7).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpstrf, dsygst

from mercer.core.arrays import Array, back_solve, half_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.blocked import cholesky
from mercer.linalg.operators import PosteriorOperator

NOTHING = 8.0 * float(np.finfo(np.float64).eps)  # pivots of M, in units of its largest, are noise


class Smoothness:
    """P of one matrix M, factored.

    Parameters
    ----------
    K : (n, n) kernel matrix, not changed.
    M : (n, n) sparse, symmetric positive semidefinite: 2 beta L for a graph Laplacian L.

    Attributes
    ----------
    rank : of M: n less the components of the graph.

    Notes
    -----
    B is the pivoted Cholesky factor of M, O(n^3) as all that follows; an eigendecomposition of M
    would do as well and take ten times as long. Three n x n arrays exist at a time, K among them.

    References
    ----------
    Hou & Hero (2018), equation (3), without its inverse of 2 beta L.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> M = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> smooth = Smoothness(np.eye(2), csr_array(M))
    >>> smooth.root().T @ smooth.root()  # (I + M)^-1 M
    array([[ 0.33333333, -0.33333333],
           [-0.33333333,  0.33333333]])
    """

    def __init__(self, K: Array, M: Any) -> None:
        if not np.isfinite(K).all():
            raise ValueError("the kernel has values that are not finite: scale the columns")
        dense = M.toarray(order="F")
        level = float(dense.diagonal().max(initial=0.0))
        tol = NOTHING * level
        self.B, order, rank, _ = dpstrf(dense, lower=1, tol=tol, overwrite_a=1)
        self.rank = int(rank) if level > 0.0 else 0
        self.B[:, self.rank :] = 0.0
        self.order = order - 1
        A = K[np.ix_(self.order, self.order)]
        # K is symmetric: its transposed view is the column-major matrix that BLAS wants
        both, _ = dsygst(A.T, self.B, itype=2, lower=1, overwrite_a=1)  # B'K B, lower triangle
        self.factor = np.ascontiguousarray(both.T)
        self.factor[np.diag_indices(len(K))] += 1.0
        if cholesky(self.factor):
            raise NotPositiveDefiniteError(
                "the kernel matrix has negative eigenvalues that the graph makes larger than one: "
                "use a positive semidefinite kernel, or, if its values are huge, scale the columns"
            )

    def half(self, V: Array) -> Array:
        """T'V for V (n, q): shape (n, q), zero from row ``rank`` on."""
        return half_solve(self.factor, dtrmm(1.0, self.B, V[self.order], lower=1, trans_a=1))

    def back(self, V: Array) -> Array:
        """T V for V (n, q): shape (n, q)."""
        result = np.empty_like(V)
        result[self.order] = dtrmm(1.0, self.B, back_solve(self.factor, V), lower=1)
        return result

    def root(self) -> Array:
        """T' (rank, n)."""
        result = np.empty((self.rank, len(self.B)))
        result[:, self.order] = half_solve(self.factor, np.tril(self.B).T)[: self.rank]
        return result


class RootOperator(PosteriorOperator):
    """C = Q'Q, Q (r, n), as :mod:`mercer.linalg.operators` describes it."""

    def __init__(self, Q: Array) -> None:
        self.Q = Q

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B, shape (p, q)."""
        left = self.Q @ A
        return np.asarray(left.T @ (left if B is A else self.Q @ B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """diag(A' C A), shape (p,)."""
        left = self.Q @ A
        return np.asarray(np.einsum("ij,ij->j", left, left))
