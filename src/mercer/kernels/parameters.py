"""Parameters of kernels as arrays, checked: numbers, positive numbers, whole numbers, matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array


def positive(owner: object, name: str, d: int | None = None) -> Array:
    """Return parameter ``name`` as :func:`finite` does, checked > 0."""
    value = finite(owner, name, d)
    if not (value > 0.0).all():
        raise ValueError(
            f"{type(owner).__name__}: {name} must be positive, got {getattr(owner, name)!r}"
        )
    return value


def finite(owner: object, name: str, d: int | None = None) -> Array:
    """Return parameter ``name`` as a finite float64 array, () or, for d input columns, (d,)."""
    given, who = getattr(owner, name), type(owner).__name__
    try:
        value = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{who}: {name} must be a number, got {given!r}") from None
    if value.ndim > (0 if d is None else 1):
        allowed = "a single number" if d is None else "a number or one number per column"
        raise ValueError(f"{who}: {name} must be {allowed}, got an array of shape {value.shape}")
    if value.ndim == 1 and value.shape[0] != d:
        raise ValueError(
            f"{who}: {name} has {value.shape[0]} entries but the inputs have {d} columns"
        )
    if not np.isfinite(value).all():
        raise ValueError(f"{who}: {name} must be finite, got {given!r}")
    return value


def whole(owner: object, name: str, least: int) -> int:
    """Return parameter ``name`` of ``owner``, checked to be an integer >= ``least``."""
    value = getattr(owner, name)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise ValueError(
        f"{type(owner).__name__}: {name} must be an integer of at least {least}, got {value!r}"
    )


def symmetric(K: Array, what: str, block: int = 128) -> Array:
    """Return K (n, n) if |K_ij - K_ji| <= 1e-8 of its largest entry, else refuse it."""
    n = len(K)
    largest = max(float(K.max(initial=0.0)), -float(K.min(initial=0.0)))
    with np.errstate(invalid="ignore"):
        for i in range(0, n, block):
            gap = np.abs(K[i : i + block, i:] - K[i:, i : i + block].T)
            if (gap > 1e-8 * largest).any():
                row, column = (int(k) + i for k in np.unravel_index(np.nanargmax(gap), gap.shape))
                raise ValueError(
                    f"{what} is not symmetric: k({row}, {column}) = {K[row, column]:.6g} but "
                    f"k({column}, {row}) = {K[column, row]:.6g}; if the difference is rounding, "
                    "give (K + K.T) / 2"
                )
    return K


def like(value: Any, total: Array) -> float | Array:
    """Return the sums ``total`` (d,) in the shape of ``value``: a shared one receives their sum."""
    return total if np.ndim(value) else float(np.sum(total))


def rescaled(value: float | Array, scale: Array) -> float | Array:
    """Return value * scale; a shared value stays shared if all columns have the same scale."""
    scale = np.asarray(scale, dtype=float)
    if np.ndim(value) == 0 and (scale == scale[0]).all():
        return float(value) * float(scale[0])
    return np.asarray(value, dtype=float) * scale
