"""The mode of a softmax on features: f = F B + H beta, one column for each of c classes.

    P(B, beta) = 1/2 |B|^2 + sum_i w_i (log sum_j e^f_ij - f_iy),     a_i = w_i (e_y - p_i)

Newton steps by conjugate gradients. A product with the Hessian takes two products with F,

    V -> V + F' [w (p o U - p (p'U))],    U = F V,

and the c blocks I + F' diag(w p_j (1 - p_j)) F precondition it. Basis coefficients sum to zero over
the classes: a function added to all of them changes no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.inference.mode.prox import Bend
from mercer.inference.mode.steps import SETTLED, Descent

LOOSE = 0.1  # of the residual: where conjugate gradients end at the latest
PRODUCTS = 200  # of conjugate gradients for one step
STALE = 20  # products in a step after which the blocks are formed anew


@dataclass
class JointDescent(Descent):
    """All classes on every s-th row: ``b`` is (m, c), ``beta`` (k, c), f and a are (n, c)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.own = np.eye(self.task.mean.shape[1])[self.task.y.astype(np.intp)]
        self._blocks: list[tuple[Array, bool]] = []

    def bend(self, f: Array) -> Bend:
        """Return a (n, c) and, for the curvature, the probabilities (n, c)."""
        p = softmax(f, axis=1)
        return Bend(self.task.w[:, None] * (self.own - p), p, f)

    def bent(self, p: Array, U: Array) -> Array:
        """The curvature times U (n, c)."""
        inner = p * U
        return np.asarray(self.task.w[:, None] * (inner - p * inner.sum(axis=1, keepdims=True)))

    def along(self, f: Array, df: Array) -> tuple[float, float]:
        at = self.bend(f)
        return -float(np.vdot(at.a, df)), float(np.vdot(df, self.bent(at.E, df)))

    def settle(self) -> None:
        k, c = self.beta.shape
        for _ in range(50 if k else 0):
            at = self.bend(self.f)
            slope = self.H.T @ at.a
            if np.abs(slope).max() <= SETTLED * float(np.abs(self.H).max() * np.abs(at.a).sum()):
                break
            inner = np.zeros((k, c, k, c))
            for j, unit in enumerate(np.eye(k * c).reshape(-1, k, c)):
                inner[..., j // c, j % c] = self.H.T @ self.bent(at.E, self.H @ unit)
            whole = inner.reshape(k * c, k * c)
            down = np.linalg.lstsq(whole, slope.ravel(), rcond=1e-12)[0].reshape(k, c)
            df = self.H @ down
            t = self.search(df)
            self.beta, self.f = self.beta + t * down, self.f + t * df

    def descend(self, enough: float, loose: float, limit: int, rough: bool) -> float:
        """Newton steps until |B - F'a|^2 / 2 is at most ``enough``; return the gap of B and a."""
        last, first, old = self.steps + limit, 0.0, True
        while True:
            check_time()
            at = self.bend(self.f)
            g = np.concatenate([self.b - self.features.down(at.a), -(self.H.T @ at.a)])
            off = 0.5 * float(np.vdot(g[: self.features.m], g[: self.features.m]))
            if off <= enough or self.steps >= last:
                return off
            if old:
                self._form(at.E)
            first = first or off
            step, products = self._solved(at.E, -g, min(LOOSE, (off / first) ** 0.25))
            old = products >= STALE
            m = self.features.m
            df = self.features.expand(step[:m]) + self.H @ step[m:]
            flat, bend = np.vdot(self.b, step[:m]), np.vdot(step[:m], step[:m])
            t = self.search(df, float(flat), float(bend))
            self.b, self.beta = self.b + t * step[:m], self.beta + t * step[m:]
            self.f = self.f + t * df
            self.steps += 1
            self.settle()

    def _form(self, p: Array) -> None:
        """Factor the blocks on the diagonal, one for each class."""
        m, self._blocks = self.features.m, []
        for q in p.T:
            M = self.features.curved(self.task.w * q * (1.0 - q), self.H)
            M[np.arange(m), np.arange(m)] += 1.0
            # of the preconditioner alone, which a class that no row can leave would make singular
            M[m:, m:] += 1e-10 * float(self.task.w.max()) * (self.H.T @ self.H)
            self._blocks.append(cho_factor(M, lower=True, check_finite=False))

    def _near(self, R: Array) -> Array:
        """The preconditioner, within basis coefficients that sum to zero."""
        columns = zip(self._blocks, self._balanced(R).T, strict=True)
        found = [cho_solve(block, r, check_finite=False) for block, r in columns]
        return self._balanced(np.column_stack(found))

    def _balanced(self, V: Array) -> Array:
        out = V.copy()
        out[self.features.m :] -= out[self.features.m :].mean(axis=1, keepdims=True)
        return out

    def _solved(self, p: Array, G: Array, tol: float) -> tuple[Array, int]:
        """Return about the Newton step of minus gradient G (m + k, c), and how many products."""
        m = self.features.m

        def product(V: Array) -> Array:
            R = self.bent(p, self.features.expand(V[:m]) + self.H @ V[m:])
            return np.concatenate([V[:m] + self.features.down(R), self.H.T @ R])

        return conjugate_gradients(product, self._near, G, tol)


def conjugate_gradients(
    product: Callable[[Array], Array], near: Callable[[Array], Array], G: Array, tol: float
) -> tuple[Array, int]:
    """Return X with product(X) = G up to ``tol`` of it, and how many products that took."""
    X, R = np.zeros_like(G), G.copy()
    Y = near(R)
    D, rho = Y.copy(), float(np.vdot(R, Y))
    start, count = rho, 0
    while rho > tol**2 * start and count < PRODUCTS:
        Q = product(D)
        step = rho / float(np.vdot(D, Q))
        X += step * D
        R -= step * Q
        Y = near(R)
        before, rho = rho, float(np.vdot(R, Y))
        D = Y + (rho / before) * D
        count += 1
    return X, count
