"""Primal: the mode of a convex loss on the features of few landmarks, for very many rows.

With the features phi_i of the reduced prior (rows of F, Q = F F') a function is f = F b + H beta,

    P(b, beta) = 1/2 |b|^2 + sum_i w_i g(y_i, f_i)
    D(a) = -1/2 |F'a|^2 - sum_i w_i g*(-a_i/w_i),     H'a = 0.

A kink of g is rounded off by its Moreau envelope of width kappa about the last a,

    e_i(f) = min_z w_i g(y_i, z) + (z - f + kappa_i a_i)^2 / (2 kappa_i),

on which Newton steps need the rows that lie on the rounded part only:

    (I + F'E F) db = F'a - b,      E_i = e_i'' > 0 on few rows

and an exact line search, O(n) for each trial, no product with F. Steps end where |b - F'a|^2 / 2 is
small, not by what they promise: that hides an error in a of the size 1 / kappa. Then a is the dual
variable of b = F'a, and the duality gap P - D of the loss itself, kinks and all, says how far both
are from the optimum. The first steps see every s-th row only.

Reference: Chapelle (2007); Rockafellar (1976); Li, Sun and Toh (2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array
from mercer.inference.base import Report, Solution, Task, joined_report
from mercer.inference.mode.dual import curvature
from mercer.inference.mode.newton import ModeInference
from mercer.inference.mode.prox import conjugate, has_kinks, near
from mercer.linalg.gram import NoSpread
from mercer.linalg.reduced.features import Features
from mercer.linalg.reduced.gram import ReducedGram

WIDE, SHRINK = 0.25, 0.25  # the first width in units of the targets, and from one to the next
NARROWEST = 1e-6
EACH, TIMES = 64, 8  # rows a landmark with which to begin, where there are so many times more
ROUGH = 0.02  # of the objective: the gap at which a level with few rows ends
LOOSE = 0.1
ENOUGH = 8  # rows a landmark from which the curvature is taken at the first width
INNER = 60  # Newton steps for one width
SLOW = 30  # of them after which products are in double precision, if they were in single
EXACT = 1e-2  # of its slope at the beginning: where a line search ends
SETTLED = 1e-10  # of sum |a|: how far from zero H'a may be
PATIENCE = 6  # widths without a better gap before it is called rounding


class Bend(NamedTuple):
    """The loss, its kinks rounded off, at some f: -a (n,) is its slope, E (n,) its curvature."""

    a: Array
    E: Array


@dataclass
class Descent:
    """One latent function on every s-th row; ``b``, ``beta`` and f (n,) move."""

    task: Task  # of these rows
    features: Features
    b: Array
    beta: Array
    kappa: Array | None = None  # widths (n,) of what is rounded off
    center: Array | float = 0.0  # the last a

    def __post_init__(self) -> None:
        self.H, self.f, self.steps = self.task.H, np.zeros(0), 0
        self.f = self.task.mean + self.features.expand(self.b) + self.H @ self.beta
        self.prox = near(self.task.loss, self.task.y, self.task.w)

    def bend(self, f: Array) -> Bend:
        """Return slope and curvature of the loss at f (n,)."""
        t = self.task
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kappa is None:
                d1, d2, _ = t.loss.derivatives(t.y, f)
                return Bend(-t.w * d1, t.w * np.maximum(d2, 0.0))
            _, a, slope = self.prox(f - self.kappa * self.center, self.kappa)
            return Bend(a, (1.0 - slope) / self.kappa)

    def objective(self, f: Array, b: Array) -> float:
        """P, of the loss itself."""
        return float(self.task.w @ self.task.loss.value(self.task.y, f) + 0.5 * b @ b)

    def search(self, df: Array, flat: float = 0.0, along: float = 0.0) -> float:
        """Return where the objective is least along df (n,): the root of its rising slope.

        The penalty adds the slope ``flat`` + t ``along``.
        """
        square = df * df
        first = flat - float(self.bend(self.f).a @ df)
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(100):
            at = self.bend(self.f + t * df)
            with np.errstate(invalid="ignore", over="ignore"):
                slope = flat + t * along - float(at.a @ df)
                rise = along + float(at.E @ square)
            if abs(slope) <= EXACT * abs(first):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)  # beyond all numbers is too far
            step = t - slope / rise if rise > 0.0 and np.isfinite(slope) else np.inf
            inside = low < step < high
            t = step if inside else (0.5 * (low + high) if high < np.inf else 4.0 * t)
            if high - low <= 1e-14 * high:
                break
        return t

    def settle(self) -> None:
        """Move beta to its best, the rest as it is: then H'a = 0. No product with F."""
        if not self.H.shape[1]:
            return
        for _ in range(50):
            at = self.bend(self.f)
            slope = self.H.T @ at.a
            if np.abs(slope).max() <= SETTLED * float(np.abs(self.H).max() * np.abs(at.a).sum()):
                break
            inner = self.H.T @ (at.E[:, None] * self.H)
            down = np.linalg.lstsq(inner, slope, rcond=1e-12)[0]
            if not down @ slope > 1e-8 * np.linalg.norm(down) * np.linalg.norm(slope):
                down = slope  # flat there: on, until it rises
            df = self.H @ down
            t = self.search(df)
            self.beta, self.f = self.beta + t * down, self.f + t * df

    def descend(self, enough: float, loose: float, limit: int, rough: bool) -> float:
        """Newton steps until |b - F'a|^2 / 2 is at most ``enough``; return the gap of b and a.

        It need not be less than ``loose`` times what is due to the width. With a ``rough``
        curvature where that is good enough.
        """
        m, k, last = self.features.m, self.H.shape[1], self.steps + limit
        while True:
            at = self.bend(self.f)
            g = np.concatenate([self.b - self.features.down(at.a), -(self.H.T @ at.a)])
            off, wide = 0.5 * float(g[:m] @ g[:m]), self.rounded(at.a)
            if off <= max(enough, loose * wide) or self.steps >= last:
                return off + wide
            E = thinned(at.E, ENOUGH * m) if rough else at.E
            M = self.features.curved(E, self.H)
            M[np.arange(m), np.arange(m)] += 1.0
            if k:  # where no row is active beta does not bend: a little, so that there is a step
                tilt = 1e-10 * float(np.abs(at.a).max() + np.max(at.E)) + 1e-300
                M[m:, m:] += tilt * (self.H.T @ self.H)
            step = -cho_solve(cho_factor(M, lower=True, check_finite=False), g, check_finite=False)
            df = self.features.expand(step[:m]) + self.H @ step[m:]
            t = self.search(df, float(self.b @ step[:m]), float(step[:m] @ step[:m]))
            self.b, self.beta = self.b + t * step[:m], self.beta + t * step[m:]
            self.f = self.f + t * df
            self.steps += 1
            self.settle()

    def rounded(self, a: Array) -> float:
        """Return the part of the gap that is due to the width of what is rounded off."""
        t = self.task
        if self.kappa is None:
            return 0.0
        return float(t.w @ (t.loss.value(t.y, self.f) + self._star(a)) + a @ self.f)

    def _star(self, a: Array) -> Array:
        return conjugate(self.task.loss, self.task.y, -a / self.task.w)

    def certified(self, features: Features) -> Certified:
        """Return a with the function that it stands for, b = F'a, and their duality gap."""
        t, a = self.task, self.bend(self.f).a
        b = features.down(a)
        smooth = t.mean + features.expand(b)
        f = smooth + self.H @ self.beta
        value = float(t.w @ t.loss.value(t.y, f))
        gap = value + float(t.w @ self._star(a)) + float(a @ smooth)
        return Certified(a, self.beta, f, max(gap, 0.0), value + 0.5 * float(b @ b))


