"""The latest rows of a stream, and a watch on how well they are foreseen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array

ALLOWED, ALARM = (
    0.25,
    40.0,
)  # deviations: that a row may lose for nothing, and that sum up to a change
FIRST = 200  # rows after which mean and deviation of a loss are known
LIMIT = 4.0  # deviations of one row that count: a single outlier is no change


@dataclass(frozen=True, eq=False)
class Latest:
    """The latest rows in the user's units: x, y, weight and log density before it was learned."""

    table: Array  # (n, d + 3)

    @classmethod
    def empty(cls, d: int) -> Latest:
        """Return no rows of d columns."""
        return cls(np.zeros((0, d + 3)))

    @property
    def X(self) -> Array:
        """(n, d)."""
        return np.ascontiguousarray(self.table[:, :-3])

    @property
    def y(self) -> Array:
        """(n,)."""
        return np.ascontiguousarray(self.table[:, -3])

    @property
    def w(self) -> Array:
        """(n,)."""
        return np.ascontiguousarray(self.table[:, -2])

    @property
    def logs(self) -> Array:
        """(n,)."""
        return np.ascontiguousarray(self.table[:, -1])

    def with_rows(self, X: Array, y: Array, w: Array, logs: Array, most: int) -> Latest:
        """Return the latest ``most`` rows, with b further ones."""
        more = np.column_stack([X, y, w, logs])[-most:]
        kept = min(len(self.table), most - len(more))
        return Latest(np.concatenate([self.table[len(self.table) - kept :], more]))

    def first(self, count: int) -> Latest:
        """Return the first rows, so many."""
        return Latest(self.table[:count])

    def last(self, count: int) -> Latest:
        """Return the last rows, at most so many."""
        return Latest(self.table[max(0, len(self.table) - count) :])


@dataclass(frozen=True)
class DriftWatch:
    """Whether rows are foreseen worse than before: a cumulative sum (Page 1954), theory (O22).

    ``total`` sums by how many deviations -log p exceeds its mean, less what is allowed, and never
    falls below zero. ``rows`` have been seen since the kernel was learned, the last ``risen`` of
    them since the sum was zero.
    """

    rows: int = 0
    mean: float = 0.0
    square: float = 0.0  # sum of squares about the mean
    total: float = 0.0
    risen: int = 0

    @classmethod
    def after(cls, logs: Array) -> DriftWatch:
        """Begin after rows (n,) that were learned anew, with what the later half lost."""
        return cls().given(-logs[len(logs) // 2 :])

    @property
    def alarmed(self) -> bool:
        """Whether the sum has reached what is called a change."""
        return self.total >= ALARM

    def given(self, losses: Array) -> DriftWatch:
        """Return it given -log p (b,) of further rows.

        Examples
        --------
        >>> import numpy as np
        >>> watch = DriftWatch().given(np.tile([0.0, 1.0], 150))
        >>> watch.given(np.full(20, 0.5)).alarmed, watch.given(np.full(20, 2.0)).alarmed
        (False, True)
        """
        b = len(losses)
        if not b:
            return self
        total, risen = 0.0, 0
        if self.rows >= FIRST:
            deviation = np.sqrt(self.square / self.rows) or 1.0
            steps = np.clip((losses - self.mean) / deviation, -LIMIT, LIMIT) - ALLOWED
            path = self.total + np.cumsum(steps)
            lowest = np.minimum(np.minimum.accumulate(path), 0.0)
            total = float(path[-1] - lowest[-1])
            zero = np.flatnonzero(path <= lowest)
            risen = self.risen + b if not len(zero) else b - 1 - int(zero[-1])
        mean = float(losses.mean())
        rows, shift = self.rows + b, mean - self.mean
        square = self.square + float(((losses - mean) ** 2).sum())
        square += shift * shift * self.rows * b / rows
        return DriftWatch(rows, self.mean + shift * b / rows, square, total, risen)
