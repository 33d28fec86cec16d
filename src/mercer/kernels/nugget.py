"""Nugget: what every place has of its own."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array, Index
from mercer.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, Kernel, other_points
from mercer.kernels.checks import positive


class Nugget(Kernel):
    """Variation too fine to be seen between places: k = variance if x = z, else 0.

    Every place has a value of its own, which it keeps: two rows with the same inputs share it,
    where :class:`White` gives each of them another draw. Beside the noise of a loss it tells what
    repeats from what does not, as far as rows are repeated; without repeated rows the two cannot
    be told apart. At a new place it adds to the variance as noise does.

    Parameters
    ----------
    variance : float
        Positive variance of what a place has of its own.

    References
    ----------
    Cressie, Statistics for Spatial Data (1993), section 3.2.1: the nugget effect is microscale
    variation plus measurement error.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Nugget
    >>> Nugget(0.5)(np.array([[1.0], [2.0], [1.0]]))
    array([[0.5, 0. , 0.5],
           [0. , 0.5, 0. ],
           [0.5, 0. , 0.5]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"variance": POSITIVE}

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
