"""Kernels that are given: as a matrix, or as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.kernels.base import Kernel, other_points
from mercer.kernels.parameters import symmetric

_BLOCK = 64


class Precomputed(Kernel):
    """A kernel given by its values.

    With ``matrix``, a point is one integer: the row of the matrix it stands for. Without, the
    inputs are the kernel values themselves, as for scikit-learn's ``kernel="precomputed"``: a
    square X for training, then rows k(new, training), which give means but no variance.

    Parameters
    ----------
    matrix : array (N, N) or None, default=None; symmetric positive semidefinite values.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.1.

    Examples
    --------
    >>> Precomputed(np.array([[2.0, 1.0], [1.0, 3.0]]))(np.array([[1]]), np.array([[1], [0]]))
    array([[3., 1.]])
    """

    def __init__(self, matrix: Array | None = None) -> None:
        self.matrix = matrix

    spatial = False

    @property
    def positional(self) -> bool:
        return self.matrix is None

    @property
    def pairwise(self) -> bool:
        return self.matrix is None

    @classmethod
    def example(cls) -> Self:
        A = np.vander(np.linspace(-1.0, 1.0, 7), 4)
        return cls(A @ A.T)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        if self.matrix is None:
            A = rng.standard_normal((n, 3))
            return np.asarray(A @ A.T)
        return rng.integers(0, len(self.matrix), size=(n, 1)).astype(float)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        if self.matrix is not None:
            rows = self._rows(X)
            K = self._values()[np.ix_(rows, rows if Z is None else self._rows(Z))]
            return symmetric(K, "Precomputed: the matrix") if Z is None else np.asarray(K)
        if Z is None:
            return symmetric(self._square(X).copy(), "Precomputed: the matrix of kernel values")
        X = np.asarray(X, dtype=np.float64) if np.ndim(X) == 2 else as_matrix(X)
        if X.shape[1] != len(Z):
            want = f"one column for each of the {len(Z)} training rows, got {X.shape[1]} columns"
            raise ValueError(f"Precomputed: the inputs are kernel values and must have {want}")
        return X.copy(order="K")  # BLAS rounds differently for rows and columns

    def diag(self, X: Array) -> Array:
        if self.matrix is not None:
            rows = self._rows(X)
            return np.asarray(self._values()[rows, rows])
        return self._square(X).diagonal().copy()

    @staticmethod
    def _square(X: Array) -> Array:
        X = as_matrix(X)
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                "Precomputed: the inputs are the kernel values among the points and must be a "
                f"square matrix, one column for each row, got shape {X.shape}; for points in "
                "columns choose another kernel"
            )
        return X

    def _values(self) -> Array:
        matrix = np.asarray(self.matrix, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"Precomputed: matrix must be square, got shape {matrix.shape}")
        return matrix

    def _rows(self, X: Array) -> Any:
        X, size = as_matrix(X), len(self._values())
        rows = X[:, 0].astype(int)
        if X.shape[1] != 1 or (rows != X[:, 0]).any():
            raise ValueError("Precomputed: the inputs must be one column of whole row numbers")
        if ((rows < 0) | (rows >= size)).any():
            raise ValueError(f"Precomputed: row numbers must lie in 0 .. {size - 1}")
        return rows


class Function(Kernel):
    """Any callable as a kernel: ``function(X, Z)`` returns the matrix k(X, Z) (n, m).

    Without parameters to search or a form in model files: a subclass of :class:`Kernel` has both.

    Parameters
    ----------
    function : callable; of X (n, d) and Z (m, d); returns (n, m), positive semidefinite.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.1.

    Examples
    --------
    >>> Function(lambda X, Z: np.minimum(X, Z.T))(np.array([[1.5]]), np.array([[1.0], [2.0]]))
    array([[1. , 1.5]])
    """

    spatial = False  # it may look its inputs up

    def __init__(self, function: Callable[[Array, Array], Array]) -> None:
        self.function = function

    @classmethod
    def example(cls) -> Self:
        return cls(_shared_sign)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = other_points(X, Z)
        K = np.array(self.function(X, Z), dtype=float, order="C")
        if K.shape != (len(X), len(Z)):
            points = f"{len(X)} and {len(Z)} points"
            raise ValueError(f"the kernel function returned shape {K.shape} for {points}")
        return symmetric(K, "the matrix that the kernel function returns") if same else K

    def diag(self, X: Array) -> Array:
        blocks = (X[i : i + _BLOCK] for i in range(0, len(X), _BLOCK))
        return np.concatenate([self(block).diagonal() for block in blocks] or [np.empty(0)])


def _shared_sign(X: Array, Z: Array) -> Array:
    return np.asarray((1.0 + np.sign(X) @ np.sign(Z).T / X.shape[1]) / 2.0)
