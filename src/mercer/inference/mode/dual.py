"""Dual: the mode of any convex loss, kinked ones included; theory (K3), (K4), (K6).

Proximal steps on the dual turn kinks into smooth bends, on which Newton's method works:

    a <- argmax D(a) - sigma/2 |a - a_old|^2,    D(a) = -1/2 a'K a - sum_i w_i g*(-a_i/w_i) - a'mean

is in the primal the mode of the Moreau envelope e(c) = min_z w g(z) + (z - c)^2/(2 sigma) at
c = f - sigma a_old, whose slope is (c - z)/sigma = -a and whose curvature is (1 - dz/dc)/sigma.

These steps know a only to the rounding of f divided by their width. For a straight-line loss the
last digits follow from a linear system: where f_i lies on a line of the loss, a_i = -w_i slope is
known; where it is held at a kink, f_i is known (A: held, B: on a line):

    K_AA a_A + H_A b = kink - mean_A - K_AB a_B,    H_A'a_A = -H_B'a_B
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.inference.base import Report, Solution, joined_report, ones_if_none
from mercer.inference.mode.descent import (
    BlockGram,
    Local,
    Mode,
    NoSpread,
    begin,
    check_bounded,
    descend,
    single,
)
from mercer.inference.mode.newton import ModeInference, weighted
from mercer.inference.mode.prox import conjugate, prox, states_derivatives
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss

WIDTH = 1e-3  # of the proximal step that tells which is which, in units of the variance


def resolve(
    gram: Gram, loss: Loss, y: Array, w: Array, mean: Array, H: Array, a: Array, f: Array
) -> tuple[Array, Array] | None:
    """Return a (n,) and b (k,) near the mode (a, f), or None if the system is singular.

    ``loss`` states its lines (``pieces``), y and w are (n,), H is (n, k). Whether the result is
    better, and lies in the domain of the dual, is for its duality gap to say.
    """
    kappa = WIDTH * np.maximum(gram.diag(), 1e-300)
    kink, flat, slope = prox(loss, y, w, f - kappa * a, kappa)
    held = np.flatnonzero(slope == 0.0)
    new = np.where(slope == 0.0, 0.0, flat)
    m, k = len(held), H.shape[1]
    target = kink[held] - mean[held] - np.asarray(gram @ new[:, None])[held, 0]
    system = np.zeros((m + k, m + k))
    system[:m, :m] = gram.rows(held)[:, held]
    system[:m, m:], system[m:, :m] = H[held], H[held].T
    try:
        found = np.linalg.solve(system, np.concatenate([target, -(H.T @ new)]))
    except np.linalg.LinAlgError:
        return None
    new[held] = found[:m]
    return new, np.asarray(found[m:], dtype=np.float64)


SHRINK = 0.2  # sigma from one step to the next
# how far sigma falls, in units of the mean variance: below, rounding takes more than it gives
NARROWEST, NARROWEST_BY_VALUE = 1e-5, 1e-3
INNER = 40  # Newton steps for one proximal step
PATIENCE = 5  # proximal steps without a better gap before it is called rounding


@dataclass(frozen=True)
class Observed:
    """A convex loss with its targets y (n,) and weights w (n,)."""

    loss: Loss
    y: Array
    w: Array

    def part(self, index: Index) -> Observed:
        """The same for some of the points."""
        return Observed(self.loss, self.y[index], self.w[index])

    def gap(self, a: Array, f: Array, smooth: Array) -> float:
        """Primal less dual objective at a (n,), f = smooth + basis part (n,)."""
        star = conjugate(self.loss, self.y, -a / self.w)
        return float(self.w @ (self.loss.value(self.y, f) + star) + a @ smooth)

    def envelope(self, a: Array, sigma: float) -> Local:
        """Return f (n, 1) -> the loss of one proximal step from a, its slope and curvature."""

        def local(f: Array) -> tuple[float, Array, Array]:
            c = f[:, 0] - sigma * a
            z, new, slope = prox(self.loss, self.y, self.w, c, np.full(len(c), sigma))
            value = float(
                self.w @ self.loss.value(self.y, z) + np.square(z - c).sum() / (2 * sigma)
            )
            return value, -new[:, None], ((1.0 - slope) / sigma)[:, None]

        return local


def maximise(
    gram: Gram, seen: Observed, mean: Array, H: Array, a: Array, b: Array, tol: float, limit: int
) -> tuple[Array, Array, Array, float, int]:
    """Return a (n,), b (k,), f (n,), the gap and the number of Newton steps.

    Stops at a gap of tol * max(1, |objective|), after ``limit`` proximal steps, or when the gap no
    longer falls.
    """
    width = float(np.median(np.broadcast_to(seen.loss.width(seen.y), seen.y.shape)))
    exact = states_derivatives(seen.loss)
    narrowest = NARROWEST if exact else NARROWEST_BY_VALUE
    end = min(narrowest * (float(np.mean(gram.diag())) or width), 0.1 * width)
    tolerance = 1e-9 if exact else 1e-6  # of a, for which a proximal step counts as solved
    sigma, steps, idle, best = width, 0, 0, (np.inf, a, b, mean)

    def stop(state: Mode) -> bool:
        return settled(state, tolerance)

    for _ in range(limit):
        local = seen.envelope(a, sigma)
        state = begin(gram, local, mean[:, None], H, a[:, None], b[:, None])
        state = descend(state, gram, local, H, single(gram, H), stop, INNER)
        steps += state.steps
        a, b = -state.slope[:, 0], state.b[:, 0]
        smooth = mean + np.asarray(gram @ a[:, None])[:, 0]
        f = smooth + H @ b
        gap = seen.gap(a, f, smooth) if balanced(H, a) else np.inf
        idle = 0 if gap < 0.5 * best[0] or sigma > 30.0 * end else idle + 1
        if gap < best[0] or not np.isfinite(best[0]):
            best = (gap, a, b, f)
        objective = float(seen.w @ seen.loss.value(seen.y, f) + 0.5 * a @ (smooth - mean))
        if best[0] <= tol * max(1.0, abs(objective)) or idle > PATIENCE:
            break
        if settled(state, tolerance):  # where progress is slow, further than the usual end
            sigma = max(SHRINK * sigma, end * (1e-4 if idle and exact else 1.0))
    gap, a, b, f = best
    if gap > tol * max(1.0, abs(objective)) and hasattr(seen.loss, "pieces"):
        exactly = resolve(gram, seen.loss, seen.y, seen.w, mean, H, a, f)
        if exactly is not None and balanced(H, exactly[0]):
            smooth = mean + np.asarray(gram @ exactly[0][:, None])[:, 0]
            less = seen.gap(exactly[0], smooth + H @ exactly[1], smooth)
            if less < gap:
                gap, (a, b), f = less, exactly, smooth + H @ exactly[1]
    return a, b, f, max(gap, 0.0), steps


def balanced(H: Array, a: Array) -> bool:
    """Whether H'a = 0, without which a is not dual feasible."""
    size = float(np.abs(H).max(initial=0.0)) * float(np.abs(a).sum())
    return float(np.abs(H.T @ a).max(initial=0.0)) <= 1e-8 * size


