"""Noise that depends on the level of the function, learned from rows that were foreseen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mercer.core.arrays import Array

KNOTS = np.linspace(-2.0, 2.0, 9)  # levels, in deviations of the targets about their mean
WIDTH, SHARED, OWN = 0.5, 0.3, 0.3  # of the prior of h: k(u, v) = SHARED + OWN exp(-(u-v)^2/2W^2)
LIMIT = 100.0  # r^2 / V that a row counts with at most: one broken value says little
TURNS = 8  # Newton steps for a block
EARNED = 3.0  # nats that h must have been better by, over the latest rows, to be used
WINDOW = 1000.0  # rows after which such a gain counts 1/e


def _prior(u: Array) -> Array:
    return np.asarray(SHARED + OWN * np.exp(-0.5 * ((KNOTS[:, None] - u) / WIDTH) ** 2))


ROOT = np.linalg.inv(np.linalg.cholesky(_prior(KNOTS)))  # (9, 9)


@dataclass(frozen=True, eq=False)
class NoiseByLevel:
    """The noise at a row is noise e^h(mu), mu the mean of f there; theory (O20), (O21).

    h is a Gaussian process of one variable on nine knots, with weights N(``weights``,
    ``precision``^-1). It is used once it has foreseen rows better than h = 0, ``gain``.
    """

    centre: float = 0.0
    unit: float = 1.0
    weights: Array = field(default_factory=lambda: np.zeros(len(KNOTS)))
    precision: Array = field(default_factory=lambda: np.eye(len(KNOTS)))
    gain: float = 0.0

    @property
    def used(self) -> bool:
        """Whether predictions have it."""
        return self.gain > EARNED

    def features(self, mean: Array) -> Array:
        """Return the features (9, q) of h at means (q,) of f."""
        return np.asarray(ROOT @ _prior((mean - self.centre) / self.unit))

    def factors(self, mean: Array) -> Array:
        """Return e^h (q,) at means (q,) of f: one until it is used."""
        if not self.used:
            return np.ones(len(mean))
        return np.asarray(np.exp(self.weights @ self.features(mean)))

    def forget(self, kept: float) -> NoiseByLevel:
        """Return it with what was learned counting ``kept`` of what it did."""
        P = kept * self.precision
        P.flat[:: len(P) + 1] += 1.0 - kept
        weights = np.asarray(np.linalg.solve(P, kept * (self.precision @ self.weights)), np.float64)
        return replace(self, weights=weights, precision=P, gain=kept * self.gain)

    def given(
        self, mean: Array, square: Array, var: Array, noise: float, w: Array, gained: Array
    ) -> NoiseByLevel:
        """Return it given rows with squared errors (b,), divided by the level of all variances.

        ``gained`` (b,) is by how much h foresaw each of them better than h = 0.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> mean = rng.normal(size=500)
        >>> square = np.exp(mean) * rng.normal(size=500) ** 2
        >>> zero, one = np.zeros(500), np.ones(500)
        >>> found = NoiseByLevel(gain=9.0).given(mean, square, zero, 1.0, one, zero)
        >>> low, high = found.factors(np.array([-1.0, 1.0]))
        >>> bool(low < 0.6 and high > 1.7)
        True
        """
        F, b, P = self.features(mean), self.weights, self.precision
        for _ in range(TURNS):
            share, ratio = _at(b @ F, square, var, noise)
            slope = F @ (0.5 * w * share * (1.0 - ratio)) + P @ (b - self.weights)
            curvature = P + (F * (0.5 * w * share**2 * np.maximum(ratio, 1.0))) @ F.T
            step = np.linalg.solve(curvature, slope)
            b = b - step
            if np.abs(step).max() < 1e-6:
                break
        share, _ = _at(b @ F, square, var, noise)
        P = P + (F * (0.5 * w * share**2)) @ F.T
        gain = np.exp(-float(w.sum()) / WINDOW) * self.gain + float(w @ gained)
        return replace(self, weights=b, precision=0.5 * (P + P.T), gain=float(gain))


def _at(h: Array, square: Array, var: Array, noise: float) -> tuple[Array, Array]:
    """Return the share of the noise in the variance V, and min(r^2 / V, LIMIT)."""
    own = noise * np.exp(h)
    V = var + own
    return own / V, np.minimum(square / V, LIMIT)
