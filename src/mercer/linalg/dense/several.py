"""The Grams of several latent functions with kernels of their own, as one."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Gradient, Kernel, prefixed
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Covariance, Factor, Gram


class SeveralGram(Gram):
    """K_1 .. K_m on the same n points: column j of (n, m) is multiplied by K_j.

    Parameters
    ----------
    grams : one for each latent function.

    Examples
    --------
    >>> from mercer.kernels import RBF, Several
    >>> gram = several_gram(Several([RBF(), 3.0 * RBF()]), np.zeros((1, 1)), scratch=False)
    >>> gram @ np.ones((1, 2))
    array([[1., 3.]])
    """

    name = "dense, one for each function"

    def __init__(self, grams: list[Gram]) -> None:
        self.grams, self.points = grams, grams[0].points

    def each(self, m: int) -> list[Gram]:
        if m != len(self.grams):
            raise ValueError(f"there are {len(self.grams)} kernels for {m} latent functions")
        return self.grams

    def __matmul__(self, V: Array) -> Array:
        found = np.empty(V.shape)
        for j, gram in enumerate(self.grams):
            found[:, j : j + 1] = gram @ V[:, j : j + 1]
        return found

    def diag(self) -> Array:
        """The diagonals of K_1 .. K_m, (n, m)."""
        return np.column_stack([gram.diag() for gram in self.grams])

    def rows(self, index: Index) -> Array:
        raise NotImplementedError("rows of K are those of one latent function: see each")

    def factor(self, W: Array) -> Factor:
        raise NotImplementedError("a factor is that of one latent function, or of all: blocked")

    def take(self) -> Array:
        return self.grams[0].take()

    def give(self, *done: Array | None) -> None:
        self.grams[0].give(*done)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """Formula (3) for each function: dE/dK_j = (a_j a_j' - C_jj)/2 + u_j v_j'."""
        assert isinstance(factor, CoupledFactor)
        gradient: Gradient = {}
        for j, gram in enumerate(self.grams):
            Q = factor.weights_of(j, np.ascontiguousarray(alpha[:, [j]]))
            if U is not None and V is not None:
                both = np.column_stack([U[:, j], V[:, j]])  # U V' + V U', in place
                blas.dgemm(0.5, both, both[:, ::-1], 1.0, Q.T, trans_b=1, overwrite_c=1)
            gradient |= prefixed(str(j), gram.contract(Q))
        return gradient

    def contract(self, Q: Array) -> Gradient:
        raise NotImplementedError("d<Q, K> is that of one latent function: see each")


def several_gram(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
    """Return the dense Grams of a kernel for each latent function."""
    parts: list[Kernel] = kernel.parts  # type: ignore[attr-defined]  # asked for by ``separate``
    return SeveralGram([DenseGram(k, points, keep=True, scratch=scratch) for k in parts])


class StackedGram(Gram):
    """The same K_1 .. K_m as one block diagonal matrix (mn, mn), function by function."""

    def __init__(self, grams: list[Gram]) -> None:
        self.grams, self.points = grams, np.concatenate([gram.points for gram in grams])

    def __matmul__(self, V: Array) -> Array:
        both = zip(self.grams, np.split(V, len(self.grams)), strict=True)
        return np.concatenate([np.asarray(gram @ part) for gram, part in both])

    def diag(self) -> Array:
        return np.concatenate([gram.diag() for gram in self.grams])

    def rows(self, index: Index) -> Array:
        raise NotImplementedError("rows of K are those of one latent function")

    def factor(self, W: Array) -> Factor:
        both = zip(self.grams, np.split(W, len(self.grams)), strict=True)
        return StackedFactor([gram.factor(part) for gram, part in both])

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        raise NotImplementedError("gradients are those of the Gram with a column for each function")

    def contract(self, Q: Array) -> Gradient:
        raise NotImplementedError("gradients are those of the Gram with a column for each function")


class StackedFactor(Factor):
    """C of a block diagonal matrix: a factor for each block."""

    def __init__(self, factors: list[Factor]) -> None:
        self.factors, self.jitter = factors, max(f.jitter or 0.0 for f in factors)

    def solve(self, V: Array) -> Array:
        both = zip(self.factors, np.split(V, len(self.factors)), strict=True)
        return np.concatenate([factor.solve(part) for factor, part in both])

    def diag(self) -> Array:
        return np.concatenate([factor.diag() for factor in self.factors])

    def cov_diag(self) -> Array:
        return np.concatenate([factor.cov_diag() for factor in self.factors])

    def logdet(self) -> float:
        return sum(factor.logdet() for factor in self.factors)

    def release(self) -> None:
        for factor in self.factors:
            factor.release()
