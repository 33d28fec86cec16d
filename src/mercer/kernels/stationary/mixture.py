"""A mixture of Gaussians as the power spectrum of a kernel."""

from __future__ import annotations

from math import pi
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import Gradient, Kernel, finite
from mercer.kernels.stationary.base import RBF
from mercer.kernels.stationary.periodic import Cosine


class SpectralMixture(Kernel):
    """Mixture of Gaussians as the power spectrum: sums of waves, each of a band of frequencies.

        k(x, z) = sum_q weight_q prod_d exp(-2 pi^2 (r_d scale_qd)^2) cos(2 pi r_d mean_qd)

    with r = x - z. Any stationary kernel is near one of these. The evidence has many maxima:
    :meth:`of` starts at the largest peaks of the periodogram.

    Parameters
    ----------
    weights : array (Q,); positive variances of the parts, in squared units of the function.
    means : array (Q,) or (Q, d); positive frequencies, in inverse units of the inputs.
    scales : array (Q,) or (Q, d); positive standard deviations of the frequencies about them.

    References
    ----------
    Wilson and Adams, Gaussian process kernels for pattern discovery and extrapolation (2013),
    equation (12).

    Examples
    --------
    >>> kernel = SpectralMixture(np.array([2.0]), np.array([0.5]), np.array([0.01]))
    >>> kernel(np.array([[0.0]]), np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[ 2.  , -2.  ,  1.98]])
    """

    domains: ClassVar[Domains] = {"weights": POSITIVE, "means": POSITIVE, "scales": POSITIVE}
    words: ClassVar[Words] = {
        "weights": "variances of the parts",
        "means": "frequencies of the parts",
        "scales": "spread of the frequencies in each part",
    }
    expects = "sums of waves that keep their frequency for a while"

    def __init__(self, weights: Array, means: Array, scales: Array) -> None:
        self.weights, self.means, self.scales = weights, means, scales

    @classmethod
    def example(cls) -> Self:
        means = np.array([[0.3, 0.1], [0.2, 0.5]])
        return cls(np.array([1.0, 0.6]), means, np.array([[0.1, 0.2], [0.15, 0.05]]))

    @classmethod
    def of(cls, X: Any, y: Any, count: int = 4) -> Self:
        """Return a start for data of one column: the ``count`` largest peaks of the periodogram.

        Parameters
        ----------
        X, y : (n, 1) or (n,), and (n,).
        count : number of parts.
        """
        x, y = np.ravel(X).astype(float), np.ravel(y).astype(float)
        length = float(np.ptp(x))
        if len(x) != len(y) or len(x) < 4 or not length > 0.0:
            raise ValueError("SpectralMixture.of needs one column of 4 or more rows, and their y")
        y, n = y - y.mean(), min(4096, 4 * len(x))
        frequency = np.linspace(0.5 / length, 0.5 * (len(x) - 1) / length, n)
        found, rest = [], y.copy()
        for _ in range(count):  # the largest wave is taken out before the next is sought
            power = np.abs(np.exp(-2j * pi * np.outer(frequency, x)) @ rest) ** 2
            best = frequency[int(np.argmax(power))]
            wave = np.column_stack([np.cos(2 * pi * best * x), np.sin(2 * pi * best * x)])
            coefficients = np.linalg.lstsq(wave, rest, rcond=None)[0]
            rest = rest - wave @ coefficients
            found.append((max(0.5 * float(coefficients @ coefficients), 1e-6 * y.var()), best))
        weights, means = np.array(found).T
        return cls(np.maximum(weights, 1e-12), means, np.full(count, 0.5 / length))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self._form(as_matrix(X).shape[1])(X, Z)

    def diag(self, X: Array) -> Array:
        return np.full(len(X), float(finite(self, "weights", np.size(self.weights)).sum()))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        d = as_matrix(X).shape[1]
        value, by_form = self._form(d)._value_and_pullback(X, Z, Q)
        shape, means, scales = np.shape(self.means), *self._checked(d)[1:]
        weights, by_mean, by_scale = (
            np.zeros(len(means)),
            np.zeros(means.shape),
            np.zeros(means.shape),
        )
        for q in range(len(means)):  # length_scale = 1 / (2 pi scale), period = 1 / mean
            weights[q] = by_form[f"{q}__variance"]
            by_scale[q] = by_form[f"{q}__kernel__0__length_scale"] * -0.5 / (pi * scales[q] ** 2)
            by_mean[q] = by_form[f"{q}__kernel__1__period"] * -1.0 / means[q] ** 2
        slopes = {"means": by_mean.reshape(shape), "scales": by_scale.reshape(shape)}
        return value, {"weights": weights, **slopes}

    def as_sum(self, d: int) -> Kernel:
        """Return the same kernel of d columns as a sum of products of RBF and Cosine."""
        return self._form(d)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        if np.ndim(self.means) == 1 and len(scale) > 1:
            return super().in_units(shift, scale)
        inverse = 1.0 / (scale if np.ndim(self.means) == 2 else scale[0])
        means, scales = (np.asarray(a, dtype=float) * inverse for a in (self.means, self.scales))
        return self._restated(means=means, scales=scales)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, np.atleast_2d(np.transpose(self.means)).shape[0]))

    def _form(self, d: int) -> Kernel:
        from mercer.kernels.compose import Product, Scale, Sum

        parts: list[Kernel] = []
        for w, m, s in zip(*self._checked(d), strict=True):
            parts.append(Scale(Product([RBF(0.5 / (pi * s)), Cosine(1.0 / m)]), float(w)))
        return Sum(parts)

    def _checked(self, d: int) -> tuple[Array, Array, Array]:
        """Return weights (Q,), means and scales (Q, d)."""
        weights, means, scales = (
            np.asarray(getattr(self, name), dtype=np.float64) for name in self.domains
        )
        count = weights.size
        shapes = ((count,), (count, 1)) if d == 1 else ((count, d),)
        if weights.shape != (count,) or not count or not means.shape == scales.shape in shapes:
            raise ValueError(
                f"SpectralMixture: for inputs of {d} columns weights must be (Q,), means and "
                f"scales {' or '.join(str(('Q', *s[1:])) for s in shapes)}; they are "
                f"{weights.shape}, {means.shape} and {scales.shape}"
            )
        for name, value in zip(self.domains, (weights, means, scales), strict=True):
            if not (np.isfinite(value).all() and (value > 0.0).all()):
                raise ValueError(f"SpectralMixture: {name} must be positive and finite")
        return weights, means.reshape(count, d), scales.reshape(count, d)
