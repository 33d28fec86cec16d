"""The slopes of an approximate evidence, for the last steps of a climb.

The Gaussian model that touches a machine at its mode holds the curvature of the loss. Where that
changes with the latent values, c_i = -w_i g'''_i/2 times the latent variance of row i is the slope
of -1/2 log |R'R| in them, and with h = Sigma F c the evidence itself has the slopes

    dE / d log alpha_j = 1/2 [1 - alpha_j (Sigma_jj + mu_j^2 + 2 mu_j h_j)]
    dE / dv            = 1/2 [Q^2 + 2 Q phi'(c - B F'h) - S]     at v = 1/alpha = 0, from outside

(GPML 5.5.1 for weights). Those of the Gaussian model have mu^2 and Q^2 alone: given sums in place
of squares it has the slopes of the evidence, and ends where that is stationary.

Labels that are separated want weights without end, and Laplace's evidence, which is no probability
there, rises all the way: these slopes are left where no row is on its wrong side. By them no
precision goes below the one that gives a function the prior deviation :data:`WIDEST` at the rows.
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.search.relevance.machines import Machine
from mercer.search.relevance.state import SparseState

WIDEST = 10.0


def least_precision(machine: Machine) -> float:
    """The precision of a function of unit length whose prior deviates by WIDEST at the rows."""
    return 1.0 / (WIDEST**2 * float(machine.design.weights.sum()))


def bent_weights(machine: Machine, state: SparseState) -> Array:
    """Weights (p,) whose squares are mu_j^2 + 2 mu_j h_j."""
    bend, k, mu = _bend(machine, state), state.flat, state.mu.copy()
    if bend is not None:
        mu[k:] = _root(mu[k:], mu[k:] + 2.0 * bend[1][k:])
    return mu


def bent_model(
    machine: Machine, state: SparseState, gram: Array, right: Array
) -> tuple[Array, Array, Array]:
    """Return gram and right of the Gaussian model with the slopes of the evidence, what is free.

    ``gram`` (p, p) and ``right`` (p,) are those of the model that touches. What is not free (M,),
    at its least precision and with a slope beyond it, comes before what is, its precision added.
    """
    mu, k = bent_weights(machine, state), state.flat
    right = right + gram @ (mu - state.mu)
    right[k:] += state.prior * (mu - state.mu)[k:]
    wants = state.prior * (state.variances + mu**2)[k:] > 1.0  # less precision
    held = np.logical_and(wants, state.prior <= least_precision(machine))
    if held.any():
        bound = k + np.flatnonzero(held)
        gram[bound, bound] += state.prior[held]
        order = np.concatenate([np.arange(k), bound, k + np.flatnonzero(~held)])
        gram, right = np.ascontiguousarray(gram[np.ix_(order, order)]), right[order]
    return gram, right, ~held


def bent_pull(machine: Machine, state: SparseState, Q: Array) -> Array:
    """Q (m,) of the candidates outside, with Q^2 + 2 Q phi'(c - B F'h) as squares."""
    bend = _bend(machine, state)
    if bend is None:
        return Q
    c, h = bend
    return _root(Q, Q + 2.0 * machine.design.dots(c - state.b * (h @ state.F)))


def _bend(machine: Machine, state: SparseState) -> tuple[Array, Array] | None:
    return None if machine.separates(state) else machine.bend(state)


def _root(x: Array, y: Array) -> Array:
    """The root of x y, 0 if that is negative, with the sign of x."""
    return np.asarray(np.copysign(np.sqrt(np.maximum(x * y, 0.0)), x))
