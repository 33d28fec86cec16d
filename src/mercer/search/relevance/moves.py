"""What to take in: the best candidates one after the other, and the best exchanges.

Taking in i changes S and Q of all others by a product of rank one (Tipping & Faul 2003, appendix):
with c_m = phi_m'C^-1 phi_i and rho = alpha_i + S_i,

    S_m <- S_m - c_m^2 / rho,      Q_m <- Q_m - Q_i c_m / rho,      c = phi_i'B Phi - V_i'V

and V gets the row c / sqrt(rho). Taking out j does the reverse, with T = R^-1 V and Sigma_jj:

    S_m <- S_m + T_jm^2 / Sigma_jj,      Q_m <- Q_m + mu_j T_jm / Sigma_jj

What one precision does to the evidence, in closed form (Tipping & Faul 2003, eqs. 15 - 22).

With all other precisions fixed, the log evidence as a function of one precision alpha is, up to a
constant,

    l(alpha) = 1/2 [log alpha - log(alpha + s) + q^2 / (alpha + s)],    l(inf) = 0

with a single maximum: at alpha = s^2 / (q^2 - s) if q^2 > s, else at infinity: out of the model.
Theory (R6), (R7), (R8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer._native import relevance as native
from mercer.core.arrays import Array
from mercer.search.relevance.state import Machine, SparseState


def share(alpha: Array, s: Array, q: Array) -> Array:
    """l(alpha), elementwise: what a function of precision alpha adds to the log evidence."""
    return np.asarray(0.5 * (np.log(alpha) - np.log(alpha + s) + q**2 / (alpha + s)))


def best_precision(s: float, q: float) -> float:
    """Return the precision that maximises l; infinity if the function is better out."""
    theta = q * q - s
    return s * s / theta if theta > 0.0 else float("inf")


def gain_of(ratio: Array) -> Array:
    """Gain of taking in a function at its best precision, by ratio = Q^2 / S, elementwise.

    Zero for a ratio up to one: the function stays out.
    """
    inside = np.maximum(ratio, 1.0)
    return np.asarray(0.5 * (inside - 1.0 - np.log(inside)))


# A candidate with less than this share of its length outside the model's span is not a candidate.
COLLINEAR = 1e-11
# Candidates are taken in together while they gain this share of the first, and not too many.
SHARE, FEW, PART = 0.1, 4, 1.0


@dataclass(frozen=True)
class Exchange:
    """Candidate ``comes``, of precision ``alpha``, in the place ``goes`` of the model."""

    goes: int
    comes: int
    alpha: float
    gain: float


class Scan:
    """All candidates seen from one state; (m,) each: S, Q, and what S must exceed, -1 if closed."""

    def __init__(self, machine: Machine, state: SparseState) -> None:
        self.machine, self.state = machine, state
        self.limit = FEW + int(PART * len(state.active))
        self.S, self.Q, self.V = machine.outside(state, self.limit)
        self.least = np.where(machine.design.usable, COLLINEAR * machine.whole(state), -1.0)
        self.least[list(state.active)] = -1.0

    def additions(self, barred: set[int], tol: float) -> tuple[list[int], Array, float]:
        """Return candidates to take in together, their precisions, and what the first gains."""
        S, Q, V, p = self.S.copy(), self.Q.copy(), self.V, len(self.state.mu)
        least = np.where(self.least < 0.0, np.inf, self.least)
        least[list(barred)] = np.inf
        chosen: list[int] = []
        alphas: list[float] = []
        first = 0.0
        while len(chosen) < self.limit:
            i, ratio = native.best(S, Q, least)
            gain = 0.5 * (ratio - 1.0 - math.log(ratio)) if ratio > 1.0 else 0.0
            if gain < max(tol, SHARE * first):
                break
            if not chosen:
                first = gain
            chosen.append(i)
            alphas.append(best_precision(float(S[i]), float(Q[i])))
            native.take_in(self.machine.product(self.state, i), V, p, i, alphas[-1], S, Q)
            least[i] = np.inf
            p += 1
        return chosen, np.array(alphas), first

    def exchanges(self, tol: float) -> list[Exchange]:
        """The best exchange for each function in the model that gains ``tol``, the best first."""
        state = self.state
        k, M = state.flat, len(state.active)
        if not M or not len(self.S):
            return []
        T = np.ascontiguousarray(state.factor.back(self.V[: k + M])[k:].T)
        v, mu = state.variances[k:], state.mu[k:]
        best, ratio = np.empty(M), np.empty(M)
        native.exchanges(T, v, mu, self.S, self.Q, self.least, best, ratio)
        gains = gain_of(ratio) - share(state.prior, *state.inside())
        found = []
        for j in np.argsort(-gains, kind="stable"):
            if gains[j] < tol or ratio[j] <= 1.0:
                continue
            i = int(best[j])
            s = self.S[i] + T[i, j] ** 2 / v[j]
            q = self.Q[i] + mu[j] * T[i, j] / v[j]
            found.append(Exchange(int(j), i, best_precision(s, q), float(gains[j])))
        return found
