"""Losses of support vector classifiers, discrimination and boosting; the hinge's likelihood.

All but NormalizedHinge are not normalised: they offer no probabilities, and their scale C is not
free, since their evidence cannot compare its values. Theory (S1), (S7), (S8), (S9), (M2).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.losses.base import check_positive
from mercer.losses.binary.logistic import BinaryLoss
from mercer.losses.numbers.quadrature import step
from mercer.losses.numbers.special import exp, ramp_excess, square_excess
from mercer.losses.real.base import PiecewiseLinear
from mercer.losses.real.robust import HEAVY


class Hinge(PiecewiseLinear):
    """The support vector classifier's loss: g = C (1 - y f)_+, y = -1 or +1.

    Reference: GPML (6.36); Seeger's thesis (C.15)-(C.18) for its averages.

    Parameters
    ----------
    C : float, default=1.0; positive slope. C with kernel k is the same as 1 with kernel C k.

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
        return np.asarray(self.C * np.maximum(1.0 - y * np.asarray(f), 0.0))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        y = np.asarray(y, dtype=np.float64)
        return y[None], self.C * np.array([np.minimum(-y, 0.0), np.maximum(-y, 0.0)])

    def width(self, y: Array) -> float:
        return 1.0 / self.C


class SquaredHinge(BinaryLoss):
    """g = C/2 (1 - y f)_+^2.

    Reference: Jaakkola & Haussler (1999), (2), with the potential lam - lam^2/(2 C).

    Parameters
    ----------
    C : float, default=1.0; positive curvature.

    Examples
    --------
    >>> float(SquaredHinge(C=2.0).value(1.0, -1.0))
    4.0
    """

    def __init__(self, C: float = 1.0) -> None:
        check_positive("SquaredHinge", C=C)
        self.C = C

    def phi(self, u: Array) -> Array:
        return 0.5 * self.C * np.square(np.maximum(1.0 - u, 0.0))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        return -self.C * np.maximum(1.0 - u, 0.0), np.where(u < 1.0, self.C, 0.0), np.zeros_like(u)

    def corners(self) -> list[float]:
        return [1.0]

    def centers(self, y: Array) -> Array:
        return np.asarray(y, dtype=np.float64)[None]

    def width(self, y: Array) -> float:
        return float(1.0 / np.sqrt(self.C))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, a, v = np.broadcast_arrays(y, 1.0 - y * np.asarray(m), v)
        s = np.sqrt(v)
        z, top = a / s, np.maximum(a, 0.0)
        mean = 0.5 * np.square(top) + v * (0.5 * (a > 0.0) + square_excess(z))
        dm = -(top + s * ramp_excess(z))
        return self.C * mean, self.C * y * dm, 0.5 * self.C * special.ndtr(z)

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        y, m, v = np.broadcast_arrays(y, m, v)
        third, fourth = step(y, m, v)
        return -self.C * y * third, -self.C * y * fourth

    def conjugate(self, y: Array, u: Array) -> Array:
        t = np.asarray(-u * y, dtype=np.float64)
        return np.asarray(np.where(t < 0.0, np.inf, -t + np.square(t) / (2.0 * self.C)))


class NormalizedHinge(BinaryLoss):
    """P(y | f) = e^{-C (1 - y f)_+} / Z(f), Z the sum over both labels.

    phi(u) = log(1 + e^{-C h(u)}), h(u) = (1 + u)_+ - (1 - u)_+. Not convex: the kink at u = -1 is
    concave. Reference: Seeger's thesis (2.18); GPML (6.39).

    Parameters
    ----------
    C : float, default=1.0; positive; the slope for u -> -inf.

    Examples
    --------
    >>> round(float(NormalizedHinge().predict(0.0, 2.0)), 6)
    0.5
    """

    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    domains: ClassVar[Domains] = {"C": POSITIVE}
    words: ClassVar[Words] = {"C": "weight of the hinge"}

    def __init__(self, C: float = 1.0) -> None:
        check_positive("NormalizedHinge", C=C)
        self.C = C

    def _exponent(self, u: Array) -> Array:
        return self.C * (u + np.clip(u, -1.0, 1.0))

    def phi(self, u: Array) -> Array:
        return -special.log_expit(self._exponent(u))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        a, x = np.abs(u), self._exponent(u)
        rate = np.where(a < 1.0, 2.0 * self.C, self.C)
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
        return [-1.0, 1.0]

    def width(self, y: Array) -> float:
        return 0.5 / self.C


