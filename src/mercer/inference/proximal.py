"""Proximal steps on the dual of a convex loss: kinks become smooth bends, Newton does the rest.

    a <- argmax D(a) - sigma/2 |a - a_old|^2,    D(a) = -1/2 a'K a - sum_i w_i g*(-a_i/w_i) - a'mean

is in the primal the mode of the Moreau envelope e(c) = min_z w g(z) + (z - c)^2/(2 sigma) at
c = f - sigma a_old, whose slope is (c - z)/sigma = -a and whose curvature is (1 - dz/dc)/sigma.
Theory (K6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array, Index
from mercer.inference.kinks import resolve
from mercer.inference.mode import Local, Mode, begin, descend, single
from mercer.inference.prox import conjugate, prox, states_derivatives
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss

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
