"""What all other observations say about one: GPML (5.12), with merged rows, weights and a basis.

Theory (G11).
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Problem, Solution
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss

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
        self.share = problem.shares
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


def gaussian_figures(
    problem: Problem, loss: Loss, solution: Solution, extra: Array | None = None
) -> LeftOut:
    """Return every row of a problem from the others, in the units of the problem.

    ``extra`` (n,) is variance of the function at the points that the factor knows nothing of.
    """
    left = Left(problem, solution, loss.quadratic(problem.y)[1])
    if extra is not None:
        left.variance = left.variance + extra[problem.group]
    variance = np.broadcast_to(left.variance[:, None], problem.rows.shape)
    mean = problem.rows - left.residual
    return LeftOut(problem.row_weights, mean, variance, left.log_density())
