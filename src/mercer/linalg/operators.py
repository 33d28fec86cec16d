"""The operator C of a finished posterior: what is subtracted from the prior covariance.

For cross-covariances A = k(P, X) (n, p), B = k(P, Z) (n, q) and basis rows hA (p, k), hB (q, k):

    reduce(A, B, hA, hB) = A' C B  -  (hA - A' C H) (H' C H)^-1 (hB - B' C H)'      formula (2)

(the second term only with an unpenalised basis, GPML (2.42)). An operator is three or four arrays:
``state`` gives them to a model file, :func:`restored` takes them back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from mercer.arrays import Array, back_solve, half_solve


class Operator(ABC):
    """C as a finished posterior keeps it.

    ``walks`` if the prior is Markov on a line: then ``mean_at`` and ``var_at`` give k(X, P) alpha
    and formula (2) at q new points in O(n + q).
    """

    walks: ClassVar[bool] = False

    def mean_at(self, X: Array, alpha: Array) -> Array:
        """k(X, P) alpha for X (q, d), alpha (n, m): (q, m)."""
        raise NotImplementedError

    def var_at(self, X: Array) -> Array:
        """k(x, x) - k(x, P) C k(P, x) for each row of X (q, d): (q,)."""
        raise NotImplementedError

    @abstractmethod
    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B less the basis term, shape (p, q)."""

    @abstractmethod
    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """Return the diagonal of ``reduce(A, A)``, shape (p,)."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return the arrays to store."""


class ExplicitOperator(Operator):
    """C as an (n, n) symmetric matrix; None stands for zero (a mode without spread)."""

    def __init__(self, C: Array | None) -> None:
        self.C = C

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B, shape (p, q)."""
        if self.C is None:
            return np.zeros((A.shape[1], B.shape[1]))
        return np.asarray(A.T @ (self.C @ B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """diag(A' C A), shape (p,)."""
        if self.C is None:
            return np.zeros(A.shape[1])
        return np.asarray(np.einsum("ij,ij->j", A, self.C @ A))

    def state(self) -> dict[str, Array]:
        """Return the arrays to store."""
        return {} if self.C is None else {"matrix": self.C}


class CholeskyOperator(Operator):
    """C = S L^-T L^-1 S; L' is the upper triangle (row-major) of ``cholesky``, S = diag(scale)."""

    def __init__(self, cholesky: Array, scale: Array) -> None:
        self.cholesky = cholesky
        self.scale = scale

    def half(self, V: Array) -> Array:
        """L^-1 S V, so that V' C V = |half(V)|^2."""
        return half_solve(self.cholesky, self.scale[:, None] * V)

    def half_transposed(self, V: Array) -> Array:
        """S L^-T V."""
        return self.scale[:, None] * back_solve(self.cholesky, V)

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B, shape (p, q)."""
        left = self.half(A)
        return np.asarray(left.T @ (left if B is A else self.half(B)))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """diag(A' C A), shape (p,)."""
        left = self.half(A)
        return np.asarray(np.einsum("ij,ij->j", left, left))

    def state(self) -> dict[str, Array]:
        """Return the arrays to store."""
        return {"cholesky": np.triu(self.cholesky), "scale": self.scale}


class BasisOperator(CholeskyOperator):
    """The same with a basis: thin QR half(H) = Q R, so that H' C H = R'R."""

    def __init__(self, cholesky: Array, scale: Array, Q: Array, R: Array) -> None:
        super().__init__(cholesky, scale)
        self.Q = Q
        self.R = R

    def _halves(self, A: Array, hA: Array | None) -> tuple[Array, Array]:
        assert hA is not None
        u = self.half(A)
        return u, solve_triangular(self.R, hA.T, trans="T") - self.Q.T @ u

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B less the basis term, shape (p, q)."""
        u, r = self._halves(A, hA)
        v, s = (u, r) if B is A else self._halves(B, hB)
        return np.asarray(u.T @ v - r.T @ s)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """Return the diagonal of ``reduce(A, A)``, shape (p,)."""
        u, r = self._halves(A, hA)
        return np.asarray(np.einsum("ij,ij->j", u, u) - np.einsum("ij,ij->j", r, r))

    def state(self) -> dict[str, Array]:
        """Return the arrays to store."""
        return {**super().state(), "basis_q": self.Q, "basis_r": self.R}


def restored(arrays: Mapping[str, Array]) -> Operator:
    """Build the operator from the arrays of ``state()``."""
    if "basis_q" in arrays:
        return BasisOperator(
            arrays["cholesky"], arrays["scale"], arrays["basis_q"], arrays["basis_r"]
        )
    if "cholesky" in arrays:
        return CholeskyOperator(arrays["cholesky"], arrays["scale"])
    return ExplicitOperator(arrays.get("matrix"))
