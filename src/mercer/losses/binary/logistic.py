"""Binary losses: functions phi of the margin u = y f, y = -1 or +1."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.base import Loss, needs
from mercer.losses.numbers.averages import log_averaged
from mercer.losses.numbers.special import exp, negative_entropy


class BinaryLoss(Loss):
    """g(y, f) = phi(y f): a subclass implements ``phi``, ``slopes`` and where phi has kinks."""

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
        y = np.reshape(y, -1)
        return np.sort(np.reshape([y * c for c in self.corners()], (-1, len(y))), axis=0)

    @needs("normalised")
    def predict(self, m: Array, v: Array) -> Array:
        """Return P(y = +1) for f ~ N(m, v); equal to exp(log Z) of :meth:`tilted`."""
        return exp(self.log_predictive(np.asarray(1.0), m, v))

    @needs("normalised")
    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        p = exp(-self.value(np.asarray(1.0), f))
        return np.where(rng.random(np.shape(f)) < p, 1.0, -1.0)


# deviations of f up to which a step of the trapezoidal rule, in deviations, has an error below
# 1e-14: the Gaussian costs exp(-2 pi^2 / step^2), poles of the logistic function at +-i pi cost
# exp(-2 pi^2 / (s step) + (pi / s)^2 / 2)
WIDEST, STEPS = (0.5, 1.0, 2.0, 4.0), (0.6, 0.5, 0.25, 0.125)
ROWS = 256  # that are averaged at a time, in the cache


def softplus_averaged(u: Array, s: Array, widest: float, step: float) -> Array:
    """E[log(1 + e^-f)], dE/du and dE/dv (3, n) for f ~ N(u, s^2), s <= widest, all (n,).

    All terms have one sign; nodes reach to where the tail e^-f shifts the weight, s deviations.
    """
    count = int(np.ceil((8.6 + widest) / step))
    t = step * np.arange(-count, count + 1.0)
    w = step * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi)
    found = np.empty((3, len(u)))
    for i in range(0, len(u), ROWS):
        rows = slice(i, i + ROWS)
        f = u[rows, None] + s[rows, None] * t
        e = np.exp(-np.abs(f))
        p = 1.0 / (1.0 + e)  # of the larger of the two classes
        found[0, rows] = (np.log1p(e) + np.maximum(-f, 0.0)) @ w
        found[1, rows] = -(np.where(f > 0.0, e, 1.0) * p) @ w
        found[2, rows] = 0.5 * ((e * p * p) @ w)
    return found


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
        return -special.log_expit(u)

    def slopes(self, u: Array) -> tuple[Array, Array, Array]:
        up, down = special.expit(u), special.expit(-u)
        return -down, up * down, up * down * (down - up)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, u, v = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(y, y * m, v))
        found, s = np.empty((3, u.size)), np.sqrt(v).ravel()
        where = np.searchsorted(WIDEST, s)  # NaN is among the widest
        for i in np.unique(where):
            at = where == i
            if i == len(WIDEST):
                rest = super().expected(np.ones(int(at.sum())), u.ravel()[at], v.ravel()[at])
                found[:, at] = np.array(rest)
            else:
                found[:, at] = softplus_averaged(u.ravel()[at], s[at], WIDEST[i], STEPS[i])
        mean, dm, dv = found.reshape(3, *u.shape)
        return mean, y * dm, dv

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        return log_averaged(np.asarray(y * m, dtype=np.float64), v)

    def conjugate(self, y: Array, u: Array) -> Array:
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
