"""Squash: probabilities from decision values that were not made as probabilities (Platt).

The decision values must be held-out ones (leave-one-out or cross-validated): on training outputs
the fit is overconfident. The map knows nothing of the variance of f; a Gaussian process does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.arrays import Array, Index
from mercer.losses.multinomial import newton


def fit_platt(f: Array, y: Array, weights: Array | None = None) -> tuple[float, float]:
    """Return (A, B) of p(+ | f) = 1 / (1 + exp(A f + B)).

    Minimises sum_i w_i [t_i z_i + log(1 + e^{-z_i})], z = A f + B, with the targets
    t = (n+ + 1)/(n+ + 2) for y = +1 and 1/(n- + 2) for y = -1 in place of 1 and 0, n+ and n- the
    weight of each class: the optimum is finite for separable data as well.

    Parameters
    ----------
    f : (n,) held-out decision values, larger where y = +1.
    y : (n,) labels -1 / +1.
    weights : (n,) how often each row counts; None is once.

    Reference: Platt (1999), Probabilistic outputs for support vector machines; Lin, Lin & Weng
    (2007), A note on Platt's probabilistic outputs for support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = fit_platt(np.array([-2.0, -1.0, 0.5, -0.5, 1.0, 2.0]), np.repeat([-1.0, 1.0], 3))
    >>> A < 0
    True
    >>> f = np.repeat([-1e4, 1e4], 50)
    >>> A, B = fit_platt(f, np.sign(f))
    >>> round(float(52 / (1 + np.exp(A * 1e4 + B))), 9)
    51.0
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

    One slope for all classes, since the columns are decision values of like machines, and an offset
    (k,) for each; the offsets sum to zero. Minimises the cross-entropy to the targets
    (n_c + 1)/(n_c + k) for the class c of the row and 1/(n_c + k) for each other one, n_c the
    weight of class c, by Newton steps with backtracking. For k = 2 it is :func:`fit_platt`.

    Parameters
    ----------
    F : (n, k) held-out decision values, one column per class.
    codes : (n,) the class of each row, 0 .. k-1.
    weights : (n,) how often each row counts; None is once.

    Reference: as :func:`fit_platt`; the objective is a multinomial logistic regression.

    Examples
    --------
    >>> import numpy as np
    >>> F = np.array([[2.0, 0.0, 0.1], [0.2, 1.0, 0.0], [0.0, 0.3, 1.5]])
    >>> slope, offsets = fit_softmax_platt(F, np.array([0, 1, 2]))
    >>> slope > 0, offsets.shape
    (True, (3,))
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
