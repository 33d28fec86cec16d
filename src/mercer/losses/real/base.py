"""Base classes of losses of real targets: y = f + noise, and losses made of straight lines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.base import Loss, check_levels
from mercer.losses.numbers.quadrature import check_variance, delta
from mercer.losses.numbers.quantiles import offsets
from mercer.losses.numbers.special import (
    LOG_2PI,
    exp,
    log_cdf_difference,
    log_scaled_cdf,
    normal_pdf,
    ramp_excess,
)

FEW = 4  # rows that need no table; so stored answers of old model files hold to the last bit


class LocationLoss(Loss):
    """-log p(y - f): a subclass implements ``value`` and the distribution of the noise.

    It states in ``units`` which of its parameters have the unit of y: then a fit may standardise
    the target. Without a word only the centre of the targets is taken away.
    """

    abstract: ClassVar[bool] = True
    normalised: ClassVar[bool] = True

    def noise_moments(self) -> tuple[float, float]:
        """Return mean and variance of y - f."""
        raise NotImplementedError

    def noise_cdf(self, r: Array) -> Array:
        """Return P(y - f <= r)."""
        raise NotImplementedError

    def noise_quantile(self, p: Array) -> Array:
        """Return r with P(y - f <= r) = p, 0 < p < 1."""
        raise NotImplementedError

    def moments(self, f: Array) -> tuple[Array, Array]:
        mean, variance = self.noise_moments()
        return f + mean, np.full(np.shape(f), variance)

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        return self.noise_cdf(np.asarray(y - f))

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        mean, variance = self.noise_moments()
        m, v = np.broadcast_arrays(m, v)
        return m + mean, v + variance

    def quantile(self, q: Array, m: Array, v: Array) -> Array:
        """Return the q-quantile of a new y, m + r(v); r by :func:`offsets`."""
        q, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (q, m, v)))
        check_levels(q)
        check_variance(v)
        if v.size <= FEW:
            return super().quantile(q, m, v)
        levels, r = q.ravel(), np.empty(v.size)
        for level in np.unique(levels).tolist():
            r[levels == level] = offsets(self, level, v.ravel()[levels == level])
        return np.asarray(m + r.reshape(m.shape))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        p = rng.random(np.shape(f))
        return np.asarray(f + self.noise_quantile(np.maximum(p, 2.0**-54)))


class PiecewiseLinear(Loss):
    """A convex loss made of straight lines; a subclass implements ``value`` and ``pieces``."""

    abstract: ClassVar[bool] = True

    def pieces(self, y: Array) -> tuple[Array, Array]:
        """Return the knots (k, n), increasing along k, and the slopes of the k + 1 lines."""
        raise NotImplementedError

    def kinks(self, y: Array) -> Array:
        return self.pieces(np.reshape(y, -1))[0]

    def centers(self, y: Array) -> Array:
        return self.kinks(y)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return the slope, 0 and 0; at a knot the mean of the two slopes."""
        y, f = np.broadcast_arrays(y, f)
        knots, slopes = self.pieces(y)
        d1 = slopes[0]
        for knot, left, right in zip(knots, slopes, slopes[1:], strict=False):
            d1 = np.where(f > knot, right, np.where(f == knot, 0.5 * (left + right), d1))
        return d1, np.zeros_like(f), np.zeros_like(f)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.tilted`; closed: one Gaussian integral for every line.

        With weights p_j of the lines, L' = -sum p_j b_j and L'' = Var_p[b] - sum_k J_k q(kappa_k)
        for slopes b_j, jumps J_k and the tilted density q; it loses log10(b^2 v) digits of L''.
        """
        y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (y, m, v)))
        knots, slopes = self.pieces(y)
        s = np.sqrt(v)
        at_knot = [-self.value(y, k) - np.square(k - m) / (2.0 * v) for k in knots]
        logs = []
        for j, b in enumerate(slopes):
            # exp(-g) N(f | m, v) is, on line j, a multiple of N(f | m - b v, v)
            anchor = knots[min(j, len(knots) - 1)]
            whole = -self.value(y, anchor) + b * (anchor - m) + 0.5 * b**2 * v
            ends = [(knot - m + b * v) / s for knot in knots[max(j - 1, 0) : j + 1]]
            if j == 0:
                logs.append(_half_line(whole, ends[0], at_knot[0]))
            elif j == len(knots):
                logs.append(_half_line(whole, -ends[0], at_knot[-1]))
            else:
                logs.append(_segment(whole, *ends, *at_knot[j - 1 : j + 1]))
        log_z = np.logaddexp.reduce(logs, axis=0)
        p = exp(np.array(logs) - log_z)
        first = -np.sum(p * slopes, axis=0)
        second = np.sum(p * np.square(slopes + first), axis=0)
        for k, height in enumerate(at_knot):
            density = exp(height - 0.5 * (LOG_2PI + np.log(v)) - log_z)
            second = second - (slopes[k + 1] - slopes[k]) * density
        return log_z, first, second

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.expected`; closed, (C.15)-(C.18) for each knot with slope jump J.

        E = g(m) + sum J s (N(z) - |z| Phi(-|z|)), dE/dv = sum J N(z)/(2 s), z = (m - kappa)/s.
        """
        y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (y, m, v)))
        knots, slopes = self.pieces(y)
        s = np.sqrt(v)
        mean, dm, dv = self.value(y, m), self.derivatives(y, m)[0], np.zeros(m.shape)
        for k, knot in enumerate(knots):
            jump, z = slopes[k + 1] - slopes[k], (m - knot) / s
            mean = mean + jump * s * ramp_excess(z)
            dm = dm - jump * np.sign(z) * special.ndtr(-np.abs(z))
            dv = dv + jump * normal_pdf(z) / (2.0 * s)
        return mean, dm, dv

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (y, m, v)))
        knots, slopes = self.pieces(y)
        total = np.zeros((2, *m.shape))
        for k, knot in enumerate(knots):
            total += (slopes[k + 1] - slopes[k]) * np.array(delta(knot, m, v))
        return total[0], total[1]

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(u, dtype=np.float64))
        knots, slopes = self.pieces(y)
        best = np.max([u * k - self.value(y, k) for k in knots], axis=0)
        return np.asarray(np.where((u < slopes[0]) | (u > slopes[-1]), np.inf, best))


def _half_line(whole: Array, z: Array, edge: Array) -> Array:
    """Return log of e^whole Phi(z); for z < 0 from ``edge`` = whole - z^2/2, the knot's height."""
    near = whole + special.log_ndtr(np.maximum(z, 0.0))
    return np.asarray(np.where(z < 0.0, edge + log_scaled_cdf(z), near))


def _segment(whole: Array, low: Array, high: Array, at_low: Array, at_high: Array) -> Array:
    """Return log of e^whole (Phi(high) - Phi(low)), stable where both ends are far."""
    flip = low > 0.0
    near = np.where(flip, -low, high)  # the end nearer to the centre, if both lie on one side
    far = np.where(flip, -high, low)
    # log Phi(far) - log Phi(near), with the squares combined before they are large
    ratio = log_scaled_cdf(far) - log_scaled_cdf(near) + 0.5 * (near - far) * (near + far)
    one_side = np.where(flip, at_low, at_high) + log_scaled_cdf(near)
    with np.errstate(divide="ignore"):
        one_side = one_side + np.log(-np.expm1(np.minimum(ratio, 0.0)))
    return np.asarray(np.where(near < 0.0, one_side, whole + log_cdf_difference(low, high)))
