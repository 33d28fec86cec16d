"""Features: products with F, K = F F', where rows are many and few of them count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array, Index
from mercer.linalg.gram import Gram
from mercer.linalg.reduced.gram import ReducedGram


class Features:
    """F (n, m) with F F' = K, by blocks of rows, of every ``stride``-th row.

    Features that are not kept are not formed for products either: with k(x, Z) = F L',

        F b = k(x, Z) L^-T b,      F'a = L^-1 k(Z, x) a
    """

    def __init__(self, gram: Gram, stride: int = 1) -> None:
        self.gram, self.stride = gram, stride
        self.n = len(range(0, len(gram.points), stride))
        self.all: Array | None = None
        if isinstance(gram, ReducedGram):
            self.m, self.all, self.block = len(gram.support), gram.kept(stride), gram.block
            return
        values, vectors = np.linalg.eigh(gram.matrix)
        self.all = vectors * np.sqrt(np.maximum(values, 0.0))  # eigenvalues of -1e-16 are zeros
        self.m = self.block = len(values)

    def every(self, stride: int) -> Features:
        """Return those of every ``stride``-th row."""
        return self if stride == 1 else Features(self.gram, stride)

    def expand(self, b: Array) -> Array:
        """F b (n,)."""
        if self.all is not None:
            return np.asarray(self.all @ b)
        gram = self.gram
        assert isinstance(gram, ReducedGram)
        v = solve_triangular(gram.L, b, lower=True, trans="T")
        each = gram.points[:: self.stride]
        starts = range(0, self.n, self.block)
        parts = (gram.signal(each[i : i + self.block], gram.support) @ v for i in starts)
        return np.concatenate(list(parts))

    def down(self, a: Array) -> Array:
        """F'a (m,), of the rows with a_i != 0."""
        total, gram = np.zeros(self.m), self.gram
        for index in self.touched(a):
            if self.all is not None:
                total += self.all[index].T @ a[index]
            else:
                assert isinstance(gram, ReducedGram)
                total += gram.cross(self.stride * index).T @ a[index]
        if self.all is None:
            assert isinstance(gram, ReducedGram)
            total = solve_triangular(gram.L, total, lower=True)
        return total

    def curved(self, E: Array, H: Array) -> Array:
        """[F, H]'diag(E) [F, H] (m + k, m + k), of the rows with E_i > 0."""
        size, gram = self.m + H.shape[1], self.gram
        total = np.zeros((size, size))
        for index in self.touched(E):
            if self.all is not None:
                F = self.all[index]
            else:
                assert isinstance(gram, ReducedGram)
                F = gram.features(self.stride * index)
            G = np.hstack([F, H[index]])
            G *= np.sqrt(E[index])[:, None]
            total += G.T @ G
        return total

    def touched(self, v: Array) -> Iterator[Index]:
        """Yield where v (n,) is not zero, as many rows at a time as a block has."""
        index, size = np.flatnonzero(v), self.block
        return (index[i : i + size] for i in range(0, len(index), size))
