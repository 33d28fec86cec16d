"""Parameters of kernels that are whole numbers or symmetric matrices, checked."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array


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
