"""The hinge, made a likelihood; theory (S8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.losses.base import check_positive
from mercer.losses.binary import BinaryLoss
from mercer.losses.hinge import Hinge
from mercer.losses.special import exp


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
        rate = np.where(a < 1.0, 2.0 * self.C, self.C)
        x = self._exponent(u)
        e = exp(-np.abs(x))
        far = 1.0 / (1.0 + e)
        near = e * far
        down, up = np.where(x > 0.0, (near, far), (far, near))
        d2 = rate**2 * near * far
        corner = a == 1.0
        if np.any(corner):
            rate, d2 = np.where(corner, 1.5 * self.C, rate), np.where(corner, 0.0, d2)
        return -rate * down, d2, rate * d2 * (down - up)

    def unnormalised(self) -> Hinge:
        """Return the hinge C (1 - u)_+ whose mode stands for this loss: convex, and sparse."""
        return Hinge(self.C)

    def corners(self) -> list[float]:
        """Return -1 and 1."""
        return [-1.0, 1.0]

    def width(self, y: Array) -> float:
        """Return 1/(2 C)."""
        return 0.5 / self.C
