"""Noise with outliers: logistic noise and Huber's loss limit their pull, Student's t lets go."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.losses.base import check_positive
from mercer.losses.numbers.quadrature import step
from mercer.losses.numbers.special import exp, negative_entropy, ramp_excess, square_excess
from mercer.losses.real.base import LocationLoss

HEAVY = (0.5, 1.5, 5.0, 14.0, 36.0, 1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5)


class Huber(LocationLoss):
    """Gaussian in the middle, exponential tails.

    With r = y - f, g = log Z + r^2 / (2 noise) for |r| <= delta, (delta |r| - delta^2 / 2) / noise
    beyond; Z = sqrt(2 pi noise) (2 Phi(delta/sd) - 1) + 2 noise/delta exp(-delta^2/(2 noise)).
    Reference: Huber (1964).

    Parameters
    ----------
    noise : float, default=1.0; positive variance of the Gaussian part, in squared units of y.
    delta : float, default=1.345; positive residual at which the tails begin, in the units of y.

    Examples
    --------
    >>> float(Huber(noise=1.0, delta=1.5).derivatives(0.0, 4.0)[0])
    1.5
    """

    domains: ClassVar[Domains] = {"noise": POSITIVE, "delta": POSITIVE}
    units: ClassVar[dict[str, float]] = {"noise": 2.0, "delta": 1.0}
    words: ClassVar[Words] = {
        "noise": "noise variance of one observation",
        "delta": "distance beyond which a residual counts by its size, not its square",
    }

    def __init__(self, noise: float = 1.0, delta: float = 1.345) -> None:
        check_positive("Huber", noise=noise, delta=delta)
        self.noise, self.delta = noise, delta

    def _masses(self) -> tuple[float, float]:
        """The integral of exp(-g + log Z) over the middle, and over one tail."""
        sd, d = np.sqrt(self.noise), self.delta
        middle = np.sqrt(2.0 * np.pi * self.noise) * special.erf(d / (sd * np.sqrt(2.0)))
        return float(middle), float(self.noise / d * exp(-0.5 * np.square(d / sd)))

    def _log_normaliser(self) -> float:
        middle, tail = self._masses()
        return float(np.log(middle + 2.0 * tail))

    def value(self, y: Array, f: Array) -> Array:
        a = np.abs(np.asarray(y - f))
        near = np.minimum(a, self.delta)
        return np.asarray(near * (a - 0.5 * near) / self.noise + self._log_normaliser())

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return the clipped residual, 1/noise inside the kinks (0 on and outside them), and 0."""
        r = np.asarray(f - y)
        inside = np.abs(r) < self.delta
        return np.clip(r, -self.delta, self.delta) / self.noise, inside / self.noise, 0.0 * r

    def kinks(self, y: Array) -> Array:
        return np.array([np.reshape(y, -1) - self.delta, np.reshape(y, -1) + self.delta])

    def width(self, y: Array) -> float:
        return float(max(np.sqrt(self.noise), min(self.noise / self.delta, 1e3)))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        a, v = np.broadcast_arrays(np.asarray(m - y), v)
        s, d = np.sqrt(v), self.delta
        low, high = (a + d) / s, (a - d) / s
        steps = 0.5 * (low > 0.0) - 0.5 * (high > 0.0)
        bends = steps + square_excess(low) - square_excess(high)
        mean = self.value(a, np.zeros_like(a)) + v / self.noise * bends
        dm = (np.clip(a, -d, d) + s * (ramp_excess(low) - ramp_excess(high))) / self.noise
        dv = 0.5 * (special.ndtr(low) - special.ndtr(high)) / self.noise
        return mean, dm, dv

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        y, m, v = np.broadcast_arrays(y, m, v)
        up, down = step(y - self.delta, m, v), step(y + self.delta, m, v)
        return (up[0] - down[0]) / self.noise, (up[1] - down[1]) / self.noise

    def conjugate(self, y: Array, u: Array) -> Array:
        best = u * y + 0.5 * self.noise * np.square(u) - self._log_normaliser()
        return np.asarray(np.where(np.abs(u) > self.delta / self.noise, np.inf, best))

    def noise_moments(self) -> tuple[float, float]:
        middle, tail = self._masses()
        b, d = self.noise / self.delta, self.delta  # the tails are exponential with mean b
        edge = float(exp(-0.5 * np.square(d) / self.noise))
        second = self.noise * (middle - 2.0 * d * edge)
        second += 2.0 * tail * (d**2 + 2.0 * d * b + 2.0 * b**2)
        return 0.0, second / (middle + 2.0 * tail)

    def noise_cdf(self, r: Array) -> Array:
        middle, tail = self._masses()
        total, sd, d = middle + 2.0 * tail, np.sqrt(self.noise), self.delta
        outer = tail / total * exp(-np.maximum(np.abs(r) - d, 0.0) * d / self.noise)
        z = np.clip(r, -d, d) / sd
        inner = 0.5 + (special.ndtr(z) - 0.5) * np.sqrt(2.0 * np.pi * self.noise) / total
        return np.asarray(np.where(np.abs(r) < d, inner, np.where(r < 0.0, outer, 1.0 - outer)))

    def noise_quantile(self, p: Array) -> Array:
        middle, tail = self._masses()
        total, sd = middle + 2.0 * tail, np.sqrt(self.noise)
        share = tail / total
        small = np.maximum(np.minimum(p, 1.0 - p), 0.5**60)
        beyond = -np.log(np.minimum(small / max(share, 1e-300), 1.0)) * self.noise / self.delta
        level = 0.5 + (p - 0.5) * total / np.sqrt(2.0 * np.pi * self.noise)
        inner = sd * special.ndtri(np.clip(level, 0.0, 1.0))
        outer = np.sign(p - 0.5) * (self.delta + beyond)
        return np.asarray(np.where(small < share, outer, inner))


