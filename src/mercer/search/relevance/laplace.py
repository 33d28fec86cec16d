"""Relevance search for labels: the Laplace approximation inside (Tipping 2001, sec. 3; GPML 3.4).

At the mode mu of the weights, with b_i = w_i g''(y_i, f_i) and a_i = -w_i g'(y_i, f_i),

    E = -sum_i w_i g(y_i, f_i) - 1/2 mu'A mu + 1/2 sum log alpha - 1/2 log |R'R| + k/2 log 2 pi

R'R = F B F' + A. Seen from the mode the model is a Gaussian one with targets f + a/b and precisions
b: that surrogate proposes the steps, and E itself, at the new mode, judges them. Theory (R5).
"""

from __future__ import annotations

import math

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.search.relevance.state import Design, Inner, Machine, Pool, SparseState, factor

# Newton ends where it expects to gain less: the determinant is of first order in what is left.
STEPS, CLOSE, STALLED = 100, 1e-14, 1e-8
# A step that moves a latent value further is cut; one of weights beyond FAR is not taken at all.
LONGEST, FAR = 100.0, 1e8


class LaplaceMachine(Machine):
    """Evaluates models of the targets y (n,) under a loss that is smooth, convex and normalised."""

    def __init__(self, design: Design, y: Array, loss: Loss) -> None:
        super().__init__(design)
        self.y, self.loss = y, loss
        self._columns = Pool(design.column, design.Phi.shape[1], len(y))
        self._squares: tuple[Array, Array] | None = None

    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: SparseState | None = None
    ) -> SparseState:
        """Return the model with these functions, its mode found from the weights of ``near``."""
        F = np.concatenate([self.design.flat.T, self._columns.rows(active)])
        k = len(F) - len(active)
        precisions = np.concatenate([np.zeros(k), prior])
        mu = np.zeros(len(F))
        if near is not None:
            mu[:k] = near.mu[:k]
            known = dict(zip(near.active, near.mu[k:], strict=True))
            mu[k:] = [known.get(i, 0.0) for i in active]
        value, fresh, last = self._objective(F, precisions, mu), False, math.inf
        for _ in range(STEPS):
            b, a = self._curvature(mu @ F)
            normal = np.asfortranarray((F * b) @ F.T)
            normal.flat[:: len(F) + 1] += precisions
            found = factor(normal, lambda: F, b, precisions)
            slope = F @ a - precisions * mu
            step = found.back(found.half(slope))
            if not fresh and not np.abs(step).max(initial=0.0) < FAR:
                fresh = True  # a start where the loss has no curvature left: begin at zero
                mu = np.zeros(len(F))
                value = self._objective(F, precisions, mu)
                continue
            if not np.isfinite(step).all():
                value = -math.inf  # no mode was found: the search will not go there
                break
            promise = float(slope @ step)
            if promise < CLOSE or (last < STALLED and promise > 0.5 * last):
                break  # at the mode, or as near as rounding lets Newton come: it would square
            last = promise
            new, value = self._along(F, precisions, mu, step, promise, value)
            if new is mu:  # nothing left but rounding
                break
            mu = new
        else:
            value = -math.inf
        evidence = value
        if value > -math.inf:  # without a mode the factor can have pivots of zero
            whole = k * math.log(2.0 * math.pi) + float(np.log(prior).sum())
            evidence += 0.5 * (whole - found.logdet())
        return SparseState(active, prior, 1.0, lambda: F, mu, found, b, a, 0.0, evidence)

    def inner(self, state: SparseState) -> Inner:
        """Return the Gaussian model that touches this one at its mode."""
        gram = (state.F * state.b) @ state.F.T
        right = gram @ state.mu + state.F @ state.a
        return Inner(np.ascontiguousarray(gram), right, 0.0, 0.0, False)

    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        p = len(state.mu)
        whole = np.empty((p + max(spare, 1), self.design.Phi.shape[1]))
        rows = np.concatenate([state.F * state.b, state.a[None]])  # Q_m = phi_m'a at the mode
        self.design.dots_into(whole[: p + 1], rows)
        V, Q = state.factor.in_place(whole[:p], 1.0), whole[p].copy()
        return self.whole(state) - np.einsum("ij,ij->j", V, V), Q, whole

    def product(self, state: SparseState, i: int) -> Array:
        return self.design.dots(self._columns.row(i) * state.b)

    def whole(self, state: SparseState) -> Array:
        if self._squares is None or self._squares[0] is not state.b:  # else it is at hand
            self._squares = state.b, self.design.unit_squares(state.b)
        return self._squares[1]

    def third(self, state: SparseState) -> Array:
        d3 = self.loss.derivatives(self.y, state.mu @ state.F)[2]
        return np.asarray(self.design.weights * d3)

    def _objective(self, F: Array, precisions: Array, mu: Array) -> float:
        loss = float(self.design.weights @ self.loss.value(self.y, mu @ F))
        return -loss - 0.5 * float(precisions @ mu**2)

    def _curvature(self, f: Array) -> tuple[Array, Array]:
        d1, d2, _ = self.loss.derivatives(self.y, f)
        w = self.design.weights
        return w * d2, -w * d1

    def _along(
        self, F: Array, precisions: Array, mu: Array, step: Array, promise: float, value: float
    ) -> tuple[Array, float]:
        """Go along Newton's step as far as the objective rises in keeping with its promise."""
        part = min(1.0, LONGEST / float(np.abs(step @ F).max(initial=LONGEST)))
        while part > 1e-10:
            new = mu + part * step
            reached = self._objective(F, precisions, new)
            if reached >= value + 1e-4 * part * promise:
                return new, reached
            part *= 0.5
        return mu, value
