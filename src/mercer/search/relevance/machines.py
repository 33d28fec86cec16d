"""What a relevance search needs of a likelihood: Gaussian noise, or a smooth loss by Laplace."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import NamedTuple

import numpy as np

from mercer._native import relevance as native
from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.search.relevance.state import (
    PIVOT,
    Design,
    Pool,
    SparseState,
    WeightFactor,
    factor,
)

NOISE_FLOOR = 1e-6  # smallest noise variance, relative to that of the targets
# Up to so many numbers, 72 MB, the inner products phi_i'W phi_m of all candidates may be formed at
# once, where many are looked at; beyond, of those that are ever looked at.
TOGETHER = 9_000_000
LOG_2PI = math.log(2.0 * math.pi)
# Newton ends where it expects to gain less: the determinant is of first order in what is left.
STEPS, CLOSE, STALLED = 100, 1e-14, 1e-8
# A step that moves a latent value further is cut; one of weights beyond FAR is not taken at all.
LONGEST, FAR = 100.0, 1e8


class Inner(NamedTuple):
    """A Gaussian model of a given set of functions by its inner products."""

    gram: Array  # F W F' (p, p), row-major
    right: Array  # F W t (p,)
    square: float  # t'W t
    total: float  # sum of the weights
    exact: bool  # whether this is the model itself; else it touches it at the present state only


class Machine(ABC):
    """Evaluates models, sets of functions with their precisions, under a likelihood."""

    exact = False  # whether the evidence is that of the model, and not an approximation
    learns_noise = False
    beta_cap = math.inf
    _columns: Pool  # the candidates of unit length

    def __init__(self, design: Design) -> None:
        self.design = design

    def _functions(self, active: tuple[int, ...]) -> Array:
        """Return F (p, n), the flat functions and these candidates at the rows."""
        return np.concatenate([self.design.flat.T, self._columns.rows(active)])

    def start(self, beta: float) -> SparseState:
        """Return the model with the flat functions only and this noise precision."""
        return self.evaluate((), np.zeros(0), beta)

    def null(self) -> SparseState:
        """Return the best model with the flat functions only."""
        return self.start(1.0)

    @abstractmethod
    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: SparseState | None = None
    ) -> SparseState:
        """Return the model with these functions; ``near`` is a state to start from."""

    @abstractmethod
    def inner(self, state: SparseState) -> Inner:
        """Return the Gaussian model of the functions of ``state``."""

    @abstractmethod
    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        """S_m = phi_m'C^-1 phi_m, Q_m = phi_m'C^-1 t (m,) each, and V = R^-T F B Phi (p, m).

        V may be followed by ``spare`` or more rows that mean nothing yet.
        """

    @abstractmethod
    def product(self, state: SparseState, i: int) -> Array:
        """phi_i'B phi_m for every candidate m, (m,)."""

    @abstractmethod
    def whole(self, state: SparseState) -> Array | float:
        """phi_m'B phi_m of all candidates: S if nothing were in the model."""

    def bend(self, state: SparseState) -> tuple[Array, Array] | None:
        """Slope of -1/2 log |R'R| in the latent values, c (n,), and h = Sigma F c (p,).

        By the curvature of the loss, which changes with the mode; None where it does not.
        """
        return None

    def separates(self, state: SparseState) -> bool:
        """Whether the targets are labels and each row is on its side."""
        return False


class GaussianMachine(Machine):
    """Real targets t (n,) with noise of precision beta, learned, or 1 / ``noise`` where given.

        t = F'w + noise, w_j ~ N(0, 1/alpha_j) (flat for the first k), noise_i ~ N(0, 1/(w_i beta))

        E = 1/2 [N log(beta / 2 pi) + k log 2 pi + sum log alpha - log |R'R|
                 - beta (sum_i w_i r_i^2 + spread) - mu'A mu]

    N is the sum of weights, ``spread`` the sum of squares within merged rows. Theory (R2), (R4).
    """

    exact = True

    def __init__(
        self, design: Design, t: Array, *, spread: float = 0.0, noise: float | None = None
    ) -> None:
        super().__init__(design)
        self.t, self.spread = t, spread
        w, m = design.weights, design.Phi.shape[1]
        self.total = float(w.sum())
        self._columns = Pool(design.column, m, len(w))
        every = design.products if m * m <= TOGETHER else None
        self._products = Pool(lambda i: design.dots(self._columns.row(i) * w), m, m, every)
        self._wt = w * t
        self._square = float(self._wt @ t) + spread
        self._targets = design.dots(self._wt)  # phi_m'W t
        self._flat_products = design.dots(design.flat.T * w)
        self._room = native.Room()
        # what the last set of functions has whatever the precisions: active, F W F', F W t
        self._frame: tuple[tuple[int, ...], Array, Array] | None = None
        beta = 1.0 if noise is None else 1.0 / noise
        first = self.start(beta)  # what the flat functions leave is the scale of the noise
        square = first.misfit / beta / max(self.total - first.flat, 1.0) or 1.0
        self.learns_noise = noise is None
        self.beta_cap = 1.0 / (NOISE_FLOOR * square)
        self._alone = 1.0 / square if noise is None else beta

    def null(self) -> SparseState:
        return self.start(min(self._alone, self.beta_cap))

    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: SparseState | None = None
    ) -> SparseState:
        self._frame = active, *self._products_of(active)
        gram, right = self._frame[1:]
        w, p = self.design.weights, len(right)
        k = p - len(active)
        precisions = np.concatenate([np.zeros(k), prior])
        b = beta * w
        functions = partial(self._functions, active)
        R, mu = np.empty((p, p), order="F"), np.empty(p)
        found = WeightFactor(R)
        if not native.posterior(self._room, gram.T, right, precisions, beta, PIVOT, R.T, mu):
            normal = np.multiply(gram, beta, order="F")
            normal.flat[:: p + 1] += precisions
            found = factor(normal, functions, b, precisions)
            mu = found.back(found.half(beta * right))
        r = self.t - self._columns.mix(active, mu[k:]) - self.design.flat @ mu[:k]
        misfit = beta * (float(w @ r**2) + self.spread)
        whole = self.total * (math.log(beta) - LOG_2PI) + k * LOG_2PI + float(np.log(prior).sum())
        evidence = 0.5 * (whole - found.logdet() - misfit - float(precisions @ mu**2))
        return SparseState(active, prior, beta, functions, mu, found, b, b * r, misfit, evidence)

    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        beta, k, p = state.beta, state.flat, len(state.mu)
        whole = np.empty((p + spare, self.design.Phi.shape[1]))
        V = whole[:p]
        V[:k] = self._flat_products
        self._products.into(V[k:], state.active)
        state.factor.in_place(V, beta)
        v = state.factor.half(beta * self._products_of(state.active)[1])
        S = beta - np.einsum("ij,ij->j", V, V)
        return S, beta * self._targets - v @ V, whole

    def product(self, state: SparseState, i: int) -> Array:
        return np.asarray(state.beta * self._products.row(i))

    def whole(self, state: SparseState) -> float:
        return state.beta  # the columns have unit length

    def inner(self, state: SparseState) -> Inner:
        gram, right = self._products_of(state.active)
        return Inner(np.ascontiguousarray(gram), right, self._square, self.total, True)

    def _products_of(self, active: tuple[int, ...]) -> tuple[Array, Array]:
        """F W F' (p, p) and F W t (p,) of these functions; the last ones are at hand."""
        if self._frame is not None and self._frame[0] == active:
            return self._frame[1:]
        flat, w, index = self.design.flat.T, self.design.weights, list(active)
        k, p = len(flat), len(flat) + len(active)
        gram = np.empty((p, p), order="F")
        gram[:k, :k] = (flat * w) @ flat.T
        gram[:k, k:] = self._flat_products[:, index]
        gram[k:, :k] = gram[:k, k:].T
        gram[k:, k:] = self._products.block(active)
        return gram, np.concatenate([flat @ self._wt, self._targets[index]])


