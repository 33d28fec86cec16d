"""Flip noise: some labels are wrong, whatever f is."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from scipy import optimize, special

from mercer.core.arrays import Array
from mercer.core.component import Domain, Domains, Words
from mercer.losses.base import Loss, is_number
from mercer.losses.binary.logistic import BinaryLoss
from mercer.losses.binary.probit import Probit
from mercer.losses.numbers.special import exp, normal_pdf


class Flip(BinaryLoss):
    """P(y | f) = eps + (1 - 2 eps) P_base(y | f): a label is turned over with probability eps.

    Not convex, and bounded by -log eps. Reference: Seeger's thesis 1.2.6; eps corrected to P(flip).

    Parameters
    ----------
    base : Loss or None, default=None; normalised and binary; None: P_base = [y f > 0], 1/2 at 0.
    eps : float, default=0.1; probability of a flip, strictly between 0 and 1/2.

    Examples
    --------
    >>> round(float(np.exp(-Flip(Probit(), eps=0.1).value(1.0, 50.0))), 6)
    0.9
    """

    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    domains: ClassVar[Domains] = {"eps": Domain("half", 0.0, 0.5)}
    words: ClassVar[Words] = {"eps": "probability of a wrong label"}

    def __init__(self, base: Loss | None = None, eps: float = 0.1) -> None:
        if not is_number(eps, 0.0, 0.5):
            raise ValueError(f"Flip needs 0 < eps < 1/2, not {eps!r}")
        fits = isinstance(base, Loss) and base.response == "binary" and base.normalised
        if base is not None and not fits:
            want = "a normalised binary loss as its base (Probit(), Logistic(), ...) or None"
            raise ValueError(f"Flip needs {want}, not {base!r}")
        self.base, self.eps = base, eps

    @classmethod
    def example(cls) -> Self:
        return cls(Probit(), eps=0.05)

    def _mixed(self, log_p: Array) -> tuple[Array, Array]:
        """log(eps + (1 - 2 eps) p) and the share of the second term in it."""
        second = np.log1p(-2.0 * self.eps) + log_p
        total = np.logaddexp(np.log(self.eps), second)
        return total, exp(second - total)

    def phi(self, u: Array) -> Array:
        if self.base is None:
            step = np.heaviside(u, 0.5)
            return np.asarray(-np.log(self.eps + (1.0 - 2.0 * self.eps) * step))
        return -self._mixed(-self.base.value(np.asarray(1.0), u))[0]

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        if self.base is None:
            return np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
        b1, b2, b3 = self.base.derivatives(np.asarray(1.0), u)
        _, q = self._mixed(-self.base.value(np.asarray(1.0), u))
        d1 = q * b1
        q1 = q * (d1 - b1)
        d2 = q1 * b1 + q * b2
        q2 = q1 * (d1 - b1) + q * (d2 - b2)
        return d1, d2, q2 * b1 + 2.0 * q1 * b2 + q * b3

    def corners(self) -> list[float]:
        return [0.0] if self.base is None else list(self.base.kinks(np.ones(1))[:, 0])

    def centers(self, y: Array) -> Array:
        """Return 0, and the f at which the base's probability has fallen to eps."""
        y = np.asarray(y, dtype=np.float64)
        if self.base is None:
            return np.zeros_like(y)[None]
        base, low, target, one = self.base, -1.0, -np.log(self.eps), np.asarray(1.0)
        while base.value(one, np.asarray(low)) < target and low > -1e12:
            low *= 2.0
        turn = optimize.brentq(lambda f: float(base.value(one, np.asarray(f))) - target, low, 0.0)
        return np.array([np.zeros_like(y), y * turn])

    def width(self, y: Array) -> Array | float:
        return 1.0 if self.base is None else self.base.width(y)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if self.base is not None:
            log_p, b1, b2 = self.base.tilted(y, m, v)
            log_z, q = self._mixed(log_p)
            first = q * b1
            return log_z, first, q * (b2 + np.square(b1)) - np.square(first)
        y, m, v = np.broadcast_arrays(y, m, v)
        z = y * m / np.sqrt(v)
        total = self.eps + (1.0 - 2.0 * self.eps) * special.ndtr(z)
        b = (1.0 - 2.0 * self.eps) * normal_pdf(z) / (total * np.sqrt(v))
        return np.log(total), y * b, -b * (z / np.sqrt(v) + b)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if self.base is not None:
            return super().expected(y, m, v)
        y, m, v = np.broadcast_arrays(y, m, v)
        s, odds = np.sqrt(v), np.log((1.0 - self.eps) / self.eps)
        z = y * m / s
        mean = -np.log1p(-self.eps) + odds * special.ndtr(-z)
        return mean, -y * odds * normal_pdf(z) / s, odds * z * normal_pdf(z) / (2.0 * v)

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        if self.base is not None:
            return super().expected_higher(y, m, v)
        y, m, v = np.broadcast_arrays(y, m, v)
        s, odds = np.sqrt(v), np.log((1.0 - self.eps) / self.eps)
        z = y * m / s
        density = odds * normal_pdf(z)
        return y * density * (1.0 - z**2) / s**3, density * z * (z**2 - 3.0) / v**2
