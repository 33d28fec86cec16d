"""Dual: the mode of any convex loss, kinked ones included; theory (K3), (K4), (K6).

Proximal steps on the dual turn kinks into smooth bends, on which Newton's method works:

    a <- argmax D(a) - sigma/2 |a - a_old|^2,    D(a) = -1/2 a'K a - sum_i w_i g*(-a_i/w_i) - a'mean

is in the primal the mode of the Moreau envelope e(c) = min_z w g(z) + (z - c)^2/(2 sigma) at
c = f - sigma a_old, whose slope is (c - z)/sigma = -a and whose curvature is (1 - dz/dc)/sigma.
The last digits for a straight-line loss follow from a linear system: where f_i lies on a line of
the loss, a_i = -w_i slope is known; where it is held at a kink, f_i is (A: held, B: on a line):

    K_AA a_A + H_A b = kink - mean_A - K_AB a_B,    H_A'a_A = -H_B'a_B
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.inference.base import Report, Solution, Task
from mercer.inference.mode.descent import Landscape, Local, Mode, single
from mercer.inference.mode.newton import ModeInference, solution, weighted
from mercer.inference.mode.prox import conjugate, prox, states_derivatives
from mercer.linalg.dense.gram import DenseGram

WIDTH = 1e-3  # of the proximal step that tells which is which, in units of the variance
SHRINK = 0.2  # sigma from one step to the next
# how far sigma falls, in units of the mean variance: below, rounding takes more than it gives
NARROWEST, NARROWEST_BY_VALUE = 1e-5, 1e-3
INNER = 40  # Newton steps for one proximal step
PATIENCE = 5  # proximal steps without a better gap before it is called rounding


def resolve(task: Task, a: Array, f: Array) -> tuple[Array, Array] | None:
    """Return a (n,) and b (k,) near the mode (a, f), or None if the system is singular.

    The loss states its lines (``pieces``). The duality gap says whether the result is better.
    """
    gram, H = task.gram, task.H
    kappa = WIDTH * np.maximum(gram.diag(), 1e-300)
    kink, flat, slope = prox(task.loss, task.y, task.w, f - kappa * a, kappa)
    held = np.flatnonzero(slope == 0.0)
    new = np.where(slope == 0.0, 0.0, flat)
    m, k = len(held), H.shape[1]
    target = kink[held] - task.mean[held] - np.asarray(gram @ new[:, None])[held, 0]
    system = np.zeros((m + k, m + k))
    system[:m, :m] = gram.rows(held)[:, held]
    system[:m, m:], system[m:, :m] = H[held], H[held].T
    try:
        found = np.linalg.solve(system, np.concatenate([target, -(H.T @ new)]))
    except np.linalg.LinAlgError:
        return None
    new[held] = found[:m]
    return new, np.asarray(found[m:], dtype=np.float64)


def duality_gap(task: Task, a: Array, f: Array, smooth: Array) -> float:
    """Primal less dual objective at a (n,), f = smooth + basis part (n,)."""
    star = conjugate(task.loss, task.y, -a / task.w)
    return float(task.w @ (task.loss.value(task.y, f) + star) + a @ smooth)


def primal(task: Task, a: Array, f: Array, Ka: Array) -> float:
    """The primal objective at a (n,), latent values f (n,) and K a (n,)."""
    return float(task.w @ task.loss.value(task.y, f) + 0.5 * a @ Ka)


def envelope(task: Task, a: Array, sigma: float) -> Local:
    """Return f (n, 1) -> the loss of one proximal step from a, its slope and curvature."""

    def local(f: Array) -> tuple[float, Array, Array]:
        c = f[:, 0] - sigma * a
        z, new, slope = prox(task.loss, task.y, task.w, c, np.full(len(c), sigma))
        value = float(task.w @ task.loss.value(task.y, z) + np.square(z - c).sum() / (2 * sigma))
        return value, -new[:, None], ((1.0 - slope) / sigma)[:, None]

    return local


def maximise(
    task: Task, a: Array, b: Array, tol: float, limit: int
) -> tuple[Array, Array, Array, float, int]:
    """Return a (n,), b (k,), f (n,), the gap and the number of Newton steps.

    Stops at a gap of tol * max(1, |objective|), after ``limit`` proximal steps, or when the gap no
    longer falls.
    """
    gram, loss, mean, H = task.gram, task.loss, task.mean, task.H
    width = float(np.median(np.broadcast_to(loss.width(task.y), task.y.shape)))
    exact = states_derivatives(loss)
    narrowest = NARROWEST if exact else NARROWEST_BY_VALUE
    end = min(narrowest * (float(np.mean(gram.diag())) or width), 0.1 * width)
    tolerance = 1e-9 if exact else 1e-6  # of a, for which a proximal step counts as solved
    sigma, steps, idle, best = width, 0, 0, (np.inf, a, b, mean)

    def settled(state: Mode) -> bool:
        """Whether a proximal step is solved, a relative to its largest."""
        size = max(float(np.abs(state.slope).max()), 1e-300)
        return state.steps > 0 and float(np.abs(state.residual).max()) <= tolerance * size

    def judged(a: Array, b: Array) -> tuple[tuple[float, Array, Array, Array], Array]:
        smooth = mean + np.asarray(gram @ a[:, None])[:, 0]
        f = smooth + H @ b
        gap = duality_gap(task, a, f, smooth) if balanced(H, a) else np.inf
        return (gap, a, b, f), smooth - mean

    for _ in range(limit):
        landscape = Landscape(gram, envelope(task, a, sigma), mean[:, None], H)
        state = landscape.at(a[:, None], b[:, None])
        state = landscape.descend(state, single(gram, H), settled, INNER)
        steps += state.steps
        now, Ka = judged(-state.slope[:, 0], state.b[:, 0])
        gap, a, b, f = now
        idle = 0 if gap < 0.5 * best[0] or sigma > 30.0 * end else idle + 1
        if gap < best[0] or not np.isfinite(best[0]):
            best = now
        enough = tol * max(1.0, abs(primal(task, a, f, Ka)))
        if best[0] <= enough or idle > PATIENCE:
            break
        if settled(state):  # where progress is slow, further than the usual end
            sigma = max(SHRINK * sigma, end * (1e-4 if idle and exact else 1.0))
    if best[0] > enough and hasattr(loss, "pieces"):
        exactly = resolve(task, best[1], best[3])
        if exactly is not None:
            best = min(best, judged(*exactly)[0], key=lambda found: found[0])
    gap, a, b, f = best
    return a, b, f, max(gap, 0.0), steps


def balanced(H: Array, a: Array) -> bool:
    """Whether H'a = 0, without which a is not dual feasible."""
    size = float(np.abs(H).max(initial=0.0)) * float(np.abs(a).sum())
    return float(np.abs(H.T @ a).max(initial=0.0)) <= 1e-8 * size


