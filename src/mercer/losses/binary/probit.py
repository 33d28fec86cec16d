"""Thresholds on a latent value with normal, double exponential or t noise; the loss of PLSC."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, REAL, Domains, Words
from mercer.losses.base import Loss, check_positive
from mercer.losses.binary.logistic import BinaryLoss
from mercer.losses.numbers.special import exp, log_scaled_cdf, mills
from mercer.losses.real.gaussian import Gaussian
from mercer.losses.real.robust import HEAVY


class Probit(BinaryLoss):
    """A threshold on f plus normal noise: phi(u) = -log Phi(u / s).

    Reference: GPML section 3.3 and (3.82) for the tilted moments.

    Parameters
    ----------
    scale : float, default=1.0; s, the positive standard deviation of the noise, in the units of f.

    Examples
    --------
    >>> Probit().predict(1.0, 3.0).round(6)
    np.float64(0.691462)
    """

    normalised: ClassVar[bool] = True
    domains: ClassVar[Domains] = {"scale": POSITIVE}
    words: ClassVar[Words] = {"scale": "width of the step from one label to the other"}

    def __init__(self, scale: float = 1.0) -> None:
        check_positive("Probit", scale=scale)
        self.scale = scale

    def phi(self, u: Array) -> Array:
        return -special.log_ndtr(u / self.scale)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        r, r1, r2 = mills(u / self.scale)
        return -r / self.scale, -r1 / self.scale**2, -r2 / self.scale**3

    def width(self, y: Array) -> float:
        return self.scale

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, m, v = np.broadcast_arrays(y, m, v)
        s = np.sqrt(self.scale**2 + v)
        z = y * m / s
        r, r1, _ = mills(z)
        return special.log_ndtr(z), y * r / s, r1 / s**2


class StudentThreshold(BinaryLoss):
    """A threshold on f plus Student's t noise: phi(u) = -log T(u / s), T its distribution function.

    Robust classification: a wrong label far on its side costs df log|u|, not |u| or u^2. Not
    convex: posteriors may have several modes, and there is no dual.
    Reference: Seeger's thesis, section 1.2.6.

    Parameters
    ----------
    scale : float, default=1.0; s, the positive scale of the noise, in the units of f.
    df : float, default=4.0; positive degrees of freedom; probit as they grow.

    Examples
    --------
    >>> round(float(StudentThreshold(df=1.0).predict(1.0, 1e-12)), 6)
    0.75
    """

    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    reach: ClassVar[tuple[float, ...]] = HEAVY
    domains: ClassVar[Domains] = {"scale": POSITIVE, "df": POSITIVE}
    words: ClassVar[Words] = {
        "scale": "width of the step from one label to the other",
        "df": "degrees of freedom: the fewer, the less a wrong label far away counts",
    }

    def __init__(self, scale: float = 1.0, df: float = 4.0) -> None:
        check_positive("StudentThreshold", scale=scale, df=df)
        self.scale, self.df = scale, df

    def phi(self, u: Array) -> Array:
        return -np.log(special.stdtr(self.df, u / self.scale))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        x, n = u / self.scale, self.df
        below = n + np.square(x)
        log_density = -0.5 * (n + 1.0) * np.log1p(np.square(x) / n) - 0.5 * np.log(n)
        log_density = log_density - special.betaln(0.5 * n, 0.5)
        r = exp(log_density - np.log(special.stdtr(n, x)))  # T' / T
        q, dq = -(n + 1.0) * x / below, -(n + 1.0) * (n - np.square(x)) / np.square(below)
        d2 = r * (q - r)
        d3 = d2 * (q - r) + r * (dq - d2)
        return -r / self.scale, -d2 / self.scale**2, -d3 / self.scale**3

    def width(self, y: Array) -> float:
        """Return the distance to the complex singularity, s sqrt(df), at most s."""
        return float(self.scale * np.sqrt(self.df / (1.0 + self.df)))


class LaplaceProbit(BinaryLoss):
    """A threshold on f plus double exponential noise of density (C/2) e^{-C |x|}.

    phi(u) = log 2 - C u for u < 0, else -log(1 - e^{-C u}/2). Reference: Seeger's thesis (2.17).

    Parameters
    ----------
    C : float, default=1.0; positive; the slope for u -> -inf.

    Examples
    --------
    >>> float(LaplaceProbit(C=2.0).derivatives(1.0, -1.0)[0])
    -2.0
    """

    normalised: ClassVar[bool] = True
    domains: ClassVar[Domains] = {"C": POSITIVE}
    words: ClassVar[Words] = {"C": "steepness of the step from one label to the other"}

    def __init__(self, C: float = 1.0) -> None:
        check_positive("LaplaceProbit", C=C)
        self.C = C

    def phi(self, u: Array) -> Array:
        right = -np.log1p(-0.5 * exp(-self.C * np.maximum(u, 0.0)))
        return np.asarray(np.where(u < 0.0, np.log(2.0) - self.C * u, right))

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        C = self.C
        e = exp(-C * np.maximum(u, 0.0))
        d2 = 2.0 * C**2 * e / (2.0 - e) ** 2
        d3 = -2.0 * C**3 * e * (2.0 + e) / (2.0 - e) ** 3
        return -C * e / (2.0 - e), np.where(u > 0.0, d2, 0.0), np.where(u > 0.0, d3, 0.0)

    def corners(self) -> list[float]:
        return [0.0]

    def width(self, y: Array) -> float:
        return 1.0 / self.C

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.tilted`; closed.

        Z = E1/2 + Phi(u/s) - E2/2 with E1 = e^{Cu + C^2 v/2} Phi(-(u + C v)/s) and
        E2 = e^{-Cu + C^2 v/2} Phi((u - C v)/s), u = y m; Z' = C (E1 + E2)/2,
        Z'' = C^2 (E1 - E2)/2.
        """
        y, u, v = np.broadcast_arrays(y, np.asarray(y * m), v)
        C, s = self.C, np.sqrt(v)
        e1, e2 = _exponential_tail(C, -u, s), _exponential_tail(C, u, s)
        threshold = special.log_ndtr(u / s)
        rest = threshold + np.log1p(-0.5 * exp(np.minimum(e2 - threshold, 0.0)))
        log_z = np.logaddexp(e1 - np.log(2.0), rest)
        p1, p2 = 0.5 * exp(e1 - log_z), 0.5 * exp(e2 - log_z)
        first = C * (p1 + p2)
        return log_z, y * first, C**2 * (p1 - p2) - np.square(first)

    def conjugate(self, y: Array, u: Array) -> Array:
        p = np.asarray(-u * y / self.C, dtype=np.float64)
        q = np.clip(p, 0.0, 1.0)
        best = special.xlogy(q, 2.0 * q) - (1.0 + q) * np.log1p(q)
        return np.asarray(np.where((p < 0.0) | (p > 1.0), np.inf, best))


