"""Rows of K on demand: a cache bounded in bytes, least recently used rows leave first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._native import machines
from mercer.arrays import Array, Index
from mercer.kernels.base import Kernel

# Rows that are fetched together, and the fewest that a cache holds.
BATCH, LEAST = 32, 64


class RowCache:
    """Rows k(x_i, X) of the n training points, computed in blocks and kept while there is room.

    Parameters
    ----------
    kernel : the kernel.
    points : (n, d).
    cache_bytes : memory for rows; at least 64 rows are kept whatever it says.
    single : keep rows in single precision (relative error 4e-7 of a kernel value).

    Attributes
    ----------
    table : (capacity, n) the rows that are kept.
    slot_of, row_in, used : where each row lies or -1, which row each slot holds or -1, and when.
    next_free : slots from here on were never used.
    single, columns, variance : the points for the compiled RBF row, empty if it does not apply.
    """

    def __init__(self, kernel: Kernel, points: Array, cache_bytes: float, *, single: bool) -> None:
        n = len(points)
        dtype = np.float32 if single else np.float64
        self.capacity = min(n, max(LEAST, int(cache_bytes // (n * np.dtype(dtype).itemsize))))
        self.kernel = kernel
        self.points = points
        self.table: NDArray[Any] = np.empty((self.capacity, n), dtype=dtype)
        self.slot_of = np.full(n, -1, dtype=np.int64)
        self.row_in = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)
        self.next_free, self.clock, self.fetched = 0, 1, 0
        self.single = np.zeros((0, 0), dtype=np.float32)
        self.columns, self.variance = self.single, 1.0
        form = kernel.as_rbf(points, points.mean(axis=0)) if single else None
        if form is not None:
            self.single = np.ascontiguousarray(form[0], dtype=np.float32)
            self.columns, self.variance = np.ascontiguousarray(self.single.T), form[1]

    @property
    def computed(self) -> int:
        """How many rows were computed so far."""
        return self.fetched + self.next_free

    def fetch(self, index: Index) -> None:
        """Compute the rows ``index`` that are missing, in one block; the oldest rows leave."""
        missing = index[self.slot_of[index] < 0]
        unused = np.arange(self.next_free, min(self.capacity, self.next_free + len(missing)))
        fetched_before = self.next_free
        self.next_free += len(unused)
        short = len(missing) - len(unused)
        slots = unused
        if short > 0:
            ages = self.used.copy()
            kept = self.slot_of[index]
            ages[kept[kept >= 0]] = self.clock
            ages[unused] = self.clock
            oldest = np.argpartition(ages, short - 1)[:short]
            self.slot_of[self.row_in[oldest]] = -1
            slots = np.concatenate([unused, oldest])
        self.slot_of[missing] = slots
        self.row_in[slots] = missing
        self.used[slots] = self.clock
        self.fetched += len(missing) - (self.next_free - fetched_before)
        self._compute(missing, slots.astype(np.int64))

    def _compute(self, index: Index, slots: NDArray[np.int64]) -> None:
        if len(self.single):
            machines.rbf_rows(
                np.ascontiguousarray(self.single[index]), self.columns, slots, self.table
            )
            if self.variance != 1.0:
                self.table[slots] *= self.table.dtype.type(self.variance)
        else:
            self.table[slots] = self.kernel(self.points[index], self.points)

    def product(self, beta: Array) -> Array:
        """K beta (n,) over the non-zero entries of beta (n,)."""
        result = np.zeros(len(self.points))
        index = np.flatnonzero(beta)
        for start in range(0, len(index), BATCH):
            part = index[start : start + BATCH]
            self.fetch(part)
            result += beta[part] @ self.table[self.slot_of[part]]
        return result
