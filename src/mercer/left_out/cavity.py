"""Leave-one-out of an approximate posterior: from the cavity of each observation, nothing refitted.

Taking the share t of its site away from point i leaves

    V = Sigma_ii / (1 - t W_i Sigma_ii),    m = f_i - t V alpha_i

(with matrices over the classes for a softmax). Exact for a Gaussian loss; for EP the cavity is what
EP itself calls the prediction of the others. Where sites have W < 0 a cavity may have no variance
at all (V <= 0): such a row is predicted by the prior, and the report counts them. Theory (A20);
of a regression by GPML (5.12), with merged rows, weights and a basis: theory (G11).
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Problem, Solution
from mercer.inference.sites.base import cavity, columns
from mercer.left_out.drawn import drawn_cavities
from mercer.left_out.figures import LeftOut
from mercer.left_out.margins import left_out_latent
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.drawn import drawn
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.process.process import Posterior


def cavities(problem: Problem, gram: Gram, loss: Loss, solution: Solution) -> tuple[Array, Array]:
    """Latent mean (N, m) and variance (N, m), or covariance (N, m, m), of each row left out."""
    g, t = problem.group, problem.shares
    factor = solution.factor
    if drawn(factor):
        return drawn_cavities(problem, loss, solution)
    if isinstance(factor, CoupledFactor) and loss.joint:
        p, w = loss.curvature(problem.y[:, 0], solution.z), solution.weights[:, None, None]  # type: ignore[attr-defined]  # joint losses have it
        eye = np.eye(solution.z.shape[1])
        precision = solution.W[:, :, None] * eye if factor.shared is None else w * p
        Sigma, W = factor.point_blocks(gram)[g], precision[g]
        # V = Sigma (I - t W Sigma)^-1, by its transpose
        left = eye - t[:, None, None] * np.swapaxes(W @ Sigma, 1, 2)
        lost = ~(np.linalg.det(left) > 0.0)  # the row alone decides, to the last digit
        left[lost] = eye
        V = np.asarray(np.linalg.solve(left, Sigma))
        if np.any(lost):
            prior = gram.diag().reshape(len(solution.z), -1, 1)
            V[lost] = (prior * eye)[g][lost]
            solution.report.details["improper_cavities"] = int(lost.sum())
        V = 0.5 * (V + np.swapaxes(V, 1, 2))
        mean = solution.z[g] - t[:, None] * np.einsum("nij,nj->ni", V, solution.alpha[g])
        if np.any(lost):
            mean[lost] = (solution.z - np.asarray(gram @ solution.alpha))[g][lost]
        return np.asarray(mean), V
    means, variances, lost = [], [], 0
    for s in columns(solution):
        with np.errstate(divide="ignore", invalid="ignore"):
            m, v = cavity(s.f[g], s.factor.cov_diag()[g], s.a[g], s.W[g], t)
        improper = ~((v > 0.0) & np.isfinite(v))
        if np.any(improper):
            prior = s.f - np.asarray(gram @ s.a[:, None])[:, 0]
            m, v = np.where(improper, prior[g], m), np.where(improper, gram.diag()[g], v)
            lost += int(improper.sum())
        if not s.factor.exact:  # what few points do not know of the others, with or without the row
            v = v + np.broadcast_to(s.factor.unexplained, len(s.W))[g]
        means.append(m)
        variances.append(v)
    if lost:
        solution.report.details["improper_cavities"] = lost
    return np.column_stack(means), np.column_stack(variances)


def left_out_figures(
    problem: Problem,
    gram: Gram,
    loss: Loss,
    solution: Solution,
    *,
    spread: bool,
    quadratic: bool,
    centred: bool = False,
) -> LeftOut | str:
    """Return every row of a regression from the others, in the units of the problem; or why not.

    From its cavity, for a ``quadratic`` loss exactly; without ``spread`` with f at its mode. If the
    targets were ``centred`` on their mean, a row is left out of that, too.
    """
    v: Array | None = None
    m: Array | None
    if spread and not loss.normalised:
        return no_density(loss)
    if spread and quadratic:
        return gaussian_figures(problem, loss, solution, centred=centred)
    if spread:
        m, v = cavities(problem, gram, loss, solution)
    elif not (loss.offers("moments") and loss.normalised):
        return (
            f"{type(loss).__name__} does not say how observations spread about the function, and a "
            "mode has no spread of its own: there is no density of a left-out row"
        )
    elif loss.latents:
        return "the mode of several latent functions has no leave-one-out figures: use 'laplace'"
    else:
        m = left_out_latent(problem, gram, solution)
    if m is None:
        return "the kernel matrix is singular on the points that a kink of the loss holds"
    return _figures(loss, problem.rows, m, v, problem.row_weights)


def no_density(loss: Loss) -> str:
    """Say why a loss has no density of a left-out row."""
    return f"{type(loss).__name__} is not a likelihood: there is no density of a left-out row"


def predicted(loss: Loss, posterior: Posterior, X: Array, y: Array) -> LeftOut:
    """Return the figures of rows that the fit has not used: X (q, d), y (q, m)."""
    m, v = posterior.mean(X), None
    if loss.latents:
        v = posterior.blocks(X)
    elif posterior.has_spread:  # rounding: -1e-16 of the prior's variance
        v = np.maximum(np.diagonal(posterior.blocks(X), axis1=1, axis2=2), 0.0)
    return _figures(loss, y, m, v, np.zeros(len(X)))


def _figures(loss: Loss, y: Array, m: Array, v: Array | None, weights: Array) -> LeftOut:
    """Return the figures of y (q, m) for f of mean m and variance v (q, m), or f = m as it is.

    Of several latent functions m is (q, f), v (q, f, f), and y (q, 1).
    """
    if loss.latents:
        m, v = m[:, None], None if v is None else v[:, None]
    if v is not None:
        return LeftOut(weights, *response_moments(loss, m, v), loss.log_predictive(y, m, v))
    mean, variance = loss.moments(m)
    return LeftOut(weights, m if loss.latent_is_answer else mean, variance, -loss.value(y, m))


def response_moments(loss: Loss, m: Array, v: Array) -> tuple[Array, Array]:
    """Mean (or quantile) and variance of a new y for latent N(m, v); of labels those of 0 or 1."""
    if loss.response == "binary":
        p = np.asarray(loss.predict(m, v))
        return p, p * (1.0 - p)
    mean, variance = loss.observed(m, v)
    return m if loss.latent_is_answer else mean, variance


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
    means : (N, m) mean of the other targets, once rows are left out of centring.
    """

    means: Array

    def __init__(self, problem: Problem, solution: Solution, precision: Array) -> None:
        g = problem.group
        self.W = solution.W[g]
        self.P = solution.factor.diag()[g]
        self.share = problem.shares
        self.alone = self.share == 1.0
        finite = np.where(self.alone, 1.0, self.W)  # W may be inf where a point stands alone
        self.offset = np.where(self.alone[:, None], 0.0, problem.rows - problem.y[g])
        self.rest = (1.0 - self.share) * finite + self.share * self.P
        self.residual = (self.offset * finite[:, None] + solution.alpha[g]) / self.rest[:, None]
        self.signal = (1.0 - self.P / self.W) / self.rest
        self.variance = self.signal + 1.0 / precision[g]
        if not solution.factor.exact:  # what few points do not know of the others
            self.variance += np.broadcast_to(solution.factor.unexplained, len(solution.W))[g]

    def centre_anew(self, problem: Problem, solution: Solution) -> Array:
        """Leave each row out of the mean of the targets as well, which was subtracted from all.

        Without row r the mean is c_r = -u_r y_r / (total - u_r), u_r the weight that goes. The
        prediction is linear in the targets: c_r + mean(y - c_r) = mean(y) + c_r (1 - mean(1)), and
        1 - mean(1) is the left-out residual of targets that are all one. Without it, at a noise of
        nearly zero, a row would be read off the sum of the others. Returned is the alpha (n, 1) of
        these targets.
        """
        gone = self.share * problem.weights[problem.group]
        others = problem.weights.sum() - gone
        self.means = -problem.rows * (gone / np.where(others > 0.0, others, 1.0))[:, None]
        one = solution.factor.solve(np.ones((len(problem.points), 1)))
        self.residual = self.residual - self.means * (one[problem.group] / self.rest[:, None])
        return one

    def log_density(self) -> Array:
        """log p(y_r | the others), shape (N, m)."""
        v = self.variance[:, None]
        return np.asarray(-0.5 * (LOG_2PI + np.log(v) + self.residual**2 / v))


def gaussian_figures(
    problem: Problem,
    loss: Loss,
    solution: Solution,
    extra: Array | None = None,
    centred: bool = False,
) -> LeftOut:
    """Return every row from the others; ``extra`` (n,) is variance unknown to the factor.

    If the targets were ``centred`` on their mean, a row is left out of that, too.
    """
    left = Left(problem, solution, loss.quadratic(problem.y)[1])
    if centred:
        left.centre_anew(problem, solution)
    if extra is not None:
        left.variance = left.variance + extra[problem.group]
    variance = np.broadcast_to(left.variance[:, None], problem.rows.shape)
    mean = problem.rows - left.residual
    return LeftOut(problem.row_weights, mean, variance, left.log_density())
