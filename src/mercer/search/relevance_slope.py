"""How the log evidence changes with the values of the functions in the model.

With precisions and noise held, and the weights at their posterior mean (or mode),

    dE/dF' = a mu' - B F'Sigma  +  (c - B F'h) mu' + a h',       c = -1/2 w g''' diag(F'Sigma F),
                                                                  h = Sigma F c

The second part is the change of the curvature at a mode: zero for a Gaussian loss, where the first
part is (8.4) of Tipping (2001), beta [(t - F'mu) mu' - F'Sigma].
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.search.relevance_machine import Machine
from mercer.search.relevance_state import State


def slope_in_functions(machine: Machine, state: State) -> Array:
    """dE / d(columns as given) (n, M) of the functions with a precision.

    The search sees columns of unit length, phi / |phi|: what only changes the length of a column
    changes nothing.
    """
    F, mu, a, b = state.F, state.mu, state.a, state.b
    weighted = state.factor.back(state.factor.half(F))  # Sigma F
    slope = np.outer(mu, a) - weighted * b
    third = machine.third(state)
    if third is not None:
        c = -0.5 * third * np.einsum("ij,ij->j", F, weighted)
        h = weighted @ c
        slope += np.outer(mu, c - b * (h @ F)) + np.outer(h, a)
    k = state.flat
    slope, unit = slope[k:], F[k:]
    along = np.einsum("ij,ij->i", slope, unit)
    slope -= along[:, None] * unit * machine.design.weights
    lengths = machine.design.lengths[list(state.active)]
    return np.ascontiguousarray((slope / lengths[:, None]).T)
