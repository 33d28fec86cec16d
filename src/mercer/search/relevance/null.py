"""Whether functions say more than chance: what choosing them costs, and the model without any.

Of many candidates one always fits noise a little, and the evidence, which was maximised over them,
does not pay for the choice. What noise gains was measured (benchmarks/relevance_noise.py): M
functions, chosen of m with K kernels tried on n rows, gain less than

    M (0.7 + log max(m / (n - M/2), 1)) + 4.5 + log K

in 95 % of tables or more. Functions that gain as much are kept, be they few or many small ones.
Laplace's approximation of the evidence gains more on noise: there it is 1 in place of 0.7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import chi2

from mercer.search.relevance.climb import COLLINEAR
from mercer.search.relevance.machines import Machine
from mercer.search.relevance.state import SparseState

# what a function is charged, by an exact evidence and by Laplace's, and what the model is
EACH, ROUGHLY, ONCE = 0.7, 1.0, 4.5
LEVEL, ORDERS = 0.01, 299


def judged(
    machine: Machine, found: SparseState, kernels: int = 1, tested: bool = True
) -> tuple[SparseState, dict[str, Any]]:
    """Return ``found``, or the model without functions where that is all, and the figures.

    The model without functions is returned if the functions, found with so many ``kernels``, gain
    less than their charge, and the best single candidate fits no better than it fits targets in
    random order (at level :data:`LEVEL` / ``kernels``, as far as :data:`ORDERS` orders from a fixed
    seed can tell); never if it is not ``tested``.
    """
    null = machine.null()
    gain = found.evidence - null.evidence
    needed = charge(machine, found) + ONCE + math.log(kernels)
    p = None if not tested or not found.active or gain >= needed else p_value(machine, null)
    kept = p is not None and p > max(LEVEL / kernels, 1.0 / (1 + ORDERS))
    return null if kept else found, {"gain": gain, "needed": needed, "p_value": p, "kept": kept}


def charge(machine: Machine, state: SparseState) -> float:
    """What noise gains with so many functions: M (0.7 or 1 + log max(m / (n - M/2), 1))."""
    n, m, M = len(machine.design.weights), machine.design.count, len(state.active)
    each = EACH if machine.exact else ROUGHLY
    return M * (each + math.log(max(m / max(n - 0.5 * M, 0.5), 1.0)))


def price(machine: Machine, state: SparseState) -> float:
    """What M functions chosen of m must gain for the choice: (M + 1) (log m)/2."""
    return 0.5 * (len(state.active) + 1) * math.log(max(machine.design.count, 2))


def p_value(machine: Machine, null: SparseState) -> float:
    """How often targets in random order are fitted as well by their best single function."""
    S, Q, _ = machine.outside(null)
    fine = np.logical_and(machine.design.usable, COLLINEAR * machine.whole(null) < S)
    if not np.any(fine):
        return 1.0
    best = float((Q[fine] ** 2 / S[fine]).max())
    bound = float(fine.sum() * chi2.sf(best, 1))  # Bonferroni's, enough where it is small
    if bound <= 0.1 * LEVEL:
        return bound
    rng = np.random.default_rng(0)
    root = np.sqrt(null.b)
    orders = np.array([root * rng.permutation(null.a / root) for _ in range(ORDERS)])
    if len(null.F):  # less the part that the flat functions explain
        weighted = null.F * null.b
        orders = orders - np.linalg.solve(weighted @ null.F.T, null.F @ orders.T).T @ weighted
    Q = machine.design.dots(orders)[:, fine]
    reached = (Q**2 / S[fine]).max(axis=1)
    return float((1 + np.count_nonzero(reached >= best)) / (1 + ORDERS))
