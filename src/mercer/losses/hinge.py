"""The support vector classifier's losses; see ``margins`` for why they give no probabilities.

Theory (S1).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.losses.averages import step
from mercer.losses.base import check_positive
from mercer.losses.binary import BinaryLoss
from mercer.losses.piecewise import PiecewiseLinear
from mercer.losses.special import ramp_excess, square_excess


class Hinge(PiecewiseLinear):
    """The support vector classifier's loss: g = C (1 - y f)_+, y = -1 or +1.

    Reference: GPML (6.36); Seeger's thesis (C.15)-(C.18) for its averages.

    Parameters
    ----------
    C : slope > 0. C with kernel k is 1 with kernel C k.

    Examples
    --------
    >>> float(Hinge(C=2.0).value(1.0, -0.5))
    3.0
    >>> Hinge.offers("predict")
    False
    """

    response: ClassVar[str] = "binary"

    def __init__(self, C: float = 1.0) -> None:
        check_positive("Hinge", C=C)
        self.C = C

    def value(self, y: Array, f: Array) -> Array:
        """Return C (1 - y f)_+."""
        return np.asarray(self.C * np.maximum(1.0 - y * np.asarray(f), 0.0))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        """See :class:`PiecewiseLinear`: the knot is y, the slopes -C, 0 or 0, C."""
        y = np.asarray(y, dtype=np.float64)
        return y[None], self.C * np.array([np.minimum(-y, 0.0), np.maximum(-y, 0.0)])

    def centers(self, y: Array) -> Array:
        """Return the knot."""
        return np.asarray(y, dtype=np.float64)[None]

    def width(self, y: Array) -> float:
        """Return 1/C."""
        return 1.0 / self.C


class SquaredHinge(BinaryLoss):
    """g = C/2 (1 - y f)_+^2.

    Reference: Jaakkola & Haussler (1999), (2), with the potential lam - lam^2/(2 C).

    Parameters
    ----------
    C : curvature > 0.

    Examples
    --------
    >>> float(SquaredHinge(C=2.0).value(1.0, -1.0))
    4.0
    """

    def __init__(self, C: float = 1.0) -> None:
        check_positive("SquaredHinge", C=C)
        self.C = C

    def phi(self, u: Array) -> Array:
        """Return C/2 (1 - u)_+^2."""
        return 0.5 * self.C * np.square(np.maximum(1.0 - u, 0.0))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return -C (1 - u)_+, C for u < 1 (0 from 1 on), and 0."""
        return -self.C * np.maximum(1.0 - u, 0.0), np.where(u < 1.0, self.C, 0.0), np.zeros_like(u)

    def corners(self) -> list[float]:
        """Return 1."""
        return [1.0]

    def centers(self, y: Array) -> Array:
        """Return the corner."""
        return np.asarray(y, dtype=np.float64)[None]

    def width(self, y: Array) -> float:
        """Return 1/sqrt(C)."""
        return float(1.0 / np.sqrt(self.C))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.expected`; closed, from the first two moments of (1 - u)_+."""
        y, a, v = np.broadcast_arrays(y, 1.0 - y * np.asarray(m), v)
        s = np.sqrt(v)
        z, top = a / s, np.maximum(a, 0.0)
        mean = 0.5 * np.square(top) + v * (0.5 * (a > 0.0) + square_excess(z))
        dm = -(top + s * ramp_excess(z))
        return self.C * mean, self.C * y * dm, 0.5 * self.C * special.ndtr(z)

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """See :meth:`Loss.expected_higher`; closed: g'' falls to 0 at u = 1."""
        y, m, v = np.broadcast_arrays(y, m, v)
        third, fourth = step(y, m, v)
        return -self.C * y * third, -self.C * y * fourth

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: -t + t^2/(2 C), t = -u y >= 0."""
        t = np.asarray(-u * y, dtype=np.float64)
        return np.asarray(np.where(t < 0.0, np.inf, -t + np.square(t) / (2.0 * self.C)))
