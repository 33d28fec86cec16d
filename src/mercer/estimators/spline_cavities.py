"""Leave-one-out of a spline with any likelihood, from the cavity of each row; nothing refitted."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.estimators.spline_likelihood import line_table
from mercer.estimators.spline_posterior import SplinePosterior
from mercer.inference.sites import cavity
from mercer.losses.base import Loss
from mercer.process import Loo


def leave_one_out_sites(spline: SplinePosterior, loss: Loss) -> Loo:
    """Mean, variance and log density (N,) of every row from the others; of labels P(1).

    Without its share of the site at its point, row i has a latent value N(m, v). NaN where the
    others leave the curve undetermined there; rows of weight zero are predicted from all.
    """
    rows, states = spline.rows, spline.states
    table = line_table(rows.x, rows.y, rows.weights)
    g, share = table.group, np.minimum(table.weights[table.keep], 1.0)
    share = share / table.total[g]
    f, var, W = states.mean[:, 0], states.cov[:, 0], rows.total
    a = W * (rows.target - f)
    m, v = np.empty(len(rows.x)), np.empty(len(rows.x))
    with np.errstate(divide="ignore", invalid="ignore"):
        m[table.keep], v[table.keep] = cavity(f[g], var[g], a[g], W[g], share)
    unused = rows.weights == 0.0
    if np.any(unused):
        X = rows.x[unused][:, None]
        m[unused], v[unused] = spline.mean(X)[:, 0], spline.var(X)
    known = np.isfinite(m) & np.isfinite(v) & (v > 0.0)
    mean, variance, density = (np.full(len(m), np.nan) for _ in range(3))
    mean[known], variance[known] = response_moments(loss, m[known], v[known])
    density[known] = loss.log_predictive(rows.y[known], m[known], v[known])
    return Loo(mean, variance, density, rows.weights)


def response_moments(loss: Loss, m: Array, v: Array) -> tuple[Array, Array]:
    """Mean and variance of a new y for latent values N(m, v); of labels those of 0 or 1."""
    found = loss.predict(m, v)
    if loss.response == "binary":
        return found, found * (1.0 - found)
    return found[0], found[1]
