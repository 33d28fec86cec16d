"""Gaussian noise: the loss for which everything is exact; theory (G1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Component, Domains, Words
from mercer.losses.base import check_levels
from mercer.losses.numbers.special import LOG_2PI
from mercer.losses.real.base import LocationLoss

NO_DENSITY = "a Gaussian loss with zero noise has no density of y given f"


class Gaussian(LocationLoss):
    """y = f + e, e ~ N(0, noise): g = (y - f)^2 / (2 noise) + log(2 pi noise) / 2.

    Reference: GPML (2.1), (2.20)-(2.25).

    Parameters
    ----------
    noise : float or array (n,), default=1.0
        The variance, in squared units of y, >= 0; learned if it is a positive number and not fixed.
        An array holds the known variance of every training target; new targets are then predicted
        without noise. 0 interpolates: only the exact inference and predictions work.

    Examples
    --------
    >>> loss = Gaussian(noise=0.5)
    >>> loss.predict(2.0, 1.5)
    (np.float64(2.0), np.float64(2.0))
    >>> loss.free
    {'noise': Domain(name='positive', lower=0.0, upper=inf)}
    """

    domains: ClassVar[Domains] = {"noise": POSITIVE}
    latent_is_mean: ClassVar[bool] = True
    units: ClassVar[dict[str, float]] = {"noise": 2.0}
    words: ClassVar[Words] = {"noise": "noise variance of one observation"}

    def __init__(self, noise: float | Array = 1.0) -> None:
        self.noise = noise
        self._checked()

    def differentiable(self) -> Iterator[tuple[str, Component, str]]:
        """Yield the noise if it is one positive number; known arrays and zero are not learned."""
        if np.ndim(self.noise) == 0 and self.noise != 0.0:
            yield from super().differentiable()

    def _checked(self) -> Array:
        """Return the noise as a float64 array, () or (n,), or refuse it: it may have been set."""
        try:
            values = np.asarray(self.noise, dtype=np.float64)
        except (TypeError, ValueError) as error:
            text = f"Gaussian needs a numeric noise variance, not {self.noise!r}"
            raise ValueError(text) from error
        if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values < 0.0):
            got = f", not {self.noise!r}" if values.ndim == 0 else ""
            what = "a number, or an array (n,) with one for every training target"
            raise ValueError(f"Gaussian needs a noise variance >= 0: {what}{got}")
        return values

    def check_targets(self, y: Any) -> Array:
        self._checked()
        return super().check_targets(y)

    def _variance(self, shape: tuple[int, ...], positive: bool = False) -> Any:
        noise = self._checked()
        if noise.ndim == 0:
            if positive and self.noise == 0.0:
                remedy = "use the exact inference, or give it a positive noise"
                raise ValueError(f"{NO_DENSITY}; {remedy}")
            return self.noise
        if not shape or shape[0] != len(noise):
            raise ValueError(
                f"this Gaussian loss knows the noise at its {len(noise)} training targets only, "
                f"and meets arrays of shape {shape}; predict the latent function, or give one "
                "noise variance for all"
            )
        if positive and np.any(noise == 0.0):
            raise ValueError(NO_DENSITY)
        return noise.reshape((-1,) + (1,) * (len(shape) - 1))

    def value(self, y: Array, f: Array) -> Array:
        r = np.asarray(y - f)
        s2 = self._variance(r.shape, positive=True)
        return np.asarray(0.5 * np.square(r) / s2 + 0.5 * (LOG_2PI + np.log(s2)))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        r = np.asarray(f - y)
        s2 = self._variance(r.shape, positive=True)
        return r / s2, np.ones_like(r) / s2, np.zeros_like(r)

    def width(self, y: Array) -> Array:
        return np.asarray(np.sqrt(self._variance(np.shape(y), positive=True)))

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        r = np.asarray(y - m)
        total = np.broadcast_to(v + self._variance(r.shape), r.shape)
        return -0.5 * (np.square(r) / total + LOG_2PI + np.log(total)), r / total, -1.0 / total

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        d1, d2, _ = self.derivatives(y, m)
        return self.value(y, m) + 0.5 * v * d2, d1, 0.5 * d2

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        shape = np.broadcast_shapes(np.shape(y), np.shape(m), np.shape(v))
        return np.zeros(shape), np.zeros(shape)

    def conjugate(self, y: Array, u: Array) -> Array:
        s2 = self._variance(np.broadcast_shapes(np.shape(y), np.shape(u)), positive=True)
        return np.asarray(u * y + 0.5 * s2 * np.square(u) - 0.5 * (LOG_2PI + np.log(s2)))

    def quadratic(self, y: Array) -> tuple[Array, Array]:
        """Return z = y, shape (n,) or (n, m), and W = 1 / noise (n,), inf for zero noise."""
        with np.errstate(divide="ignore"):
            precision = 1.0 / np.asarray(self._variance(np.shape(y)[:1]), dtype=np.float64)
        return y, np.array(np.broadcast_to(precision, np.shape(y)[:1]))

    def quadratic_pullback(self, y: Array, dW: Array) -> dict[str, float | Array]:
        """Return {"noise": -sum_i dW_i / noise^2}; nothing for a noise that is not learned."""
        if not list(self.differentiable()):
            return {}
        return {"noise": -float(np.sum(dW)) / float(self.noise) ** 2}

    def for_new(self) -> Gaussian:
        return self if np.ndim(self.noise) == 0 else Gaussian(noise=0.0)

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        m, v = np.broadcast_arrays(m, v)
        return m + 0.0, v + self._variance(m.shape)

    def moments(self, f: Array) -> tuple[Array, Array]:
        return f, np.array(np.broadcast_to(self._variance(np.shape(f)), np.shape(f)))

    def noise_moments(self) -> tuple[float, float]:
        return 0.0, float(self._variance(()))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        r = np.asarray(y - f)
        return np.asarray(special.ndtr(r / np.sqrt(self._variance(r.shape, positive=True))))

    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        mean, variance = self.predict(m, v)
        return np.asarray(special.ndtr((y - mean) / np.sqrt(variance)))

    def quantile(self, q: Array, m: Array, v: Array) -> Array:
        check_levels(np.asarray(q))
        mean, variance = self.predict(m, v)
        return np.asarray(mean + np.sqrt(variance) * special.ndtri(q))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        spread = np.sqrt(self._variance(np.shape(f)))
        return np.asarray(f + spread * rng.standard_normal(np.shape(f)))
