"""A sigmoid on held-out outputs: how machines without probabilities are given some (Platt)."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array, Index
from mercer.losses.squash import fit_platt, fit_softmax_platt


def fit_sigmoid(F: Array, codes: Index, weights: Array, k: int) -> tuple[float, Array]:
    """Return (slope, offsets) of p = softmax(slope F + offsets), or its sigmoid for k = 2.

    F is (n, k) held-out outputs, (n, 1) for two classes, larger for more likely classes; offsets
    are (k,), or (1,). If the outputs say nothing about the classes, so that the slope would not be
    positive, it is 0 and the offsets are the logarithms of the classes' shares.

    Examples
    --------
    >>> import numpy as np
    >>> F, codes = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> slope, offsets = fit_sigmoid(F, codes, np.ones(4), 2)
    >>> slope > 0, offsets.shape
    (True, (1,))
    >>> fit_sigmoid(-F, codes, np.ones(4), 2)[0]
    0.0
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
    """Return f (q, k) shifted so that its largest column (or its sign) is the likeliest class.

    At slope 0 these are the constant log odds.
    """
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
