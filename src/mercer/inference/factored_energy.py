"""The free energy of the factor-analysed Gaussian, with gradient and Hessian, O(n^2 M) each.

Reference: M. Seeger's thesis, section 4.3 and appendix C.1, (C.3); the Hessian follows from it.
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.inference.factored_family import UNIT, Family
from mercer.inference.factored_precision import Precision
from mercer.inference.variational_newton import averages


def at(family: Family, x: Array) -> FreeEnergy | None:
    """F at x, the ravelled (n, M + 2) array of the columns m, C^ and e; None if not finite."""
    Z = x.reshape(len(family.own), -1)
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = FreeEnergy(family, Z)
    except np.linalg.LinAlgError:  # a step so long that D or C_f is infinite
        return None
    finite = np.isfinite(found.value) and np.all(np.isfinite(found.gradient))
    return found if finite else None


class FreeEnergy:
    """F, to be minimised, and its derivatives at one point.

    Attributes
    ----------
    shift, loadings : (n,) mu - mean, and C_f (n, M).
    d : (n,) diagonal of D.
    value, gradient : F and its gradient in x.
    divergence : KL(q || prior), the part of F that is not the loss.
    logdet_ratio : log|K| - log|Sigma|.
    bend : (n,) 2 d nu_i/dSigma_ii.
    """

    def __init__(self, family: Family, Z: Array) -> None:
        self.family, n = family, len(Z)
        both = family.A @ Z[:, :-1]
        self.shift, C = both[:, 0], both[:, 1:]
        self.d, self.loadings = family.variances(Z[:, -1]), C
        task, W, d = family.task, family.W, self.d
        squares = np.square(C).sum(axis=1)
        self.m, self.v = task.mean + self.shift, d + squares
        total, slope, self.bend = averages(task, self.m, self.v)
        self.precision = Precision(d, C)
        # mu'K^-1 mu = |m|^2 - mu'W mu, and the same for C_f: no solve with K is needed
        quadratic = float(np.square(Z[:, :-1]).sum() - W @ (np.square(self.shift) + squares))
        self.logdet_ratio = family.logdet - self.precision.logdet
        self.divergence = 0.5 * (quadratic + float(d @ family.own) + self.logdet_ratio - n)
        self.value = total + self.divergence
        # (C.3), with bend = 2 d nu/dv, in the whitened variables
        extra = self.bend - W
        out = np.column_stack([slope - W * self.shift, extra[:, None] * C - self.precision.solved])
        in_e = 0.5 * UNIT * (d * (self.bend + family.own) - 1.0 + self.precision.level)
        self.gradient = np.column_stack([family.A.T @ out + Z[:, :-1], in_e]).ravel()
        self._higher: tuple[Array, Array] | None = None

    def product(self, v: Array) -> Array:
        """The Hessian of F times v: the directional derivative of every line of the gradient."""
        family, C, d = self.family, self.loadings, self.d
        if self._higher is None:  # d bend/dm and 2 d bend/dv
            third, fourth = family.task.loss.expected_higher(family.task.y, self.m, self.v)
            self._higher = family.task.w * third, family.task.w * fourth
        third, fourth = self._higher
        V = v.reshape(len(d), -1)
        both, log_d = family.A @ V[:, :-1], UNIT * V[:, -1]
        shift, dC = both[:, 0], both[:, 1:]
        var = d * log_d + 2.0 * np.einsum("ij,ij->i", C, dC)
        slope = self.bend * shift + 0.5 * third * var
        bend = third * shift + 0.5 * fourth * var
        solved, level = self.precision.change(log_d, dC)
        extra = (self.bend - family.W)[:, None]
        out = np.column_stack([slope - family.W * shift, extra * dC + bend[:, None] * C - solved])
        in_e = 0.5 * UNIT * (d * (log_d * (self.bend + family.own) + bend) + level)
        return np.column_stack([family.A.T @ out + V[:, :-1], in_e]).ravel()
