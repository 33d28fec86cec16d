"""How good predictions are: accuracy, honesty of the intervals, log density."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from mercer.arrays import Array


def quality(
    y: Array, mean: Array, std: Array, log_density: Array, weights: Array | None = None
) -> dict[str, float]:
    """Return figures for predictions of y (n,) by Gaussians with ``mean`` and ``std`` (n,).

    ``weights`` (n,) say how often each row counts.

    ``r2`` = 1 - SS_residual / SS_total, ``rmse``, ``coverage90`` (share of y inside the central
    90 % intervals; 0.9 is honest), ``log_density`` (mean of log p(y_i), greater is better).

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.0, 1.0, 2.0])
    >>> quality(y, y, np.ones(3), np.zeros(3))["r2"]
    1.0
    """
    w = np.ones(len(y)) if weights is None else weights
    error = float(np.average((y - mean) ** 2, weights=w))
    spread = float(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    return {
        "rows": float(np.count_nonzero(w)),
        "r2": 1.0 - error / spread if spread > 0 else float("nan"),
        "rmse": float(np.sqrt(error)),
        "coverage90": float(coverage(y, mean, std, np.array([0.9]), w)[0]),
        "log_density": float(np.average(log_density, weights=w)),
    }


def coverage(
    y: Array, mean: Array, std: Array, levels: Array, weights: Array | None = None
) -> Array:
    """Return the share of y (n,) inside its central interval of each level (k,), shape (k,)."""
    distance = np.abs(y - mean)[None, :]
    inside = distance <= ndtri((1 + levels[:, None]) / 2) * std
    return np.asarray(np.average(inside, axis=1, weights=weights))


def normal_log_density(y: Array, mean: Any, std: Any) -> Array:
    """Return log N(y_i; mean_i, std_i^2), shape (n,)."""
    z = (y - mean) / std
    return np.asarray(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def sampling_band(levels: Array, n: int, certainty: float = 0.95) -> tuple[Array, Array]:
    """Return (low, high) between which an honest coverage of n rows varies by chance.

    Normal approximation to the binomial, clipped to [0, 1], shape of ``levels``.
    """
    half = ndtri((1 + certainty) / 2) * np.sqrt(levels * (1 - levels) / n)
    return np.clip(levels - half, 0, 1), np.clip(levels + half, 0, 1)


def surprise(observed: float, level: float, n: int) -> float:
    """Return the two-sided p-value of a coverage, were the intervals honest (normal approx.)."""
    z = abs(observed - level) / np.sqrt(level * (1 - level) / n)
    return float(2 * ndtr(-z))
