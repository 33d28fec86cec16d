"""Multinomial logistic regression with one slope: the Newton iteration behind Platt's maps."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from mercer.arrays import Array

ITERATIONS = 100
ARMIJO = 1e-4
RIDGE = 1e-12  # added to the Hessian: it is singular if all decision values are equal


def newton(F: Array, T: Array, w: Array, theta: Array) -> tuple[Array, bool]:
    """Minimise -sum_i w_i T_i' log softmax(slope F_i + offsets) in theta = (slope, offsets).

    F, T (n, k); w (n,); theta (k + 1,) the start. Returns theta and whether it is the minimum.
    Newton steps with backtracking (Armijo); the sum of the offsets stays that of the start.

    Reference: Lin, Lin & Weng (2007), A note on Platt's probabilistic outputs.
    """
    k, total = F.shape[1], float(w.sum())
    value, p = _value(F, T, w, theta)
    for _ in range(ITERATIONS):
        residual = w[:, None] * (p - T)
        gradient = np.concatenate([[(residual * F).sum()], residual.sum(axis=0)])
        if np.abs(gradient).max() <= 1e-13 * total:
            return theta, True
        wp = w[:, None] * p
        centred = F - (p * F).sum(axis=1, keepdims=True)
        H = np.empty((k + 1, k + 1))
        H[0, 0] = (wp * centred**2).sum()
        H[0, 1:] = H[1:, 0] = (wp * centred).sum(axis=0)
        H[1:, 1:] = np.diag(wp.sum(axis=0)) - p.T @ wp
        H[1:, 1:] += total / k  # moving all offsets alike changes nothing: keep their sum
        step = -np.linalg.solve(H + RIDGE * total * np.eye(k + 1), gradient)
        slope, rate = float(gradient @ step), 1.0
        while True:
            new, p_new = _value(F, T, w, theta + rate * step)
            if new <= value + ARMIJO * rate * slope:
                break
            rate *= 0.5
            if rate < 1e-10:  # rounding: no lower value can be seen
                return theta, bool(np.abs(gradient).max() <= 1e-7 * total)
        theta, value, p = theta + rate * step, new, p_new
    return theta, bool(np.abs(gradient).max() <= 1e-7 * total)


def _value(F: Array, T: Array, w: Array, theta: Array) -> tuple[float, Array]:
    """Cross-entropy and the probabilities (n, k); rows of T sum to one."""
    log_p = log_softmax(theta[0] * F + theta[1:], axis=1)
    return -float(w @ (T * log_p).sum(axis=1)), np.exp(log_p)
