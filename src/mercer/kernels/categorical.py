"""Kernels of categories."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.component import UNIT, Domain
from mercer.kernels.base import Gradient, Kernel, other_points
from mercer.kernels.checks import like, positive


class Categorical(Kernel):
    """Kernel of category codes: per column 1 if the codes agree, else ``correlation``; multiplied.

    k = prod_d correlation_d^[x_d != z_d]. The order of the codes and the distances between them
    play no role.

    Parameters
    ----------
    correlation : float or array (d,)
        Prior correlation of two different categories, between 0 and 1, shared or per column.

    References
    ----------
    Roustant, Padonou, Deville, Clement, Perrin, Giorla and Wynn, Group kernels for Gaussian process
    metamodels with categorical inputs (2020), section 2 (compound symmetry).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Categorical
    >>> Categorical(correlation=0.25)(np.array([[0.0], [1.0], [0.0]]))
    array([[1.  , 0.25, 1.  ],
           [0.25, 1.  , 0.25],
           [1.  , 0.25, 1.  ]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"correlation": UNIT}

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
