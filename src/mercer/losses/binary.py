"""Binary losses: functions phi of the margin u = y f, y = -1 or +1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.losses.base import Loss, check_positive
from mercer.losses.capability import needs
from mercer.losses.special import exp, log_scaled_cdf, mills, negative_entropy


class BinaryLoss(Loss):
    """g(y, f) = phi(y f): a child states ``phi``, ``slopes`` and where phi has kinks."""

    abstract: ClassVar[bool] = True
    response: ClassVar[str] = "binary"

    def phi(self, u: Array) -> Array:
        """Return the loss of the margin u."""
        raise NotImplementedError

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return phi', phi'', phi'''."""
        raise NotImplementedError

    def corners(self) -> list[float]:
        """Return the margins, increasing, at which a derivative of phi jumps."""
        return []

    def value(self, y: Array, f: Array) -> Array:
        """Return phi(y f)."""
        return self.phi(np.asarray(y * f, dtype=np.float64))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return y phi', phi'', y phi''' at u = y f."""
        d1, d2, d3 = self.slopes(np.asarray(y * f, dtype=np.float64))
        return y * d1, d2, y * d3

    def kinks(self, y: Array) -> Array:
        """Return y times the corners."""
        y = np.reshape(y, -1)
        return np.sort(np.reshape([y * c for c in self.corners()], (-1, len(y))), axis=0)

    @needs("normalised")
    def predict(self, m: Array, v: Array) -> Array:
        """Return P(y = +1) for f ~ N(m, v); equal to exp(log Z) of :meth:`tilted`."""
        return exp(self.log_predictive(np.asarray(1.0), m, v))

    @needs("normalised")
    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return +1 with probability exp(-phi(f)), else -1."""
        p = exp(-self.value(np.asarray(1.0), f))
        return np.where(rng.random(np.shape(f)) < p, 1.0, -1.0)


class Logistic(BinaryLoss):
    """Bernoulli with a logit link: phi(u) = log(1 + e^-u), P(y | f) = 1 / (1 + e^{-y f}).

    Reference: Jaakkola & Haussler (1999), section 1 and (8); Seeger's thesis (1.10).

    Examples
    --------
    >>> Logistic().predict(1.5, 4.0).round(6)
    np.float64(0.715006)
    """

    normalised: ClassVar[bool] = True

    def phi(self, u: Array) -> Array:
        """Return log(1 + e^-u)."""
        return -special.log_expit(u)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return -sigma(-u), sigma(u) sigma(-u) and its derivative."""
        up, down = special.expit(u), special.expit(-u)
        return -down, up * down, up * down * (down - up)

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: t log t + (1 - t) log(1 - t), t = -u y in [0, 1]."""
        t = np.asarray(-u * y, dtype=np.float64)
        best = negative_entropy(np.clip(t, 0.0, 1.0))
        return np.asarray(np.where((t < 0.0) | (t > 1.0), np.inf, best))

    def quadratic_bound(self, y: Array, xi: Array) -> tuple[Array, Array, Array]:
        """Return lam, z, c with g(y, f) <= lam (f - z)^2 + c, equal at f = +-xi.

        lam = tanh(xi/2)/(4 xi) (1/8 at 0), z = y/(4 lam): a Gaussian observation z of variance
        1/(2 lam). Reference: Jaakkola & Haussler (8), sign corrected. The best xi^2 is E[f^2].
        """
        y, xi = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.abs(xi))
        t = np.square(np.minimum(xi, 0.01))
        series = 1 / 8 - t * (1 / 96 - t * (1 / 960 - t * 17 / 161280))
        x = np.maximum(xi, 0.01)
        lam = np.where(xi < 0.01, series, np.tanh(0.5 * x) / (4.0 * x))
        c = self.phi(xi) + 0.5 * xi - lam * np.square(xi) - 1.0 / (16.0 * lam)
        return lam, y / (4.0 * lam), c