def settled(state: Mode, tolerance: float) -> bool:
    """Whether a proximal step is solved, a relative to its largest."""
    size = max(float(np.abs(state.slope).max()), 1e-300)
    return state.steps > 0 and float(np.abs(state.residual).max()) <= tolerance * size


class Dual(ModeInference):
    """The maximum of -1/2 a'K a - sum_i w_i g*(-a_i / w_i), H'a = 0, for a convex loss g.

    Block-coordinate ascent: the coefficients of one block of points are maximised at a time, the
    others fixed, and the blocks are swept until the duality gap

        gap = sum_i w_i [ g(f_i) + g*(-a_i / w_i) ] + a'f

    is small. Inside a block the maximum is found by proximal steps on the dual: each replaces the
    loss by its Moreau envelope, which is smooth, and takes damped Newton steps on it. One block
    (the default up to 2000 points, and always with a basis, which ties all coefficients together)
    ends after some tens of factorisations whatever the kernel; single coordinates (block=1) are
    the classical ascent, which is slow for strongly correlated kernels.

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
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> from mercer.losses import Hinge
    >>> gram = DenseGram(RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> solution = Dual().solve(gram, np.array([[1.0], [-1.0]]), Hinge())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 1., -1.])
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("conjugate", "derivatives")

    def __init__(self, tol: float = 1e-10, max_iter: int = 1000, block: int | None = None) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.block = block

    def solve(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        *,
        mean: Array | None = None,
        basis: Array | None = None,
        weights: Array | None = None,
        start: Solution | None = None,
    ) -> Solution:
        n, w = len(y), ones_if_none(weights, len(y))
        H = np.zeros((n, 0)) if basis is None else basis
        size = (n if n <= 2000 else 1000) if self.block is None else max(1, self.block)
        size = n if H.shape[1] else size
        tol = self.tol if states_derivatives(loss) else max(self.tol, 1e-6)
        columns, reports = [], []
        for j, column in enumerate(y.T):
            offset = np.zeros(n) if mean is None else mean[:, j]
            a, b = np.zeros(n), np.zeros(H.shape[1])
            if start is not None:
                a = start.alpha[:, j].copy()
                b = b if start.beta is None else start.beta[:, j].copy()
            seen = Observed(loss, column, w)
            a, b, f, report = self._ascend(gram, seen, offset, H, a, b, min(size, n), tol)
            local = weighted(loss, column, w)
            mode = Mode(a[:, None], b[:, None], f[:, None], f[:, None], *local(f[:, None]))
            if not hasattr(loss, "pieces"):  # straight lines have an end, curves may not
                check_bounded(mode, local, H)
            columns.append((a, b, f, curvature(seen, a, f, gram.diag())))
            reports.append(report)
        alpha, beta, latent, W = (np.column_stack(parts) for parts in zip(*columns, strict=True))
        total = joined_report(reports, "objective")
        spread = NoSpread(gram.diag())
        W = W[:, 0] if W.shape[1] == 1 else W
        return Solution(alpha, W, latent, spread, beta if len(beta) else None, w, total)

    def _ascend(
        self,
        gram: Gram,
        seen: Observed,
        mean: Array,
        H: Array,
        a: Array,
        b: Array,
        size: int,
        tol: float,
    ) -> tuple[Array, Array, Array, Report]:
        """Sweep the blocks; return a (n,), b (k,), f (n,) and the report."""
        n = len(mean)
        if size == n:
            a, b, f, gap, steps = maximise(gram, seen, mean, H, a, b, tol, self.max_iter)
            return a, b, f, _report(seen, a, f, f - H @ b - mean, gap, steps, tol)
        rng = np.random.default_rng(0)
        f = mean + np.asarray(gram @ a[:, None])[:, 0]
        sweeps, gap = 0, seen.gap(a, f, f)
        while sweeps < self.max_iter and not gap <= tol * max(1.0, abs(_primal(seen, a, f, mean))):
            order = rng.permutation(n)
            for first in range(0, n, size):
                index = np.sort(order[first : first + size])
                rows = gram.rows(index)
                new = _block(rows[:, index], seen.part(index), a[index], f[index], tol)
                f += (new - a[index]) @ rows
                a[index] = new
            f = mean + np.asarray(gram @ a[:, None])[:, 0]  # rounding does not add up
            sweeps, gap = sweeps + 1, seen.gap(a, f, f)
        return a, b, f, _report(seen, a, f, f - mean, gap, sweeps, tol)


def _block(K: Array, seen: Observed, a: Array, f: Array, tol: float) -> Array:
    """The best coefficients of one block, K (m, m), the others fixed."""
    if len(a) == 1:
        kappa = np.maximum(np.diagonal(K), 1e-300)
        return prox(seen.loss, seen.y, seen.w, f - kappa * a, kappa)[1]
    rest = f - K @ a
    H = np.zeros((len(a), 0))
    return maximise(BlockGram(K).gram(), seen, rest, H, a, np.zeros(0), 0.1 * tol, 8)[0]


def _primal(seen: Observed, a: Array, f: Array, mean: Array) -> float:
    return float(seen.w @ seen.loss.value(seen.y, f) + 0.5 * a @ (f - mean))


def _report(
    seen: Observed, a: Array, f: Array, Ka: Array, gap: float, steps: int, tol: float
) -> Report:
    objective = float(seen.w @ seen.loss.value(seen.y, f) + 0.5 * a @ Ka)
    converged = bool(gap <= 1.001 * tol * max(1.0, abs(objective)))
    return Report(converged, int(steps), float(gap), details={"objective": objective})


def curvature(seen: Observed, a: Array, f: Array, variance: Array) -> Array:
    """How firmly the loss holds each f_i (n,): infinitely at a kink, w g'' elsewhere.

    At a kink the coefficient lies strictly between the two slopes, and f_i does not move when
    other points do; it is found by a small proximal step that returns to where it started.
    """
    kappa = 1e-3 * np.maximum(variance, 1e-300)
    _, _, slope = prox(seen.loss, seen.y, seen.w, f - kappa * a, kappa)
    with np.errstate(divide="ignore"):
        return np.where(slope < 1e-6, np.inf, (1.0 / np.maximum(slope, 1e-6) - 1.0) / kappa)
