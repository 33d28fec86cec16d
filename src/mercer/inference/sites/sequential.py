"""Sequential Laplace: each label of a stream as a Gaussian about the mode given those before it.

    f^ = argmax  w log sigma(S f) - (f - M)^2 / (2 kappa),   W = w sigma(f^) sigma(-f^)    (O12)

in place of the quadratic bound; the rest is as in :mod:`mercer.inference.stream`. Its variance is
that of the curvature, wider than the bound's; what it says of a label's probability,

    log q = w log sigma(S f^) - (f^ - M)^2 / (2 kappa) - 1/2 log(1 + W kappa),             (O13)

is no bound. Reference: Jaakkola & Haussler (1999), footnote 3; Spiegelhalter & Lauritzen (1990).

Theory (O12), (O13).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array, back_solve
from mercer.inference.stream import ONE_PASS, BlockFactor, StreamSolution

STEPS = 100
SURE = 1e-250  # a curvature below is taken for this: such a label says nothing


def mode(M: float, kappa: float, S: float, w: float) -> float:
    """Return f^ of (O12): the root of f - M - kappa w S sigma(-S f), by Newton within a bracket.

    Examples
    --------
    >>> round(mode(0.0, 1.0, 1.0, 1.0), 6)
    0.401058
    """
    low, high = sorted((M, M + kappa * w * S))
    f, last = M, np.inf
    for _ in range(STEPS):
        p = float(np.exp(-np.logaddexp(0.0, S * f)))  # sigma(-S f)
        excess = f - M - kappa * w * S * p
        low, high = (f, high) if excess < 0.0 else (low, f)
        after = f - excess / (1.0 + kappa * w * p * (1.0 - p))
        if not low <= after <= high or abs(excess) > 0.5 * last:  # Newton's steps may swing
            after = 0.5 * (low + high)
        if excess == 0.0 or abs(after - f) <= 4e-16 * abs(after):
            return after
        f, last = after, abs(excess)
    return f


def absorb_by_laplace(mean: Array, cov: Array, S: Array, w: Array) -> StreamSolution:
    """Absorb b examples in their order, as :func:`mercer.inference.stream.absorb` does."""
    b = len(mean)
    R, M = np.tril(cov), np.array(mean, dtype=np.float64)
    v, W, target, kappas, modes = (np.empty(b) for _ in range(5))
    log_q = gain = 0.0
    for s in range(b):
        kappa = kappas[s] = max(float(R[s, s]), 0.0)
        f = modes[s] = mode(float(M[s]), kappa, float(S[s]), float(w[s]))
        odds = np.logaddexp(0.0, [-S[s] * f, S[s] * f])  # -log sigma(S f), -log sigma(-S f)
        slope, W[s] = w[s] * S[s] * np.exp(-odds[1]), max(w[s] * np.exp(-odds.sum()), SURE)
        target[s] = f + slope / W[s]
        pivot = R[s, s] = np.sqrt(kappa + 1.0 / W[s])
        v[s] = (target[s] - M[s]) / pivot
        log_q -= w[s] * odds[0] + 0.5 * (f - M[s]) * slope + 0.5 * np.log1p(W[s] * kappa)
        gain += np.log1p(W[s] * kappa)
        column = R[s + 1 :, s] = R[s + 1 :, s] / pivot
        M[s + 1 :] += column * v[s]
        R[s + 1 :, s + 1 :] -= np.outer(column, column)
    R = np.tril(R)
    alpha = back_solve(R.T, v[:, None]) if b else np.empty((0, 1))
    own: dict[str, Any] = {"R": R, "v": v, "mean": mean, "var": cov.diagonal().copy()}
    own |= {"xi": modes, "M": M, "kappa": kappas, "log_q": float(log_q)}
    factor = BlockFactor(R, W, float(gain))
    z = (target - mean)[:, None]
    return StreamSolution(alpha, W, z, factor, None, w, ONE_PASS, **own, gain=float(gain))
