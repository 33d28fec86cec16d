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

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.inference.base import Report, Solution, Task, joined_report
from mercer.inference.mode.classes import JointDescent
from mercer.inference.mode.dual import curvature
from mercer.inference.mode.newton import ModeInference
from mercer.inference.mode.prox import breadth, conjugate, has_kinks
from mercer.inference.mode.steps import Certified, Descent
from mercer.linalg.gram import NoSpread
from mercer.linalg.reduced.features import Features
from mercer.linalg.reduced.gram import ReducedGram

WIDE, SHRINK = 0.25, 0.25  # the first width in units of the targets, and from one to the next
NARROWEST = 1e-6
SINGLE = 1e-4  # tolerance from which features may be kept in single precision
EACH, TIMES = 64, 8  # rows a landmark with which to begin, where there are so many times more
ROUGH = 0.02  # of the objective: the gap at which a level with few rows ends
LOOSE = 0.1
INNER = 60  # Newton steps for one width
SLOW = 30  # of them after which products are in double precision, if they were in single
PATIENCE = 6  # widths without a better gap before it is called rounding


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
    takes_classes: ClassVar[bool] = True
    bounds_evidence: ClassVar[bool] = True  # the prior is Q alone

    def __init__(self, tol: float = 1e-3, max_iter: int = 500) -> None:
        self.tol, self.max_iter = tol, max_iter

    @classmethod
    def example(cls) -> Self:
        """Return one whose answer is exact to many digits."""
        return cls(tol=1e-12)

    @property
    def takes_single(self) -> bool:
        return self.tol >= SINGLE

    def infer(self, task: Task, start: Solution | None) -> Solution:
        gram = task.gram
        if isinstance(gram, ReducedGram):
            refuse_noise(gram.lam)
        features, found, reports = Features(gram), [], []
        joint = task.loss.response == "multiclass"
        several = range(task.y.shape[1])
        tasks = [replace(task, y=task.y[:, 0])] if joint else [task.column(j) for j in several]
        for j, one in enumerate(tasks):
            begun, columns = None, slice(None) if joint else j
            if start is not None and start.alpha.shape == task.mean.shape:
                beta = np.zeros((task.H.shape[1], task.mean.shape[1]))
                beta = beta if start.beta is None else start.beta
                begun = start.alpha[:, columns], beta[:, columns]
            best, steps, fine = self._mode(one, features, begun)
            found.append(best)
            details: dict[str, Any] = {"objective": best.objective, "landmarks": features.m}
            if features.rounds:
                details["features"] = "float32"
            message = "" if fine else "the duality gap does not fall any further"
            reports.append(Report(fine, steps, best.gap, message, details))
        alpha, f, beta = (
            np.column_stack([getattr(one, name) for one in found]) for name in ("a", "f", "beta")
        )
        if joint:
            W = task.w[:, None] * softmax(f, axis=1)
        else:
            pairs = zip(tasks, found, strict=True)
            W = np.column_stack([curvature(one, o.a, o.f) for one, o in pairs])
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

    def _mode(
        self, task: Task, features: Features, begun: tuple[Array, Array] | None
    ) -> tuple[Certified, int, bool]:
        """Return the mode, of one latent function or of all classes, the steps, and if it is one.

        It is one where its gap is small enough.
        """
        n, more, steps = len(task.y), task.mean.shape[1:], 0
        kinks = has_kinks(task.loss)
        b, beta = np.zeros((features.m, *more)), np.zeros((task.H.shape[1], *more))
        kind = JointDescent if more else Descent
        strides = [1]
        if begun is not None:
            b, beta = features.down(begun[0]), begun[1]
        elif features.all is None:
            strides = levels(n, features.m)
        width = WIDE
        for stride in strides:
            level = kind(_every(task, stride), features.every(stride), b, beta)
            tol = self.tol if stride == 1 else max(self.tol, ROUGH)
            best, width, fine = self.lowered(level, width if kinks else None, tol, steps)
            steps += level.steps
            b, beta = level.b, level.beta
        return best, steps, fine

    def lowered(
        self, level: Descent, width: float | None, tol: float, before: int
    ) -> tuple[Certified, float, bool]:
        """Lower the objective on a level; return its mode, the last width, and if it is one."""
        t, idle, loose = level.task, 0, LOOSE
        floor = float(t.w @ conjugate(t.loss, t.y, np.zeros(level.f.shape)))
        best, tight = None, 1e-2
        for _ in range(200):
            if width is not None:
                level.kappa = width * _unit(t) / t.w
            if best is None:
                level.settle()
            size = level.objective(level.f, level.b)
            size = size + floor if np.isfinite(floor) else abs(size)
            made, most = level.steps, SLOW if level.features.rounds else INNER
            limit = min(most, self.max_iter - before - made)
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
                level.past.append((level.b, level.beta, width))
                level.center, width = now.a, max(SHRINK * width, NARROWEST)
        assert best is not None
        return best, width or 0.0, fine


def refuse_noise(diagonal: Array) -> None:
    """Refuse noise parts of a kernel, of which these are the variances."""
    if np.any(diagonal):
        raise ValueError(
            "a landmark machine has no use for noise parts of the kernel: the loss says what "
            "is noise; leave them out"
        )


def levels(n: int, m: int) -> list[int]:
    """Return every how many rows to look at: of very many, few first."""
    stride = n // (EACH * m)
    return [stride, 1] if stride >= TIMES else [1]


def _every(task: Task, stride: int) -> Task:
    """Return the task of every ``stride``-th row, which stand for all."""
    if stride == 1:
        return task
    rows = slice(None, None, stride)
    w, basis = task.w[rows], None if task.basis is None else task.basis[rows]
    share = float(task.w.sum() / w.sum())
    return Task(task.gram, task.y[rows], task.loss, w * share, task.mean[rows], basis)


def _unit(task: Task) -> Array:
    """Return widths (n,) of rows of weight one, by which a kink is rounded off over one unit."""
    size = breadth(task.loss, task.y, task.w)
    return np.asarray(size * np.broadcast_to(task.loss.width(task.y), task.y.shape))
