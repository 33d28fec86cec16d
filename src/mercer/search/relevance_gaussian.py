"""Relevance search for real targets: Gaussian noise of precision beta, learned or given.

    t = F'w + noise,   w_j ~ N(0, 1/alpha_j) (flat for the first k),   noise_i ~ N(0, 1/(w_i beta))

    E = 1/2 [N log(beta / 2 pi) + k log 2 pi + sum log alpha - log |R'R|
             - beta (sum_i w_i r_i^2 + spread) - mu'A mu]

N is the sum of the weights and ``spread`` the sum of squares within merged rows. Theory (R2), (R4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array
from mercer.search.relevance_design import Design
from mercer.search.relevance_factor import factor
from mercer.search.relevance_machine import Inner
from mercer.search.relevance_state import Pool, State

# Noise variance relative to that of the targets: where it starts, and how small it may get.
NOISE_START, NOISE_FLOOR = 1.0 / 30.0, 1e-6
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Frame:
    """What a set of p functions has whatever their precisions: F (p, n), F W F', F W t."""

    active: tuple[int, ...]
    F: Array
    gram: Array
    right: Array


class GaussianMachine:
    """Evaluates models of the targets t (n,); ``noise`` None is learned, else the variance."""

    def __init__(
        self, design: Design, t: Array, *, spread: float = 0.0, noise: float | None = None
    ) -> None:
        self.design, self.t, self.spread = design, t, spread
        w = design.weights
        self.total = float(w.sum())
        m = design.Phi.shape[1]
        self._columns = Pool(design.column, m, len(w))
        # phi_i'W phi_m for every candidate m, for those i that were ever looked at
        self._products = Pool(lambda i: design.dots(self._columns.row(i) * w), m, m)
        self._wt = w * t
        self._square = float(self._wt @ t) + spread
        self._targets = design.dots(self._wt)  # phi_m'W t
        self._flat_products = design.dots(design.flat.T * w)
        self._frame: Frame | None = None
        k = design.flat.shape[1]
        beta = 1.0 if noise is None else 1.0 / noise
        first = self.evaluate((), np.zeros(0), beta)
        left = max(self.total - k, 1.0)  # what the flat functions leave is the scale of the noise
        square = first.misfit / beta / left or 1.0
        self.learns_noise = noise is None
        self.beta_cap = 1.0 / (NOISE_FLOOR * square)
        self.beta = 1.0 / (NOISE_START * square) if noise is None else beta
        self._alone = 1.0 / square if noise is None else beta

    def start(self) -> State:
        """Return the model without candidates, its noise low."""
        return self.evaluate((), np.zeros(0), self.beta)

    def null(self) -> State:
        """Return the model without candidates, its noise the best for the flat functions alone."""
        return self.evaluate((), np.zeros(0), min(self._alone, self.beta_cap))

    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: State | None = None
    ) -> State:
        """Return the model with these functions and precisions; ``near`` is of no use here."""
        frame = self._frame = self._frame_of(active)
        F, w, k = frame.F, self.design.weights, len(frame.F) - len(active)
        normal = np.multiply(frame.gram, beta, order="F")
        precisions = np.concatenate([np.zeros(k), prior])
        normal.flat[:: len(F) + 1] += precisions
        b = beta * w
        found = factor(normal, F, b, precisions)
        mu = found.back(found.half(beta * frame.right))
        inverse = found.inverse()
        r = self.t - mu @ F
        misfit = beta * (float(w @ r**2) + self.spread)
        evidence = 0.5 * (
            self.total * (math.log(beta) - LOG_2PI)
            + k * LOG_2PI
            + float(np.log(prior).sum())
            - found.logdet()
            - misfit
            - float(precisions @ mu**2)
        )
        variances = np.einsum("ij,ij->i", inverse, inverse)
        return State(active, prior, beta, F, mu, variances, found, b, b * r, misfit, evidence)

    def outside(self, state: State) -> tuple[Array, Array, Array]:
        """S_m = phi_m'C^-1 phi_m, Q_m = phi_m'C^-1 t (m,), and V = R^-T F B Phi (p, m)."""
        beta = state.beta
        products = np.concatenate([self._flat_products, self._products.rows(state.active)])
        V = state.factor.half(beta * products)
        v = state.factor.half(beta * self._frame_of(state.active).right)
        S = beta - np.einsum("ij,ij->j", V, V)
        return S, beta * self._targets - v @ V, V

    def product(self, state: State, i: int) -> Array:
        """phi_i'B phi_m for every candidate m."""
        return np.asarray(state.beta * self._products.row(i))

    def whole(self, state: State) -> float:
        """phi_m'B phi_m: beta, since the columns have unit length."""
        return state.beta

    def inner(self, state: State) -> Inner:
        """Return the model of the functions of ``state``, as it is."""
        frame = self._frame_of(state.active)
        return Inner(np.ascontiguousarray(frame.gram), frame.right, self._square, self.total, True)

    def third(self, state: State) -> None:
        """Return None: a Gaussian has no third derivative."""

    def _frame_of(self, active: tuple[int, ...]) -> Frame:
        """Return the frame of these functions; the last one is at hand."""
        if self._frame is not None and self._frame.active == active:
            return self._frame
        flat, w, index = self.design.flat.T, self.design.weights, list(active)
        k = len(flat)
        F = np.concatenate([flat, self._columns.rows(active)])
        gram = np.empty((len(F), len(F)), order="F")
        gram[:k, :k] = (flat * w) @ flat.T
        gram[:k, k:] = self._flat_products[:, index]
        gram[k:, :k] = gram[:k, k:].T
        gram[k:, k:] = self._products.block(active)
        return Frame(active, F, gram, np.concatenate([flat @ self._wt, self._targets[index]]))
