"""Location losses: y = f + noise, with noise that does not depend on f."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.losses.base import Loss


class LocationLoss(Loss):
    """-log p(y - f): a child states ``value`` and the noise's distribution.

    ``noise_moments() -> (mean, variance)``, ``noise_cdf(r)``, ``noise_quantile(p)``; from them
    follow the predictive distribution and draws.
    """

    abstract: ClassVar[bool] = True
    response: ClassVar[str] = "real"
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
        """See :meth:`Loss.moments`."""
        mean, variance = self.noise_moments()
        return f + mean, np.full(np.shape(f), variance)

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """See :meth:`Loss.conditional_cdf`."""
        return self.noise_cdf(np.asarray(y - f))

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean (n,) and variance (n,) of a new y: those of f plus those of the noise."""
        mean, variance = self.noise_moments()
        m, v = np.broadcast_arrays(m, v)
        return m + mean, v + variance

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return f plus a draw of the noise."""
        p = rng.random(np.shape(f))
        return np.asarray(f + self.noise_quantile(np.maximum(p, 2.0**-54)))