def _exponential_tail(C: float, u: Array, s: Array) -> Array:
    """Return log of e^{-C u + C^2 s^2/2} Phi((u - C s^2)/s), -u^2/(2 s^2) taken out first."""
    z = u / s - C * s
    whole = -C * u + 0.5 * np.square(C * s) + special.log_ndtr(np.maximum(z, 0.0))
    return np.asarray(np.where(z < 0.0, -0.5 * np.square(u / s) + log_scaled_cdf(z), whole))


class SquaredProbit(Loss):
    """Squared error on labels -1 / +1, and P(+1) = Phi((m + b) / sqrt(tau^2 + s)) for new ones.

    f is learned as if y = f + e, e ~ N(0, noise); then a sigmoid Phi(a f + c), tau = 1/a, b = c/a,
    stands between f and the label. Its average for f ~ N(m, s) is GPML (6.42). s is the variance v
    of f plus the noise, as in GPML, whose (5.12) is about the noisy y; with ``latent`` v alone.

    Reference: GPML section 6.5.1.

    Parameters
    ----------
    noise : float, default=0.1; positive variance of the labels about f while learning.
    tau : float or array (m,), default=0.1; positive width of the sigmoid, in units of f.
    offset : float or array (m,), default=0.0; b, minus the f at which both labels are as likely.
    latent : bool, default=False; leave the noise out of the prediction.

    Examples
    --------
    >>> SquaredProbit(noise=1.0, tau=1.0).predict(1.0, 2.0).round(6)
    np.float64(0.691462)
    """

    response: ClassVar[str] = "binary"
    domains: ClassVar[Domains] = {"noise": POSITIVE, "tau": POSITIVE, "offset": REAL}
    words: ClassVar[Words] = {
        "noise": "noise variance of one observation",
        "tau": "steepness of the step from one label to the other",
        "offset": "where the step lies",
    }

    def __init__(
        self,
        noise: float = 0.1,
        tau: float | Array = 0.1,
        offset: float | Array = 0.0,
        latent: bool = False,
    ) -> None:
        self.noise, self.tau, self.offset = noise, tau, offset
        if not isinstance(latent, (bool, np.bool_)):
            raise ValueError(f"SquaredProbit needs latent to be True or False, not {latent!r}")
        self.latent = latent
        check_positive("SquaredProbit", noise=noise)
        positive = np.all(np.asarray(tau) > 0.0) and np.all(np.isfinite(tau))
        if not (positive and np.all(np.isfinite(offset))):
            raise ValueError("SquaredProbit needs a positive tau and a finite offset")

    def value(self, y: Array, f: Array) -> Array:
        return Gaussian(self.noise).value(y, f)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        return Gaussian(self.noise).derivatives(y, f)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        return Gaussian(self.noise).tilted(y, m, v)

    def quadratic(self, y: Array) -> tuple[Array, Array]:
        return Gaussian(self.noise).quadratic(y)

    def quadratic_pullback(self, y: Array, dW: Array) -> dict[str, float | Array]:
        return Gaussian(self.noise).quadratic_pullback(y, dW)

    def score(self, m: Array, v: Array) -> Array:
        """Return r with P(+1) = Phi(r) for f ~ N(m, v); r > 0 where +1 is the likelier label."""
        return self.score_of_sum(m, v if self.latent else v + self.noise)

    def score_of_sum(self, m: Array, s: Array) -> Array:
        """Return (m + b) / sqrt(tau^2 + s), GPML (6.42) for f ~ N(m, s)."""
        return np.asarray((m + self.offset) / np.sqrt(np.square(self.tau) + s))

    def predict(self, m: Array, v: Array) -> Array:
        return np.asarray(special.ndtr(self.score(m, v)))

    def log_probability(self, share: Array, m: Array, s: Array) -> tuple[Array, ...]:
        """Return share log P(+1) + (1 - share) log P(-1) for f ~ N(m, s), share in [0, 1].

        Then its derivatives in m, s, log tau and b: GPML (6.43), (6.44) in tau and b.
        """
        D = np.square(self.tau) + s
        r = self.score_of_sum(m, s)
        value = share * special.log_ndtr(r) + (1.0 - share) * special.log_ndtr(-r)
        rho = share * mills(r)[0] - (1.0 - share) * mills(-r)[0]  # d value / d r
        dm = rho / np.sqrt(D)
        ds = -0.5 * rho * r / D
        return value, dm, ds, 2.0 * np.square(self.tau) * ds, dm
