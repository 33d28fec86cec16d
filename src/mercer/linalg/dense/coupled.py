"""C for several latent functions, with one K or a K_c each, and sites of their own, coupled or not.

At point i the sites have the precision W_i = diag(D_i) - R_i R_i' (m, m). With the factors
E_c = (K_c + D_c^-1)^-1, u = R / D and M = diag(1 - sum_c R_c u_c) + sum_c u_c E_c u_c:

    C_ce = [c = e] E_c - E_c u_c M^-1 u_e E_e        (GPML 3.5; uncoupled: the first term alone)

The sites of a softmax with probabilities p_i and sample weight w_i have D_i = w_i p_i and
R_i = D_i / sqrt(sum_c D_ic), W_i = w_i (diag(p_i) - p_i p_i'): the first term of M is zero, and u,
the same for all classes, is left out: M = sum_c E_c. Theory (A15), (A22).
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
NO_PRECISION = (
    "the latent functions together are not positive definite: the curvature of the loss is no "
    "precision; a loss that is not convex states information(f)"
)


def coupled(gram: Gram, D: Array) -> CoupledFactor:
    """Return C for softmax sites D = w p (n, c): c + 1 factorisations."""
    found = gram.joint(D)
    if found is not None:
        assert isinstance(found, CoupledFactor)
        return found
    factors, M = [], gram.take()
    M[...] = 0.0
    for column, own in zip(D.T, gram.each(D.shape[1]), strict=True):
        factors.append(own.factor(np.where(column < TINY, 0.0, column)))
        factors[-1].add_to(M)
    if cholesky(M):
        raise NotPositiveDefiniteError(
            "the classes together are not positive definite: some sample weight is too small, or "
            "the kernel's variance too large, for double precision; rescale them"
        )
    return CoupledFactor(factors, M, D.sum(axis=1), gram)


def split(W: Array) -> tuple[Array, Array | None]:
    """Return D and R (n, m) with W = diag(D) - R R' for precisions W (n, m, m); R is None if zero.

    Of two functions with the precision b between them R = sqrt|b| (1, -sign b).
    """
    m = W.shape[1]
    D, off = np.einsum("nii->ni", W), W * (1.0 - np.eye(m))
    if not np.any(off):
        return np.array(D), None
    if m > 2:
        raise NotImplementedError(
            f"the curvature of the loss couples {m} latent functions, and only two can be coupled, "
            "or the classes of a softmax: state an information(f) that is diagonal"
        )
    b = W[:, 0, 1]
    R = np.sqrt(np.abs(b))[:, None] * np.column_stack([np.ones(len(b)), -np.sign(b)])
    return D + np.abs(b)[:, None], R


def blocked(gram: Gram, W: Array) -> CoupledFactor:
    """Return C for sites of precision W (n, m, m): m factorisations."""
    D, R = split(W)
    if R is not None:
        from mercer.linalg.dense.paired import PairedFactor

        return PairedFactor(gram, W)
    columns = zip(gram.each(D.shape[1]), D.T, strict=True)
    return CoupledFactor([own.factor(np.where(np.abs(d) < TINY, 0.0, d)) for own, d in columns])


def shared_operator(gram: Gram, W: Array) -> SeveralOperator:
    """Return C for coupled sites of precision W (n, 2, 2) as a posterior keeps it."""
    D, R = split(W)
    assert R is not None
    columns = zip(gram.each(D.shape[1]), D.T, strict=True)
    factors = [own.factor(np.where(d < TINY, 0.0, d)) for own, d in columns]
    u = np.where(D < TINY, 0.0, R / np.maximum(D, TINY))
    M = np.diag(1.0 - (R * u).sum(axis=1))
    for factor, column in zip(factors, u.T, strict=True):
        E = np.zeros_like(M)
        factor.add_to(E)
        M += column[:, None] * E * column
    if cholesky(M):
        raise NotPositiveDefiniteError(NO_PRECISION)
    return SeveralOperator([f.operator() for f in factors], M, ratio=u)


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
        return np.asarray(E - self._each(np.repeat(common, E.shape[1], axis=1)))

    def spread(self, gram: Gram, V: Array) -> tuple[Array, Array]:
        """Return y = (I + W K)^-1 V and K y for V (n, m); uncoupled K y = C K V / W."""
        change = self.solve(np.asarray(gram @ V))
        W = None if self.shared is not None else [getattr(f, "W", 0.0) for f in self.factors]
        if W is None or np.min(W) < TINY:
            y = V - change
            return y, np.asarray(gram @ y)
        return V - change, change / np.column_stack(W)

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
        blocks = gram.diag().reshape(n, -1, 1) * np.eye(m)
        grams = gram.each(m)
        for begin in range(0, n, COLUMNS):
            part, halves, last = np.arange(begin, min(begin + COLUMNS, n)), [], None
            for c, factor in enumerate(self.factors):
                if grams[c] is not last:
                    K, last = np.asfortranarray(grams[c].rows(part).T), grams[c]
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
        return self._weights(a, range(len(self.factors)))

    def weights_of(self, j: int, a: Array) -> Array:
        """(a a' - C_jj) / 2 of function j alone, fresh, for a (n, 1)."""
        if self.shared is None:
            return self.factors[j].gradient_weights(a, 1.0)
        return self._weights(a, range(j, j + 1))

    def _weights(self, a: Array, functions: range) -> Array:
        Q = np.empty((len(a), len(a))) if self._gram is None else self._gram.take()
        np.matmul(0.5 * a, a.T, out=Q)
        nothing = np.zeros((len(a), 1))
        for j in functions:
            E = self.factors[j].gradient_weights(nothing, -1.0)  # E_c / 2
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
        value += cholesky_logdet(self.shared)
        return value if self.total is None else value - float(np.log(self.total).sum())

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
