"""Kernels on chosen columns, and kernels of standardised columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.words import there_is_no
from mercer.kernels.base import Gradient, Kernel, prefixed
from mercer.kernels.compose import Wrapper
from mercer.kernels.dot import Polynomial
from mercer.kernels.markov import ANY, MarkovProcess, Slopes, StateSpace
from mercer.kernels.stationary.base import RBF


class OfInputs(Wrapper, abstract=True):
    """k(T x, T z): a child states T, how the kernel inside sees its inputs, as ``_inside``."""

    def _inside(self, X: Array) -> Array:
        raise NotImplementedError

    def _both(self, X: Array, Z: Array | None) -> tuple[Array, Array | None]:
        return self._inside(X), None if Z is None else self._inside(Z)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel(*self._both(X, Z))

    def _matmul(self, X: Any, Z: Any, V: Array) -> Array:
        return self.kernel.matmul(self._inside(X), self._inside(Z), V)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(self._inside(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        value, gradient = self.kernel._value_and_pullback(*self._both(X, Z), Q)
        return value, prefixed("kernel", gradient)

    def features(self, X: Any) -> Any:
        return self.kernel.features(self._inside(X))

    def explicit(self, X: Array) -> Any:
        return self.kernel.explicit(self._inside(X))

    def width(self, X: Array) -> int | None:
        return self.kernel.width(self._inside(X))

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        return prefixed("kernel", self.kernel.explicit_pullback(self._inside(X), F, D))

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        return prefixed("kernel", self.kernel.diag_pullback(self._inside(X), q, noise=noise))

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        new = self.kernel.frozen(self._inside(X), weights)
        return self if new is self.kernel else self._rebuilt({"kernel": new})


class LinearMap(OfInputs, abstract=True):
    """k(A'x, A'z): a child states the matrix A of its inputs as ``_map``."""

    def _map(self, d: int) -> Array:
        """Return A (d, q) for inputs of d columns: the mapped inputs are X A."""
        raise NotImplementedError

    def _inside(self, X: Array) -> Array:
        X = as_matrix(X)
        return as_matrix(X @ self._map(X.shape[1]))

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        inside = self.kernel.pullback_points(self._inside(X), self._inside(Z), Q)
        return np.asarray(inside @ self._map(Z.shape[1]).T)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return Kernel.in_units(self, shift, scale)  # the mapped inputs have no units of their own


class Columns(OfInputs):
    """A kernel that sees only some of the columns, k(x[columns], z[columns]).

    Parameters
    ----------
    kernel : Kernel; the kernel on the chosen columns, in the order listed.
    columns : list of int or str; positions, or names, which :meth:`resolve` turns into positions.

    References
    ----------
    Duvenaud, Nickisch and Rasmussen, Additive Gaussian Processes (2011), section 2.

    Examples
    --------
    >>> RBF().on(["age", "bmi"]).resolve(["sex", "age", "bmi"], 3)
    Columns(kernel=RBF(), columns=[1, 2])
    """

    def __init__(self, kernel: Kernel, columns: Sequence[int | str]) -> None:
        self.kernel, self.columns = kernel, columns

    def __str__(self) -> str:
        inner = str(self.kernel)
        every = ", ".join(repr(c) if isinstance(c, str) else str(int(c)) for c in self.columns)
        inner = f"({inner})" if hasattr(self.kernel, "sign") else inner
        return f"{inner}.on({every if len(self.columns) == 1 else f'[{every}]'})"

    @classmethod
    def example(cls) -> Self:
        return cls(RBF(length_scale=np.array([0.7, 1.9])), [2, 0])

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        width = 1 + max((c for c in self.columns if isinstance(c, int)), default=0)
        inputs = rng.standard_normal((n, width))
        chosen = self.kernel.example_inputs(rng, n)[:, : len(self.columns)]
        inputs[:, self._positions(width)] = chosen
        return inputs

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        self.kernel._add_to(K, *self._both(X, Z))

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        moved = np.zeros(Z.shape)
        inside = self.kernel.pullback_points(self._inside(X), self._inside(Z), Q)
        for i, j in enumerate(self._positions(Z.shape[1])):  # a column may stand twice
            moved[:, j] += inside[:, i]
        return moved

    def state_space(self) -> StateSpace | None:
        states = self.kernel.state_space()
        one = len(self.columns) == 1 and isinstance(self.columns[0], (int, np.integer))
        return replace(states, column=int(self.columns[0])) if one and states is not None else None

    def markov_process(self) -> MarkovProcess | None:
        process = self.kernel.markov_process()
        one = len(self.columns) == 1 and isinstance(self.columns[0], (int, np.integer))
        if process is None or process.column == ANY:
            return process
        return replace(process, column=int(self.columns[0])) if one else None

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        return prefixed("kernel", self.kernel.markov_pullback(slopes))

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        return prefixed("kernel", self.kernel.state_space_pullback(rates, variances))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        chosen = self._positions(len(shift))
        return self._rebuilt({"kernel": self.kernel.in_units(shift[chosen], scale[chosen])})

    def resolve(self, names: Sequence[str] | None, n_features: int) -> Kernel:
        known = None if names is None else [str(name) for name in names]
        positions = [_position(column, known, n_features) for column in self.columns]
        inside = None if known is None else [known[i] for i in positions]
        kernel = self.kernel.resolve(inside, len(positions))
        return self._restated(kernel=kernel, columns=positions)

    def _inside(self, X: Array) -> Array:
        X = as_matrix(X)
        return as_matrix(X[:, self._positions(X.shape[1])])

    def _positions(self, n_features: int) -> list[int]:
        named = [column for column in self.columns if isinstance(column, str)]
        if named:
            raise ValueError(
                f"the kernel is on columns named {named}, which are not resolved yet; "
                "call kernel.resolve(names, n_features) first (estimators do it in fit)"
            )
        return [_position(column, None, n_features) for column in self.columns]


def _position(column: int | str, names: Sequence[str] | None, n_features: int) -> int:
    """Return the position 0 .. n_features - 1 of a column given by name or position."""
    if isinstance(column, str):
        if names is None:
            remedy = "the data have no column names; give positions, or a table with named columns"
            raise ValueError(f"the kernel is on column {column!r}, but {remedy}")
        if column not in names:
            raise ValueError(there_is_no("column", column, names))
        return list(names).index(column)
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)):
        raise TypeError(f"columns are given by position or by name, got {column!r}")
    if not -n_features <= column < n_features:
        have = f"the inputs have {n_features} columns (0 to {n_features - 1})"
        raise ValueError(f"the kernel is on column {column}, but {have}")
    return int(column) % n_features


class Standardized(OfInputs):
    """A kernel of standardised columns, k((x - shift) / scale, (z - shift) / scale).

    For kernels whose parameters cannot absorb the change of units.

    Parameters
    ----------
    kernel : Kernel; the kernel on the standardised columns.
    shift, scale : array (d,); subtracted from each column; positive, it is then divided by it.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.4 (warping).

    Examples
    --------
    >>> kernel = Polynomial().in_units(np.array([50.0]), np.array([10.0]))
    >>> float(kernel(np.array([[60.0]]))[0, 0])  # (1 + 1 * 1)^2
    4.0
    """

    def __init__(self, kernel: Kernel, shift: Array, scale: Array) -> None:
        self.kernel, self.shift, self.scale = kernel, shift, scale

    @classmethod
    def example(cls) -> Self:
        return cls(Polynomial(degree=2), np.array([0.3, -1.0, 2.0]), np.array([2.0, 0.5, 1.5]))

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        inside = self.kernel.pullback_points(self._inside(X), self._inside(Z), Q)
        return np.asarray(inside / np.asarray(self.scale, dtype=float))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        inner_scale = np.asarray(self.scale, dtype=float)
        return Standardized(self.kernel, shift + scale * self.shift, scale * inner_scale)

    def _inside(self, X: Array) -> Array:
        X = as_matrix(X)
        shift, scale = (np.asarray(a, dtype=float) for a in (self.shift, self.scale))
        if shift.shape != scale.shape or shift.shape != (X.shape[1],):
            have = f"shift and scale have shapes {shift.shape} and {scale.shape}"
            raise ValueError(f"Standardized: {have} but the inputs have {X.shape[1]} columns")
        if not (np.isfinite(shift).all() and np.isfinite(scale).all() and (scale > 0.0).all()):
            raise ValueError("Standardized: shift must be finite, scale positive and finite")
        return np.asarray(np.divide(X - shift, scale, order="C"))
