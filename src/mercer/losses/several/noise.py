"""Noise that changes from place to place: y = f(x) + s(x) e, the logarithm of s a second function.

With z = (y - f)/s, s^2 = level e^h and rho = -log density of e (Goldberg, Williams & Bishop 1998):

    g = rho(z) + log s,    dg/df = -rho'/s,    dg/dh = (1 - z rho')/2

The loss is not convex in (f, h) together; its information is diagonal, as the noise is symmetric:
theory (A24).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.losses.base import check_positive
from mercer.losses.numbers.special import exp
from mercer.losses.real.base import LocationLoss
from mercer.losses.real.gaussian import Gaussian
from mercer.losses.real.robust import StudentT
from mercer.losses.several.base import SeveralLatents, product_rule, two_by_two

CLOSE = 4.0  # variance of f in units of the noise, up to which a rule of few points averages


class VaryingNoise(SeveralLatents):
    """y = f + s e with log s^2 = log level + h; a child states level, noise and information."""

    abstract: ClassVar[bool] = True
    normalised: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    latent_is_mean: ClassVar[bool] = True
    latents: ClassVar[tuple[str, ...]] = ("mean", "log_noise")
    powers: ClassVar[tuple[float, ...]] = (1.0, 0.0)

    def level(self) -> float:
        """Return s^2 where h is zero."""
        raise NotImplementedError

    def unit(self) -> LocationLoss:
        """Return the loss of noise e of unit scale."""
        raise NotImplementedError

    def shares(self) -> tuple[float, float]:
        """Return s^2 times the information about f, and the information about h."""
        raise NotImplementedError

    def _scale(self, f: Array) -> Array:
        return np.asarray(np.sqrt(self.level()) * exp(0.5 * np.asarray(f)[..., 1]))

    def _parts(self, y: Array, f: Array) -> tuple[Array, Array, Array, Array]:
        """Return s, z, rho'(z) and rho''(z)."""
        s = self._scale(f)
        z = np.asarray((y - f[..., 0]) / s)
        d1, d2, _ = self.unit().derivatives(z, np.zeros_like(z))
        return s, z, -d1, d2

    def value(self, y: Array, f: Array) -> Array:
        s = self._scale(f)
        z = np.asarray((y - f[..., 0]) / s)
        return np.asarray(self.unit().value(z, np.zeros_like(z)) + np.log(s))

    def gradient(self, y: Array, f: Array) -> Array:
        s, z, first, _ = self._parts(y, f)
        return np.stack([-first / s, 0.5 * (1.0 - z * first)], axis=-1)

    def hessian(self, y: Array, f: Array) -> Array:
        s, z, first, second = self._parts(y, f)
        mixed = 0.5 * (first + z * second) / s
        own = 0.25 * z * (first + z * second)
        return two_by_two(second / s**2, mixed, own)

    def information(self, f: Array) -> Array:
        about_f, about_h = self.shares()
        found = np.zeros((*f.shape, 2))
        found[..., 0, 0], found[..., 1, 1] = about_f / self._scale(f) ** 2, about_h
        return found

    def curvature_slope(self, y: Array, f: Array) -> Array:
        found = np.zeros((*f.shape, 2, 2))
        found[..., 0, 0, 1] = -self.shares()[0] / self._scale(f) ** 2
        return found

    # ------------------------------------------------------------------ what y will be
    def moments(self, f: Array) -> tuple[Array, Array]:
        mean, variance = self.unit().noise_moments()
        s = self._scale(f)
        return f[..., 0] + s * mean, s**2 * variance

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        z = np.asarray((y - f[..., 0]) / self._scale(f))
        return self.unit().conditional_cdf(z, np.zeros_like(z))

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean f, and variance v_f + E[s^2] var(e), E[s^2] = level e^{m_h + v_h / 2}."""
        noise = self.level() * exp(m[..., 1] + 0.5 * v[..., 1, 1])
        return m[..., 0] + 0.0, v[..., 0, 0] + noise * self.unit().noise_moments()[1]

    def _given_noise(self, m: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """Return s, mean and variance of f given h, at k points of h (..., k), and weights (k,)."""
        h, weights = product_rule(m[..., 1:], v[..., 1:, 1:])
        own = v[..., 1, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            tie = np.where(own > 0.0, v[..., 0, 1] / own, 0.0)
        rest = np.maximum(v[..., 0, 0] - tie * v[..., 0, 1], 0.0)
        center = m[..., :1] + tie[..., None] * (h[..., 0] - m[..., 1:])
        s = np.sqrt(self.level()) * exp(0.5 * h[..., 0])
        return s, center, np.broadcast_to(rest[..., None], s.shape), weights

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        """Return log p(y): f integrated as for noise of one level, then a rule over h."""
        s, center, rest, weights = self._given_noise(m, v)
        z, room = (np.asarray(y)[..., None] - center) / s, np.maximum(rest / s**2, 1e-300)
        each = self.unit().log_predictive(z, np.zeros_like(z), room) - np.log(s)
        return np.asarray(np.logaddexp.reduce(each + np.log(weights), axis=-1))

    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        s, center, rest, weights = self._given_noise(m, v)
        z, room = (np.asarray(y)[..., None] - center) / s, np.maximum(rest / s**2, 1e-300)
        return np.asarray(self.unit().cdf(z, np.zeros_like(z), room) @ weights)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`SeveralLatents.expected`: over f as for noise of one level, then over h.

        With G(h) = E[g given h], dE/dm_h = E[G'] and dE/dv_h = E[G' (h - m_h)] / (2 v_h).
        """
        h, weights = product_rule(m[..., 1:], v[..., 1:, None])
        h, away = h[..., 0], h[..., 0] - m[..., 1:]
        s = np.sqrt(self.level()) * exp(0.5 * h)
        center, room = (m[..., :1] - np.asarray(y)[..., None]) / s, v[..., :1] / s**2
        each, dm, dv = self.unit().expected(np.zeros_like(center), center, room)
        slope = 0.5 - 0.5 * center * dm - room * dv
        by_h = np.stack([slope @ weights, (slope * away) @ weights / (2.0 * v[..., 1])], axis=-1)
        by_f = np.stack([(dm / s) @ weights, (dv / s**2) @ weights], axis=-1)
        both = np.stack([by_f, by_h], axis=-1)
        return (each + np.log(s)) @ weights, both[..., 0, :], both[..., 1, :]

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        s = self._scale(f)
        return np.asarray(f[..., 0] + s * self.unit().sample(np.zeros_like(s), rng))


