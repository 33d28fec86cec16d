"""StateSpace: a kernel on a line whose process is Markov, as the sum of its components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array


@dataclass(frozen=True)
class StateSpace:
    """A sum of Matern covariances of one column: k(x, z) = sum_c variance_c M_c(rate_c |x - z|).

    M_c, of smoothness order_c - 1/2, is Markov with order_c - 1 derivatives (GPML appendix B.2).

    Attributes
    ----------
    orders : (c,) 1, 2 or 3, as 32-bit integers.
    rates : (c,) sqrt(2 order - 1) / length scale.
    variances : (c,)
    column : the column that the kernel looks at; None if it is the only one.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> (2.0 * Matern(nu=1.5)).state_space().variances
    array([2.])
    """

    orders: np.ndarray[tuple[int, ...], np.dtype[np.int32]]  # (c,) 1, 2 or 3
    rates: Array  # (c,) sqrt(2 order - 1) / length scale
    variances: Array  # (c,)
    column: int | None = None  # that the kernel looks at; None if it is the only one

    @property
    def size(self) -> int:
        """Return the number of entries of the state."""
        return int(self.orders.sum())

    def line(self, X: Array) -> Array:
        """Return the coordinates (n,) of X (n, d)."""
        return np.ascontiguousarray(X[:, 0 if self.column is None else self.column])


def stacked(parts: Sequence[StateSpace | None]) -> StateSpace | None:
    """Return the state space of a sum, or None if a part has none or looks at another column."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({part.column for part in found}) != 1:
        return None
    arrays = ([getattr(p, name) for p in found] for name in ("orders", "rates", "variances"))
    orders, rates, variances = (np.concatenate(a) for a in arrays)
    return StateSpace(orders, rates, variances, found[0].column)