class LogisticNoise(LocationLoss):
    """Logistic noise: g = log s + |r| + 2 log(1 + e^-|r|), r = (y - f) / s.

    Nearly Gaussian in the middle, with exponential tails, and smooth: convex, so that Laplace's
    approximation and the dual serve. Reference: Jaakkola & Haussler (1999), Theorem 1.

    Parameters
    ----------
    scale : float, default=1.0; s, positive, in the units of y; the deviation is pi s / sqrt(3).

    Examples
    --------
    >>> LogisticNoise(scale=0.5).noise_moments()[1].round(6)
    np.float64(0.822467)
    """

    domains: ClassVar[Domains] = {"scale": POSITIVE}
    units: ClassVar[dict[str, float]] = {"scale": 1.0}
    words: ClassVar[Words] = {"scale": "scale of the noise"}

    def __init__(self, scale: float = 1.0) -> None:
        check_positive("LogisticNoise", scale=scale)
        self.scale = scale

    def value(self, y: Array, f: Array) -> Array:
        r = np.abs(np.asarray(y - f)) / self.scale
        return np.asarray(r + 2.0 * np.log1p(exp(-r)) + np.log(self.scale))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        t = np.tanh(0.5 * np.asarray(f - y) / self.scale)
        e = exp(-np.abs(np.asarray(f - y)) / self.scale)
        bend = 2.0 * e / np.square(1.0 + e)  # (1 - t^2) / 2, without a difference
        return t / self.scale, bend / self.scale**2, -t * bend / self.scale**3

    def width(self, y: Array) -> float:
        return 2.0 * self.scale

    def conjugate(self, y: Array, u: Array) -> Array:
        p = 0.5 * (1.0 - self.scale * np.asarray(u, dtype=np.float64))
        best = u * y + 2.0 * negative_entropy(np.clip(p, 0.0, 1.0)) - np.log(self.scale)
        return np.asarray(np.where((p < 0.0) | (p > 1.0), np.inf, best))

    def noise_moments(self) -> tuple[float, float]:
        return 0.0, np.square(np.pi * self.scale) / 3.0

    def noise_cdf(self, r: Array) -> Array:
        return np.asarray(special.expit(r / self.scale))

    def noise_quantile(self, p: Array) -> Array:
        return np.asarray(self.scale * special.logit(p))


class StudentT(LocationLoss):
    """Student's t noise: g = (df + 1)/2 log(1 + (y - f)^2 / (df s^2)) + constant.

    Not convex: posteriors may have several modes, and there is no dual.
    Reference: GPML section 9.3; Vanhatalo, Jylanki & Vehtari (2009).

    Parameters
    ----------
    scale : float, default=1.0; s, positive, in the units of y; not the standard deviation.
    df : float, default=4.0; positive degrees of freedom; the noise tends to N(0, s^2) as they grow.

    Examples
    --------
    >>> StudentT(scale=0.5, df=4.0).predict(1.0, 0.2)[1].round(6)
    np.float64(0.7)
    """

    convex: ClassVar[bool] = False
    reach: ClassVar[tuple[float, ...]] = HEAVY
    domains: ClassVar[Domains] = {"scale": POSITIVE, "df": POSITIVE}
    units: ClassVar[dict[str, float]] = {"scale": 1.0}
    words: ClassVar[Words] = {
        "scale": "scale of the noise",
        "df": "degrees of freedom: the fewer, the heavier the tails",
    }

    def __init__(self, scale: float = 1.0, df: float = 4.0) -> None:
        check_positive("StudentT", scale=scale, df=df)
        self.scale, self.df = scale, df

    def value(self, y: Array, f: Array) -> Array:
        z2 = np.square((y - f) / self.scale)
        # B(df/2, 1/2) = Gamma(df/2) Gamma(1/2) / Gamma((df+1)/2), accurate for large df
        constant = special.betaln(0.5 * self.df, 0.5) + 0.5 * np.log(self.df) + np.log(self.scale)
        return np.asarray(0.5 * (self.df + 1.0) * np.log1p(z2 / self.df) + constant)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        r, a, q = np.asarray(f - y), self.df + 1.0, self.df * self.scale**2
        below = q + np.square(r)
        d3 = 2.0 * a * r * (np.square(r) - 3.0 * q) / below**3
        return a * r / below, a * (q - np.square(r)) / below**2, d3

    def expected_curvature(self) -> float:
        """Return the mean of d2g/df2 over y, the Fisher information (df + 1) / ((df + 3) s^2)."""
        return float((self.df + 1.0) / ((self.df + 3.0) * self.scale**2))

    def width(self, y: Array) -> float:
        """Return the distance to the complex singularity, s sqrt(df), at most s."""
        return float(self.scale * np.sqrt(self.df / (1.0 + self.df)))

    def noise_moments(self) -> tuple[float, float]:
        """Return 0 (the centre, if df <= 1) and s^2 df / (df - 2), inf if df <= 2."""
        heavy = self.df <= 2.0
        return 0.0, np.inf if heavy else self.scale**2 * self.df / (self.df - 2.0)

    def noise_cdf(self, r: Array) -> Array:
        return np.asarray(special.stdtr(self.df, r / self.scale))

    def noise_quantile(self, p: Array) -> Array:
        return np.asarray(self.scale * special.stdtrit(self.df, p))
