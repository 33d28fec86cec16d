"""A kernel that is none: its matrices have negative eigenvalues."""

from __future__ import annotations

import numpy as np

from mercer.kernels import RBF


class Indefinite(RBF):
    """k(x, z) = tanh(x'z - 1)."""

    def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
        return np.tanh(X @ (X if Z is None else Z).T - 1.0)

    def diag(self, X: np.ndarray) -> np.ndarray:
        return np.tanh((X**2).sum(axis=1) - 1.0)

    def as_rbf(self, X: np.ndarray, centre: np.ndarray) -> None:
        return None
