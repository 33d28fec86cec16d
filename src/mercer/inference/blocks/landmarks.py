"""The mode of a convex loss on landmarks, rows coming in blocks: :class:`Primal` without its rows.

    P(b, beta) = 1/2 |b|^2 + sum_i w_i g(y_i, f_i),     f = F b + H beta

A pass tells slope, curvature and duality gap at a point (:mod:`mercer.inference.blocks.looks`), and
slopes along the line by which it was reached. Each step is Newton's, tried at its full length; one
that is too long is cut where those slopes change their sign, which takes one pass more. Widths over
which kinks are rounded off shrink, about the last a, until the gap of the loss itself is small.

A sample of the rows, which this process holds, is solved in the same way before: from there few
passes are left. Columns of targets take their steps apart and see the same passes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from mercer.core.arrays import Array
from mercer.inference.base import Report, joined_report
from mercer.inference.blocks.looks import Ask, Look, Looks, looked, some, sums
from mercer.inference.blocks.prepared import BlockSolution, Prepared, Rows
from mercer.inference.mode.prox import breadth, has_kinks
from mercer.inference.primal import NARROWEST, PATIENCE, ROUGH, SHRINK, WIDE, Primal
from mercer.kernels.base import Kernel
from mercer.linalg.blocks.engine import Engine, Part, RowBlock
from mercer.linalg.reduced.features import Features
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.reduced.triangle import triangle
from mercer.losses.base import Loss

EACH = 64  # rows a landmark that the sample has
ROOM = 1 << 24  # numbers that the features of the sample may have
LOOSE = 0.1  # of the gap that is due to the width: what steps may leave
NEAR = 0.5  # of the slope at the beginning of a step: what may be left at its end
FLAT, TILT = 1e-6, 0.1  # of sum |a| h h' a unit: where beta does not bend, and how much it should
LENGTHS = np.array([4.0**-8, 4.0**-6, 4.0**-5, 4.0**-4, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 3 / 16])
LENGTHS = np.concatenate([LENGTHS, [1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.5, 2.5, 5.0]])

Moves = Generator[Ask, Look, bool]


class Column:
    """One latent function on its way: where it is, and about which centres it rounds off.

    Parameters
    ----------
    number, m, c : of the column, and how many entries b and beta have.
    unit : of f, by which widths are counted.
    kinks : whether there is anything to round off.
    """

    def __init__(self, number: int, m: int, c: int, unit: float, kinks: bool) -> None:
        self.number, self.m, self.unit = number, m, unit
        self.width = WIDE if kinks else None
        self.centers: list[tuple[Array, float]] = []
        self.best: Look | None = None
        self.point, self.steps = np.zeros(m + c), 0

    def ask(self, point: Array, line: Array | None = None, lengths: Array | None = None) -> Ask:
        """Return the question for what is to be seen at a point."""
        kinks = self.width is not None
        points = np.column_stack([p for p, _ in self.centers] + [point])
        widths = [*(w for _, w in self.centers), self.width] if kinks else []
        return Ask(
            self.number,
            points,
            self.unit * np.array(widths, dtype=np.float64),
            np.zeros(len(point)) if line is None else line,
            np.zeros(0) if lengths is None else lengths,
        )

    def moves(self, tol: float, max_iter: int) -> Moves:
        """Ask, and step, until the gap is at most tol times the objective; return if it is."""
        self.best, idle, last, tight = None, 0, np.inf, 1e-2
        look = yield self.ask(self.point)
        while True:
            if self.best is None or look.gap <= self.best.gap:
                self.best = look
            if look.gap <= tol * look.size:
                return True
            if self.steps >= max_iter or idle > PATIENCE:
                return False
            rest = look.gap - look.wide
            if self.width is not None and rest <= max(LOOSE * look.wide, tight * tol * look.size):
                idle = 0 if self.best.gap < 0.5 * last else idle + 1
                last, tight = min(last, self.best.gap), 0.1 * tight
                self.centers.append((self.point, self.width))
                self.width = max(SHRINK * self.width, NARROWEST)
                look = yield self.ask(self.point)
                continue
            look = yield from self.step(look)
            self.point = look.point

    def step(self, look: Look) -> Generator[Ask, Look, Look]:
        """Go about to where the objective is least along Newton's step; return what is seen."""
        self.steps += 1
        step, m = self.newton(look), self.m
        first = float(look.slope @ step)
        flat, bend = float(look.point[:m] @ step[:m]), float(step[:m] @ step[:m])
        low, high, t, lengths = 0.0, np.inf, 1.0, LENGTHS
        fell = first  # slope at low
        for _ in range(20):
            now = yield self.ask(look.point + t * step, step, lengths - t)
            slope = float(now.slope @ step)
            if abs(slope) <= NEAR * abs(first):
                break
            at = np.append(lengths, t)
            slopes = np.append(flat + lengths * bend + now.along, slope)
            falls, rises = slopes < 0.0, ~(slopes < 0.0)  # beyond all numbers is too far
            if np.any(falls & (at > low)):
                i = int(np.argmax(np.where(falls, at, -np.inf)))
                low, fell = float(at[i]), float(slopes[i])
            rose = np.inf
            if np.any(rises & (at < high)):
                i = int(np.argmin(np.where(rises, at, np.inf)))
                high, rose = float(at[i]), float(slopes[i])
            if high == np.inf:
                t, lengths = 4.0 * low, 4.0 * low * LENGTHS[LENGTHS > 1 / 8]
                continue
            t = low - fell * (high - low) / (rose - fell) if np.isfinite(rose) else 0.5 * (low + high)
            if high - low <= 1e-14 * high:
                break
            lengths = low + (high - low) * LENGTHS[LENGTHS < 1.0]
        return now

    def newton(self, look: Look) -> Array:
        """Return Newton's step."""
        m, M = self.m, look.curve.copy()
        M[np.arange(m), np.arange(m)] += 1.0
        if len(M) > m:  # where no row is active beta does not bend
            tilt = look.tilt / self.unit
            scale = np.trace(tilt) + np.finfo(float).tiny
            size = tilt + 1e-12 * scale * np.eye(len(tilt))
            bends = eigh(M[m:, m:] / scale, size / scale, eigvals_only=True)
            M[m:, m:] += (TILT if bends[0] < FLAT else 1e-10) * size
        factor = cho_factor(M, lower=True, check_finite=False)
        return np.asarray(-cho_solve(factor, look.slope, check_finite=False))


