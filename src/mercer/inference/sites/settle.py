"""The mode of a posterior together with the factor of its curvature, for the Laplace approximation.

The Newton steps are those of ``mode``; here it is decided where they begin, when they end, and
that they end in a maximum of the posterior, not in a saddle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Report
from mercer.inference.mode.descent import Local, Mode, along, begin, descend
from mercer.linalg.gram import Factor, Gram

AGAIN = 8  # more steps with each factorisation: a step costs O(n^2) and gains a digit or so
SLACK = 1e-11  # a bound on the change of log |B| up to which a factor is still that of the mode
ESCAPES = 5  # saddles left before giving up


class Steps:
    """Newton steps from the newest factor, of which there is one at a time; counts them.

    Parameters
    ----------
    gram : K.
    make : curvature (n, m) -> factor; raises NotPositiveDefiniteError where K^-1 + W is not.
    tame : curvature -> a curvature nearby that has a factor, for a step downhill.
    cost : factorisations in one ``make``.
    """

    def __init__(
        self,
        gram: Gram,
        make: Callable[[Array], Factor],
        tame: Callable[[Array], Array],
        cost: int = 1,
    ) -> None:
        self.gram, self.make, self.tame, self.cost = gram, make, tame, cost
        self.factor: Factor | None = None
        self.at: Array | None = None
        self.count = 0

    def exact(self, curvature: Array) -> Factor:
        """Return the factor of this very curvature; the one at hand if nothing has changed."""
        if self.factor is not None and self.at is not None:
            change = np.abs(self.at - curvature).sum(axis=1)
            if float(self.gram.diag() @ change) <= SLACK:
                return self.factor
        if self.factor is not None:
            self.factor.release()  # its memory serves the next
        self.factor = self.at = None
        self.count += self.cost
        self.factor = self.make(curvature)
        self.at = curvature
        return self.factor

    def fits(self, curvature: Array) -> bool:
        """Make the factor of this curvature; False if there is none, but a tamer one nearby."""
        try:
            self.exact(curvature)
        except NotPositiveDefiniteError:
            if self.tame(curvature) is curvature:
                raise
            return False
        return True

    def __call__(self, curvature: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Return the step for this curvature, or a tamer one where the posterior is not concave."""
        if not self.fits(curvature):
            self.exact(self.tame(curvature))
        return self.step

    def step(self, s: Array, a: Array) -> tuple[Array, Array]:
        """da = (I + W K)^-1 s = s - C K s for the residual s, both (n, m)."""
        assert self.factor is not None
        return s - self.factor.solve(np.asarray(self.gram @ s)), np.zeros((0, s.shape[1]))


@dataclass(frozen=True)
class ModeStart:
    """Sites to begin with: curvature W (n, m) and natural parameter h = a + W (f - mean) (n, m)."""

    curvature: Array
    h: Array


def settle(
    gram: Gram,
    local: Local,
    mean: Array,
    steps: Steps,
    starts: list[ModeStart],
    tol: float,
    max_iter: int,
) -> tuple[Mode, Factor, Array, Report]:
    """Return the mode, the factor of the curvature there, that curvature and the report.

    Begins with the first of ``starts`` that is better than f = mean. A start keeps the sites and
    takes the new K: a = h - C K h. That is a Newton step from where the sites come from, and it is
    exact if the loss is quadratic. Ends when a step moves no latent value by more than
    tol * (1 + max |f|).
    """
    H, none = np.zeros((len(mean), 0)), np.zeros((0, mean.shape[1]))
    state, step = begin(gram, local, mean, H, np.zeros_like(mean), none), None
    for start in starts:
        found = _begun(gram, local, mean, steps, start)
        if found is not None and found.objective < state.objective:
            state, step = found, steps.step
            break

    def done(state: Mode) -> bool:
        return state.moved <= tol * (1.0 + float(np.abs(state.f).max()))

    message, converged = "", False
    for attempt in range(ESCAPES + 1):
        state = descend(state, gram, local, H, steps, done, max_iter, step=step, again=AGAIN)
        step = None
        still = state.decrement <= 1e-15 * max(1.0, abs(state.objective))
        converged = done(state) or still
        if steps.fits(state.curvature):
            break
        if attempt < ESCAPES and converged:
            state = _leave(state, gram, local, H)
            continue
        converged = False
        message = (
            "the posterior is not concave where the search for its mode stopped, and the curvature "
            "of the points that bend the wrong way was taken as zero; raise max_iter, or use EP or "
            "Variational inference"
        )
        steps.exact(steps.tame(state.curvature))
        break
    factor, curvature = steps.factor, steps.at
    assert factor is not None
    assert curvature is not None
    if not converged and not message:
        message = (
            f"the mode was not reached in max_iter = {max_iter} Newton steps; raise max_iter, or "
            "look for a kernel variance far beyond the scale of the data"
        )
    residual = float(np.abs(state.residual).max())
    details = {"factorisations": steps.count, "residual": residual, **factor.report}
    return state, factor, curvature, Report(bool(converged), state.steps, None, message, details)


def _begun(gram: Gram, local: Local, mean: Array, steps: Steps, start: ModeStart) -> Mode | None:
    """The state that the sites have under K, None if they have none."""
    try:
        steps.exact(start.curvature)
    except NotPositiveDefiniteError:
        return None
    a, none = steps.step(start.h, start.h)
    state = begin(gram, local, mean, np.zeros((len(mean), 0)), a, none)
    return state if np.all(np.isfinite(state.residual)) else None


def _leave(state: Mode, gram: Gram, local: Local, H: Array) -> Mode:
    """A point below a saddle, along the direction of the most negative curvature; O(n^3).

    With K = V S^2 V' the curvature along f = V S u is u'(I + S V'W V S) u. At its lowest
    eigenvalue lam < 0 the coefficients are a = V S^-1 u = W f / (lam - 1).
    """
    K = gram.rows(np.arange(len(state.f)))
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    lam, u = np.linalg.eigh(np.eye(len(K)) + root.T @ (state.curvature * root))
    da = state.curvature * (root @ u[:, :1]) / (lam[0] - 1.0)
    if float(np.vdot(state.residual, np.asarray(gram @ da))) < 0.0:
        da = -da
    steps = state.steps
    state = along(state, gram, local, H, da, np.zeros((0, 1)))
    state.steps, state.moved, state.decrement = steps, np.inf, np.inf  # no Newton step
    return state
