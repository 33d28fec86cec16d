"""Relevance search for real targets: Gaussian noise of precision beta, learned or given.

    t = F'w + noise,   w_j ~ N(0, 1/alpha_j) (flat for the first k),   noise_i ~ N(0, 1/(w_i beta))

    E = 1/2 [N log(beta / 2 pi) + k log 2 pi + sum log alpha - log |R'R|
             - beta (sum_i w_i r_i^2 + spread) - mu'A mu]

N is the sum of the weights and ``spread`` the sum of squares within merged rows. Theory (R2), (R4).
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.search.relevance.state import Design, Inner, Machine, Pool, SparseState, factor

NOISE_FLOOR = 1e-6  # smallest noise variance, relative to that of the targets
# Up to so many numbers, 72 MB, the columns and the inner products phi_i'W phi_m of all candidates
# are formed at once; beyond, of those that are ever looked at.
TOGETHER = 9_000_000
LOG_2PI = math.log(2.0 * math.pi)


class ActiveProducts(NamedTuple):
    """What a set of p functions has whatever their precisions: F W F' (p, p), F W t (p,)."""

    active: tuple[int, ...]
    gram: Array
    right: Array


class GaussianMachine(Machine):
    """Evaluates models of the targets t (n,); ``noise`` None is learned, else the variance."""

    def __init__(
        self, design: Design, t: Array, *, spread: float = 0.0, noise: float | None = None
    ) -> None:
        super().__init__(design)
        self.t, self.spread = t, spread
        w = design.weights
        self.total = float(w.sum())
        m = design.Phi.shape[1]
        if m * max(m, len(w)) <= TOGETHER:
            self._columns = Pool.full(design.columns())
            self._products = Pool.full(design.products())
        else:
            self._columns = Pool(design.column, m, len(w))
            self._products = Pool(lambda i: design.dots(self._columns.row(i) * w), m, m)
        self._wt = w * t
        self._square = float(self._wt @ t) + spread
        self._targets = design.dots(self._wt)  # phi_m'W t
        self._flat_products = design.dots(design.flat.T * w)
        self._frame: ActiveProducts | None = None
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
        frame = self._frame = self._frame_of(active)
        w, p = self.design.weights, len(frame.right)
        k = p - len(active)
        normal = np.multiply(frame.gram, beta, order="F")
        precisions = np.concatenate([np.zeros(k), prior])
        normal.flat[:: p + 1] += precisions
        b = beta * w
        functions = partial(self._functions, active)
        found = factor(normal, functions, b, precisions)
        mu = found.back(found.half(beta * frame.right))
        r = self.t - self._columns.mix(active, mu[k:]) - self.design.flat @ mu[:k]
        misfit = beta * (float(w @ r**2) + self.spread)
        evidence = 0.5 * (
            self.total * (math.log(beta) - LOG_2PI)
            + k * LOG_2PI
            + float(np.log(prior).sum())
            - found.logdet()
            - misfit
            - float(precisions @ mu**2)
        )
        return SparseState(active, prior, beta, functions, mu, found, b, b * r, misfit, evidence)

    def _functions(self, active: tuple[int, ...]) -> Array:
        return np.concatenate([self.design.flat.T, self._columns.rows(active)])

    def outside(self, state: SparseState, spare: int = 0) -> tuple[Array, Array, Array]:
        beta, k, p = state.beta, state.flat, len(state.mu)
        whole = np.empty((p + spare, self.design.Phi.shape[1]))
        V = whole[:p]
        V[:k] = self._flat_products
        self._products.into(V[k:], state.active)
        state.factor.in_place(V, beta)
        v = state.factor.half(beta * self._frame_of(state.active).right)
        S = beta - np.einsum("ij,ij->j", V, V)
        return S, beta * self._targets - v @ V, whole

    def product(self, state: SparseState, i: int) -> Array:
        return np.asarray(state.beta * self._products.row(i))

    def whole(self, state: SparseState) -> float:
        return state.beta  # the columns have unit length

    def inner(self, state: SparseState) -> Inner:
        frame = self._frame_of(state.active)
        return Inner(np.ascontiguousarray(frame.gram), frame.right, self._square, self.total, True)

    def _frame_of(self, active: tuple[int, ...]) -> ActiveProducts:
        """Return the frame of these functions; the last one is at hand."""
        if self._frame is not None and self._frame.active == active:
            return self._frame
        flat, w, index = self.design.flat.T, self.design.weights, list(active)
        k, p = len(flat), len(flat) + len(active)
        gram = np.empty((p, p), order="F")
        gram[:k, :k] = (flat * w) @ flat.T
        gram[:k, k:] = self._flat_products[:, index]
        gram[k:, :k] = gram[:k, k:].T
        gram[k:, k:] = self._products.block(active)
        return ActiveProducts(active, gram, np.concatenate([flat @ self._wt, self._targets[index]]))
