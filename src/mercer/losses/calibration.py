"""Probabilities from decision values, by a sigmoid with one slope (Platt).

The decision values must be held-out ones: on training outputs the fit is overconfident. For several
classes it is multinomial logistic regression with one shared slope.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from mercer.core.arrays import Array, Index

ITERATIONS = 100
ARMIJO = 1e-4
FLAT = 1e-6  # the least slope where there is no offset
RIDGE = 1e-12  # added to the Hessian: it is singular if all decision values are equal


def newton(F: Array, T: Array, w: Array, theta: Array) -> tuple[Array, bool]:
    """Minimise -sum_i w_i T_i' log softmax(slope F_i + offsets) in theta = (slope, offsets).

    F, T (n, k); w (n,); theta (k + 1,) the start. Returns theta and whether it is the minimum.
    Newton steps with backtracking, Lin, Lin & Weng (2007); the sum of the offsets stays.
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
    log_p = log_softmax(theta[0] * F + theta[1:], axis=1)
    return -float(w @ (T * log_p).sum(axis=1)), np.exp(log_p)


def fit_platt(f: Array, y: Array, weights: Array | None = None) -> tuple[float, float]:
    """Return (A, B) of p(+ | f) = 1 / (1 + exp(A f + B)).

    Minimises sum_i w_i [t_i z_i + log(1 + e^{-z_i})], z = A f + B, with the targets
    t = (n+ + 1)/(n+ + 2) for y = +1 and 1/(n- + 2) for y = -1 in place of 1 and 0, n+ and n- the
    weight of each class: the optimum is finite for separable data as well. f (n,) are larger where
    y = +1, y (n,) is -1 or +1, and ``weights`` (n,) say how often each row counts, None: once.

    Reference: Platt (1999), Probabilistic outputs for support vector machines; Lin, Lin & Weng
    (2007), A note on Platt's probabilistic outputs for support vector machines.

    Examples
    --------
    >>> A, B = fit_platt(np.array([-2.0, -1.0, 0.5, -0.5, 1.0, 2.0]), np.repeat([-1.0, 1.0], 3))
    >>> A < 0
    True
    """
    f, y = np.asarray(f, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if f.ndim != 1 or y.shape != f.shape or not np.all(np.abs(y) == 1.0):
        raise ValueError("fit_platt needs decision values f (n,) and labels y (n,) of -1 and +1")
    # two classes: softmax(slope * (-f/2, f/2) + (o0, o1)) has p+ = 1 / (1 + e^{-slope f + o0 - o1})
    halves = np.column_stack([-0.5 * f, 0.5 * f])
    slope, offsets = fit_softmax_platt(halves, np.asarray(y > 0.0, dtype=np.intp), weights)
    return -slope, float(offsets[0] - offsets[1])


def fit_softmax_platt(F: Array, codes: Index, weights: Array | None = None) -> tuple[float, Array]:
    """Return (slope, offsets) of p(. | F_i) = softmax(slope * F_i + offsets).

    One slope for all classes, since the columns are decision values of like classifiers, and an
    offset (k,) for each; the offsets sum to zero. Minimises the cross-entropy to the targets
    (n_c + 1)/(n_c + k) for the class c of the row and 1/(n_c + k) for each other one, n_c the
    weight of class c, by Newton steps with backtracking. For k = 2 it is :func:`fit_platt`, whose
    references hold. F is (n, k), ``codes`` (n,) the class of each row, 0 .. k-1, ``weights`` (n,).
    """
    F, codes, w = _checked(F, codes, weights)
    k = F.shape[1]
    counts = np.bincount(codes, w, k)
    own = np.eye(k)[codes]
    T = (own * counts[codes][:, None] + 1.0) / (counts[codes][:, None] + k)
    size = float(np.abs(F).max()) or 1.0  # the slope of F / size is of order one
    shares = T.T @ w + 1.0
    start = np.concatenate([[0.0], np.log(shares) - np.log(shares).mean()])
    theta, converged = newton(F / size, T, w, start)
    if not converged:
        warnings.warn(
            "the calibration of the decision values did not converge: are they finite and of one "
            "scale?",
            ConvergenceWarning,
            stacklevel=2,
        )
    return float(theta[0]) / size, np.asarray(theta[1:] - theta[1:].mean())


def fit_slope(F: Array, codes: Index, weights: Array, k: int) -> float:
    """Return the slope of p = softmax(slope F), or of its sigmoid for k = 2: no class is moved.

    What :func:`fit_sigmoid` is without offsets, for few outputs, from which offsets cannot be told:
    decisions stay what they are. F is (n, k), (n, 1) for two classes. The target is 1 - 1/(N + 2)
    for the class of a row, N the sum of the weights, and the rest for all others: by Laplace's rule
    of succession one more row would be wrong with that probability if none was, so that the slope
    is finite. Where the outputs rank the classes no better than chance it is 1e-6 in units of the
    largest: all classes are as likely as each other but for that, and the likeliest is still the
    one decided for.

    Examples
    --------
    >>> F, codes = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> round(fit_slope(F, codes, np.ones(4), 2), 3), fit_slope(-F, codes, np.ones(4), 2)
    (1.012, 1e-06)
    """
    if k == 2:
        F = np.column_stack([-0.5 * F[:, 0], 0.5 * F[:, 0]])
    F, codes, w = _checked(F, codes, weights)
    wrong, size = 1.0 / (float(w.sum()) + 2.0), float(np.abs(F).max()) or 1.0
    T = np.where(np.eye(k)[codes] == 1.0, 1.0 - wrong, wrong / (k - 1))
    F = F / size

    def rise(slope: float) -> float:  # derivative of the cross-entropy: it never falls
        return float(w @ ((_value(F, T, w, np.append(slope, np.zeros(k)))[1] - T) * F).sum(axis=1))

    if not rise(FLAT) < 0.0:
        return FLAT / size
    top = 1.0
    while rise(top) < 0.0:
        top *= 2.0
    return float(brentq(rise, FLAT, top, xtol=1e-14, rtol=1e-13)) / size


def _checked(F: Any, codes: Any, weights: Any) -> tuple[Array, Index, Array]:
    F, codes = np.asarray(F, dtype=np.float64), np.asarray(codes)
    if F.ndim != 2 or codes.shape != F.shape[:1] or not len(F):
        raise ValueError("decision values must be (n, k) and codes (n,), n at least 1")
    if not np.all(np.isfinite(F)):
        raise ValueError("decision values must be finite")
    if np.any((codes < 0) | (codes >= F.shape[1])):
        raise ValueError(f"codes must lie in 0 .. {F.shape[1] - 1}, the columns")
    w = np.ones(len(F)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != codes.shape or not np.all(np.isfinite(w)) or np.any(w < 0) or not w.sum() > 0:
        raise ValueError("weights must be (n,), finite, not negative and not all zero")
    return F, codes.astype(np.intp), w


def fit_sigmoid(F: Array, codes: Index, weights: Array, k: int) -> tuple[float, Array]:
    """Return (slope, offsets) of p = softmax(slope F + offsets), or its sigmoid for k = 2.

    F is (n, k) held-out outputs, (n, 1) for two classes, larger for likelier classes; offsets are
    (k,), or (1,). Where the slope would not be positive, the outputs say nothing about the classes:
    it is 0, and the offsets are the logarithms of the classes' shares.

    Examples
    --------
    >>> F, codes = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> fit_sigmoid(F, codes, np.ones(4), 2)[0] > 0, fit_sigmoid(-F, codes, np.ones(4), 2)[0]
    (True, 0.0)
    """
    if k == 2:
        A, B = fit_platt(F[:, 0], np.where(codes == 1, 1.0, -1.0), weights)
        slope, offsets = -A, np.array([-B])
    else:
        slope, offsets = fit_softmax_platt(F, codes, weights)
    if not slope > 0.0:
        shares = np.log(np.bincount(codes, weights, k) + 1.0)
        slope, offsets = 0.0, shares[1:] - shares[:1] if k == 2 else shares
    return float(slope), np.asarray(offsets, dtype=np.float64)


def shifted(f: Array, slope: float, offsets: Array) -> Array:
    """Return f (q, k) shifted so that its largest column (or its sign) is the likeliest class."""
    return np.asarray(f + offsets / slope if slope > 0.0 else np.zeros_like(f) + offsets)


def class_probabilities(d: Array, slope: float) -> Array:
    """Return the probabilities (q, k) at shifted outputs d (q,), or (q, k) for several classes."""
    d = d * (slope or 1.0)
    if d.ndim == 1:
        small = np.exp(-np.abs(d)) / (1.0 + np.exp(-np.abs(d)))
        positive = np.where(d > 0, 1.0 - small, small)
        return np.column_stack([1.0 - positive, positive])
    e = np.exp(d - d.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
