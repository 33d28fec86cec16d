"""What a relevance search needs of a likelihood: Gaussian noise, or a smooth loss by Laplace."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from mercer._native import relevance as native
from mercer.core.arrays import Array, Index
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


# What gives the products phi_i'B phi_m of a candidate i with all, (m,), but for a factor.
Source: TypeAlias = native.Candidates | Callable[[int], Array]


class Machine(ABC):
    """Evaluates models, sets of functions with their precisions, under a likelihood."""

    exact = False  # whether the evidence is that of the model, and not an approximation

    def __init__(self, design: Design) -> None:
        self.design = design

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
    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        """S_m = phi_m'C^-1 phi_m, Q_m = phi_m'C^-1 t (m,) each, and V = R^-T F B Phi (p, m).

        V may be followed by ``spare`` or more rows that mean nothing yet.
        """

    @abstractmethod
    def products(self, state: SparseState) -> tuple[Source, float]:
        """What gives phi_i'B phi_m for every candidate m, and the factor that it lacks."""

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
        w, m, flat = design.weights, design.count, np.ascontiguousarray(design.flat.T)
        self.total, wt = float(w.sum()), w * t
        self._square = float(wt @ t) + spread
        self._targets = design.dots(wt)  # phi_m'W t
        every = design.products if m * m <= TOGETHER and design.inner is None else None
        given = np.ascontiguousarray(design.Phi), design.inner, design.inverse, w, t, flat
        products = design.dots(flat * w)
        self._core = native.Candidates(*given, products, self._targets, spread, every)
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
        w, k, M = self.design.weights, self.design.flat.shape[1], len(active)
        index, b = np.array(active, dtype=np.intp), beta * w
        functions = partial(self._functions, index)
        R, mu, r = np.empty((k + M, k + M), order="F"), np.empty(k + M), np.empty(len(w))
        figures = self._core.evaluate(index, prior, beta, PIVOT, R.T, mu, r)
        found = WeightFactor(R)
        if figures is None:
            gram, right = self._given(index)
            precisions = np.concatenate([np.zeros(k), prior])
            normal = np.multiply(gram, beta, order="F")
            normal.flat[:: k + M + 1] += precisions
            found = factor(normal, functions, b, precisions)
            mu = found.back(found.half(beta * right))
            r = self.t - mu @ functions()
            misfit = beta * (float(w @ r**2) + self.spread)
            whole = self.total * (math.log(beta) - LOG_2PI) + k * LOG_2PI
            whole += float(np.log(prior).sum()) - found.logdet() - float(precisions @ mu**2)
            figures = misfit, 0.5 * (whole - misfit)
        return SparseState(active, prior, beta, functions, mu, found, b, b * r, *figures)

    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        beta, p, m = state.beta, len(state.mu), self.design.count
        index, R = np.array(state.active, dtype=np.intp), state.factor.R
        whole, S, Q = np.empty((p + spare, m)), np.empty(m), np.empty(m)
        self._core.seen(index, R.T, state.mu, beta, whole, S, Q)
        return S, Q, whole

    def products(self, state: SparseState) -> tuple[Source, float]:
        return self._core, state.beta

    def whole(self, state: SparseState) -> float:
        return state.beta  # the columns have unit length

    def ascended(
        self, beta: float, tol: float, max_iter: int, held: bool
    ) -> tuple[list[int], list[float], float, list[float], list[int], bool]:
        """Climb from the flat functions with noise precision ``beta``, ``held`` at first.

        Returns the functions, precisions and noise precision where that ends, the evidence after
        each step, how many steps were of which kind (:data:`KINDS`), and whether it converged
        within ``max_iter`` steps.
        """
        usable = self.design.usable.astype(np.float64)
        given = usable, beta, self._square, self.beta_cap, self.learns_noise, held
        limits, slow = (tol, max_iter, PIVOT), (self._hard, self._wide, self._back)
        return self._core.ascend(*given, *limits, *slow)

    def _hard(self, active: list[int], prior: Array, beta: float) -> tuple[Array, Array, float]:
        """R' (p, p), mu (p,) and the evidence of a model that loses digits."""
        state = self.evaluate(tuple(active), prior.copy(), beta)
        return np.ascontiguousarray(state.factor.R.T), state.mu, state.evidence

    def _wide(self, active: list[int], L: Array, mu: Array, beta: float) -> tuple[Array, ...]:
        """V (p, m), S and Q (m,) of a model of many functions with R' = L, by BLAS."""
        V = np.empty((len(mu), self.design.count))
        self._core.products(np.array(active, dtype=np.intp), V)
        WeightFactor(L.T).in_place(V, beta)
        S = beta - np.einsum("ij,ij->j", V, V)
        return V, S, beta * self._targets - (mu @ L) @ V

    def _back(self, L: Array, V: Array) -> Array:
        """Sigma F B phi_m of all candidates, (m, M), from V (p, m) of a model with R' = L."""
        return np.ascontiguousarray(WeightFactor(L.T).back(V)[self.design.flat.shape[1] :].T)

    def _given(self, index: Index) -> tuple[Array, Array]:
        """F W F' (p, p) and F W t (p,) of these functions."""
        p = self.design.flat.shape[1] + len(index)
        gram, right = np.empty((p, p)), np.empty(p)
        self._core.given(index, gram, right)
        return gram, right

    def _functions(self, index: Index) -> Array:
        """Return F (p, n), the flat functions and these candidates at the rows."""
        flat = self.design.flat.T
        F = np.empty((len(flat) + len(index), flat.shape[1]))
        F[: len(flat)] = flat
        self._core.functions(index, F[len(flat) :])
        return F


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
        self._columns = Pool(design.column)
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
        F = np.array([*self.design.flat.T, *map(self._columns.row, active)])
        F, w = F.reshape(-1, len(self.y)), self.design.weights
        k = len(F) - len(active)
        precisions, mu = np.concatenate([np.zeros(k), prior]), np.zeros(len(F))
        if near is not None:
            mu[:k] = near.mu[:k]
            known = dict(zip(near.active, near.mu[k:], strict=True))
            mu[k:] = [known.get(i, 0.0) for i in active]
        f = mu @ F
        value, fresh, last = self._objective(f, precisions, mu), False, math.inf
        for _ in range(STEPS):
            d1, d2, _ = self.loss.derivatives(self.y, f)
            b, a = w * d2, -w * d1
            half = F * np.sqrt(b)
            normal = np.asfortranarray(half @ half.T)  # one array twice: half the work
            normal.flat[:: len(F) + 1] += precisions
            found = factor(normal, lambda: F, b, precisions)
            slope = F @ a - precisions * mu
            step = found.back(found.half(slope))
            if not fresh and not np.abs(step).max(initial=0.0) < FAR:
                fresh = True  # a start where the loss has no curvature left: begin at zero
                mu, f = np.zeros(len(F)), np.zeros(len(w))
                value = self._objective(f, precisions, mu)
                continue
            if not np.isfinite(step).all():
                value = -math.inf  # no mode was found: the search will not go there
                break
            promise = float(slope @ step)
            if promise < CLOSE or (last < STALLED and promise > 0.5 * last):
                break  # at the mode, or as near as rounding lets Newton come: it would square
            last = promise
            new, f, value = self._along(F, f, precisions, mu, step, promise, value)
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

    def inner(self, state: SparseState) -> tuple[Array, Array]:
        """F B F' (p, p) and F B (targets) (p,) of the Gaussian model that touches at the mode."""
        gram = (state.F * state.b) @ state.F.T
        right = gram @ state.mu + state.F @ state.a
        return np.ascontiguousarray(gram), right

    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        p = len(state.mu)
        whole = np.empty((p + max(spare, 1), self.design.count))
        rows = np.concatenate([state.F * state.b, state.a[None]])  # Q_m = phi_m'a at the mode
        self.design.dots(rows, out=whole[: p + 1])
        V, Q = state.factor.in_place(whole[:p], 1.0), whole[p].copy()
        return self.whole(state) - np.einsum("ij,ij->j", V, V), Q, whole

    def products(self, state: SparseState) -> tuple[Source, float]:
        return lambda i: self.design.dots(self._columns.row(i) * state.b), 1.0

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

    def _objective(self, f: Array, precisions: Array, mu: Array) -> float:
        loss = float(self.design.weights @ self.loss.value(self.y, f))
        return -loss - 0.5 * float(precisions @ mu**2)

    def _along(
        self,
        F: Array,
        f: Array,
        precisions: Array,
        mu: Array,
        step: Array,
        promise: float,
        value: float,
    ) -> tuple[Array, Array, float]:
        """Go along Newton's step as far as the objective rises in keeping with its promise."""
        move = step @ F
        part = min(1.0, LONGEST / float(np.abs(move).max(initial=LONGEST)))
        while part > 1e-10:
            new, there = mu + part * step, f + part * move
            reached = self._objective(there, precisions, new)
            if reached >= value + 1e-4 * part * promise:
                return new, there, reached
            part *= 0.5
        return mu, f, value
