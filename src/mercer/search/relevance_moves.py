"""What one precision does to the evidence, in closed form (Tipping & Faul 2003, eqs. 15 - 22).

With all other precisions fixed, the log evidence as a function of one precision alpha is, up to a
constant,

    l(alpha) = 1/2 [log alpha - log(alpha + s) + q^2 / (alpha + s)],    l(inf) = 0

with a single maximum: at alpha = s^2 / (q^2 - s) if q^2 > s, else at infinity: out of the model.
Theory (R6), (R7), (R8).
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array


def share(alpha: Array, s: Array, q: Array) -> Array:
    """l(alpha), elementwise: what a function of precision alpha adds to the log evidence."""
    return np.asarray(0.5 * (np.log(alpha) - np.log(alpha + s) + q**2 / (alpha + s)))


def best_precision(s: float, q: float) -> float:
    """Return the precision that maximises l; infinity if the function is better out."""
    theta = q * q - s
    return s * s / theta if theta > 0.0 else float("inf")


def gain_of(ratio: Array) -> Array:
    """Gain of taking in a function at its best precision, by ratio = Q^2 / S, elementwise.

    Zero for a ratio up to one: the function stays out.
    """
    inside = np.maximum(ratio, 1.0)
    return np.asarray(0.5 * (inside - 1.0 - np.log(inside)))
