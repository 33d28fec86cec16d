"""The last digits of a mode under a straight-line loss: held at kinks, or on a line.

Where f_i lies on a line of the loss, a_i = -w_i slope is known; where it is held at a kink, f_i is
known. Once it is clear which is which, the rest is linear (A: held, B: on a line):

    K_AA a_A + H_A b = kink - mean_A - K_AB a_B,    H_A'a_A = -H_B'a_B

Proximal steps know a_A only to the rounding of f divided by their width; this solves for it.
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.inference.prox import prox
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss

WIDTH = 1e-3  # of the proximal step that tells which is which, in units of the variance


def resolve(
    gram: Gram, loss: Loss, y: Array, w: Array, mean: Array, H: Array, a: Array, f: Array
) -> tuple[Array, Array] | None:
    """Return a (n,) and b (k,) near the mode (a, f), or None if the system is singular.

    ``loss`` states its lines (``pieces``), y and w are (n,), H is (n, k). Whether the result is
    better, and lies in the domain of the dual, is for its duality gap to say.
    """
    kappa = WIDTH * np.maximum(gram.diag(), 1e-300)
    kink, flat, slope = prox(loss, y, w, f - kappa * a, kappa)
    held = np.flatnonzero(slope == 0.0)
    new = np.where(slope == 0.0, 0.0, flat)
    m, k = len(held), H.shape[1]
    target = kink[held] - mean[held] - np.asarray(gram @ new[:, None])[held, 0]
    system = np.zeros((m + k, m + k))
    system[:m, :m] = gram.rows(held)[:, held]
    system[:m, m:], system[m:, :m] = H[held], H[held].T
    try:
        found = np.linalg.solve(system, np.concatenate([target, -(H.T @ new)]))
    except np.linalg.LinAlgError:
        return None
    new[held] = found[:m]
    return new, np.asarray(found[m:], dtype=np.float64)