def walk(
    columns: Sequence[Column],
    see: Callable[[list[Ask]], list[Look]],
    tol: float,
    max_iter: int,
) -> list[bool]:
    """Let columns take their steps, all that are on their way in the same passes."""
    ways = {one.number: one.moves(tol, max_iter) for one in columns}
    asks = {number: next(way) for number, way in ways.items()}
    fine = [False] * len(columns)
    while asks:
        looks = see(list(asks.values()))
        for number, look in zip(list(asks), looks, strict=True):
            try:
                asks[number] = ways[number].send(look)
            except StopIteration as end:
                fine[number] = end.value
                del asks[number]
    return fine


def mode(
    engine: Engine,
    prepared: Prepared,
    kernel: Kernel,
    loss: Loss,
    Z: Array,
    tol: float = 1e-3,
    max_iter: int = 500,
) -> BlockSolution:
    """Return the mode of a convex loss on the landmarks Z (m, d), one for each column of targets.

    Parameters
    ----------
    engine, prepared : where the blocks are, and what makes rows of them.
    kernel, loss : the covariance, without noise parts, and what is observed.
    tol : stop at a duality gap of tol times the objective (above the least the loss can be).
    max_iter : Newton steps at most, on the sample and again on all rows.
    """
    Primal(tol, max_iter).check(loss)
    signal = kernel.signal()
    if np.any(kernel.diag(Z) != signal.diag(Z)):
        raise ValueError(
            "a landmark machine has no use for noise parts of the kernel: the loss says what "
            "is noise; leave them out"
        )
    if loss.joint:
        raise ValueError(
            f"{type(loss).__name__} has several latent functions for a target, and blocks of rows "
            "are solved for one at a time; use one binary problem per class"
        )
    L, used, jitter = triangle(signal(Z))
    Z = np.ascontiguousarray(Z[used])
    m, begun = len(Z), 0
    passes = 0
    if engine.rows is None:
        engine.map_sum(_count, {})
        passes += 1
    assert engine.rows is not None
    every = max(1, -(-engine.rows // min(EACH * m, ROOM // m)))
    part = engine.map_merge(partial(_sample, prepared, every), {}, _joined)
    passes += 1
    few = Rows(part["X"], part["y"], part["w"], part["H"])
    c = 0 if few.H is None else few.H.shape[1]
    kinks = has_kinks(loss)
    columns = [
        Column(j, m, c, breadth(loss, few.y[:, j], few.w), kinks) for j in range(few.y.shape[1])
    ]
    gram = ReducedGram(kernel, few.X, Z, keep=True)
    features, share = Features(gram), float(part["total"] / few.w.sum())

    def on_few(asks: list[Ask]) -> list[Look]:
        found = sums(loss, features, few, asks)
        return looked({k: share * v for k, v in found.items()}, asks, m)

    walk(columns, on_few, tol if every == 1 else max(tol, ROUGH), max_iter)
    begun = max(one.steps for one in columns)
    task = Looks(prepared, signal, loss, Z, L)

    def on_all(asks: list[Ask]) -> list[Look]:
        nonlocal passes
        passes += 1
        return looked(engine.map_sum(task, {"asks": asks}), asks, m)

    for one in columns:
        one.steps = 0
    fine = walk(columns, on_all, tol, max_iter)
    reports = []
    for one, good in zip(columns, fine, strict=True):
        assert one.best is not None
        details: dict[str, Any] = {"objective": one.best.objective, "landmarks": m}
        details |= {"active": one.best.active, "passes": passes}
        message = "" if good else "the duality gap does not fall any further"
        reports.append(Report(good, one.steps, one.best.gap, message, details))
    points = np.column_stack([one.best.point for one in columns])
    report = joined_report(reports, "objective")
    report.details.update(
        passes=passes, landmarks=m, jitter=jitter, sample=len(few.w), sample_steps=begun
    )
    return BlockSolution(
        -report.details["objective"],
        Z,
        used,
        solve_triangular(L, points[:m], lower=True, trans="T"),
        points[m:] if c else None,
        None,
        report,
    )


def _count(block: RowBlock, _: Part) -> Part:
    return {"rows": len(block.X)}


def _sample(prepared: Prepared, every: int, block: RowBlock, _: Part) -> Part:
    """Return every so many rows of a block, and the weight of all."""
    rows = prepared(block)
    return some(rows, block.number, every)._asdict() | {"total": float(rows.w.sum())}


def _joined(left: Part, right: Part) -> Part:
    found = {"total": left["total"] + right["total"]}
    for name in ("X", "y", "w", "H"):
        parts = [left[name], right[name]]
        found[name] = None if left[name] is None else np.concatenate(parts)
    return found
