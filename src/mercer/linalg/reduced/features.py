"""Features: products with F, K = F F', where rows are many and few of them count."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array, Index
from mercer.linalg.dense.factor import solve_rows
from mercer.linalg.gram import Gram
from mercer.linalg.reduced.gram import ReducedGram

TILE = 1 << 18  # numbers that fast memory holds
COARSE = 1e6  # trace of F'E F up to which it may be formed in single precision


class Features:
    """F (n, m) with F F' = K, by blocks of rows, of every ``stride``-th row.

    Features that are not kept are not formed for products either: with k(x, Z) = F L',

        F b = k(x, Z) L^-T b,      F'a = L^-1 k(Z, x) a

    Where the Gram keeps them in single precision, so are the products, unless they are to be exact.
    """

    def __init__(self, gram: Gram, stride: int = 1) -> None:
        self.gram, self.stride, self.exact = gram, stride, False
        self.n = len(range(0, len(gram.points), stride))
        self.all: Array | None = None
        if isinstance(gram, ReducedGram):
            self.m, self.all, self.block = gram.m, gram.kept(stride), gram.block
            self.largest = float(gram.prior.max())
            return
        values, vectors = np.linalg.eigh(gram.matrix)
        self.all = vectors * np.sqrt(np.maximum(values, 0.0))  # eigenvalues of -1e-16 are zeros
        self.m = self.block = len(values)
        self.largest = float(values[-1])

    def every(self, stride: int) -> Features:
        """Return those of every ``stride``-th row."""
        return self if stride == 1 else Features(self.gram, stride)

    @property
    def rounds(self) -> bool:
        """Whether products are in single precision."""
        return self.all is not None and self.all.dtype == np.float32 and not self.exact

    def exactly(self) -> Features:
        """Return the same, products with features in single precision summed in double."""
        found = copy(self)
        found.exact = True
        return found

    def expand(self, b: Array) -> Array:
        """F b (n,), or of several columns."""
        gram, starts = self.gram, range(0, self.n, self.block)
        if self.all is not None:
            if self.all.dtype == np.float64:
                return np.asarray(self.all @ b)
            if self.rounds:
                return np.asarray(self.all @ b.astype(np.float32), dtype=np.float64)
            rows = (self.all[i : i + self.block].astype(np.float64) for i in starts)
            return np.concatenate([F @ b for F in rows])
        assert isinstance(gram, ReducedGram)
        v = solve_triangular(gram.L, b, lower=True, trans="T")
        columns = v.reshape(self.m, -1)
        found = gram.signal.matmul(gram.points[:: self.stride], gram.support, columns)
        return found.reshape(self.n, *b.shape[1:])

    def down(self, a: Array) -> Array:
        """F'a (m,), or of several columns, of the rows with a_i != 0."""
        total, gram, index = np.zeros((self.m, *a.shape[1:])), self.gram, rows_of(a)
        if self.all is None:
            assert isinstance(gram, ReducedGram)
            points = gram.points[self.stride * index]
            found = gram.signal.matmul(gram.support, points, a[index].reshape(len(index), -1))
            return np.asarray(solve_triangular(gram.L, found.reshape(total.shape), lower=True))
        if self.all.dtype == np.float64 and 2 * len(index) > self.n:
            return np.asarray(self.all.T @ a)
        kind = np.float64 if self.exact else self.all.dtype
        for some in self.touched(a):
            total += self.all[some].astype(kind, copy=False).T @ a[some].astype(kind)
        return total

    def curved(self, E: Array, H: Array) -> Array:
        """[F, H]'diag(E) [F, H] (m + k, m + k), of the rows with E_i > 0."""
        m = self.m
        total = np.zeros((m + H.shape[1],) * 2)
        # what is rounded is to be small beside the I that is added: [F'E F]_jj <= sum_i E_i k_ii
        rough = self.all is not None and float(E.sum()) * self.largest <= COARSE
        kind = self.all.dtype if self.all is not None and rough else np.dtype(np.float64)
        for index in self.touched(E):
            F = self.rows(index).astype(kind, copy=False)
            root = np.sqrt(E[index])[:, None]
            F *= root.astype(F.dtype)
            total[:m, :m] += F.T @ F
            if H.shape[1]:
                G = root * H[index]
                total[m:, :m] += G.T @ F
                total[m:, m:] += G.T @ G
        total[:m, m:] = total[m:, :m].T
        return total

    def rows(self, index: Index) -> Array:
        """F of some rows, a copy (q, m)."""
        if self.all is not None:
            return np.asarray(self.all[index])
        assert isinstance(self.gram, ReducedGram)
        return self.gram.features(self.stride * index)

    def touched(self, v: Array) -> Iterator[Index]:
        """Yield where v (n,) is not zero, as many rows at a time as a block has."""
        index, size = rows_of(v), self.block
        return (index[i : i + size] for i in range(0, len(index), size))


class PassingFeatures(Features):
    """F of some rows that pass by, by their k(x, Z) = F L'; see :class:`Features`.

    It is formed as the rows are expanded for the first time, before anything else is asked for.

    Parameters
    ----------
    gram : of the inducing points; its own rows are of no account.
    X : (n, d) the rows.
    room : (at least n, m), to be written over.
    """

    def __init__(self, gram: ReducedGram, X: Array, room: Array) -> None:
        self.gram, self.signal, self.Z, self.L = gram, gram.signal, gram.support, gram.L
        self.X, self.cross = X, room[: len(X)]
        self.n, self.m = self.cross.shape
        self.block, self.stride, self.all, self.exact = max(1, self.n), 1, None, False
        self._formed = np.zeros(self.n, dtype=bool)
        self._rows = np.empty(self.cross.shape)

    def expand(self, b: Array) -> Array:
        v = solve_triangular(self.L, b, lower=True, trans="T", check_finite=False)
        out, size = np.empty((self.n, *b.shape[1:])), max(64, TILE // self.m)
        for i in range(0, self.n, size):  # multiplied while it is near
            tile, X = self.cross[i : i + size], self.X[i : i + size]
            K = self.signal.written(X, tile, Z=self.Z)
            if K is not tile:
                tile[:] = K
            out[i : i + size] = tile @ v
        return out

    def down(self, a: Array) -> Array:
        index = rows_of(a)
        few = 2 * len(index) < self.n
        found = a[index].T @ self.cross[index] if few else a.T @ self.cross
        return np.asarray(solve_triangular(self.L, found.T, lower=True, check_finite=False))

    def rows(self, index: Index) -> Array:
        fresh = index[~self._formed[index]]  # of several columns, each row once
        self._rows[fresh] = solve_rows(self.L, self.cross[fresh])
        self._formed[fresh] = True
        return self._rows[index]


def rows_of(v: Array) -> Index:
    """Return where v (n,), or any column of it, is not zero."""
    return np.flatnonzero(v if v.ndim == 1 else np.any(v, axis=1))
