"""C for two latent functions whose sites are coupled: one after the other; theory (A25).

A precision of two functions is two observations at each point, the first function with precision
delta and g = r f_1 + f_2 with precision q:

    W_i = [[p, b], [b, q]] = delta (1, 0)(1, 0)' + q (r, 1)(r, 1)',   r = b/q,   delta = p - b r

So f_1 is conditioned on its own observations, Sigma = (K_1^-1 + delta)^-1, and then both on those
of g, whose prior is G = K_2 + r Sigma r. With J = Sigma K_1^-1 = (I + K_1 delta)^-1 and
E = (G + q^-1)^-1

    C_22 = E,    C_12 = J'r E,    C_11 = J'delta + J'r E r J,    log|I + K W| = the sum of both

Nothing is subtracted, so that a delta or q of zero is an ordinary value.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from mercer.core.arrays import Array, mirror
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.coupled import NO_PRECISION, TINY, CoupledFactor, shared_operator
from mercer.linalg.dense.factor import DenseFactor, solve_rows
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Gram
from mercer.linalg.operators import SeveralOperator

WEAK = 1e-6  # W_i K_ii below which variances are not read off C / W, as it has no digits of them
NEARLY = 1e-4  # delta / p, likewise: the precision is all but that of g alone
ROUNDING = 1e-8  # of p, by which delta may be negative: a Hessian may be that of differences


class PairedFactor(CoupledFactor):
    """C of two latent functions with precisions W (n, 2, 2); vectors are (n, 2).

    ``turned`` is J' (n, n), ``last`` E once it is asked for, ``halves`` J'r E^1/2: rows by point.
    """

    def __init__(self, gram: Gram, W: Array) -> None:
        one, two = gram.each(2)
        assert isinstance(one, DenseGram)
        assert isinstance(two, DenseGram)
        p, b, q = W[:, 0, 0], W[:, 0, 1], W[:, 1, 1]
        q = np.where(np.abs(q) < TINY, 0.0, q)
        r = np.divide(b, q, out=np.zeros_like(b), where=q > 0.0)
        delta = p - b * r
        if np.any(q < 0.0) or np.any(delta < -ROUNDING * np.abs(p)):
            raise NotPositiveDefiniteError(NO_PRECISION)
        delta = np.where(delta < TINY, 0.0, delta)
        self.delta, self.r, self.q, self._W, self._pair = delta, r, q, W, gram
        first = one.factor(delta)
        assert isinstance(first, DenseFactor)
        n = len(delta)
        # E_1 = J'delta; where delta is none or nearly so J'e_i = e_i - E_1 K_1 e_i
        J, G = first.gradient_weights(np.zeros((n, 1)), -2.0), one.take()
        weak = np.flatnonzero(delta * one.diag() < WEAK)
        some = np.arange(len(weak))
        exact = -np.asarray(J @ one.rows(weak).T)
        exact[weak, some] += 1.0
        strong = np.ones(n)
        np.divide(1.0, delta, out=strong, where=delta > 0.0)
        J *= strong
        J[:, weak] = exact
        # r Sigma r: Sigma = (I - J') / delta by rows, or K_1 J'e_i
        np.multiply(J, r, out=G)
        G *= (-strong * r)[:, None]
        G.flat[:: n + 1] += strong * r**2
        if len(weak):
            S = r[:, None] * np.asarray(one @ exact) * r[weak]
            G[:, weak], G[weak] = S, S.T
        G += two.matrix
        prior = DenseGram.given(G)
        prior.room, prior.scratch = one.room, one.scratch
        second = prior.factor(q)
        assert isinstance(second, DenseFactor)
        one.give(G)
        super().__init__([first, second])
        self.turned, self.second = J, second
        self.faint = bool(np.any(q * two.diag() < WEAK))
        self.last: Array | None = None
        self.halves: Array | None = None
        self.squares = np.empty(n)  # of the rows of the halves

    def solve(self, V: Array) -> Array:
        """C V for V (n, 2)."""
        v, r, scale = V[:, 0], self.r, self.second.scale
        seen = r * (v @ self.turned) + V[:, 1]
        if self.last is None:
            t = self.second.solve(seen[:, None])[:, 0]
        else:
            t = scale * (self.last @ (scale * seen))
        return np.column_stack([self.turned @ (self.delta * v + r * t), t])

    def spread(self, gram: Gram, V: Array) -> tuple[Array, Array]:
        change = self.solve(np.asarray(gram @ V))
        y = V - change
        if self.faint:
            return y, np.asarray(gram @ y)
        first = gram.each(2)[0] @ y[:, 0]
        return y, np.column_stack([first, change[:, 1] / self.q - self.r * first])

    def _whole(self) -> tuple[Array, Array]:
        """Return E without its scales and J'r E^1/2, (n, n); the factor of G may be spent."""
        if self.last is None or self.halves is None:
            self.halves = np.multiply(self.turned, self.r * self.second.scale, out=self._room())
            solve_rows(mirror(self.second.cholesky), self.halves, self.squares)
            self.last = mirror(self.second.inverse())
        return self.last, self.halves

    def _room(self) -> Array:
        return self._pair.take()

    def point_blocks(self, gram: Gram) -> Array:
        """Posterior covariance of the two functions at each point, (n, 2, 2).

        That of (f_1, g) is P^-1 - P^-1 A P^-1 with P = diag(delta, q) and A the C of these.
        """
        (M, _), (one, two), scale = self._whole(), gram.each(2), self.second.scale
        delta, r, q, last = self.delta, self.r, self.q, scale**2 * np.diagonal(M)
        cross = scale * np.einsum("ik,ik,k->i", self.turned, M, r * scale)  # of C_12
        own = delta * np.diagonal(self.turned) + self.squares  # of C_11
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            v = (1.0 - (own - 2.0 * r * cross + r**2 * last) / delta) / delta
            tie = (r * last - cross) / (delta * q)
            rest = (1.0 - last / q) / q - 2.0 * r * tie + r**2 * v
            tie = tie - r * v
        K, L = one.diag(), two.diag()
        few = (delta * K < WEAK) | (q * L < WEAK) | (delta < NEARLY * self._W[:, 0, 0])
        some = np.flatnonzero(few)
        if len(some):  # as they are: Sigma less what g says
            S, B = np.asarray(one @ self.turned[:, some]), two.rows(some).T
            Z, B = (scale * r)[:, None] * S, scale[:, None] * B
            MB = M @ B
            v[some] = S[some, np.arange(len(some))] - np.einsum("ki,ki->i", Z, M @ Z)
            tie[some] = -np.einsum("ki,ki->i", Z, MB)
            rest[some] = L[some] - np.einsum("ki,ki->i", B, MB)
        return np.stack([np.stack([v, tie], axis=1), np.stack([tie, rest], axis=1)], axis=1)

    def weights_of(self, j: int, a: Array) -> Array:
        halves = self._whole()[1]
        if j == 1:
            self.last = None
            return self.second.gradient_weights(a, 1.0)
        Q = np.multiply(self.turned, -0.5 * self.delta, out=self._room())
        blas.dsyrk(-0.5, halves.T, 1.0, Q.T, trans=1, lower=1, overwrite_c=1)
        blas.dsyr(0.5, a[:, 0], a=Q.T, lower=1, overwrite_a=1)
        return mirror(Q)

    def release(self) -> None:
        super().release()
        self._pair.give(self.turned, self.last, self.halves)
        self.turned, self.last, self.halves = np.empty((0, 0)), None, None

    def operator(self) -> SeveralOperator:
        return shared_operator(self._pair, self._W)
