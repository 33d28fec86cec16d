"""Kernels that ask only whether two inputs are the same: categories, nugget and noise.

``Categorical`` compares codes, ``Nugget`` whole rows; ``White`` and ``Noise`` compare observations,
so that each has its own noise even where two rows have equal inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.component import POSITIVE, UNIT, Domain, Names
from mercer.kernels.base import (
    Gradient,
    Kernel,
    like,
    other_points,
    positive,
    prefixed,
    zero_gradient,
)
from mercer.kernels.compose import _Wrapper
from mercer.kernels.stationary.matern import Matern


class Categorical(Kernel):
    """Kernel of category codes: per column 1 if the codes agree, else ``correlation``; multiplied.

    k = prod_d correlation_d^[x_d != z_d]. The order of the codes and the distances between them
    play no role.

    Parameters
    ----------
    correlation : float or array (d,), default=0.5; of two different categories, in (0, 1].

    References
    ----------
    Roustant, Padonou, Deville, Clement, Perrin, Giorla and Wynn, Group kernels for Gaussian process
    metamodels with categorical inputs (2020), section 2 (compound symmetry).

    Examples
    --------
    >>> Categorical(correlation=0.25)(np.array([[0.0], [1.0], [0.0]]))
    array([[1.  , 0.25, 1.  ],
           [0.25, 1.  , 0.25],
           [1.  , 0.25, 1.  ]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"correlation": UNIT}
    words: ClassVar[Mapping[str, str]] = {"correlation": "correlation of different categories"}

    def __init__(self, correlation: float | Array = 0.5) -> None:
        self.correlation = correlation

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.integers(0, 4, size=(n, 2)).astype(float)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, _ = other_points(X, Z)
        K = np.ones((X.shape[0], Z.shape[0]))
        for d, correlation in enumerate(self._correlations(X.shape[1])):
            np.multiply(K, correlation, out=K, where=X[:, d, None] != Z[:, d])
        return K

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        M = self(X, Z)
        M *= Q
        X, Z, _ = other_points(X, Z)
        sums = np.array([M.sum(where=X[:, d, None] != Z[:, d]) for d in range(X.shape[1])])
        sums /= self._correlations(X.shape[1])
        return float(M.sum()), {"correlation": like(self.correlation, sums)}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self  # codes that agree still do

    def _correlations(self, d: int) -> Array:
        correlation = np.broadcast_to(positive(self, "correlation", d), d)
        if (correlation > 1.0).any():
            raise ValueError(
                f"Categorical: correlation must lie in (0, 1], got {self.correlation!r}"
            )
        return correlation


class Nugget(Kernel):
    """An independent random effect for each distinct input: k = variance if x = z, else 0.

    Two rows with the same inputs share the effect, where :class:`White` gives each of them its own
    draw. Together with the noise of a loss it separates variation that repeats with the inputs from
    variation that does not; this needs repeated rows, without which the two cannot be
    distinguished. At a new input it adds to the variance as noise does.

    Parameters
    ----------
    variance : float, default=1.0; positive variance of the effect, in squared units of f.

    References
    ----------
    Cressie, Statistics for Spatial Data (1993), section 3.2.1: the nugget effect is microscale
    variation plus measurement error.

    Examples
    --------
    >>> Nugget(0.5)(np.array([[1.0], [2.0], [1.0]]))
    array([[0.5, 0. , 0.5],
           [0. , 0.5, 0. ],
           [0.5, 0. , 0.5]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"variance": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {"variance": "variance of what every place has of its own"}
    names: ClassVar[Names] = {"matern52_nugget": lambda: Matern(nu=2.5) + Nugget(0.5)}

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.integers(0, 4, size=(n, 2)).astype(float)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = np.zeros((len(X), len(X if Z is None else Z)))
        self._add_to(K, X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), positive(self, "variance"))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        total = float(np.sum(Q[_equal(X, Z)]))
        return float(positive(self, "variance")) * total, {"variance": total}

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        K[_equal(X, Z)] += positive(self, "variance")

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self  # rows that agree still do


def _equal(X: Any, Z: Any) -> tuple[Index, Index]:
    """Return the pairs (i, j) of rows with x_i = z_j: one look-up for each row, no n x m array."""
    X, Z, _ = other_points(X, Z)
    places: dict[bytes, list[int]] = {}
    for j, row in enumerate(_rows(Z)):
        places.setdefault(row.tobytes(), []).append(j)
    found = [places.get(row.tobytes(), []) for row in _rows(X)]
    counts = [len(each) for each in found]
    rows = np.repeat(np.arange(len(found)), counts)
    return rows, np.array([j for each in found for j in each], dtype=np.intp)


def _rows(X: Any) -> Array:
    """Return X as rows of bytes that are equal where the numbers are: -0 is 0."""
    return np.ascontiguousarray(np.asarray(X, dtype=np.float64) + 0.0)


class White(Kernel):
    """Independent noise: variance ``noise`` between each point and itself, zero otherwise.

    It contributes to ``k(X)`` and its diagonal, and nothing to ``k(X, Z)``: two rows of the same
    values are still two observations, each with its own noise.

    Parameters
    ----------
    noise : float, default=1.0; positive noise variance, in squared units of the function.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (2.20).

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> (RBF() + White(0.1))(np.zeros((2, 1)))
    array([[1.1, 1. ],
           [1. , 1.1]])
    >>> (RBF() + White(0.1)).noise_free()
    RBF()
    """

    domains: ClassVar[Mapping[str, Domain]] = {"noise": POSITIVE}
    positional = True
    words: ClassVar[Mapping[str, str]] = {"noise": "noise variance of one observation"}
    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, noise: float = 1.0) -> None:
        self.noise = noise

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = np.zeros((len(X), len(X if Z is None else Z)))
        self._add_to(K, X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), positive(self, "noise"))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        trace = float(np.trace(Q)) if Z is None else 0.0
        return float(positive(self, "noise")) * trace, {"noise": trace}

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        noise = positive(self, "noise")
        if Z is None:
            K.flat[:: K.shape[1] + 1] += noise

    def noise_free(self) -> Kernel | None:
        return None

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self


class Noise(_Wrapper):
    """Coloured noise: a kernel that is part of what is observed, not of the signal.

    ``k(X)`` and its diagonal are those of the kernel inside; ``k(X, Z)`` is zero.

    Parameters
    ----------
    kernel : Kernel; covariance of the noise.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 5.4.3 (the fourth,
    noise term of the carbon dioxide model).

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> kernel = RBF() + Noise(0.2 * Matern(nu=0.5, length_scale=0.1))
    >>> kernel.diag(np.zeros((1, 1)))
    array([1.2])
    >>> kernel.noise_free()
    RBF()
    """

    positional = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @classmethod
    def example(cls) -> Self:
        from mercer.kernels import Matern

        return cls(0.3 * Matern(nu=0.5, length_scale=0.4))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel(X) if Z is None else np.zeros((len(X), len(Z)))

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X)

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        if Z is not None:
            return 0.0, zero_gradient(self)
        value, gradient = self.kernel._value_and_pullback(X, None, Q)
        return value, prefixed("kernel", gradient)

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        if Z is None:
            self.kernel._add_to(K, X, None)

    def noise_free(self) -> Kernel | None:
        return None