class Heteroscedastic(VaryingNoise):
    """Gaussian noise whose variance is a function of x: y ~ N(f, noise e^h), f and h two functions.

    Reference: Goldberg, Williams & Bishop (1998); Hartmann & Vanhatalo (2019) for the information.

    Parameters
    ----------
    noise : float, default=1.0; the variance where the second function is zero, its median.

    Examples
    --------
    >>> loss = Heteroscedastic(noise=0.5)
    >>> loss.value(1.0, np.array([1.0, np.log(2.0)])).round(6)
    np.float64(0.918939)
    """

    domains: ClassVar[Domains] = {"noise": POSITIVE}
    units: ClassVar[dict[str, float]] = {"noise": 2.0}
    words: ClassVar[Words] = {"noise": "median noise variance of one observation"}

    def __init__(self, noise: float = 1.0) -> None:
        check_positive("Heteroscedastic", noise=noise)
        self.noise = noise

    def level(self) -> float:
        return self.noise

    def unit(self) -> Gaussian:
        return Gaussian(1.0)

    def shares(self) -> tuple[float, float]:
        return 1.0, 0.5

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`SeveralLatents.expected`; closed: E[e^-h] = e^{-m_h + v_h / 2}."""
        inverse = exp(0.5 * v[..., 1] - m[..., 1]) / self.noise
        r = m[..., 0] - y
        square = 0.5 * inverse * (np.square(r) + v[..., 0])
        mean = square + 0.5 * (np.log(2.0 * np.pi * self.noise) + m[..., 1])
        dm = np.stack([inverse * r, 0.5 - square], axis=-1)
        return mean, dm, np.stack([0.5 * inverse, 0.5 * square], axis=-1)


class HeteroscedasticT(VaryingNoise):
    """Student's t noise whose scale is a function of x: y = f + s t_df, s^2 = scale^2 e^h.

    Outliers, and noise that changes from place to place.
    Reference: Hartmann & Vanhatalo (2019), Laplace approximation and natural gradient for Gaussian
    process regression with heteroscedastic Student-t model.

    Parameters
    ----------
    scale : float, default=1.0; s where the second function is zero, in the units of y.
    df : float, default=4.0; degrees of freedom: the fewer, the heavier the tails.

    Examples
    --------
    >>> HeteroscedasticT(df=4.0).information(np.zeros((1, 2)))[0].round(4)
    array([[0.7143, 0.    ],
           [0.    , 0.2857]])
    """

    domains: ClassVar[Domains] = {"scale": POSITIVE, "df": POSITIVE}
    units: ClassVar[dict[str, float]] = {"scale": 1.0}
    words: ClassVar[Words] = {
        "scale": "median scale of the noise",
        "df": "degrees of freedom: the fewer, the heavier the tails",
    }

    def __init__(self, scale: float = 1.0, df: float = 4.0) -> None:
        check_positive("HeteroscedasticT", scale=scale, df=df)
        self.scale, self.df = scale, df

    def level(self) -> float:
        return self.scale**2

    def unit(self) -> StudentT:
        return StudentT(1.0, self.df)

    def shares(self) -> tuple[float, float]:
        return (self.df + 1.0) / (self.df + 3.0), 0.5 * self.df / (self.df + 3.0)

    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        """See :meth:`VaryingNoise.cdf`; a rule over f too, where f is known better than twice s."""
        s, center, rest, weights = self._given_noise(m, v)
        z, room = (np.asarray(y)[..., None] - center) / s, np.maximum(rest / s**2, 1e-300)
        at, shares = product_rule(z[..., None], np.minimum(room, CLOSE)[..., None, None])
        each = self.unit().noise_cdf(at[..., 0]) @ shares
        wide = room > CLOSE
        if np.any(wide):
            each[wide] = self.unit().cdf(z[wide], np.zeros(int(wide.sum())), room[wide])
        return np.asarray(each @ weights)
