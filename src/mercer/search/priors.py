"""Hyperpriors: what is believed about a parameter before the data.

A prior is a density of the parameter theta. The search moves in u (log theta for a positive
parameter), and a maximum depends on the coordinate in which the density is taken; mercer takes it
in u throughout: log p(theta) + log |d theta / d u|. So LogNormal(mu, sigma) is exactly
N(mu, sigma^2) in u, and a flat density in u is not a prior at all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from mercer.core.arrays import Array
from mercer.core.component import Component


class HyperPrior(Component):
    """A density of one positive or real parameter (each entry of it, if it is an array)."""

    def log_density(self, theta: Array) -> Array:
        """Return log p(theta), elementwise."""
        raise NotImplementedError

    def slope(self, theta: Array) -> Array:
        """Return d log p / d theta, elementwise."""
        raise NotImplementedError


class LogNormal(HyperPrior):
    """log theta ~ N(mu, sigma^2).

    Reference: Seeger's thesis, section 4.3 (there N(-3, 9) for the log parameters of its kernel).

    Examples
    --------
    >>> import numpy as np
    >>> round(float(LogNormal(0.0, 1.0).log_density(np.array(1.0))), 4)
    -0.9189
    """

    def __init__(self, mu: float = 0.0, sigma: float = 1.0) -> None:
        self.mu, self.sigma = mu, sigma
        _positive(sigma=sigma)

    def log_density(self, theta: Array) -> Array:
        log, t = np.log(theta), (np.log(theta) - self.mu) / self.sigma
        return np.asarray(-0.5 * t**2 - log - np.log(self.sigma) - 0.5 * np.log(2 * np.pi))

    def slope(self, theta: Array) -> Array:
        return np.asarray(-(1.0 + (np.log(theta) - self.mu) / self.sigma**2) / theta)


class GammaPrior(HyperPrior):
    """Gamma density with the given shape and rate: theta^(shape-1) exp(-rate theta).

    Reference: Gelman et al., Bayesian Data Analysis, appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> float(GammaPrior(1.0, 1.0).log_density(np.array(2.0)))
    -2.0
    """

    def __init__(self, shape: float = 2.0, rate: float = 1.0) -> None:
        self.shape, self.rate = shape, rate
        _positive(shape=shape, rate=rate)

    def log_density(self, theta: Array) -> Array:
        value = (self.shape - 1.0) * np.log(theta) - self.rate * theta
        return np.asarray(value + self.shape * np.log(self.rate) - gammaln(self.shape))

    def slope(self, theta: Array) -> Array:
        return np.asarray((self.shape - 1.0) / theta - self.rate)


class GammaPrecision(HyperPrior):
    """A Gamma density of the precision tau = theta^-power, of mean mu and variance 2 mu^2 / alpha.

    p(tau) is proportional to tau^(alpha/2 - 1) exp(-alpha tau / (2 mu)). With ``power`` 1 theta is
    a variance, with 2 a deviation or a length scale. Integrated over tau, coefficients of that
    precision have Student's t distribution with alpha degrees of freedom.

    Reference: Seeger's thesis (3.33); Neal (1996), Bayesian learning for neural networks, 3.2.1.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(GammaPrecision(mean=1.0, alpha=2.0).log_density(np.array(1.0))), 6)
    -1.0
    """

    def __init__(self, mean: float = 1.0, alpha: float = 1.0, power: float = 1.0) -> None:
        self.mean, self.alpha, self.power = mean, alpha, power
        _positive(mean=mean, alpha=alpha, power=power)

    def log_density(self, theta: Array) -> Array:
        half, rate = 0.5 * self.alpha, 0.5 * self.alpha / self.mean
        log_tau = -self.power * np.log(theta)
        value = (half - 1.0) * log_tau - rate * np.exp(log_tau) + half * np.log(rate)
        # |d tau / d theta| = power theta^(-power - 1)
        jacobian = np.log(self.power) + log_tau - np.log(theta)
        return np.asarray(value - gammaln(half) + jacobian)

    def slope(self, theta: Array) -> Array:
        half, rate, p = 0.5 * self.alpha, 0.5 * self.alpha / self.mean, self.power
        return np.asarray((rate * p * theta ** (-p) - half * p - 1.0) / theta)


class FlatBelow(HyperPrior):
    """Flat in log theta below ``scale``, falling like theta^-power above it; it has no integral.

    log p = -log theta - power log(1 + theta / scale). Holds a variance that the evidence of labels
    beside k flat functions would let grow like theta^(k/2).

    Reference: theory of approximate inference, functions without a penalty.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(FlatBelow(1.0, 2.0).log_density(np.array(1.0))), 6)
    -1.386294
    """

    def __init__(self, scale: float = 1.0, power: float = 1.0) -> None:
        self.scale, self.power = scale, power
        _positive(scale=scale, power=power)

    def log_density(self, theta: Array) -> Array:
        return np.asarray(-np.log(theta) - self.power * np.log1p(theta / self.scale))

    def slope(self, theta: Array) -> Array:
        return np.asarray(-1.0 / theta - self.power / (self.scale + theta))


class HalfNormal(HyperPrior):
    """theta = |t|, t ~ N(0, scale^2).

    Reference: Gelman (2006), prior distributions for variance parameters.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(HalfNormal(1.0).log_density(np.array(0.0))), 4)
    -0.2258
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        _positive(scale=scale)

    def log_density(self, theta: Array) -> Array:
        value = -0.5 * (theta / self.scale) ** 2 + 0.5 * np.log(2 / np.pi)
        return np.asarray(value - np.log(self.scale))

    def slope(self, theta: Array) -> Array:
        return np.asarray(-theta / self.scale**2)


class Uniform(HyperPrior):
    """Flat between low and high; the search does not leave the interval.

    Reference: Jaynes, Probability Theory, chapter 12.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(Uniform(0.0, 2.0).log_density(np.array(0.5))), 4)
    -0.6931
    """

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = low, high
        if not low < high:
            raise ValueError(f"Uniform needs low < high, got {low!r} and {high!r}")

    def log_density(self, theta: Array) -> Array:
        inside = (theta >= self.low) & (theta <= self.high)
        return np.where(inside, -np.log(self.high - self.low), -np.inf)

    def slope(self, theta: Array) -> Array:
        return np.zeros_like(np.asarray(theta, dtype=np.float64))


class OwnPrior(HyperPrior):
    """A density of your own: two functions of theta, elementwise.

    Reference: the user.

    Examples
    --------
    >>> import numpy as np
    >>> OwnPrior(lambda t: -t, lambda t: -np.ones_like(t)).slope(np.array([2.0]))
    array([-1.])
    """

    def __init__(self, log_p: Callable[[Array], Array], d_log_p: Callable[[Array], Array]) -> None:
        self.log_p, self.d_log_p = log_p, d_log_p

    def log_density(self, theta: Array) -> Array:
        return np.asarray(self.log_p(theta))

    def slope(self, theta: Array) -> Array:
        return np.asarray(self.d_log_p(theta))

    @classmethod
    def example(cls) -> OwnPrior:
        """Return an exponential density."""
        return cls(np.negative, lambda theta: -np.ones_like(theta))


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value!r}")
