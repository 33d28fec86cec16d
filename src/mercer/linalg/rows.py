"""Rows of K on demand: a Gram that computes no other, and a cache of them bounded in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._native import machines
from mercer.core.arrays import Array, Index, threads
from mercer.kernels import Kernel, Linear
from mercer.kernels.base import Gradient
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Factor, Gram

# Rows that are fetched together, and the fewest that a cache holds.
BATCH, LEAST = 32, 64
# A new page of memory costs more than the part of an RBF row that fits on it. A cache of such rows
# starts with this many bytes, and doubles when rows that had left were wanted again, as many as
# this share of its rows.
OPENING, WANTED_AGAIN = 32e6, 0.25
# Entries of K that a product outside the cache holds at a time.
BLOCK = 1 << 22


class RowGram(Gram):
    """K = k(P, P), P (n, d), of which rows are computed when asked for, and nothing is kept."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel, self.points = kernel, points

    def source(self, order: Index | None = None) -> tuple[Kernel, Array]:
        points = self.points if order is None else self.points[order]
        F = self.kernel.features(points)
        return (self.kernel, points) if F is None else (Linear(), np.ascontiguousarray(F))

    def __matmul__(self, V: Array) -> Array:
        return self.kernel.matmul(self.points, self.points, V)

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        return self.kernel(self.points[index], self.points)

    def factor(self, W: Array) -> Factor:
        return DenseGram(self.kernel, self.points).factor(W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        return DenseGram(self.kernel, self.points).pullback(alpha, factor, U, V)

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


class RowCache:
    """Rows k(x_i, X) of the n training points, computed in blocks and kept while there is room.

    The rows that were not used for longest leave first. The cache can be restricted to some of the
    points: rows and columns of the others leave, and what remains moves together, so that a solver
    that has set points aside reads short rows only.

    Parameters
    ----------
    kernel, points : the kernel, and (n, d).
    cache_bytes : most memory for rows; at least 64 rows are kept whatever it says. Rows that are
        cheap to compute use less while few of them are wanted again.
    single : keep rows in single precision (relative error 4e-7 of a kernel value).

    Attributes
    ----------
    points : (m, d) the points of the rows and columns; m = n unless restricted.
    table : (capacity, m) the rows that are kept.
    slot_of, row_in, used : where each row lies or -1, which row each slot holds or -1, and when.
    seen : rows that were computed before, kept or not.
    spare : rows that had left and may be computed again before the cache should grow.
    next_free : slots from here on were never used.
    single, columns, variance : the points for the compiled RBF row, empty if it does not apply.
    """

    seen: NDArray[np.uint8]

    def __init__(self, kernel: Kernel, points: Array, cache_bytes: float, *, single: bool) -> None:
        n = len(points)
        form = kernel.single_form(points, points.mean(axis=0)) if single else None
        # where single precision cannot hold the coordinates of an RBF, rows are double
        single = single and (form is not None or kernel.as_rbf(points[:1], points[0]) is None)
        dtype = np.dtype(np.float32 if single else np.float64)
        rows = min(n, max(LEAST, int(cache_bytes // (n * dtype.itemsize))))
        self.kernel = kernel
        self.memory: NDArray[Any] = np.empty(rows * n, dtype=dtype)
        self.clock, self.lost, self.next_free = 1, 0, 0
        self.all_points = points
        self.all_single, self.variance = np.zeros((0, 0), dtype=np.float32), 1.0
        if form is not None:
            self.all_single = np.ascontiguousarray(form[0], dtype=np.float32)
            self.variance = form[1]
        # entries of the memory that are in use by now
        self.open = int(OPENING // dtype.itemsize) if len(self.all_single) else len(self.memory)
        self.reset()

    @property
    def computed(self) -> int:
        """How many rows were computed so far, whole or restricted."""
        return self.lost + self.next_free

    def reset(self, active: Index | None = None) -> None:
        """Forget all rows, and cover the points ``active`` (all of them: None) from here on."""
        self.lost, self.next_free = self.computed, 0
        self.active: Index = np.arange(len(self.all_points)) if active is None else active
        self._cover()

    def restrict(self, keep: Index) -> None:
        """Keep the rows and columns ``keep`` (ascending places among the present points)."""
        slots, used, seen = self.slot_of[keep], self.used, self.seen[keep]
        held = np.flatnonzero(slots >= 0)
        held = held[np.argsort(slots[held])]  # in the order of the slots: rows move left only
        before, ages = slots[held], used[slots[held]]
        self.active = self.active[keep]
        machines.compact(self.memory, len(self.slot_of), before, keep.astype(np.int64))
        self.lost, self.next_free = self.computed - len(held), len(held)
        self._cover()
        self.slot_of[held] = np.arange(len(held))
        self.row_in[: len(held)] = held
        self.used[: len(held)] = ages
        self.seen = seen

    def _cover(self) -> None:
        """Lay an empty table for the active points over the memory."""
        whole = len(self.active) == len(self.all_points)
        self.points = self.all_points if whole else self.all_points[self.active]
        self.single = self.all_single
        if len(self.single) and not whole:
            self.single = self.all_single[self.active]
        self.columns = np.ascontiguousarray(self.single.T)
        n = len(self.points)
        self.slot_of = np.full(n, -1, dtype=np.int64)
        self.seen = np.zeros(n, dtype=np.uint8)
        self.row_in: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.used: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._lay()

    def _lay(self) -> None:
        """The table on the memory that is open; what it held before stays where it was."""
        n = len(self.points)
        self.capacity = min(n, max(LEAST, self.open // n), len(self.memory) // n)
        self.table = self.memory[: self.capacity * n].reshape(self.capacity, n)
        more = self.capacity - len(self.row_in)
        self.row_in = np.concatenate([self.row_in, np.full(more, -1, dtype=np.int64)])
        self.used = np.concatenate([self.used, np.zeros(more, dtype=np.int64)])
        self.spare = int(WANTED_AGAIN * self.capacity) if self.can_grow else 1 << 62

    @property
    def can_grow(self) -> bool:
        """Whether more of the memory can be opened."""
        return self.capacity < min(len(self.points), len(self.memory) // len(self.points))

    def grow(self) -> None:
        """Open twice as much memory."""
        self.open = 2 * self.capacity * len(self.points)
        self._lay()

    def fetch(self, index: Index) -> None:
        """Compute the rows ``index`` that are missing, in one block; the oldest rows leave."""
        self.clock += 1  # what is asked for now is later than all that is there
        missing = index[self.slot_of[index] < 0]
        unused = np.arange(self.next_free, min(self.capacity, self.next_free + len(missing)))
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
            self.lost += short
        self.slot_of[missing] = slots
        self.row_in[slots] = missing
        self.used[slots] = self.clock
        self.seen[missing] = 1
        self._compute(missing, slots.astype(np.int64))

    def _compute(self, index: Index, slots: NDArray[np.int64]) -> None:
        if len(self.single):
            some = np.ascontiguousarray(self.single[index])
            workers = threads(len(index) * len(self.points))
            machines.rbf_rows(some, self.columns, slots, self.table, workers)
            if self.variance != 1.0:
                self.table[slots] *= self.table.dtype.type(self.variance)
        else:
            self.table[slots] = self.kernel(self.points[index], self.points)

    def product(self, beta: Array) -> Array:
        """K beta (m,) over the non-zero entries of beta (m,), by rows that stay in the cache."""
        result = np.zeros(len(self.points))
        index = np.flatnonzero(beta)
        for start in range(0, len(index), BATCH):
            part = index[start : start + BATCH]
            self.fetch(part)
            result += beta[part] @ self.table[self.slot_of[part]]
        return result

    def product_at(self, index: Index, beta: Array) -> Array:
        """(K beta)[index] for beta (n,) over all points, past the cache and whatever is active."""
        result, source = np.zeros(len(index)), np.flatnonzero(beta)
        if not len(source):
            return result
        if len(self.all_single):
            columns = np.ascontiguousarray(self.all_single[source].T)
            out = np.empty((len(index), 1))
            workers = threads(len(index) * len(source))
            machines.rbf_expand(self.all_single[index], columns, beta[source][None], out, workers)
            return np.asarray(self.variance * out[:, 0])
        size = max(1, BLOCK // len(source))
        for start in range(0, len(index), size):
            part = index[start : start + size]
            block = self.kernel(self.all_points[part], self.all_points[source])
            result[start : start + size] = block @ beta[source]
        return result
