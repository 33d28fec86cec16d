"""Leave-one-out outputs of a support vector machine without refitting, and its classical bounds.

Theory (S5), (S6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel

JITTER = 1e-10


@dataclass(frozen=True)
class SupportLoo:
    """Leave-one-out figures of a two-class machine (or of each one-vs-rest machine).

    Attributes
    ----------
    margin : (n, k) y f of each point when it is left out, by the span of the free vectors.
    error : (k,) share of points whose left-out margin is not positive.
    support_bound : (k,) number of support vectors / n, an upper bound of the exact error.
    xi_alpha_bound : (k,) share with 2 lam_i R^2 + xi_i >= 1 (Joachims), an upper bound where a free
        vector fixes the bias.
    jitter : share of the mean kernel variance that was added to the diagonal of the matrix of the
        free vectors: two that are (nearly) equal have no span, and no inverse without it.
    """

    margin: Array
    error: Array
    support_bound: Array
    xi_alpha_bound: Array
    jitter: float = JITTER


def left_out(
    kernel: Kernel, X: Array, lam: Array, f: Array, y: Array, bound: Array, bias: bool = True
) -> Array:
    """Return f of each point when it is left out: f_i - y_i lam_i S_i, shape (n,).

    The span S_i (Vapnik & Chapelle 2000) with M = [K_FF 1; 1' 0] over the free vectors F:
    1 / [M^-1]_ii for a free vector, K_ii - v'M^-1 v with v = (K_Fi, 1) at the bound, and no change
    for lam_i = 0; without a bias the border of ones is left out. Where no free vector is left to
    move against, S_i = K_ii: with none, and for the only one beside a bias, whose formula divides
    by zero. lam (n,) >= 0 are the multipliers, f (n,) the outputs, bound (n,) their upper limit.
    """
    result = f.copy()
    support = np.flatnonzero(lam > 0)
    free = support[lam[support] < bound[support]]
    if not len(support):
        return result
    spans = np.empty(len(support))
    place = {int(i): k for k, i in enumerate(support)}
    diagonal = kernel.diag(X[support])
    if not len(free):
        spans[:] = diagonal
    else:
        m = len(free)
        M = np.ones((m + bias, m + bias))
        M[:m, :m] = kernel(X[free])
        M[m:, m:] = 0.0
        M[np.arange(m), np.arange(m)] += JITTER * diagonal.mean()
        inverse = np.linalg.inv(M)
        rest = np.setdiff1d(support, free)
        own = [place[int(i)] for i in free]
        spans[own] = 1.0 / np.diagonal(inverse)[:m] if m > bias else diagonal[own]
        if len(rest):
            v = np.vstack([kernel(X[free], X[rest]), np.ones((int(bias), len(rest)))])
            at = [place[int(i)] for i in rest]
            spans[at] = diagonal[at] - np.einsum("ij,ij->j", v, inverse @ v)
    result[support] -= y[support] * lam[support] * np.maximum(spans, 0.0)
    return result


@dataclass(frozen=True)
class Trained:
    """What leave-one-out needs of a fit: lam, outputs, Y are (n, k), bound and weights (n,)."""

    points: Array
    lam: Array
    outputs: Array
    Y: Array
    bound: Array
    weights: Array

    def left_out(self, kernel: Kernel, bias: bool) -> Array:
        """f of each point when it is left out, (n, k)."""
        columns = [
            left_out(kernel, self.points, lam, f, y, self.bound, bias)
            for lam, f, y in zip(self.lam.T, self.outputs.T, self.Y.T, strict=True)
        ]
        return np.column_stack(columns)

    def summary(self, kernel: Kernel, bias: bool) -> SupportLoo:
        """Collect the figures."""
        left = self.left_out(kernel, bias)
        share = self.weights / self.weights.sum()
        radius = float(kernel.diag(self.points).max())
        slack = np.maximum(1.0 - self.Y * self.outputs, 0.0)
        risky = (2.0 * self.lam * radius + slack >= 1.0) & (self.lam > 0)
        return SupportLoo(
            margin=self.Y * left,
            error=share @ (self.Y * left <= 0),
            support_bound=share @ (self.lam > 0),
            xi_alpha_bound=share @ risky,
        )
