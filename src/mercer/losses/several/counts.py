"""Counts with more zeros than their rate explains: the share of these is a second function."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.numbers.special import exp
from mercer.losses.several.base import SeveralLatents, two_by_two


class ZeroInflatedPoisson(SeveralLatents):
    """A count is zero with probability pi, else Poisson of mean e^f; pi = 1/(1 + e^-h).

    P(0) = pi + (1 - pi) e^-lambda, P(y) = (1 - pi) e^-lambda lambda^y / y!, lambda = e^f.
    Reference: Lambert (1992), Zero-inflated Poisson regression.

    Examples
    --------
    >>> loss = ZeroInflatedPoisson()
    >>> np.exp(-loss.value(np.array([0.0]), np.array([[0.0, 0.0]]))).round(6)
    array([0.68394])
    """

    response: ClassVar[str] = "count"
    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    latents: ClassVar[tuple[str, ...]] = ("log_rate", "logit_zero")
    powers: ClassVar[tuple[float, ...]] = (0.0, 0.0)

    def value(self, y: Array, f: Array) -> Array:
        y, rate, h = np.asarray(y, dtype=np.float64), exp(f[..., 0]), f[..., 1]
        zero = np.logaddexp(0.0, h) - np.logaddexp(h, -rate)
        with np.errstate(invalid="ignore"):
            more = np.logaddexp(0.0, h) + rate - y * f[..., 0] + special.gammaln(y + 1.0)
        return np.asarray(np.where(y == 0.0, zero, more))

    @staticmethod
    def _parts(f: Array) -> tuple[Array, Array, Array, Array]:
        """Return lambda, pi, 1 - pi and q, the probability that a zero is an excess one."""
        rate, h = exp(f[..., 0]), f[..., 1]
        return rate, special.expit(h), special.expit(-h), special.expit(h + rate)

    def gradient(self, y: Array, f: Array) -> Array:
        rate, pi, _, q = self._parts(f)
        zero = np.asarray(y) == 0.0
        found = np.empty((*rate.shape, 2))
        found[..., 0] = np.where(zero, (1.0 - q) * rate, rate - y)
        found[..., 1] = pi - np.where(zero, q, 0.0)
        return found

    def hessian(self, y: Array, f: Array) -> Array:
        """With q = 1/(1 + e^-(h + lambda)) a zero has the gradient ((1 - q) lambda, pi - q)."""
        rate, pi, left, q = self._parts(f)
        zero, bend = np.asarray(y) == 0.0, q * special.expit(-f[..., 1] - rate)
        with np.errstate(invalid="ignore"):
            slope = np.where(bend > 0.0, bend * rate, 0.0)
            own = np.where(zero, (1.0 - q) * rate - np.where(bend > 0.0, slope * rate, 0.0), rate)
        mixed = np.where(zero, -slope, 0.0)
        other = pi * left - np.where(zero, bend, 0.0)
        return two_by_two(own, mixed, other)

    def information(self, f: Array) -> Array:
        """The mean of the Hessian: zeros have the share p0 = pi + (1 - pi) e^-lambda.

        p0 q = pi and p0 (1 - q) = (1 - pi) e^-lambda, so that with t = lambda e^-lambda the entries
        are (1 - pi)(lambda - q lambda t), -(1 - pi) q t and pi (q - pi).
        """
        rate, pi, left, q = self._parts(f)
        none = exp(-rate)
        t = np.where(none > 0.0, rate * none, 0.0)
        own = left * (rate - q * rate * t)
        mixed = -left * q * t
        other = pi * (left - special.expit(-f[..., 1] - rate))
        return two_by_two(own, mixed, other)

    def curvature_slope(self, y: Array, f: Array) -> Array:
        """With dlambda = lambda df, dpi = pi (1 - pi) dh, dq = q (1 - q)(lambda df + dh)."""
        rate, pi, left, q = self._parts(f)
        none, bend = exp(-rate), q * special.expit(-f[..., 1] - rate)
        with np.errstate(invalid="ignore"):
            t = np.where(none > 0.0, rate * none, 0.0)
            turn = np.where(bend > 0.0, bend * rate, 0.0)
            more = np.where(t > 0.0, t * (turn + q * (2.0 - rate)), 0.0)
            less = np.where(t > 0.0, turn + q * (1.0 - rate), 0.0)
        own = left * rate * (1.0 - more), -left * (pi * rate * (1.0 - q * t) + turn * t)
        mixed = -left * t * less, -left * t * (bend - pi * q)
        gap = left - special.expit(-f[..., 1] - rate)
        other = pi * turn, pi * (left * (gap - pi) + bend)
        each = [two_by_two(*by) for by in zip(own, mixed, other, strict=True)]
        return np.stack(each, axis=-1)

    def centers(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=np.float64) + 0.5)[None]

    def width(self, y: Array) -> Array:
        return np.asarray(1.0 / np.sqrt(np.asarray(y) + 1.0))

    def moments(self, f: Array) -> tuple[Array, Array]:
        rate, pi, left, _ = self._parts(f)
        return left * rate, left * rate * (1.0 + pi * rate)

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        rate, pi, left, _ = self._parts(f)
        y = np.floor(np.asarray(y, dtype=np.float64))
        below = np.where(y < 0.0, 0.0, special.gammaincc(np.maximum(y, 0.0) + 1.0, rate))
        return np.asarray(np.where(y < 0.0, 0.0, pi) + left * below)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        rate, pi, _, _ = self._parts(f)
        counts = rng.poisson(rate).astype(np.float64)
        return np.asarray(np.where(rng.random(counts.shape) < pi, 0.0, counts))