class Margin(BinaryLoss):
    """Maximum entropy discrimination: with r = C (1 - y f), g = r - 1 - log r for r > 1, else 0.

    The margin aimed at is 1 - 1/C. Reference: Hou & Hero (2018), section 2, as the primal of their
    dual (slack density C e^{-C (1 - gamma)}).

    Parameters
    ----------
    C : float, default=10.0; slack parameter, above 1 (at C <= 1 every dual coefficient is zero).

    Examples
    --------
    >>> round(float(Margin(C=10.0).value(1.0, 0.0)), 4)
    6.6974
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
        r = self._slack(u)
        return np.asarray((r - 1.0) - np.log1p(r - 1.0))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        r = self._slack(u)
        inside = r > 1.0
        scaled = self.C / r
        return -self.C + scaled, inside * scaled**2, inside * 2.0 * scaled**3

    def corners(self) -> list[float]:
        return [1.0 - 1.0 / self.C]

    def centers(self, y: Array) -> Array:
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
        return exp(-u)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
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


def hinge_normaliser(f: Array, C: float = 1.0) -> Array:
    """Return nu(f; C), the total mass that the hinge gives to the two labels at f.

        nu(f; C) = kappa [e^{-C (1 - f)_+} + e^{-C (1 + f)_+}],    kappa = 1 / (1 + e^{-2 C})

    It is 1 at f = +-1, sech C at f = 0, kappa far out; a likelihood's mass would be constant.
    :class:`~mercer.losses.NormalizedHinge` divides it out.

    Parameters
    ----------
    f : array of any shape, the latent value.
    C : > 0, slope of the hinge.

    Reference: GPML (6.39); kappa as in Sollich (2002), which makes the largest mass one.

    Examples
    --------
    >>> hinge_normaliser(np.array([-1.0, 0.0, 1.0]), C=1.0).round(6)
    array([1.      , 0.648054, 1.      ])
    """
    check_positive("hinge_normaliser", C=C)
    a = np.abs(np.asarray(f, dtype=np.float64))
    nearer = -C * np.maximum(1.0 - a, 0.0)  # exponents of the two labels, largest first
    farther = -C * (1.0 + a)
    return np.asarray(np.exp(np.logaddexp(nearer, farther) + special.log_expit(2.0 * C)))


def reweight(u: Array) -> Array:
    """Return the weight w~(u) that turns the logistic loss of a margin u = y f into the hinge's.

        w~(u) = (1 - u)_+ / log(1 + e^-u),    sum_i (1 - u_i)_+ = sum_i w~(u_i) log(1 + e^-u_i)

    A support vector classifier is then a kernel logistic regression whose data are reweighted as it
    learns: rows beyond the margin count nothing, rows inside it most (1.5422 at u = -0.6121), and
    the weight tends to 1 for rows far on the wrong side, where boosting's e^-u has no bound.

    Parameters
    ----------
    u : array of any shape, margins y f.

    Reference: M. Seeger's thesis (2.36)-(2.38), figure 2.4; the maximum is not "roughly 1.6".

    Examples
    --------
    >>> reweight(np.array([-1e6, -0.6121, 0.0, 1.0])).round(4)
    array([1.    , 1.5422, 1.4427, 0.    ])
    """
    u = np.asarray(u, dtype=np.float64)
    inside = np.minimum(u, 1.0)  # beyond the margin the weight is zero: no 0/0 for large u
    return np.asarray(np.maximum(1.0 - u, 0.0) / -special.log_expit(inside))
