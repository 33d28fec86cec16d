"""Mapped: kernels whose feature map is written down."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from mercer.arrays import Array, as_matrix
from mercer.kernels.base import Kernel


class Mapped(Kernel, abstract=True):
    """k(x, z) = phi(x)'phi(z). A child states ``features``, phi(X) (n, m), dense or sparse."""

    def features(self, X: Any) -> Any:
        raise self._unstated("features(X)", "phi(X) (n, m), dense or sparse")

    def __call__(self, X: Any, Z: Any = None) -> Array:
        X = rows_of(X)
        F = self.features(X)
        if Z is None:
            return product(F, F)
        Z = rows_of(Z)
        if X.shape[1] != Z.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}")
        return product(F, self.features(Z))

    def diag(self, X: Any) -> Array:
        F = self.features(rows_of(X))
        if is_sparse(F):
            return np.asarray(F.multiply(F).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", F, F))


def is_sparse(X: Any) -> bool:
    """Say whether X is a sparse matrix or array of SciPy."""
    return bool(issparse(X))


def rows_of(X: Any) -> Any:
    """Return X (n, d) as a row-major matrix of doubles; a sparse one as it is."""
    return X if is_sparse(X) else as_matrix(X)


def product(F: Any, G: Any) -> Array:
    """Return F G' (n, p), dense, of features that are both dense or both sparse."""
    K = F @ G.T
    return np.ascontiguousarray(K.toarray() if is_sparse(K) else K)


def not_frozen(kernel: Kernel, name: str) -> ValueError:
    """Return the error of a kernel that has not seen any data yet."""
    return ValueError(
        f"{type(kernel).__name__} takes {name} from the first rows it sees, and has seen none: "
        f"call kernel.frozen(X) first (estimators do it in fit), or give {name}"
    )
