"""Leave-one-out of a machine that ends in a mode: by the cavity, with no spread of f."""

from __future__ import annotations

import numpy as np

from mercer.estimators.inside import loo_outside
from mercer.estimators.table import Table
from mercer.estimators.units import Units
from mercer.inference.base import Solution
from mercer.linalg.dense import DenseGram
from mercer.losses.base import Loss
from mercer.process import Loo, Posterior, Prior
from mercer.search import Problem
from mercer.search.loo_bound import left_out_latent


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
