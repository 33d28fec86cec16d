"""The leave-one-out criterion: log predictive density of each observation given all others.

GPML (5.10)-(5.13), with merged duplicates, weights and an unpenalised basis; the gradient by one
adjoint product instead of one product per hyperparameter. Theory (G11), (G12).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.core.arrays import Array, mirror
from mercer.inference.base import Solution
from mercer.kernels.base import Gradient
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.search.criteria.evidence import Criterion, Problem

LOG_2PI = float(np.log(2.0 * np.pi))


class Left:
    """What the others say about each observation, from alpha and the diagonal of C.

    Observation r is left out with at most unit weight t W, t = min(w_r, 1) / (weight of its point),
    so that a weight of two is the same as two rows. With z the mean at the point and P_ii the
    diagonal of C (of P, with a basis):

        rest = (1 - t) W + t P_ii,   y - mean = ((y - z) W + alpha) / rest,
        variance = (1 - P_ii / W) / rest + noise,

    which for a point of its own (t = 1) is GPML (5.12): alpha_i / P_ii and 1 / P_ii.

    Attributes
    ----------
    residual : (N, m) y - leave-one-out mean.
    variance : (N,) of the left-out observation.
    """

    def __init__(self, problem: Problem, solution: Solution, precision: Array) -> None:
        g = problem.group
        self.W = solution.W[g]
        self.P = solution.factor.diag()[g]
        self.precision = precision[g]
        left_out = problem.left_out
        if problem.whole:
            left_out = problem.weights[g]
        elif left_out is None:
            left_out = np.minimum(problem.row_weights, 1.0)
        self.share = left_out / problem.weights[g]
        self.alone = self.share == 1.0
        finite = np.where(self.alone, 1.0, self.W)  # W may be inf where a point stands alone
        offset = np.where(self.alone[:, None], 0.0, problem.rows - problem.y[g])
        self.offset = offset
        self.rest = (1.0 - self.share) * finite + self.share * self.P
        self.residual = (offset * finite[:, None] + solution.alpha[g]) / self.rest[:, None]
        self.signal = (1.0 - self.P / self.W) / self.rest
        self.variance = self.signal + 1.0 / self.precision

    def log_density(self) -> Array:
        """log p(y_r | the others), shape (N, m)."""
        v = self.variance[:, None]
        return np.asarray(-0.5 * (LOG_2PI + np.log(v) + self.residual**2 / v))


@dataclass(frozen=True)
class Score:
    """How good the leave-one-out predictions are, to be maximised, and its derivatives.

    Attributes
    ----------
    value : the sum over the observations.
    residual : (N, m) in the residual y - mean.
    signal : (N,) in the variance of the left-out f.
    noise : (N,) in the noise that the observation adds to it.
    loss : in parameters of the loss that do not act through these.
    """

    value: float
    residual: Array
    signal: Array
    noise: Array
    loss: Gradient = field(default_factory=dict)


class LooCriterion(Criterion):
    """The leave-one-out log predictive density of a Gaussian loss.

    A child scores the predictions in another way by its own ``score``; the gradient follows.

    Reference: GPML section 5.4.2.
    """

    def score(self, left: Left, loss: Loss) -> Score:
        """Return how good the predictions of the left-out observations are."""
        weights = self.problem.row_weights[:, None]
        v = left.variance[:, None]
        d_var = (weights * 0.5 * (left.residual**2 / v**2 - 1.0 / v)).sum(axis=1)
        value = float((weights * left.log_density()).sum())
        return Score(value, -weights * left.residual / v, d_var, d_var)

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        """See :class:`Criterion`."""
        p = self.problem
        _, precision = loss.quadratic(p.y)
        left = Left(p, solution, precision)
        score = self.score(left, loss)
        d_res, d_signal = score.residual, score.signal
        rest, W, P, t = left.rest, left.W, left.P, left.share
        # dL/d alpha_i and dL/d P_ii, summed over the observations of each point
        d_alpha = _by_point(p, d_res / rest[:, None])
        through_rest = -(d_res * left.residual).sum(axis=1) - d_signal * left.signal
        d_diag = _by_point(p, (through_rest * t - d_signal / W) / rest)
        Q = _weights(solution.factor, solution.alpha, d_alpha, d_diag)
        gradient: dict[str, Gradient] = {"kernel": {}, "loss": {}}
        if any(entry.part == "kernel" for entry in self.space.entries):
            gradient["kernel"] = gram.contract(Q)
        # noise: through K + W^-1, through W itself and through the noise of the left-out value
        own = d_signal * P / W**2
        explicit = (left.offset * d_res).sum(axis=1) + through_rest * (1.0 - t) + own
        d_W = np.where(left.alone, own, explicit) / rest
        direct = _by_point(p, d_W) * p.weights - _by_point(p, score.noise) / precision**2
        with np.errstate(divide="ignore"):
            d_precision = direct - np.diagonal(Q) / (p.weights * precision**2)
        gradient["loss"] = {**loss.quadratic_pullback(p.y, d_precision), **score.loss}
        return score.value, gradient


def _by_point(problem: Problem, values: Array) -> Array:
    total = np.zeros((len(problem.points), *values.shape[1:]))
    np.add.at(total, problem.group, values)
    return total


def _weights(factor: Factor, alpha: Array, d_alpha: Array, d_diag: Array) -> Array:
    """-M with M = sym((P d_alpha) alpha') + P diag(d_diag) P: dL = <-M, dK>."""
    cross = factor.solve(d_alpha) @ alpha.T
    # P as a matrix: (0 0' - 2 P) / 2 with the sign turned
    P = -factor.gradient_weights(np.zeros((len(alpha), 1)), 2.0)
    M = (P * d_diag) @ P
    M += 0.5 * (cross + cross.T)
    return mirror(-M)
