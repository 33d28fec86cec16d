"""The operator C of a finished posterior: what is subtracted from the prior covariance.

For cross-covariances A = k(P, X) (n, p), B = k(P, Z) (n, q) and basis rows hA (p, k), hB (q, k):

    reduce(A, B, hA, hB) = A' C B  -  (hA - A' C H) (H' C H)^-1 (hB - B' C H)'      formula (2)

(the second term only with an unpenalised basis, GPML (2.42)). An operator is three or four arrays;
``process.record`` says which. Contrasts are universal kriging, theory (G10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self, cast

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from mercer.core.arrays import Array, back_solve, half_solve, host, transposed_solve
from mercer.core.device.array import Distant, together
from mercer.core.errors import NotPositiveDefiniteError

REPEATED = (
    "the new rows repeat what the model knows exactly, and without noise they are redundant or "
    "contradictory: leave such rows out, or give the loss some noise"
)


class PosteriorOperator(ABC):
    """C as a finished posterior keeps it.

    ``walks`` if the prior is Markov on a line, or a sum of such: ``mean_at`` then costs O(n + q),
    and so does ``var_at`` if it ``knows_variances``. ``expands`` if it has :meth:`against`, and
    ``grows`` if it has :meth:`bordered`. ``follows`` if it is the operator of the posterior before
    it in a list of draws: variances are then the same.
    """

    walks: ClassVar[bool] = False
    knows_variances: ClassVar[bool] = False
    expands: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    distant: bool = False  # on a device, where covariances with its points are then formed
    weighs: ClassVar[bool] = False  # known by weights of features: ``cov_at`` and ``blocks_at``

    @property
    def spreads(self) -> bool:
        """Whether it says how far the function may be from its mean."""
        return True

    def against(self, B: Array, hB: Array | None) -> tuple[Array, Array | None]:
        """Return c (n, q) and d (k, q) with reduce(A, B, hA, hB) = A'c - hA d, in O(n^2 q).

        A posterior covariance with few points is then a product for any number of others.
        """
        raise NotImplementedError

    def bordered(self, A: Array, T: Array, h: Array | None) -> Self:
        """Return the operator with q more points, in O(n^2 q): nothing is factored again.

        A (n, q) are prior covariances of old and new points, T (q, q) those of the new ones, noise
        included, and h (q, k) the basis there. Theory (D5).
        """
        raise NotImplementedError

    def beside(self, points: Array) -> Array:
        """Return points (n, d) on the device of a distant C."""
        return points

    def mean_at(self, X: Array, alpha: Array) -> Array:
        """k(X, P) alpha for X (q, d), alpha (n, m): (q, m)."""
        raise NotImplementedError

    def var_at(self, X: Array, h: Array | None = None) -> Array:
        """Formula (2) for each row of X (q, d), with basis rows h (q, k): (q,)."""
        raise NotImplementedError

    def cov_at(self, X: Array, Z: Array, hX: Array | None, hZ: Array | None) -> Array:
        """Return cov(x, z) for each row of X (q, d) and Z (r, d), with basis rows: (q, r)."""
        raise NotImplementedError

    def blocks_at(self, X: Array, h: Array | None) -> Array:
        """Return the covariance of m functions among each other at each row of X: (q, m, m)."""
        raise NotImplementedError

    def members(self) -> Iterable[tuple[Array, PosteriorOperator]]:
        """Yield alpha (n, m) and C of each share of a mixture; nothing where there is one."""
        return ()

    @abstractmethod
    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B less the basis term, shape (p, q)."""

    @abstractmethod
    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """Return the diagonal of ``reduce(A, A)``, shape (p,)."""


