"""C for several latent functions that share K, each with its own sites, coupled or not.

With E_c = (K + D_c^-1)^-1 for function c and, where a softmax couples them, M = sum_c E_c:

    C_ce = [c = e] E_c - E_c M^-1 E_e        (GPML 3.5; uncoupled: the first term alone)

The sites of a softmax with probabilities p_i and sample weight w_i have D_i = w_i p_i and the
precision W_i = diag(D_i) - D_i D_i' / sum_c D_ic = w_i (diag(p_i) - p_i p_i') at point i.
Theory (A15).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from mercer.core.arrays import Array, back_solve, cholesky_logdet, half_solve, mirror
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import cholesky
from mercer.linalg.gram import Charge, Factor, Gram
from mercer.linalg.operators import SeveralOperator

TINY = 1e-200  # a precision below is none: its inverse would overflow
COLUMNS = 32  # points taken at a time, to bound the memory


def coupled(gram: Gram, D: Array) -> CoupledFactor:
    """Return C for softmax sites D = w p (n, c): c + 1 factorisations."""
    found = gram.joint(D)
    if found is not None:
        assert isinstance(found, CoupledFactor)
        return found
    factors, M = [], gram.take()
    M[...] = 0.0
    for column in D.T:
        factors.append(gram.factor(np.where(column < TINY, 0.0, column)))
        factors[-1].add_to(M)
    if cholesky(M):
        raise NotPositiveDefiniteError(
            "the classes together are not positive definite: some sample weight is too small, or "
            "the kernel's variance too large, for double precision; rescale them"
        )
    return CoupledFactor(factors, M, D.sum(axis=1), gram)


class CoupledFactor(Factor):
    """C of m latent functions; vectors are (n, m), one column per function.

    Parameters
    ----------
    factors : E_c for each function.
    shared : (n, n) Cholesky factor of M in the form of ``arrays.cholesky``, or None if uncoupled.
    total, gram : (n,) sum_c D_c, and where n x n arrays come from and go to; needed if coupled.
    """

    def __init__(
        self,
        factors: list[Factor],
        shared: Array | None = None,
        total: Array | None = None,
        gram: Gram | None = None,
    ) -> None:
        self.factors, self.shared, self.total, self._gram = factors, shared, total, gram
        self.jitter = max(f.jitter or 0.0 for f in factors)

    def solve(self, V: Array) -> Array:
        """C V for V (n, m): all functions at once."""
        E = self._each(V)
        if self.shared is None:
            return E
        common = back_solve(self.shared, half_solve(self.shared, E.sum(axis=1, keepdims=True)))
        return np.asarray(E - self._each(np.repeat(common, len(self.factors), axis=1)))

    def beginning(self) -> CoupledFactor | None:
        kept = [f.beginning() for f in self.factors]
        return CoupledFactor([f for f in kept if f is not None]) if None not in kept else None

    def _each(self, V: Array) -> Array:
        columns = [f.solve(np.ascontiguousarray(V[:, [j]])) for j, f in enumerate(self.factors)]
        return np.hstack(columns)

    def point_blocks(self, gram: Gram) -> Array:
        """Posterior covariance of the functions among each other at each point: (n, m, m)."""
        n, m = len(gram.diag()), len(self.factors)
        if self.shared is None:
            own = np.column_stack([f.cov_diag() for f in self.factors])
            return np.asarray(own[:, :, None] * np.eye(m))
        blocks = gram.diag()[:, None, None] * np.eye(m)
        for begin in range(0, n, COLUMNS):
            part = np.arange(begin, min(begin + COLUMNS, n))
            K, halves = np.asfortranarray(gram.rows(part).T), []
            for c, factor in enumerate(self.factors):
                EK = factor.solve(K)
                blocks[part, c, c] -= np.einsum("jp,jp->p", K, EK)
                halves.append(half_solve(self.shared, EK))
                for e, half in enumerate(halves):
                    shared = np.einsum("jp,jp->p", halves[c], half)
                    blocks[part, c, e] += shared
                    if e < c:
                        blocks[part, e, c] += shared
        return np.asarray(blocks)

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - sum_c C_cc) / 2, fresh; ``count`` is the number of functions.

        With M = R R' and U_c = R^-1 E_c the sum is over E_c - U_c'U_c.
        """
        Q = np.empty((len(a), len(a))) if self._gram is None else self._gram.take()
        np.matmul(0.5 * a, a.T, out=Q)
        nothing = np.zeros((len(a), 1))
        for factor in self.factors:
            E = factor.gradient_weights(nothing, -1.0)  # E_c / 2
            Q -= E
            if self.shared is not None:
                # U_c / 2 over E_c / 2, which is symmetric: no copy whichever way it is read
                U = blas.dtrsm(1.0, self.shared.T, E.T, lower=1, overwrite_b=1)
                blas.dsyrk(2.0, U, 1.0, Q.T, trans=1, lower=1, overwrite_c=1)
                if self._gram is not None:
                    self._gram.give(E)
        return mirror(Q)

    def release(self) -> None:
        for factor in self.factors:
            factor.release()
        if self.shared is not None and self._gram is not None:
            self._gram.give(self.shared)
            self.shared = np.empty((0, 0))

    def logdet(self) -> float:
        """log |I + K W| over all functions.

        Coupled, with the c x c blocks W_i above: sum_c log|I + K D_c| + log|M| - log|sum_c D_c|
        (the determinant lemma; with unit sample weights the last term is zero).
        """
        value = sum(f.logdet() for f in self.factors)
        if self.shared is None:
            return value
        assert self.total is not None
        return value + cholesky_logdet(self.shared) - float(np.log(self.total).sum())

    def charge(self) -> Charge | None:
        found = [f.charge() for f in self.factors]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        value, slope, freedom = (sum(parts) for parts in zip(*known, strict=True))
        return Charge(value, slope, freedom)

    def quad(self, A: Array, B: Array) -> Array:
        raise NotImplementedError("several latent functions: use operator().blocks")

    def quad_diag(self, A: Array) -> Array:
        raise NotImplementedError("several latent functions: use operator().blocks")

    def diag(self) -> Array:
        raise NotImplementedError("several latent functions: use operator().blocks")

    def cov_diag(self) -> Array:
        raise NotImplementedError("several latent functions: use point_blocks")

    def operator(self) -> SeveralOperator:
        return SeveralOperator([f.operator() for f in self.factors], self.shared)