class Certified(NamedTuple):
    """A dual variable a (n,), the function F'a + H beta of it at the rows, and what it is worth."""

    a: Array
    beta: Array
    f: Array
    gap: float
    objective: float


class Primal(ModeInference):
    """The mode of a convex loss on landmarks: O(n m + active rows m^2) a step, O(m^2 + n) memory.

    Works on the features of ``gram=Inducing(m)``, some tens of passes over the rows whatever their
    number; any other Gram is taken apart by its eigenvalues, O(n^3). The duality gap of the loss
    itself, no kink rounded off, certifies the solution on these landmarks; it does not say what
    more landmarks would gain.

    Parameters
    ----------
    tol : stop at a gap of tol times the objective (above the least that the loss can be).
    max_iter : Newton steps at most; reaching it is reported, and an estimator warns of it.

    Reference: Chapelle, Training a support vector machine in the primal (2007); Rockafellar (1976).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(kernels.RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> solution = Primal().solve(gram, np.array([[1.0], [-1.0]]), losses.Hinge())
    >>> np.round(solution.alpha.ravel(), 2)
    array([ 1., -1.])
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("conjugate", "derivatives")
    works_in_linear_time: ClassVar[bool] = True
    bounds_evidence: ClassVar[bool] = True  # the prior is Q alone

    def __init__(self, tol: float = 1e-3, max_iter: int = 500) -> None:
        self.tol, self.max_iter = tol, max_iter

    @classmethod
    def example(cls) -> Self:
        """Return one whose answer is exact to many digits."""
        return cls(tol=1e-12)

    def infer(self, task: Task, start: Solution | None) -> Solution:
        gram = task.gram
        if isinstance(gram, ReducedGram) and np.any(gram.lam):
            raise ValueError(
                "a landmark machine has no use for noise parts of the kernel: the loss says what "
                "is noise; leave them out"
            )
        features, found, reports = Features(gram), [], []
        for j in range(task.y.shape[1]):
            begun = None
            if start is not None and start.alpha.shape == task.y.shape:
                beta = np.zeros(task.H.shape[1]) if start.beta is None else start.beta[:, j]
                begun = start.alpha[:, j], beta
            one, steps, fine = self._column(task.column(j), features, begun)
            found.append(one)
            details = {"objective": one.objective, "landmarks": features.m}
            if features.rounds:
                details["features"] = "float32"
            message = "" if fine else "the duality gap does not fall any further"
            reports.append(Report(fine, steps, one.gap, message, details))
        alpha, f, beta = (
            np.column_stack([getattr(one, name) for one in found]) for name in ("a", "f", "beta")
        )
        W = np.column_stack([curvature(task.column(j), o.a, o.f) for j, o in enumerate(found)])
        report = joined_report(reports, "objective")
        return Solution(
            alpha,
            W[:, 0] if W.shape[1] == 1 else W,
            f,
            NoSpread(gram.diag()),
            beta if len(beta) else None,
            task.w,
            report,
        )

    def _column(
        self, task: Task, features: Features, begun: tuple[Array, Array] | None
    ) -> tuple[Certified, int, bool]:
        """Return the mode of one latent function, the steps, and whether it is good enough."""
        n, k, steps = len(task.y), task.H.shape[1], 0
        kinks = has_kinks(task.loss)
        b, beta = np.zeros(features.m), np.zeros(k)
        strides = [1]
        if begun is not None:
            b, beta = features.down(begun[0]), begun[1]
        elif features.all is None:
            strides = levels(n, features.m)
        width = WIDE
        for stride in strides:
            level = Descent(_every(task, stride), features.every(stride), b, beta)
            tol = self.tol if stride == 1 else max(self.tol, ROUGH)
            best, width, fine = self._solve(level, width if kinks else None, tol, steps)
            steps += level.steps
            b, beta = level.b, level.beta
        return best, steps, fine

    def _solve(
        self, level: Descent, width: float | None, tol: float, before: int
    ) -> tuple[Certified, float, bool]:
        t, idle, loose = level.task, 0, LOOSE
        unit = _unit(t)
        floor = float(t.w @ conjugate(t.loss, t.y, np.zeros(len(t.y))))
        best, tight = None, 1e-2
        for _ in range(200):
            if width is not None:
                level.kappa = width * unit / t.w
            if best is None:
                level.settle()
            size = level.objective(level.f, level.b)
            size = size + floor if np.isfinite(floor) else abs(size)
            limit = min(
                SLOW if level.features.rounds else INNER, self.max_iter - before - level.steps
            )
            made = level.steps
            reached = level.descend(tight * tol * size, loose, limit, best is None)
            now = level.certified(level.features)
            size = now.objective + floor if np.isfinite(floor) else abs(now.objective)
            if now.gap <= tol * size and level.features.rounds:
                now = level.certified(level.features.exactly())
            idle = 0 if best is None or now.gap < 0.5 * best.gap else idle + 1
            best = now if best is None or now.gap < best.gap else best
            fine = best.gap <= tol * size
            if fine or idle > PATIENCE or before + level.steps >= self.max_iter:
                break
            if idle or level.steps - made >= SLOW:  # rounding may be what is in the way
                level.features = level.features.exactly()
            tight *= 0.1
            if reached <= tol * size:  # b is good enough, and a function of a is not yet
                loose *= 0.1
            elif width is not None:
                level.center, width = now.a, max(SHRINK * width, NARROWEST)
        assert best is not None
        return best, width or 0.0, fine


def levels(n: int, m: int) -> list[int]:
    """Return every how many rows to look at: of very many, few first."""
    stride = n // (EACH * m)
    return [stride, 1] if stride >= TIMES else [1]


def thinned(E: Array, most: int) -> Array:
    """Return curvatures (n,) of which about ``most`` are not zero and stand for all.

    Examples
    --------
    >>> thinned(np.ones(6), 3)
    array([2., 0., 2., 0., 2., 0.])
    """
    active = np.flatnonzero(E)
    if len(active) < 2 * most:
        return E
    some = active[:: len(active) // most]
    few = np.zeros(len(E))
    few[some] = E[some] * (E[active].sum() / E[some].sum())
    return few


def _every(task: Task, stride: int) -> Task:
    """Return the task of every ``stride``-th row, which stand for all."""
    if stride == 1:
        return task
    rows = slice(None, None, stride)
    w, basis = task.w[rows], None if task.basis is None else task.basis[rows]
    share = float(task.w.sum() / w.sum())
    return Task(task.gram, task.y[rows], task.loss, w * share, task.mean[rows], basis)


def _unit(task: Task) -> Array:
    """Return widths (n,) of rows of weight one, by which a kink is rounded off over one unit of f.

    That is 1 for labels, else the deviation of the targets.
    """
    size = 1.0
    if task.loss.response == "real":
        total = task.w.sum()
        size = float(np.sqrt(task.w @ (task.y - task.w @ task.y / total) ** 2 / total)) or 1.0
    return np.asarray(size * np.broadcast_to(task.loss.width(task.y), task.y.shape))