@dataclass(eq=False)
class ExplicitOperator(PosteriorOperator):
    """C as an (n, n) symmetric matrix; None stands for zero (a mode without spread)."""

    expands: ClassVar[bool] = True
    C: Array | None

    @property
    def spreads(self) -> bool:
        return self.C is not None

    def against(self, B: Array, hB: Array | None) -> tuple[Array, Array | None]:
        return (np.zeros_like(B) if self.C is None else np.asarray(self.C @ B)), None

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        if self.C is None:
            return np.zeros((A.shape[1], B.shape[1]))
        return np.asarray(A.T @ (self.C @ B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        if self.C is None:
            return np.zeros(A.shape[1])
        return np.asarray(np.einsum("ij,ij->j", A, self.C @ A))


class CholeskyOperator(PosteriorOperator):
    """C = S L^-T L^-1 S; L' is the upper triangle (row-major) of ``cholesky``, S = diag(scale)."""

    expands: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def __init__(self, cholesky: Array, scale: Array) -> None:
        self.cholesky, self.scale = cholesky, scale
        self.distant = cholesky.__class__ is Distant

    def beside(self, points: Array) -> Array:
        if self.cholesky.__class__ is not Distant:  # pickle has brought it to the CPU
            return points
        return cast(Array, together(points, self.cholesky)[0])

    def half(self, V: Array) -> Array:
        """L^-1 S V, so that V' C V = |half(V)|^2."""
        return half_solve(self.cholesky, self.scale[:, None] * V)

    def half_transposed(self, V: Array) -> Array:
        """S L^-T V."""
        return self.scale[:, None] * back_solve(self.cholesky, V)

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        left = self.half(A)
        return np.asarray(host(left.T @ (left if B is A else self.half(B))))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        left = self.half(A)
        return np.asarray(host(np.einsum("ij,ij->j", left, left)))

    def against(self, B: Array, hB: Array | None) -> tuple[Array, Array | None]:
        return self.half_transposed(self.half(B)), None

    def bordered(self, A: Array, T: Array, h: Array | None) -> CholeskyOperator:
        return CholeskyOperator(*self._border(A, T)[:2])

    def _border(self, A: Array, T: Array) -> tuple[Array, Array, Array, Array]:
        """Return L' and S of all points, and what is new in L': B (n, q) above U (q, q)."""
        n, q = A.shape
        scale = 1.0 / np.sqrt(np.diagonal(T))
        B = self.half(A) * scale
        try:
            U = cholesky(scale[:, None] * T * scale - B.T @ B)
        except LinAlgError:
            raise NotPositiveDefiniteError(REPEATED) from None
        L = np.zeros((n + q, n + q))
        L[:n, :n], L[:n, n:], L[n:, n:] = np.triu(host(self.cholesky)), B, U
        return L, np.concatenate([self.scale, scale]), B, U


class HalvesOperator(PosteriorOperator):
    """A'C B = u'v - r's from two halves of each side, which a child states."""

    @abstractmethod
    def _halves(self, A: Array, hA: Array | None) -> tuple[Array, Array]:
        """Return u and r of A (n, p), with basis rows hA (p, k)."""

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        u, r = self._halves(A, hA)
        v, s = (u, r) if B is A else self._halves(B, hB)
        return np.asarray(u.T @ v - r.T @ s)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        u, r = self._halves(A, hA)
        return np.asarray(host(np.einsum("ij,ij->j", u, u) - np.einsum("ij,ij->j", r, r)))


class BasisOperator(HalvesOperator, CholeskyOperator):
    """The same with a basis: thin QR half(H) = Q R, so that H' C H = R'R."""

    def __init__(self, cholesky: Array, scale: Array, Q: Array, R: Array) -> None:
        super().__init__(cholesky, scale)
        self.Q, self.R = Q, R

    def _halves(self, A: Array, hA: Array | None) -> tuple[Array, Array]:
        assert hA is not None
        u = self.half(A)
        return u, transposed_solve(self.R, hA.T) - self.Q.T @ u

    def against(self, B: Array, hB: Array | None) -> tuple[Array, Array | None]:
        u, r = self._halves(B, hB)
        return self.half_transposed(u + self.Q @ r), np.asarray(solve_triangular(self.R, r))

    def bordered(self, A: Array, T: Array, h: Array | None) -> BasisOperator:
        assert h is not None
        L, scale, B, U = self._border(A, T)
        # the halves of the basis are [Q R; E]: the QR of [R; E] is all that changes
        E = solve_triangular(U, scale[len(B) :, None] * h - B.T @ (self.Q @ self.R), trans=1)
        Q, R = np.linalg.qr(np.vstack([self.R, E]))
        k = len(R)
        return BasisOperator(L, scale, np.vstack([self.Q @ Q[:k], Q[k:]]), R)


@dataclass(eq=False)
class ExplicitBasisOperator(PosteriorOperator):
    """C (n, n) itself with a basis: T = C H R^-1 (n, k) and R, H' C H = R'R, for any C."""

    C: Array
    T: Array
    R: Array

    def _rest(self, A: Array, hA: Array | None) -> Array:
        assert hA is not None
        return transposed_solve(self.R, hA.T) - self.T.T @ A

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        r = self._rest(A, hA)
        return np.asarray(A.T @ (self.C @ B) - r.T @ (r if B is A else self._rest(B, hB)))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        r = self._rest(A, hA)
        return np.asarray(np.einsum("ij,ij->j", A, self.C @ A) - np.einsum("ij,ij->j", r, r))


@dataclass(eq=False)
class ContrastOperator(PosteriorOperator):
    """Formula (2) for a kernel that is positive on contrasts only.

    With w(x) = J h(x), which gives every basis function at x from its values at the points, the
    difference f(x) - w(x)'f(P) is a contrast. Its covariance with those at P is
    c(x) = k(P, x) - K w(x), and

        k(x, z) - reduce = [k(x, z) - w(x)'k(P, z) - k(x, P) w(z) + w(x)'K w(z)]
                           - c(x)'M'M c(z)  +  w(x)'(noise) w(z)

    For a posterior on inducing points |M c|^2 is what the values at these points would say, and
    what the data leave unknown of it, |N c + T h|^2, is added again.

    Parameters
    ----------
    half, anchor, cross : M (r, n), and J and K J, (n, k).
    block : (k, k) J'K J plus the covariance of the basis coefficients from noise alone.
    gain, tilt : N (r, n) and T (r, k), or None.

    Reference: GPML (2.42); Wahba, Spline models for observational data (1990), section 1.5.
    """

    half: Array
    anchor: Array
    cross: Array
    block: Array
    gain: Array | None = None
    tilt: Array | None = None

    def _known(self, A: Array, h: Array) -> tuple[Array, Array | None]:
        """Return M c, and N c + T h, for A (n, p) and h (p, k)."""
        c = A - self.cross @ h.T
        if self.gain is None or self.tilt is None:
            return self.half @ c, None
        return self.half @ c, self.gain @ c + self.tilt @ h.T

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        assert hA is not None
        assert hB is not None
        u, s = self._known(A, hA)
        v, t = (u, s) if B is A else self._known(B, hB)
        left, right = hA @ (self.anchor.T @ B), (A.T @ self.anchor) @ hB.T
        total = left + right - hA @ self.block @ hB.T + u.T @ v
        if s is not None and t is not None:
            total -= s.T @ t
        return np.asarray(total)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        assert hA is not None
        u, s = self._known(A, hA)
        total = np.einsum("ij,ij->i", 2.0 * (A.T @ self.anchor) - hA @ self.block, hA)
        total += np.einsum("ij,ij->j", u, u)
        if s is not None:
            total -= np.einsum("ij,ij->j", s, s)
        return np.asarray(total)


@dataclass(eq=False)
class InducedOperator(HalvesOperator):
    """C on m inducing points, by two triangles: A'C B = (L^-1 A)'(L^-1 B) - (R^-T a)'(R^-T b).

    ``triangle`` is L' (m, m), upper, of the prior at the points; ``root`` is R (m + c, m + c),
    upper, of the posterior, with the basis below: a = [L^-1 A; h]. The explicit C would lose half
    of the digits of a variance. Theory (I1).
    """

    expands: ClassVar[bool] = True
    triangle: Array
    root: Array

    def against(self, B: Array, hB: Array | None) -> tuple[Array, Array | None]:
        phi, half = self._halves(B, hB)
        left = np.asarray(solve_triangular(self.root, half))
        m = len(phi)
        c = np.asarray(solve_triangular(self.triangle, phi - left[:m]))
        return c, None if hB is None else left[m:]

    def _halves(self, A: Array, h: Array | None) -> tuple[Array, Array]:
        phi = transposed_solve(self.triangle, A)
        both = phi if h is None else np.vstack([phi, h.T])
        return phi, transposed_solve(self.root, both)


@dataclass(eq=False)
class SeveralOperator(PosteriorOperator):
    """C_ce = [c = e] E_c - E_c u_c M^-1 u_e E_e; without M the functions are independent.

    Parameters
    ----------
    operators : E_c for each of m functions.
    shared : (n, n) Cholesky factor of M (upper triangle), or None.
    ratio : u (n, m), one for all if None.
    """

    operators: list[PosteriorOperator]
    shared: Array | None
    ratio: Array | None = field(default=None, kw_only=True)

    def blocks(self, A: Array | list[Array], hA: Array | None = None) -> Array:
        """a_j'C_ce a_j, less the basis term, for each column of A (n, p): shape (p, m, m).

        A may be a list, one for each function.
        """
        m = len(self.operators)
        both = list(zip(self.operators, A if isinstance(A, list) else [A] * m, strict=True))
        own = np.column_stack([op.reduce_diag(K, hA) for op, K in both])
        result = own[:, :, None] * np.eye(m)
        if self.shared is not None:
            halves = np.stack([self._half(j, K) for j, (_, K) in enumerate(both)], axis=2)
            result -= np.einsum("npc,npe->pce", halves, halves, optimize=True)
        return np.asarray(result)

    def column(self, b: Array) -> Array:
        """C_ce b for the covariances b (n, 1) with one point: shape (n, m, m)."""
        each = np.hstack([op.against(b, None)[0] for op in self.operators])
        result = np.asarray(each[:, :, None] * np.eye(len(self.operators)))
        if self.shared is not None:
            common = back_solve(self.shared, half_solve(self.shared, each))
            for c, op in enumerate(self.operators):
                result[:, c] -= op.against(common, None)[0]
        return result

    def _half(self, j: int, A: Array) -> Array:
        """M^-1/2 u_j E_j A."""
        assert self.shared is not None
        E = _product(self.operators[j], A)
        return half_solve(self.shared, E if self.ratio is None else self.ratio[:, [j]] * E)

    def reduce_of(self, j: int, A: Array) -> Array:
        """A'C_jj A for function j, A (n, p): (p, p)."""
        own = self.operators[j].reduce(A, A, None, None)
        if self.shared is None:
            return own
        half = self._half(j, A)
        return np.asarray(own - half.T @ half)

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        raise NotImplementedError("the covariance of several latent functions: use blocks")

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        raise NotImplementedError("the variance of several latent functions: use blocks")


def _product(operator: PosteriorOperator, A: Array) -> Array:
    """E A."""
    if isinstance(operator, CholeskyOperator):
        return operator.half_transposed(operator.half(A))
    assert isinstance(operator, ExplicitOperator)
    return np.zeros_like(A) if operator.C is None else np.asarray(operator.C @ A)
