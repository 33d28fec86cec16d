"""The mode of a convex loss on landmarks, rows coming in blocks: :class:`Primal` without its rows.

    P(b, beta) = 1/2 |b|^2 + sum_i w_i g(y_i, f_i),     f = F b + H beta

A pass tells slope, curvature and duality gap at a point (:mod:`mercer.inference.blocks.looks`), and
slopes along the line by which it was reached. Each step is Newton's. Widths over which kinks are
rounded off shrink, about the last a, until the gap of the loss itself is small.

This process holds a sample of the rows. It is solved before, to begin near, and it says how long a
step should be: with slopes s(t) of the sample along the step, and s of all rows where it begins,

    s + s(t) - s(0) = 0.

Most steps take one pass then; where the slopes of all rows say otherwise they are cut or prolonged,
which takes one more. Columns of targets take their steps apart and see the same passes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from mercer.core.arrays import Array
from mercer.inference.base import Report, Task, joined_report
from mercer.inference.blocks.collapsed import broadcast, standing
from mercer.inference.blocks.looks import Ask, Look, answers, looked, some
from mercer.inference.blocks.prepared import BlockRows, BlockSolution, Prepared
from mercer.inference.mode.prox import breadth, has_kinks
from mercer.inference.mode.steps import Descent
from mercer.inference.primal import (
    INNER,
    PATIENCE,
    ROUGH,
    SHRINK,
    WIDE,
    Primal,
    refuse_noise,
)
from mercer.kernels.base import Kernel
from mercer.linalg.blocks.engine import Engine, Part, RowBlock
from mercer.linalg.reduced.features import Features
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses.base import Loss

EACH = 64  # rows a landmark that the sample has
ROOM = 1 << 24  # numbers that the features of the sample may have
LOOSE = 0.1  # of the gap that is due to the width: what steps may leave
NEAR = 0.35  # of the slope at the beginning of a step: what may be left at its end
ROUNDING = 1e-15  # of the objective: steps that promise less may help a, and b no more
NARROW = 1e-4  # about a centre there is no need for less, where rounding of f shows in a
NOTHING = 1e-12  # of the first objective: nothing is left of one that falls for ever
FAINT = 2  # of them in a row
FLAT, TILT = 1e-6, 0.1  # of sum |a| h h' a unit: where beta does not bend, and how much it should
# lengths of a step, of the one that is tried, and between two that are known
AROUND = np.array([1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.25, 1.5, 2.0, 4.0])
WITHIN = np.array([1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8])


class Walker:
    """One latent function on its way: where it is, and about which centres it rounds off.

    Parameters
    ----------
    number : of the column.
    first : the objective on the sample before any step.
    sample : where it stands on the sample, which says how long a step should be.
    width : over which kinks are rounded off, in units of f; None where there are none.
    unit : of f.
    """

    def __init__(
        self, number: int, first: float, sample: Descent, width: float | None, unit: float
    ) -> None:
        self.number, self.first = number, first
        self.sample, self.width, self.unit = sample, width, unit
        self.m, self.steps = len(sample.b), 0
        self.point = np.concatenate([sample.b, sample.beta])
        self.centers = [(np.concatenate([b, beta]), wide) for b, beta, wide in sample.past]
        self.best: Look | None = None

    def ask(self, point: Array, line: Array | None = None, lengths: Array | None = None) -> Ask:
        """Return the question for what is to be seen at a point."""
        points = np.column_stack([*(p for p, _ in self.centers), point])
        widths = [] if self.width is None else [*(w for _, w in self.centers), self.width]
        return Ask(
            self.number,
            points,
            self.unit * np.array(widths, dtype=np.float64),
            np.zeros(len(point)) if line is None else line,
            np.zeros(0) if lengths is None else lengths,
        )

    def note(self, look: Look) -> None:
        """Keep what is seen if it is the best so far."""
        if self.best is None or look.gap <= self.best.gap:
            self.best = look

    def fine(self, look: Look, tol: float) -> bool:
        """Whether the gap is small, also beside an objective that falls to nothing."""
        return look.gap <= tol * max(look.size, NOTHING * self.first)

    def moves(self, tol: float, max_iter: int) -> Generator[Ask, Look, bool]:
        """Ask, and step, until the gap is at most tol times the objective; return if it is."""
        idle, faint, moved, last, tight = 0, 0, -1, np.inf, 1e-2
        look = yield self.ask(self.point)
        while not self.fine(look, tol):
            if self.steps >= max_iter or idle > PATIENCE:
                return False
            rest, step = look.gap - look.wide, self.newton(look)
            small = -float(look.slope @ step) <= ROUNDING * abs(look.objective)
            faint = faint + 1 if small else 0
            loose = max(LOOSE * look.wide, tight * tol * look.size)
            if self.width is None and faint > FAINT:
                return False
            if self.width is not None and self.steps > moved and (rest <= loose or faint > FAINT):
                moved = self.steps
                assert self.best is not None
                idle = 0 if self.best.gap < 0.5 * last else idle + 1
                faint, last, tight = 0, min(last, self.best.gap), 0.1 * tight
                self.centers.append((self.point, self.width))
                s = self.sample
                s.center, self.width = s.bend(s.f).a, max(SHRINK * self.width, NARROW)
                assert s.kappa is not None
                s.kappa = s.kappa * (self.width / self.centers[-1][1])
                look = yield self.ask(self.point)
            elif small:  # no slope along it would be more than rounding
                self.steps, self.point = self.steps + 1, look.point + step
                look = yield self.ask(self.point)
            else:
                look = yield from self.along(look, step, tol)
        return True

    def along(self, look: Look, step: Array, tol: float) -> Generator[Ask, Look, Look]:
        """Go about to where the objective is least along a step; return what is seen there.

        Or at the first point whose gap is small enough.
        """
        self.steps += 1
        m, s = self.m, self.sample
        df = s.features.expand(step[:m]) + s.H @ step[m:]
        first, bend = float(look.slope @ step), float(step[:m] @ step[:m])
        # the sample says how slopes change, all rows where they begin
        flat = first - s.along(s.f, df)[0]
        whole = flat + bend + s.along(s.f + df, df)[0]
        t = 1.0 if abs(whole) <= NEAR * abs(first) else s.search(df, flat, bend)
        flat = float(look.point[:m] @ step[:m])
        ends = {0.0: first}  # slopes that are known
        lengths = t * AROUND
        for _ in range(20):
            now = yield self.ask(look.point + t * step, step, lengths - t)
            ends |= dict(zip(lengths, flat + lengths * bend + now.along, strict=True))
            ends[t] = float(now.slope @ step)
            if abs(ends[t]) <= NEAR * abs(first) or self.fine(now, tol):
                break
            low = max(at for at, slope in ends.items() if slope < 0.0)
            high = min((at for at, slope in ends.items() if not slope < 0.0), default=np.inf)
            if high == np.inf:
                t, lengths = 4.0 * low, 4.0 * low * AROUND[AROUND > 0.25]
                continue
            if high - low <= 1e-14 * high:
                break
            t = 0.5 * (low + high)
            if np.isfinite(ends[high]):
                t = low - ends[low] * (high - low) / (ends[high] - ends[low])
            lengths = low + (high - low) * WITHIN
        self.point, s.f = now.point, s.f + t * df
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
    columns: Sequence[Walker],
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
            columns[number].note(look)
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
    primal = Primal(tol, max_iter)
    primal.check(loss)
    refuse_noise(kernel.diag(Z) - kernel.signal().diag(Z))
    if loss.joint:
        raise ValueError(
            f"{type(loss).__name__} has several latent functions for a target, and blocks of rows "
            "are solved for one at a time; use one binary problem per class"
        )
    gram, begun = standing(kernel, loss, Z), engine.passes
    m, shared = gram.m, broadcast(prepared, gram, loss)
    if engine.rows is None:
        engine.map_sum(_count, {})
    assert engine.rows is not None
    every = max(1, -(-engine.rows // min(EACH * m, ROOM // m)))
    few, total = _sampled(engine, prepared, every)
    own = ReducedGram(kernel, few.X, gram.support, keep=True, single=primal.takes_single)
    few = few._replace(w=few.w * (total / few.w.sum()))
    columns = _begun(primal, loss, own, few, whole=every == 1)

    def see(asks: list[Ask]) -> list[Look]:
        return looked(engine.map_sum(answers, shared | {"asks": asks}), asks, m)

    reports, points = [], []
    for one, fine in zip(columns, walk(columns, see, tol, max_iter), strict=True):
        assert one.best is not None
        message = "" if fine else "the duality gap does not fall any further"
        details = {"objective": one.best.objective, "landmarks": m, "active": one.best.active}
        details["sample_steps"] = one.sample.steps
        reports.append(Report(fine, one.steps, one.best.gap, message, details))
        points.append(one.best.point)
    at = np.column_stack(points)
    report = joined_report(reports, "objective")
    report.details.update(own.report(), dropped=int((~gram.used).sum()), jitter=gram.jitter)
    report.details.update(passes=engine.passes - begun, landmarks=m, sample=len(few.w))
    return BlockSolution(
        -report.details["objective"],
        gram.support,
        gram.used,
        solve_triangular(gram.L, at[:m], lower=True, trans="T"),
        at[m:] if len(at) > m else None,
        None,
        report,
    )


def _begun(
    primal: Primal, loss: Loss, gram: ReducedGram, few: BlockRows, *, whole: bool
) -> list[Walker]:
    """Return columns where they stand on the sample, which may be the ``whole`` table."""
    features, kinks, n = Features(gram), has_kinks(loss), len(few.w)
    columns, c = [], 0 if few.H is None else few.H.shape[1]
    for j, y in enumerate(few.y.T):
        task = Task(gram, y, loss, few.w, np.zeros(n), few.H)
        level = Descent(task, features, np.zeros(gram.m), np.zeros(c))
        unit, width = breadth(loss, y, few.w), WIDE if kinks else None
        first = abs(level.objective(level.f, level.b))
        if whole:
            last = primal.lowered(level, width, primal.tol, 0)[1]
            width = last if kinks else None
        else:  # few rows follow their noise: as far as the first width, no further
            level.kappa = None if width is None else width * unit * loss.width(y) / few.w
            level.settle()
            level.descend(1e-2 * ROUGH * first, LOOSE, INNER, rough=True)
        columns.append(Walker(j, first, level, width, unit))
    return columns


def _count(block: RowBlock, _: Part) -> Part:
    return {"rows": len(block.X)}


def _sampled(engine: Engine, prepared: Prepared, every: int) -> tuple[BlockRows, float]:
    """Return every so many rows of the table, and the weight of all."""
    part = engine.map_merge(partial(_sample, prepared, every), {}, _joined)
    if not len(part["w"]) and every > 1:  # tiny blocks, and of those that count none was met
        return _sampled(engine, prepared, 1 + every // 8)
    return BlockRows(part["X"], part["y"], part["w"], part["H"]), float(part["total"])


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
