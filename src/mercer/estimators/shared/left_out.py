"""Leave-one-out of an approximate posterior: from the cavity of each observation, nothing refitted.

Taking the share t of its site away from point i leaves

    V = Sigma_ii / (1 - t W_i Sigma_ii),    m = f_i - t V alpha_i

(with matrices over the classes for a softmax). Exact for a Gaussian loss; for EP the cavity is what
EP itself calls the prediction of the others. Where sites have W < 0 a cavity may have no variance
at all (V <= 0): such a row is predicted by the prior, and the report counts them. Theory (A16).

Leave-one-out of a machine that ends in a mode: by the cavity, with no spread of f.
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.table import Table
from mercer.estimators.shared.units import Units, loo_outside
from mercer.inference.base import Solution
from mercer.inference.sites.base import cavity, columns
from mercer.left_out.figures import Loo
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior
from mercer.search import Problem
from mercer.search.criteria.bound import left_out_latent, shares


def cavities(problem: Problem, gram: Gram, loss: Loss, solution: Solution) -> tuple[Array, Array]:
    """Latent mean (N, m) and variance (N, m), or covariance (N, m, m), of each row left out."""
    g, t = problem.group, shares(problem)
    factor = solution.factor
    if isinstance(factor, CoupledFactor) and factor.shared is not None:
        p, w = loss.derivatives(problem.y[:, 0], solution.z)[1], solution.weights[:, None, None]
        Sigma, W = factor.point_blocks(gram)[g], (w * p)[g]
        eye = np.eye(Sigma.shape[1])
        # V = Sigma (I - t W Sigma)^-1, by its transpose
        left = eye - t[:, None, None] * np.swapaxes(W @ Sigma, 1, 2)
        V = np.asarray(np.linalg.solve(left, Sigma))
        V = 0.5 * (V + np.swapaxes(V, 1, 2))
        mean = solution.z[g] - t[:, None] * np.einsum("nij,nj->ni", V, solution.alpha[g])
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
        means.append(m)
        variances.append(v)
    if lost:
        solution.report.details["improper_cavities"] = lost
    return np.column_stack(means), np.column_stack(variances)


def cavity_loo(
    problem: Problem,
    gram: Gram,
    loss: Loss,
    solution: Solution,
    posterior: Posterior,
    table: Table,
    units: Units,
) -> Loo:
    """Return every row of a regression from the others, in the user's units."""
    mean, variance, density = (np.empty(table.Y.shape) for _ in range(3))
    m, v = cavities(problem, gram, loss, solution)
    mean[table.keep], variance[table.keep] = loss.predict(m, v)
    density[table.keep] = loss.log_predictive(problem.rows, m, v)
    unused = table.weights == 0
    if np.any(unused):
        inside = units.inside(table.X[unused])
        y = units.y_inside(table.Y[unused])
        m = posterior.mean(inside)
        v = np.diagonal(posterior.blocks(inside), axis1=1, axis2=2)
        mean[unused], variance[unused] = loss.predict(m, v)
        density[unused] = loss.log_predictive(y, m, v)
    return loo_outside(mean, variance, density, table, units)


def mode_loo(
    problem: Problem,
    loss: Loss,
    solution: Solution,
    posterior: Posterior,
    table: Table,
    units: Units,
) -> Loo | None:
    """Every row from the others, f at its mode; None where the loss has no predictions."""
    prior = posterior.parent
    if not (loss.offers("moments") and loss.normalised and isinstance(prior, Prior)):
        return None
    gram = DenseGram(prior.kernel, problem.points, keep=True)
    latent = left_out_latent(problem, gram, solution)
    if latent is None:
        return None
    f = np.empty(table.Y.shape)
    f[table.keep] = latent
    unused = table.weights == 0
    if np.any(unused):
        f[unused] = posterior.mean(units.inside(table.X[unused]))
    mean, variance = loss.moments(f)
    density = -loss.value(units.y_inside(table.Y), f)
    return loo_outside(mean, variance, density, table, units)
