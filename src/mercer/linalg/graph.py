"""Graph: the normalised Laplacian of nearest neighbours, sparse; theory (M5).

Smoothness: a prior conditioned on f'M f, for a singular matrix M of a graph.

    k_new(x, z) = k(x, z) - k(x, X) P k(X, z),    P = (I + M K)^-1 M = T T'

With M = B B' and R R' = I + B'K B, whose eigenvalues are at least one, T = B R^-T: neither M, which
no graph Laplacian allows, nor K is inverted. Theory (M7).

SmoothnessPath: the same for all weights beta of M = 2 beta L, at the price of one; theory (M12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dormqr, dpstrf, dpttrf, dpttrs, dsygst, dsytrd
from scipy.sparse import csr_array

from mercer.core.arrays import Array, Index, back_solve, half_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import cholesky
from mercer.linalg.operators import PosteriorOperator

ENTRIES = 1 << 22  # differences of coordinates that are held at a time


@dataclass(frozen=True, eq=False)
class Graph:
    """A neighbourhood graph of n points.

    ``laplacian`` (n, n) is sparse and symmetric, L = I - D^-1/2 W D^-1/2 with eigenvalues in
    [0, 2]. Its null vectors are D^1/2 times the indicator of a component, not constants. A point
    without neighbours has a row of zeros: it is not shrunk.
    """

    laplacian: Any
    heat: float  # h of the weights exp(-d^2 / (4 h)), infinite if all of them are one
    n_neighbors: int  # that each point selected; there is an edge if either end did

    @property
    def edges(self) -> int:
        """Return how many pairs of points are neighbours."""
        points = int(np.count_nonzero(self.laplacian.diagonal()))
        return int(self.laplacian.nnz - points) // 2


def neighbour_graph(
    X: Array, n_neighbors: int = 10, heat: float | None = None, times: float = 1.0
) -> Graph:
    """Return the graph of the rows of X (n, d).

    Parameters
    ----------
    n_neighbors : neighbours of each row among the others, n - 1 at most.
    heat : h > 0, ``inf`` for weights of one, or None: the median over the rows of the squared
        distance to the farthest neighbour selected.
    times : factor of that median, where heat is None.

    Notes
    -----
    With s_ij = -d_ij^2 / (4 h) and log d_i = log sum_j exp(s_ij), the normalised weight is
    exp(s_ij - (log d_i + log d_j) / 2) <= 1, also where every exp(s_ij) underflows. Hou & Hero
    (2018), section 3; Belkin, Niyogi & Sindhwani (2006) for the heat kernel.

    Examples
    --------
    >>> import numpy as np
    >>> graph = neighbour_graph(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1, heat=np.inf)
    >>> graph.laplacian.toarray().round(4)
    array([[ 1.    , -0.7071,  0.    ],
           [-0.7071,  1.    , -0.7071],
           [ 0.    , -0.7071,  1.    ]])
    """
    n = len(X)
    k = min(n_neighbors, n - 1)
    if k < 1:
        return Graph(csr_array((n, n)), np.inf if heat is None else float(heat), 0)
    i, j, farthest = _pairs(X, k)
    squares = _squares(X, i, j)
    h = heat
    if h is None:
        h = times * _default_heat(_squares(X, np.arange(n), farthest), squares)
    far = np.isinf(squares)
    logs = np.where(far, -np.inf, -np.where(far, 0.0, squares) / (4.0 * h))  # h = inf: zeros
    rows, columns, logs = np.append(i, j), np.append(j, i), np.append(logs, logs)
    top = np.full(n, -np.inf)
    np.maximum.at(top, rows, logs)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):  # log sum exp of each row, -inf for a row of none
        degree = shift + np.log(np.bincount(rows, np.exp(logs - shift[rows]), n))
    known = np.isfinite(degree[rows]) & np.isfinite(degree[columns])
    rows, columns, logs = rows[known], columns[known], logs[known]
    weights = np.exp(logs - 0.5 * (degree[rows] + degree[columns]))
    own = np.flatnonzero(np.isfinite(degree))  # not: points infinitely far from all others
    values = np.concatenate([-weights, np.ones(len(own))])
    place = (np.concatenate([rows, own]), np.concatenate([columns, own]))
    laplacian = csr_array((values, place), shape=(n, n))
    laplacian.sort_indices()
    return Graph(laplacian, float(h), k)


def _pairs(X: Array, k: int) -> tuple[Index, Index, Index]:
    """Return the edges i < j, each once, and for each row the farthest of its neighbours."""
    from sklearn.neighbors import NearestNeighbors  # heavy, and nothing else here needs it

    # by a power of two, which is exact, into a range in which squares neither vanish nor overflow
    X = np.ldexp(X, -int(np.frexp(np.abs(X).max())[1]))
    chosen = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
    ends = np.column_stack([np.repeat(np.arange(len(X)), k), chosen.ravel()])
    ends.sort(axis=1)
    edges = np.unique(ends, axis=0).astype(np.intp)
    return edges[:, 0], edges[:, 1], chosen[:, -1].astype(np.intp)


def _squares(X: Array, i: Index, j: Index) -> Array:
    """Return |x_i - x_j|^2 of each pair, by differences: nothing cancels."""
    result = np.empty(len(i))
    size = max(1, ENTRIES // X.shape[1])
    with np.errstate(over="ignore"):
        for start in range(0, len(i), size):
            part = slice(start, start + size)
            apart = X[i[part]] - X[j[part]]
            result[part] = np.einsum("ij,ij->i", apart, apart)
    return result


def _default_heat(farthest: Array, squares: Array) -> float:
    """Return the median of ``farthest``; where most rows repeat, that of the edges with a length.

    Infinite, that is weights of one, if all rows are equal. Distances that overflow do not count.
    """
    known = farthest[np.isfinite(farthest)]
    middle = float(np.median(known)) if len(known) else 0.0
    positive = squares[(squares > 0.0) & np.isfinite(squares)]
    return middle or (float(np.median(positive)) if len(positive) else np.inf)


NOTHING = 8.0 * float(np.finfo(np.float64).eps)  # pivots of M, in units of its largest, are noise


NEGATIVE = (
    "the kernel matrix has negative eigenvalues that the graph makes larger than one: "
    "use a positive semidefinite kernel, or, if its values are huge, scale the columns"
)


def _root(K: Array, M: Any) -> tuple[Array, Index, int, Array]:
    """Return B (n, n) lower triangular with B B' = M in the order (n,), its rank, and B'K B.

    Of B'K B (n, n), in Fortran's order, the lower triangle counts.
    """
    if not np.isfinite(K).all():
        raise ValueError("the kernel has values that are not finite: scale the columns")
    dense = M.toarray(order="F")
    level = float(dense.diagonal().max(initial=0.0))
    B, order, found, _ = dpstrf(dense, lower=1, tol=NOTHING * level, overwrite_a=1)
    rank = int(found) if level > 0.0 else 0
    B[:, rank:] = 0.0
    order = np.asarray(order - 1, dtype=np.intp)
    A = K[np.ix_(order, order)]
    # K is symmetric: its transposed view is the column-major matrix that BLAS wants
    both, _ = dsygst(A.T, B, itype=2, lower=1, overwrite_a=1)
    return B, order, rank, both


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
    B is the pivoted Cholesky factor of M, O(n^3), a tenth of the time of an eigendecomposition.
    Three n x n arrays exist at a time, K among them. Hou & Hero (2018), equation (3), without its
    inverse of 2 beta L.

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
        self.B, self.order, self.rank, both = _root(K, M)
        self.factor = np.ascontiguousarray(both.T)
        self.factor[np.diag_indices(len(K))] += 1.0
        if cholesky(self.factor):
            raise NotPositiveDefiniteError(NEGATIVE)

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


class SmoothnessPath:
    """k_new among l of n rows for every weight beta of M = 2 beta L, from one reduction.

    With L = B B', and an orthogonal Q that makes Q'(B'K B) Q = T tridiagonal,

        k_new(X_at, X_at) = K_at,at - 2 beta V'(I + 2 beta T)^-1 V,    V = Q'B'K_:,at
        log |I + 2 beta L K| = log |I + 2 beta T|

    and each beta takes O(n l) and O(l^2 n) operations after the O(n^3) of T.

    Parameters
    ----------
    K : (n, n) kernel matrix, not changed.
    L : (n, n) sparse Laplacian.
    at : (l,) rows, one twice if it has two labels.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> L = csr_array([[1.0, -1.0], [-1.0, 1.0]])
    >>> path = SmoothnessPath(np.eye(2), L, np.array([0]))
    >>> path.covariance(0.0), path.covariance(0.5).round(4), round(path.logdet(0.5), 4)
    (array([[1.]]), array([[0.6667]]), 1.0986)
    """

    def __init__(self, K: Array, L: Any, at: Index) -> None:
        B, order, _, both = _root(K, L)
        self.at, self.corner = at, np.asarray(K[np.ix_(at, at)])
        V = np.asfortranarray(dtrmm(1.0, B, K[np.ix_(order, at)], lower=1, trans_a=1))
        T, self.diagonal, self.beside, tau, _ = dsytrd(both, lower=1, overwrite_a=1)
        if len(T) == 1:  # SciPy's dpttrf wants an entry beside the only one on the diagonal
            self.beside = np.zeros(1)
        else:  # the reflections of Q are below the first diagonal; this is LAPACK's dormtr
            V[1:] = dormqr("L", "T", T[1:, :-1], tau, V[1:], lwork=64 * max(1, V.shape[1]))[0]
        self.V = V

    def _solved(self, beta: float) -> tuple[Array, Array]:
        """Return D (n,) of the LDL' factorisation of I + 2 beta T, and its inverse times V."""
        d, e, failed = dpttrf(1.0 + 2.0 * beta * self.diagonal, 2.0 * beta * self.beside)
        if failed:
            raise NotPositiveDefiniteError(NEGATIVE)
        return d, dpttrs(d, e, self.V)[0]

    def covariance(self, beta: float) -> Array:
        """Return k_new (l, l)."""
        if beta == 0.0:
            return self.corner
        reduced = self.V.T @ self._solved(beta)[1]
        return np.asarray(self.corner - beta * (reduced + reduced.T))

    def logdet(self, beta: float) -> float:
        """Return log |I + 2 beta L K|."""
        return float(np.log(self._solved(beta)[0]).sum())


class RootOperator(PosteriorOperator):
    """C = Q'Q, Q (r, n); a function makes it when a covariance is first asked for."""

    def __init__(self, root: Callable[[], Array]) -> None:
        self._root = root

    @cached_property
    def Q(self) -> Array:
        """(r, n), made now unless it is there."""
        return self._root()

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        left = self.Q @ A
        return np.asarray(left.T @ (left if B is A else self.Q @ B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        left = self.Q @ A
        return np.asarray(np.einsum("ij,ij->j", left, left))
