"""The box-constrained quadratic programme of support vector machines, and its ascent by pairs.

    maximise  p'b - sum_t eps_t |b_t| - 1/2 b'K b,   low <= b <= high,
              sum of b fixed within each segment (with a bias)                   (GPML 6.38, 6.41)

The steps run in compiled code on the variables that can still be part of a violating pair. One at a
bound (or at its kink) whose slopes lie strictly outside those of all possible partners,
up_t < min down and down_t > max up, belongs to no violating pair now and mostly never again
(Joachims 1998; Fan, Chen & Lin 2005). It is set aside, and what the others have moves together in
memory. Before the end the slopes of all variables are brought up to date, and whoever violates
optimality comes back. Theory (S3), (S4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._native import machines
from mercer.core.arrays import Array, Index, threads
from mercer.linalg.rows import BATCH, RowCache
from mercer.losses.base import Loss

Mask = NDArray[np.bool_]


@dataclass
class Programme:
    """A quadratic programme over N variables, which belong to the n points of a Gram.

    Of the segments (begin, end, column) the variables begin .. end-1 have a fixed sum and belong to
    the points column, column + 1, ...
    """

    linear: Array  # (N,) p
    low: Array  # (N,) the box, low <= 0 <= high
    high: Array
    kink: Array  # (N,) eps
    start: Array  # (N,) a feasible point
    segments: NDArray[np.int64]  # (g, 3)
    bias: bool = True  # whether the sums are fixed; without, there is one segment
    order: Index | None = None  # (n,) the point of each column; None: as they are
    enough: float = np.inf  # an objective beyond which it does not matter where the maximum is

    def columns(self) -> Index:
        """The column of each variable, (N,)."""
        index = np.empty(len(self.linear), dtype=np.intp)
        for begin, end, column in self.segments:
            index[begin:end] = np.arange(column, column + end - begin)
        return index

    def free(self, beta: Array) -> Mask:
        """Which variables are held by their slope, not by a bound or a kink: (N,)."""
        inside = (beta > self.low) & (beta < self.high)
        return np.asarray(inside & ~((beta == 0) & (self.kink > 0)))


def dual_of(loss: Loss, y: Array, weights: Array, *, bias: bool) -> Programme:
    """Return the dual of sum_i w_i g(y_i, f_i) + 1/2 |f|^2 for a loss of straight lines.

    With one knot t and slopes s_0 < s_1 around it b lies in [-w s_1, -w s_0] and p = t; with two
    and no loss between them p is their middle, and eps half their distance. y and weights are (n,).
    """
    knots, slopes = loss.pieces(y)  # type: ignore[attr-defined]  # asked for before: needs
    if len(knots) > 2 or (len(knots) == 2 and np.any(slopes[1] != 0.0)):
        raise ValueError(
            f"SMO inference knows losses with one knot, or two and no loss between them, and "
            f"{type(loss).__name__} has others; use inference='dual'"
        )
    n, half = len(y), 0.5 * (knots[-1] - knots[0])
    return Programme(
        linear=np.ascontiguousarray(knots[0] + half),
        low=-weights * slopes[-1] + 0.0,
        high=-weights * slopes[0] + 0.0,
        kink=half,
        start=np.zeros(n),
        segments=one_segment(n),
        bias=bias,
    )


def one_segment(n: int) -> NDArray[np.int64]:
    """Return the segment of n variables, one for each point: (1, 3)."""
    return np.array([[0, n, 0]], dtype=np.int64)


def directions(P: Programme, beta: Array, slope: Array) -> tuple[Array, Array]:
    """Slope of the objective when a variable rises (-inf: cannot), and when it falls (inf)."""
    up = np.where(beta < P.high, slope + np.where(beta >= 0, -P.kink, P.kink), -np.inf)
    down = np.where(beta > P.low, slope + np.where(beta > 0, -P.kink, P.kink), np.inf)
    return up, down


def violations(P: Programme, beta: Array, slope: Array) -> float:
    """The largest violation of optimality: max up - min down of a segment, >= 0.

    Without a bias each variable stands alone: max up and -min down.
    """
    up, down = directions(P, beta, slope)
    if not P.bias:
        return float(max(up.max(), -down.min(), 0.0))
    return max(float(up[begin:end].max() - down[begin:end].min()) for begin, end, _ in P.segments)


def sums_at(index: Index, values: Array, n: int) -> Array:
    """Return the sum of the values of each index, (n,)."""
    return np.asarray(np.bincount(index, values, n), dtype=np.float64)


def gap_of(P: Programme, beta: Array, slope: Array, levels: Array) -> float:
    """How much the objective can lie below its maximum: that of its tangent, over the box.

    With u = slope - level it is sum_t max_c (u_t c - eps_t |c|) - (u_t b_t - eps_t |b_t|), at least
    0 (up to rounding); the sums over the segments are fixed, and their levels drop out.
    """
    u = slope.copy()
    if P.bias:
        for (begin, end, _), value in zip(P.segments, levels, strict=True):
            u[begin:end] -= value
    ends = np.maximum(u * P.high - P.kink * P.high, u * P.low + P.kink * P.low)
    return float((np.maximum(ends, 0.0) - (u * beta - P.kink * np.abs(beta))).sum())


def levels_of(P: Programme, beta: Array, slope: Array) -> Array:
    """The multiplier of each segment: mean over free variables, else the middle of its bounds."""
    if not P.bias:
        return np.zeros(1)
    up, down = directions(P, beta, slope)
    free = P.free(beta)
    levels = np.empty(len(P.segments))
    for g, (begin, end, _) in enumerate(P.segments):
        inside = slice(begin, end)
        if np.any(free[inside]):
            shifted = slope[inside] - np.sign(beta[inside]) * P.kink[inside]
            levels[g] = shifted[free[inside]].mean()
        else:
            levels[g] = 0.5 * (up[inside].max() + down[inside].min())
    return levels


# Moving a row costs about as much as a step. What this saves is the share of the variables that
# leave times the steps to come, for which those since the last time stand: that product must be
# this many times the rows that move. Problems of fewer variables than SMALLEST are left whole.
WORTH, LEAST_SHARE, SMALLEST = 0.25, 0.05, 500
PIECE = 4096  # variables for which a thread pays: a step passes over them in about two microseconds


class Ascent:
    """A programme on the way to its maximum.

    ``beta``, ``slope`` (N,) are those of all variables; those of the active ones, ``kept`` (None:
    all), lie in ``now_*``. ``pause`` are the steps until the next look at what could be set aside,
    ``steps`` those since variables were set aside or came back.
    """

    def __init__(self, programme: Programme, rows: RowCache) -> None:
        P = programme
        self.P, self.rows, self.columns = P, rows, P.columns()
        self.beta: Array = P.start.astype(np.float64).copy()
        self.slope: Array = P.linear - rows.product(self._sums(self.beta))[self.columns]
        self.diagonal = rows.kernel.diag(rows.points)[self.columns].astype(np.float32)
        self.aside: list[tuple[Index, Array]] = []  # variables, and beta when they left
        self._take(None)

    def _sums(self, beta: Array) -> Array:
        """The coefficient of each point, (n,)."""
        return sums_at(self.columns, beta, len(self.rows.all_points))

    def _take(self, kept: Index | None) -> None:
        """Work on the variables ``kept`` (None: all) from here on; the rows are ready for them."""
        P = self.P
        self.kept = kept
        self.now, self.now_beta, self.now_slope = P, self.beta, self.slope
        self.now_diagonal, self.now_columns = self.diagonal, self.columns
        if kept is not None:
            place = np.full(len(self.rows.all_points), -1, dtype=np.intp)
            place[self.rows.active] = np.arange(len(self.rows.active))
            self.now_columns = place[self.columns[kept]]
            begin, end = (np.searchsorted(kept, P.segments[:, side]) for side in (0, 1))
            segments = np.column_stack([begin, end, self.now_columns[begin]]).astype(np.int64)
            names = ("linear", "low", "high", "kink", "start")
            arrays: dict[str, Any] = {name: getattr(P, name)[kept] for name in names}
            self.now = replace(P, **arrays, segments=segments, order=None)
            self.now_beta, self.now_slope = self.beta[kept], self.slope[kept]
            self.now_diagonal = self.diagonal[kept]
        self.pause, self.steps = self._pause(), 0

    def _pause(self) -> int:
        return max(SMALLEST, len(self.now_beta) // 8)

    def climb(self, tol: float, limit: int) -> tuple[int, float, float, bool]:
        """Up to ``limit`` steps: how many, the violation, the gain, and whether to call again."""
        P, rows = self.now, self.rows
        cache = (rows.table, rows.slot_of, rows.row_in, rows.used, rows.seen, rows.next_free)
        points = (rows.spare, rows.single, rows.columns, rows.variance)
        state, diagonal = (self.now_slope, self.now_beta, P.low, P.high, P.kink), self.now_diagonal
        ended = machines.climb(
            *cache,
            *points,
            P.segments,
            *state,
            diagonal,
            P.bias,
            tol,
            limit,
            rows.clock,
            threads(len(self.now_beta), PIECE),
        )
        made, violation, wanted, rows.next_free, rows.spare, rows.clock, left, gained = ended
        rows.lost += left
        self.pause -= made
        self.steps += made
        if wanted >= 0:
            if rows.can_grow:
                rows.grow()
            rows.fetch(self._next_rows(wanted))
        return made, violation, gained, wanted >= 0

    def _next_rows(self, wanted: int) -> Index:
        """The wanted row and those likely to be wanted next: of the most violating variables."""
        up, down = directions(self.now, self.now_beta, self.now_slope)
        half = min(BATCH // 2, len(up) - 1)
        likely = [np.argpartition(-up, half)[:half], np.argpartition(down, half)[:half]]
        candidates = np.unique(self.now_columns[np.concatenate(likely)])
        missing = candidates[(self.rows.slot_of[candidates] < 0) & (candidates != wanted)]
        return np.concatenate([[wanted], missing[: BATCH - 1]]).astype(np.intp)

    def shrink(self) -> None:
        """Set aside the variables that no violating pair can contain, if they are many."""
        needed = _needed(self.now, self.now_beta, self.now_slope)
        keep = np.zeros(len(self.rows.points), dtype=bool)
        keep[self.now_columns[needed]] = True  # a point stays if one of its variables does
        stays = keep[self.now_columns]
        share, held = 1.0 - stays.mean(), np.count_nonzero(self.rows.slot_of[keep] >= 0)
        if share < LEAST_SHARE or share * self.steps < WORTH * held or len(stays) < SMALLEST:
            self.pause = self._pause()
            return
        kept = np.arange(len(self.beta)) if self.kept is None else self.kept
        self._write()
        self.aside.append((kept[~stays], self.beta.copy()))
        self.rows.restrict(np.flatnonzero(keep))
        self._take(kept[stays])

    def restore(self) -> float:
        """Bring all slopes up to date, for all variables; returns the largest violation."""
        self._write()
        for index, before in self.aside:
            change = self._sums(self.beta - before)
            self.slope[index] -= self.rows.product_at(self.columns[index], change)
        self.aside = []
        return violations(self.P, self.beta, self.slope)

    def drift(self) -> float:
        """How far slopes lie from those of the coefficients, in double precision, at 4 places."""
        index = np.arange(4) * (len(self.beta) - 1) // 3
        points, sums = self.rows.all_points, self._sums(self.beta)
        exact = self.rows.kernel(points[self.columns[index]], points) @ sums
        return float(np.abs(self.P.linear[index] - exact - self.slope[index]).max())

    def widen(self, again: bool) -> None:
        """After restore: work on the variables that are needed (``again``), or on all."""
        kept = active = None
        if again:
            keep = np.zeros(len(self.rows.all_points), dtype=bool)
            keep[self.columns[_needed(self.P, self.beta, self.slope)]] = True
            active = np.flatnonzero(keep)
            kept = np.flatnonzero(keep[self.columns])
            self.aside.append((np.flatnonzero(~keep[self.columns]), self.beta.copy()))
        self.rows.reset(active)
        self._take(kept)

    def _write(self) -> None:
        if self.kept is not None:
            self.beta[self.kept], self.slope[self.kept] = self.now_beta, self.now_slope


def _needed(P: Programme, beta: Array, slope: Array) -> Mask:
    """The variables that a violating pair can contain, and the extremes of every segment."""
    up, down = directions(P, beta, slope)
    needed = np.zeros(len(beta), dtype=bool)
    for begin, end, _ in P.segments:
        rise, fall = up[begin:end], down[begin:end]
        most, least = rise.max(), fall.min()
        if not P.bias:  # a variable moves alone: it stays aside while it is safe by the violation
            most = max(most, -least, 0.0)
            least = -most
        needed[begin:end] = (rise >= least) | (fall <= most)
        needed[begin + int(np.argmax(rise))] = True
        needed[begin + int(np.argmin(fall))] = True
    return needed