class LaplaceMachine(Machine):
    """Targets y (n,) under a loss that is smooth, convex and normalised: Laplace's approximation.

    At the mode mu of the weights, with b_i = w_i g''(y_i, f_i) and a_i = -w_i g'(y_i, f_i),

        E = -sum_i w_i g(y_i, f_i) - 1/2 mu'A mu + 1/2 sum log alpha - 1/2 log |R'R| + k/2 log 2 pi

    R'R = F B F' + A (Tipping 2001, sec. 3; GPML 3.4). Seen from the mode the model is a Gaussian
    one with targets f + a/b and precisions b: that surrogate proposes the steps, and E itself, at
    the new mode, judges them. Theory (R5).
    """

    def __init__(self, design: Design, y: Array, loss: Loss) -> None:
        super().__init__(design)
        self.y, self.loss = y, loss
        self._columns = Pool(design.column, design.Phi.shape[1], len(y))
        self._squares: tuple[Array, Array] | None = None
        self._bend: tuple[SparseState, Array, Array] | None = None
        self._null: SparseState | None = None

    def null(self) -> SparseState:
        self._null = self._null or super().null()
        return self._null

    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: SparseState | None = None
    ) -> SparseState:
        """Return the model with these functions, its mode found from the weights of ``near``."""
        F, w = self._functions(active), self.design.weights
        k = len(F) - len(active)
        precisions, mu = np.concatenate([np.zeros(k), prior]), np.zeros(len(F))
        if near is not None:
            mu[:k] = near.mu[:k]
            known = dict(zip(near.active, near.mu[k:], strict=True))
            mu[k:] = [known.get(i, 0.0) for i in active]
        value, fresh, last = self._objective(F, precisions, mu), False, math.inf
        for _ in range(STEPS):
            d1, d2, _ = self.loss.derivatives(self.y, mu @ F)
            b, a = w * d2, -w * d1
            half = F * np.sqrt(b)
            normal = np.asfortranarray(half @ half.T)  # one array twice: half the work
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
            whole = k * LOG_2PI + float(np.log(prior).sum())
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
        self.design.dots(rows, out=whole[: p + 1])
        V, Q = state.factor.in_place(whole[:p], 1.0), whole[p].copy()
        return self.whole(state) - np.einsum("ij,ij->j", V, V), Q, whole

    def product(self, state: SparseState, i: int) -> Array:
        return self.design.dots(self._columns.row(i) * state.b)

    def whole(self, state: SparseState) -> Array:
        if self._squares is None or self._squares[0] is not state.b:  # else it is at hand
            self._squares = state.b, self.design.unit_squares(state.b)
        return self._squares[1]

    def bend(self, state: SparseState) -> tuple[Array, Array]:
        if self._bend is None or self._bend[0] is not state:  # else it is at hand
            d3 = self.loss.derivatives(self.y, state.mu @ state.F)[2]
            half = state.factor.half(state.F)
            c = -0.5 * self.design.weights * d3 * np.einsum("ij,ij->j", half, half)
            self._bend = state, c, state.factor.back(half @ c)
        return self._bend[1:]

    def separates(self, state: SparseState) -> bool:
        return self.loss.response == "binary" and bool(np.all(self.y * (state.mu @ state.F) > 0.0))

    def _objective(self, F: Array, precisions: Array, mu: Array) -> float:
        loss = float(self.design.weights @ self.loss.value(self.y, mu @ F))
        return -loss - 0.5 * float(precisions @ mu**2)

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
