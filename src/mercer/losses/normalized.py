"""The hinge, made a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.losses.base import check_positive
from mercer.losses.binary import BinaryLoss


class NormalizedHinge(BinaryLoss):
    """P(y | f) = e^{-C (1 - y f)_+} / Z(f), Z the sum over both labels.

    phi(u) = log(1 + e^{-C h(u)}), h(u) = (1 + u)_+ - (1 - u)_+: 2u inside |u| <= 1, u + sign(u)
    outside. Not convex: the kink at u = -1 is concave, and averaged curvatures may be negative.
    Reference: Seeger's thesis (2.18); GPML (6.39).

    Parameters
    ----------
    C : > 0; the slope for u -> -inf.

    Examples
    --------
    >>> loss = NormalizedHinge()
    >>> round(float(loss.predict(0.0, 2.0)), 6)
    0.5
    """

    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    domains: ClassVar[Mapping[str, Domain]] = {"C": POSITIVE}

    def __init__(self, C: float = 1.0) -> None:
        check_positive("NormalizedHinge", C=C)
        self.C = C

    def _exponent(self, u: Array) -> Array:
        return self.C * (u + np.clip(u, -1.0, 1.0))

    def phi(self, u: Array) -> Array:
        """Return log(1 + e^{-C h(u)})."""
        return -special.log_expit(self._exponent(u))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """See :meth:`BinaryLoss.slopes`; at the kinks phi'' and phi''' are 0."""
        a = np.abs(u)
        rate = self.C * (1.0 + np.heaviside(1.0 - a, 0.5))
        smooth = a != 1.0
        x = self._exponent(u)
        up, down = special.expit(x), special.expit(-x)
        d2 = np.where(smooth, rate**2 * up * down, 0.0)
        return -rate * down, d2, rate * d2 * (down - up)

    def corners(self) -> list[float]:
        """Return -1 and 1."""
        return [-1.0, 1.0]

    def centers(self, y: Array) -> Array:
        """Return -1, 0 and 1."""
        return np.repeat([[-1.0], [0.0], [1.0]], np.size(y), axis=1)

    def width(self, y: Array) -> float:
        """Return 1/(2 C)."""
        return 0.5 / self.C
