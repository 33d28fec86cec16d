"""Whether the targets hold anything for the functions to explain, or are noise about the flat part.

Of many candidates one always fits noise a little, and the evidence, which was maximised over them,
does not pay for the choice. The model without functions is returned if both hold:

* the best single candidate fits no better than it fits targets in random order (at level
  :data:`LEVEL`, by :data:`ORDERS` orders from a fixed seed);
* the functions gain less than (log m)/2 each, m being the number of candidates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import chi2

from mercer.arrays import Array
from mercer.search.relevance_forward import COLLINEAR
from mercer.search.relevance_machine import Machine
from mercer.search.relevance_state import State

LEVEL, ORDERS = 0.01, 299


def judged(machine: Machine, found: State) -> tuple[State, dict[str, Any]]:
    """Return ``found``, or the model without functions where that is all, and the figures."""
    null = machine.null()
    gain = found.evidence - null.evidence
    needed = price(machine, found)
    report: dict[str, Any] = {"gain": gain, "needed": needed, "p_value": None, "kept": False}
    if not found.active or gain >= needed:
        return found, report
    report["p_value"] = p_value(machine, null)
    if report["p_value"] <= LEVEL:
        return found, report
    return null, report | {"kept": True}


def price(machine: Machine, state: State) -> float:
    """What M functions chosen of m must gain for the choice: (M + 1) (log m)/2."""
    return 0.5 * (len(state.active) + 1) * math.log(max(machine.design.Phi.shape[1], 2))


def p_value(machine: Machine, null: State) -> float:
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
    unit = null.a / root
    orders = np.array([root * rng.permutation(unit) for _ in range(ORDERS)])
    Q = machine.design.dots(_beside_flat(null, orders))[:, fine]
    reached = (Q**2 / S[fine]).max(axis=1)
    return float((1 + np.count_nonzero(reached >= best)) / (1 + ORDERS))


def _beside_flat(null: State, orders: Array) -> Array:
    """Take the part that the flat functions explain out of score vectors (r, n)."""
    if not len(null.F):
        return orders
    weighted = null.F * null.b
    return np.asarray(
        orders - (np.linalg.solve(weighted @ null.F.T, null.F @ orders.T).T) @ weighted
    )
