"""Margin losses that are not likelihoods: discrimination, exponential.

Their exp(-g) does not sum to one over the labels, so they offer no probabilities; their scale C is
not a free parameter either, since an evidence that is not normalised cannot compare its values.
Theory (M2).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.base import check_positive
from mercer.losses.binary.logistic import BinaryLoss
from mercer.losses.numbers.special import exp
from mercer.losses.real.student import HEAVY


class Margin(BinaryLoss):
    """Maximum entropy discrimination: with r = C (1 - y f), g = r - 1 - log r for r > 1, else 0.

    Once continuously differentiable; the margin aimed at is 1 - 1/C.
    Reference: Hou & Hero (2018), section 2, as the primal of their dual (slack density
    C e^{-C (1 - gamma)}).

    Parameters
    ----------
    C : float, default=10.0
        Slack parameter, above 1 (at C <= 1 every dual coefficient is zero: nothing is learned).

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
        y, u, v = np.broadcast_arrays(y, y * np.asarray(m), v)
        mean = exp(0.5 * v - u)
        return mean, -y * mean, 0.5 * mean

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        mean, dm, _ = self.expected(y, m, v)
        return dm, mean

    def conjugate(self, y: Array, u: Array) -> Array:
        t = np.asarray(-u * y, dtype=np.float64)
        inside = np.maximum(t, 0.0)
        return np.asarray(np.where(t < 0.0, np.inf, special.xlogy(inside, inside) - inside))
