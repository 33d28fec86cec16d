"""How good predictions are: accuracy, honesty of the intervals, log density."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from mercer.core.arrays import Array, Index
from mercer.left_out.figures import coverage
from mercer.plots.rows import recorded

QUALITY_NAMES = ["rows", "R2", "RMSE", "in 90 % interval", "mean log density"]


def quality(
    y: Array, mean: Array, std: Array, log_density: Array, weights: Array | None = None
) -> dict[str, float]:
    """Return figures for predictions of y (n,) by Gaussians with ``mean`` and ``std`` (n,).

    ``weights`` (n,) say how often each row counts.
    ``r2`` = 1 - SS_residual / SS_total, ``rmse``, ``coverage90`` (share of y inside the central
    90 % intervals; 0.9 is honest), ``log_density`` (mean of log p(y_i), greater is better; none
    counts above what the steps allow in which y was written down).

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
        "log_density": float(np.average(recorded(log_density, y), weights=w)),
    }


def quality_cells(figures: dict[str, float]) -> list[str]:
    """Return the figures of :func:`quality` as text, in the order of ``QUALITY_NAMES``."""
    return [
        f"{figures['rows']:.0f}",
        f"{figures['r2']:.3f}",
        f"{figures['rmse']:.4g}",
        f"{100 * figures['coverage90']:.1f} %",
        f"{figures['log_density']:.3f}",
    ]


def surprise(observed: float, level: float, n: int) -> float:
    """Return the two-sided p-value of a coverage, were the intervals honest (normal approx.)."""
    z = abs(observed - level) / np.sqrt(level * (1 - level) / n)
    return float(2 * ndtr(-z))


def mean_and_error(
    values: Array, weights: Array | None = None, together: Index | None = None
) -> tuple[float, float]:
    """Return the mean of values (n,), each as often as its weight says, and its standard error.

    The rows are taken for independent, or the groups of them that ``together`` (n,) numbers: with
    u_g = sum of w_i (v_i - mean) over a group, se^2 = sum_g u_g^2 / (sum_i w_i)^2, and G / (G - 1)
    for the mean that was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> mean_and_error(np.array([1.0, 2.0, 3.0]))
    (2.0, 0.577...)
    >>> twice = mean_and_error(np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), None, np.arange(6) // 2)
    >>> round(twice[1], 3)
    0.577
    """
    w = np.ones(len(values)) if weights is None else weights
    mean = float(np.average(values, weights=w))
    each: Any = w * (values - mean)
    if together is not None:
        each = np.bincount(np.unique(together, return_inverse=True)[1].ravel(), each)
    n = len(each)
    return mean, float(np.sqrt(np.sum(each**2) * n / max(1, n - 1)) / np.sum(w))