class Probit(BinaryLoss):
    """A threshold on f plus normal noise: phi(u) = -log Phi(u / s).

    Reference: GPML (3.9), (3.77), (3.82); methods with r = N/Phi evaluated by erfcx.

    Parameters
    ----------
    scale : s > 0, standard deviation of the noise.

    Examples
    --------
    >>> Probit().predict(1.0, 3.0).round(6)
    np.float64(0.691462)
    """

    normalised: ClassVar[bool] = True
    domains: ClassVar[Mapping[str, Domain]] = {"scale": POSITIVE}

    def __init__(self, scale: float = 1.0) -> None:
        check_positive("Probit", scale=scale)
        self.scale = scale

    def phi(self, u: Array) -> Array:
        """Return -log Phi(u/s)."""
        return -special.log_ndtr(u / self.scale)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """Return -r/s, -r'/s^2, -r''/s^3 with r = N/Phi at u/s."""
        r, r1, r2 = mills(u / self.scale)
        return -r / self.scale, -r1 / self.scale**2, -r2 / self.scale**3

    def width(self, y: Array) -> float:
        """Return s."""
        return self.scale

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.tilted`: log Phi(y m / sqrt(s^2 + v)), GPML (3.82)."""
        y, m, v = np.broadcast_arrays(y, m, v)
        s = np.sqrt(self.scale**2 + v)
        z = y * m / s
        r, r1, _ = mills(z)
        return special.log_ndtr(z), y * r / s, r1 / s**2


class LaplaceProbit(BinaryLoss):
    """A threshold on f plus double exponential noise of density (C/2) e^{-C |x|}.

    phi(u) = log 2 - C u for u < 0, -log(1 - e^{-C u}/2) for u >= 0. Its second derivative jumps
    at 0. Reference: Seeger's thesis (2.17).

    Parameters
    ----------
    C : > 0; the slope for u -> -inf.

    Examples
    --------
    >>> float(LaplaceProbit(C=2.0).derivatives(1.0, -1.0)[0])
    -2.0
    """

    normalised: ClassVar[bool] = True
    domains: ClassVar[Mapping[str, Domain]] = {"C": POSITIVE}

    def __init__(self, C: float = 1.0) -> None:
        check_positive("LaplaceProbit", C=C)
        self.C = C

    def phi(self, u: Array) -> Array:
        """See the class."""
        right = -np.log1p(-0.5 * exp(-self.C * np.maximum(u, 0.0)))
        return np.asarray(np.where(u < 0.0, np.log(2.0) - self.C * u, right))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        """See :meth:`BinaryLoss.slopes`; at u = 0 the second and third are 0."""
        C = self.C
        e = exp(-C * np.maximum(u, 0.0))
        right = u > 0.0
        d1 = -C * e / (2.0 - e)
        d2 = 2.0 * C**2 * e / (2.0 - e) ** 2
        d3 = -2.0 * C**3 * e * (2.0 + e) / (2.0 - e) ** 3
        return d1, np.where(right, d2, 0.0), np.where(right, d3, 0.0)

    def corners(self) -> list[float]:
        """Return 0."""
        return [0.0]

    def width(self, y: Array) -> float:
        """Return 1/C."""
        return 1.0 / self.C

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.tilted`; closed.

        Z = E1/2 + Phi(u/s) - E2/2 with E1 = e^{Cu + C^2 v/2} Phi(-(u + C v)/s) and
        E2 = e^{-Cu + C^2 v/2} Phi((u - C v)/s), u = y m; Z' = C (E1 + E2)/2,
        Z'' = C^2 (E1 - E2)/2.
        """
        y, u, v = np.broadcast_arrays(y, np.asarray(y * m), v)
        C, s = self.C, np.sqrt(v)
        e1 = _exponential_tail(C, -u, s)
        e2 = _exponential_tail(C, u, s)
        threshold = special.log_ndtr(u / s)
        rest = threshold + np.log1p(-0.5 * exp(np.minimum(e2 - threshold, 0.0)))
        log_z = np.logaddexp(e1 - np.log(2.0), rest)
        p1, p2 = 0.5 * exp(e1 - log_z), 0.5 * exp(e2 - log_z)
        first = C * (p1 + p2)
        return log_z, y * first, C**2 * (p1 - p2) - np.square(first)

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: p log 2p - (1 + p) log(1 + p), p = -u y/C in [0, 1]."""
        p = np.asarray(-u * y / self.C, dtype=np.float64)
        q = np.clip(p, 0.0, 1.0)
        best = special.xlogy(q, 2.0 * q) - (1.0 + q) * np.log1p(q)
        return np.asarray(np.where((p < 0.0) | (p > 1.0), np.inf, best))


def _exponential_tail(C: float, u: Array, s: Array) -> Array:
    """Return log of e^{-C u + C^2 s^2/2} Phi((u - C s^2)/s), -u^2/(2 s^2) taken out first."""
    z = u / s - C * s
    whole = -C * u + 0.5 * np.square(C * s) + special.log_ndtr(np.maximum(z, 0.0))
    return np.asarray(np.where(z < 0.0, -0.5 * np.square(u / s) + log_scaled_cdf(z), whole))
