"""Leave-one-out of a posterior that is known by draws: weights that take one row away.

The draws f_s of the whole posterior follow that without row i if they are weighted by

    r_s ~ exp(w_i g(y_i, f_si)),

and given the latent values of the others, f_i is Gaussian with variance 1 / (K^+)_ii and mean
f_si - alpha_si / (K^+)_ii: averaging over it first leaves the weights 1 / Z_s of theory (T7),
which vary less. Gelfand, Dey & Chang (1992); Vehtari et al. (2016), Bayesian leave-one-out
cross-validation approximations for Gaussian latent variable models, section 3.5.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.inference.base import Problem, Solution
from mercer.linalg.dense.drawn import DrawnFactor, drawn
from mercer.losses.base import Loss


def drawn_cavities(problem: Problem, loss: Loss, solution: Solution) -> tuple[Array, Array]:
    """Latent mean (N, m) and variance (N, m), or covariance (N, m, m), of each row left out.

    The mean and the spread of the mixture of draws; the report says how many draws the weights of
    the worst row are worth, ``left_out_worth``.
    """
    factors, worths = drawn(solution.factor), []
    pairs = []
    for j, factor in enumerate(factors):
        if factor.f.shape[2] > 1:
            mean, variance, worth = _of_classes(problem, loss, factor)
        else:
            mean, variance, worth = _of_one(problem, loss, factor, j)
        pairs.append((mean, variance))
        worths.append(float(worth.min()))
    solution.report.details["left_out_worth"] = min(worths)
    if len(pairs) == 1:
        return pairs[0]
    return np.hstack([m for m, _ in pairs]), np.hstack([v for _, v in pairs])


def _of_one(
    problem: Problem, loss: Loss, factor: DrawnFactor, j: int
) -> tuple[Array, Array, Array]:
    g, gone = problem.group, problem.shares * problem.weights[problem.group]
    f, y = factor.f[:, g, 0], problem.y[g, j]
    centre, variance = f, np.zeros(len(g))
    log_weights = gone * loss.value(y, f)
    whole = (problem.shares == 1.0) & (gone == 1.0)
    if loss.offers("tilted") and np.any(whole):
        K_ii = np.einsum("rn,rn->n", factor.root, factor.root)[g]
        at = np.flatnonzero(whole)
        centre, variance[at] = f.copy(), 1.0 / K_ii[at]
        centre[:, at] -= factor.alpha[:, g[at], 0] / K_ii[at]
        flat = np.broadcast_to(variance[at], centre[:, at].shape).ravel()
        many = np.broadcast_to(y[at], centre[:, at].shape).ravel()
        log_weights[:, at] = -loss.tilted(many, centre[:, at].ravel(), flat)[0].reshape(len(f), -1)
    r = softmax(log_weights, axis=0)
    mean = (r * centre).sum(axis=0)
    variance = variance + (r * (centre - mean) ** 2).sum(axis=0)
    return mean[:, None], variance[:, None], 1.0 / (r**2).sum(axis=0)


def _of_classes(problem: Problem, loss: Loss, factor: DrawnFactor) -> tuple[Array, Array, Array]:
    g, gone = problem.group, problem.shares * problem.weights[problem.group]
    f = factor.f[:, g]
    y = np.broadcast_to(problem.y[g, 0], f.shape[:2])
    r = softmax(gone * loss.value(y, f), axis=0)
    mean = np.einsum("si,sic->ic", r, f, optimize=True)
    apart = f - mean
    spread = np.einsum("si,sic,sie->ice", r, apart, apart, optimize=True)
    return mean, spread, 1.0 / (r**2).sum(axis=0)
