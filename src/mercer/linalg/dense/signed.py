"""The factor of precisions of which some are negative: that of the others, corrected at these."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mercer.core import arrays
from mercer.core.arrays import Array, Index, cholesky_logdet, half_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import ROWS
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import ExplicitOperator


class SignedFactor(Factor):
    """C for finite W (n,), some negative: a loss is concave there. K^-1 + W is positive definite.

    With W = W+ - E D E', E the k columns of the identity at the points where W_i = -D_i < 0, the
    positive part is factored as ever and the negative one taken off again by its k x k complement:

        A = (K + W+^-1)^-1,  S = K - K A K,  P = E - A K E,  G = (D^-1 - S_EE)^-1
        C = A - P G P',   (K^-1 + W)^-1 = S + (K P) G (K P)',
        |I + K W| = |I + K W+| |I - D^1/2 S_EE D^1/2|.

    No inverse or factor of K itself is needed, hence no jitter. K^-1 + W is positive definite
    exactly if the second determinant's matrix is. Reference: methods for the normalised hinge in
    M. Seeger's thesis; the identities are Woodbury's.
    """

    def __init__(self, gram: Gram, W: Array) -> None:
        negative = np.flatnonzero(W < 0.0)
        self.W, self._gram = W, gram
        self.positive = gram.factor(np.maximum(W, 0.0))  # A
        self.jitter = self.positive.jitter
        P = np.empty((len(W), len(negative)), order="F")  # its transpose is solved with, row-major
        for i in range(0, len(negative), ROWS):
            solved = self.positive.solve(gram.rows(negative[i : i + ROWS]).T)
            np.negative(solved, out=P[:, i : i + ROWS])
        P[negative, np.arange(len(negative))] += 1.0
        KP = np.asarray(gram @ P)  # S E
        root = np.sqrt(-W[negative])
        rest = -root[:, None] * KP[negative] * root
        rest = 0.5 * (rest + rest.T)
        rest.flat[:: len(rest) + 1] += 1.0
        if arrays.cholesky(rest):
            self.positive.release()
            raise NotPositiveDefiniteError(
                "the precision K^-1 + W is not positive definite: shorten the step"
            )
        self._logdet = cholesky_logdet(rest)
        # rows (k, n) of H and KH with P G P' = H'H and (K P) G (K P)' = KH'KH
        P *= root
        self._half = half_solve(rest, P.T)
        del P
        KP *= root
        self._half_cov = half_solve(rest, KP.T)

    def solve(self, V: Array) -> Array:
        return np.asarray(self.positive.solve(V) - self._half.T @ (self._half @ V))

    def diag(self) -> Array:
        return np.asarray(self.positive.diag() - np.square(self._half).sum(axis=0))

    def cov_diag(self) -> Array:
        return np.asarray(self.positive.cov_diag() + np.square(self._half_cov).sum(axis=0))

    def cov(self) -> Array:
        return _added(self.positive.cov(), self._half_cov, 1.0)

    def release(self) -> None:
        self.positive.release()

    def logdet(self) -> float:
        return self.positive.logdet() + self._logdet

    def _weak(self) -> Iterator[tuple[Index, Array]]:
        """Points where W_i K_ii is tiny or negative, and their columns of K, some at a time."""
        weak: Callable[[], Iterator[tuple[Index, Array]]] = self.positive._weak  # type: ignore[attr-defined]  # a dense factor
        return weak()

    def projected(self, H: Array) -> Factor:
        from mercer.linalg.dense.projected import SignedProjected

        return SignedProjected(self, H)

    def gradient_weights(self, a: Array, count: float) -> Array:
        return _added(self.positive.gradient_weights(a, count), self._half, 0.5 * count)

    def operator(self) -> ExplicitOperator:
        return ExplicitOperator(self.gradient_weights(np.zeros((len(self.W), 1)), -2.0))


def _added(S: Array, half: Array, factor: float) -> Array:
    """S + factor half'half, in place, some rows at a time: no further n x n array."""
    for i in range(0, len(S), ROWS):
        S[i : i + ROWS] += factor * (half[:, i : i + ROWS].T @ half)
    return S