class Dual(ModeInference):
    """The maximum of -1/2 a'K a - sum_i w_i g*(-a_i / w_i), H'a = 0, for a convex loss g.

    Block-coordinate ascent: the coefficients of one block of points are maximised at a time, the
    others fixed, and the blocks are swept until the duality gap

        gap = sum_i w_i [ g(f_i) + g*(-a_i / w_i) ] + a'f

    is small. Inside a block proximal steps replace the loss by its smooth Moreau envelope and take
    damped Newton steps on it. One block (always with a basis, which ties all coefficients
    together) ends after some tens of factorisations whatever the kernel; single coordinates
    (block=1) are the classical ascent, which is slow for strongly correlated kernels.

    Parameters
    ----------
    tol : stop at a gap of tol * max(1, |objective|); a loss that states no derivatives is known
        to about 1e-8 only, and stops at 1e-6 at best.
    max_iter : sweeps at most; reaching it is reported, and an estimator warns of it.
    block : points per block, or None for all of up to 2000 and 1000 beyond.

    Reference: Jaakkola & Haussler (1999), Theorem 1, (26)-(27); Rockafellar (1976) for the
    proximal steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(kernels.RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> solution = Dual().solve(gram, np.array([[1.0], [-1.0]]), losses.Hinge())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 1., -1.])
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("conjugate", "derivatives")
    takes_weights: ClassVar[bool] = True

    def __init__(self, tol: float = 1e-10, max_iter: int = 1000, block: int | None = None) -> None:
        self.tol, self.max_iter, self.block = tol, max_iter, block

    def infer(self, task: Task, start: Solution | None) -> Solution:
        n, H = len(task.y), task.H
        tol = self.tol if states_derivatives(task.loss) else max(self.tol, 1e-6)
        whole = n <= 2000 or task.gram.few  # all points are one block
        size = (n if whole else 1000) if self.block is None else max(1, self.block)
        modes, reports = [], []
        for j in range(task.y.shape[1]):
            one, a, b = task.column(j), np.zeros(n), np.zeros(H.shape[1])
            if start is not None:
                a = start.alpha[:, j].copy()
                b = b if start.beta is None else start.beta[:, j].copy()
            if size >= n or H.shape[1]:
                a, b, f, gap, steps = maximise(one, a, b, tol, self.max_iter)
            else:
                f, gap, steps = self._sweep(one, a, size, tol)
            objective = primal(one, a, f, f - H @ b - one.mean)
            fine = bool(gap <= 1.001 * tol * max(1.0, abs(objective)))
            reports.append(Report(fine, steps, float(gap), details={"objective": objective}))
            local, F = weighted(one.loss, one.y, one.w), f[:, None]
            mode = Mode(a[:, None], b[:, None], F, F, *local(F))
            if not hasattr(task.loss, "pieces"):  # straight lines have an end, curves may not
                Landscape(task.gram, local, one.mean[:, None], H).check_bounded(mode)
            modes.append(replace(mode, curvature=curvature(one, a, f)[:, None]))
        return solution(task.gram, modes, task.w, reports)

    def _sweep(self, task: Task, a: Array, size: int, tol: float) -> tuple[Array, float, int]:
        """Sweep blocks of ``size`` points over a (n,), in place; return f (n,), gap and sweeps."""
        gram, mean, rng = task.gram, task.mean, np.random.default_rng(0)
        f = mean + np.asarray(gram @ a[:, None])[:, 0]
        sweeps, gap = 0, duality_gap(task, a, f, f)
        while sweeps < self.max_iter:
            if gap <= tol * max(1.0, abs(primal(task, a, f, f - mean))):
                break
            order = rng.permutation(len(a))
            for first in range(0, len(a), size):
                index = np.sort(order[first : first + size])
                rows = gram.rows(index)
                new = _block(task, index, rows[:, index], a[index], f[index], tol)
                f += (new - a[index]) @ rows
                a[index] = new
            f = mean + np.asarray(gram @ a[:, None])[:, 0]  # rounding does not add up
            sweeps, gap = sweeps + 1, duality_gap(task, a, f, f)
        return f, gap, sweeps


def _block(task: Task, index: Index, K: Array, a: Array, f: Array, tol: float) -> Array:
    """The best coefficients of one block, K (m, m), the others fixed."""
    y, w = task.y[index], task.w[index]
    if len(a) == 1:
        kappa = np.maximum(np.diagonal(K), 1e-300)
        return prox(task.loss, y, w, f - kappa * a, kappa)[1]
    block = Task(DenseGram.given(np.ascontiguousarray(K)), y, task.loss, w, f - K @ a)
    return maximise(block, a, np.zeros(0), 0.1 * tol, 8)[0]


def curvature(task: Task, a: Array, f: Array) -> Array:
    """How firmly the loss holds each f_i (n,): infinitely at a kink, w g'' elsewhere.

    At a kink the coefficient lies strictly between the two slopes, and f_i does not move when
    other points do; it is found by a small proximal step that returns to where it started.
    """
    kappa = WIDTH * np.maximum(task.gram.diag(), 1e-300)
    _, _, slope = prox(task.loss, task.y, task.w, f - kappa * a, kappa)
    with np.errstate(divide="ignore"):
        return np.where(slope < 1e-6, np.inf, (1.0 / np.maximum(slope, 1e-6) - 1.0) / kappa)
