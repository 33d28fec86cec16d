"""Margin losses that are no likelihoods: hinge, squared hinge, discrimination, exponential.

Their exp(-g) does not sum to one over the labels, so they offer no probabilities; their scale C is
no free parameter either, since an evidence that does not normalise cannot compare its values.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.losses.base import check_positive
from mercer.losses.binary import BinaryLoss
from mercer.losses.piecewise import PiecewiseLinear
from mercer.losses.robust import HEAVY
from mercer.losses.special import exp, ramp_excess, square_excess


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

    Reference: the L2 support vector machine; GPML section 6.2 for its place among the losses.

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

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: -t + t^2/(2 C), t = -u y >= 0."""
        t = np.asarray(-u * y, dtype=np.float64)
        return np.asarray(np.where(t < 0.0, np.inf, -t + np.square(t) / (2.0 * self.C)))


class Margin(BinaryLoss):
    """Maximum entropy discrimination: with r = C (1 - y f), g = r - 1 - log r for r > 1, else 0.

    Once continuously differentiable; the margin aimed at is 1 - 1/C.
    Reference: Hou & Hero (2018), section 2, as the primal of their dual (slack density
    C e^{-C (1 - gamma)}).

    Parameters
    ----------
    C : slack parameter > 1 (at C <= 1 every dual coefficient is zero: nothing is learned).

    Examples
    --------
    >>> loss = Margin(C=10.0)
    >>> float(loss.value(1.0, 0.9)), round(float(loss.value(1.0, 0.0)), 4)
    (0.0, 6.6974)
    """

    reach: ClassVar[tuple[float, ...]] = HEAVY

    def __init__(self, C: float = 10.0) -> None:
        check_positive("Margin", C=C)
        if C <= 1.0:
            raise ValueError(
                f"Margin needs C > 1, not {C!r}: at C <= 1 no example has any weight and nothing "
                "is learned; for a softer margin make the kernel's amplitude smaller"
            )
        self.C = C

    def _slack(self, u: Array) -> Array:
        return np.maximum(self.C * (1.0 - u), 1.0)

    def phi(self, u: Array) -> Array:
        """See the class."""
        r = self._slack(u)
        return np.asarray((r - 1.0) - np.log1p(r - 1.0))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return -C (1 - 1/r), C^2/r^2 and 2 C^3/r^3 for r > 1, else 0."""
        r = self._slack(u)
        inside = r > 1.0
        scaled = self.C / r
        return -self.C + scaled, inside * scaled**2, inside * 2.0 * scaled**3

    def corners(self) -> list[float]:
        """Return 1 - 1/C."""
        return [1.0 - 1.0 / self.C]

    def centers(self, y: Array) -> Array:
        """Return the corner."""
        return self.kinks(y)

    def width(self, y: Array) -> float:
        """Return 1/C, the distance from the corner to the logarithm's singularity."""
        return 1.0 / self.C

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: -t - log(1 - t/C), t = -u y in [0, C)."""
        t = np.asarray(-u * y, dtype=np.float64)
        inside = (t >= 0.0) & (t < self.C)
        safe = np.where(inside, t, 0.0)
        return np.asarray(np.where(inside, -safe - np.log1p(-safe / self.C), np.inf))


class Exponential(BinaryLoss):
    """The loss of boosting: g = e^{-y f}.

    Reference: Seeger's thesis (2.29).

    Examples
    --------
    >>> float(Exponential().value(1.0, 0.0))
    1.0
    """

    def phi(self, u: Array) -> Array:
        """Return e^-u."""
        return exp(-u)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return -e^-u, e^-u, -e^-u."""
        e = exp(-u)
        return -e, e, -e

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.expected`: e^{-u + v/2}."""
        y, u, v = np.broadcast_arrays(y, y * np.asarray(m), v)
        mean = exp(0.5 * v - u)
        return mean, -y * mean, 0.5 * mean

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: t log t - t, t = -u y >= 0."""
        t = np.asarray(-u * y, dtype=np.float64)
        inside = np.maximum(t, 0.0)
        return np.asarray(np.where(t < 0.0, np.inf, special.xlogy(inside, inside) - inside))
