"""Weight space: a kernel with m explicit features, K = F F', in O(n m^2) time and O(n m) memory.

A function is f(x) = phi(x)'b with weights b ~ N(0, I). Given sites of precision W their posterior
is N(F'alpha, (I + F'W F)^-1): the reduced prior of :mod:`mercer.linalg.reduced.gram` whose m
numbers are the weights themselves, so that nothing is left unexplained and no Kzz is factored.

Theory (I13), (I14). Reference: GPML section 2.1; Jaakkola & Haussler (1999), section 3.1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack, solve_triangular

from mercer.core.arrays import Array, Index, transposed_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.kernels.base import Gradient, Kernel, added, scaled, zero_gradient
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.factor import cholesky, half_inverse, inverse_of_half
from mercer.linalg.gram import Charge, Factor
from mercer.linalg.reduced.factor import ReducedFactor
from mercer.linalg.reduced.gram import BLOCK, ReducedGram
from mercer.linalg.reduced.operator import WeightOperator

STEPS = 3  # by which the weights are found anew where rounding took from them
FROM, TIMES = 256, 4  # points, in all and a feature, from which "auto" takes weight space


def pays(n: int, m: int) -> bool:
    """Whether n points have more to gain from m weights than from K: 256 and 4 m, at least."""
    return n >= max(FROM, TIMES * m)


class WeightGram(ReducedGram):
    """K = F F' + diag(noise) on n rows, F = phi(X) (n, m) the explicit features of a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> gram = WeightGram(Linear() + 1.0, np.array([[0.0], [1.0], [2.0]]))
    >>> gram @ np.ones((3, 1))
    array([[3.],
           [6.],
           [9.]])
    """

    name = "weights"
    exact: ClassVar[bool] = True

    def __init__(self, kernel: Kernel, points: Array) -> None:
        signal = kernel.signal()
        self.kernel, self.signal, self.points, self.corrected = kernel, signal, points, False
        F = np.ascontiguousarray(signal.explicit(points))
        self._features, self.single, self.jitter = F, False, 0.0
        self.block = max(256, BLOCK // max(1, F.shape[1]))
        self.prior = np.einsum("ij,ij->i", F, F)
        n = len(points)
        self.noise = kernel.diag(points) - signal.diag(points) if self._noisy else np.zeros(n)
        self.residual, self._known, self.used = np.zeros(n), True, np.ones(F.shape[1], dtype=bool)
        if not np.all(np.isfinite(self.prior)):
            raise ValueError("the kernel has no finite values at some of the rows: scale them")

    @property
    def support(self) -> Array:
        return self.points[:0]

    @property
    def m(self) -> int:
        assert self._features is not None
        return int(self._features.shape[1])

    def square_root(self) -> Array:
        return super().square_root() if np.any(self.noise) else self.features(slice(None))

    def _formed(self, rows: slice | Index, out: Array | None = None) -> Array:
        return self.features(rows)

    def factor(self, W: Array) -> Factor:  # type: ignore[override]  # rows may be held
        held = np.isinf(W) & (self.noise == 0.0)
        return HeldFactor(self, W + 0.0) if np.any(held) else FeatureFactor(self, W + 0.0)

    def joint(self, D: Array) -> JointFactor:
        return JointFactor(self, D)

    def carry(self, alpha: Array) -> Array:
        """F'alpha (m, r), the means of the weights."""
        return self.project(alpha)

    def weights(self, alpha: Array, factor: Factor, beta: Array | None, z: Array) -> Array:
        """The means b (m, r) of the weights: F'alpha, without what rounding costs there.

        Where the features are large beside the noise alpha is what little is left of the targets,
        and its last digit is many of b's. With E z - alpha = E (F b + H beta), b is found anew:
        each step leaves (I + F'E F)^-1 of the error.
        """
        b = self.carry(alpha)
        if not isinstance(factor, FeatureFactor) or not factor.reflected:
            return b
        E, R = factor.E[:, None], np.ascontiguousarray(factor.R[: self.m, : self.m])
        target = E * z - alpha - (0.0 if beta is None else E * (factor.H @ beta))
        for _ in range(STEPS):
            rest = self.project(target - E * self.expand(b))
            b = b + np.asarray(lapack.dpotrs(R, rest, lower=0)[0])
        return b

    def stands(
        self, alpha: Array, factor: Factor, beta: Array | None, z: Array
    ) -> tuple[Array, Array, WeightOperator]:
        roots = [f.R for f in _each(factor) if isinstance(f, FeatureFactor)]
        roots = [factor.R] if isinstance(factor, JointFactor) else roots
        return (
            self.support,
            alpha[:0],
            WeightOperator(self.signal, self.weights(alpha, factor, beta, z), roots),
        )

    def step(self, factor: Factor, s: Array, a: Array) -> tuple[Array, Array]:
        # by the weights: K s is large beside s, and C K s would have its rounding
        if not isinstance(factor, (FeatureFactor, JointFactor)):
            return super().step(factor, s, a)
        return factor.settled(s), np.zeros((0, s.shape[1]))

    # ------------------------------------------------------------------ gradients
    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """See :class:`Gram`: D = 2 dE/dK F is all that a kernel needs; theory (I14)."""
        left = alpha if U is None or V is None else np.hstack([alpha, U, V])
        right = alpha if U is None or V is None else np.hstack([alpha, V, U])
        factors = [factor] if isinstance(factor, JointFactor) else _each(factor)
        times = alpha.shape[1] if len(factors) == 1 and isinstance(factors[0], FeatureFactor) else 1
        across, gradient = self.project(right).T, zero_gradient(self.kernel)
        for rows in self.blocks():
            F = self.features(rows)
            D = left[rows] @ across
            for one in factors:
                assert isinstance(one, (FeatureFactor, JointFactor))
                D -= times * one.carried(rows, F)
            gradient = added(gradient, self.kernel.explicit_pullback(self.points[rows], F, D))
        if not self._noisy:
            return gradient
        noise = 0.5 * ((alpha**2).sum(axis=1) - times * sum(one.diag() for one in factors))
        if U is not None and V is not None:
            noise = noise + np.einsum("ij,ij->i", U, V)
        return self._with_noise(gradient, noise)

    def contract(self, Q: Array) -> Gradient:
        F = self.features(slice(None))
        gradient = self.kernel.explicit_pullback(self.points, F, 2.0 * (Q @ F))
        return self._with_noise(gradient, np.diagonal(Q)) if self._noisy else gradient

    def adjoint(
        self, factor: Factor, alpha: Array, d_alpha: Array, d_diag: Array
    ) -> tuple[Gradient, Array]:
        """d<Q, K>/d(kernel parameters) and the diagonal of Q, (n,), for a leave-one-out criterion.

        Q = -sym((C d_alpha) alpha') - C diag(d_diag) C, of which only Q F and the diagonal are
        formed; alpha and d_alpha are (n, r), d_diag is (n,).
        """
        assert isinstance(factor, FeatureFactor)
        F, E, Y = self.features(slice(None)), factor.E, factor.solve(d_alpha)
        CF = factor.carried(slice(None), F)
        QF = 0.5 * (Y @ (alpha.T @ F) + alpha @ (Y.T @ F)) + factor.solve(d_diag[:, None] * CF)
        half = transposed_solve(factor.R, np.hstack([F, factor.H]).T)
        seen = (half * (d_diag * E**2)) @ half.T
        squares = np.einsum("ij,ij->j", half, seen @ half) - 2.0 * d_diag * E * factor.leverage()
        q = -np.einsum("ij,ij->i", Y, alpha) - E**2 * (d_diag + squares)
        gradient = self.kernel.explicit_pullback(self.points, F, -2.0 * QF)
        return (self._with_noise(gradient, q) if self._noisy else gradient), q

    def _with_noise(self, gradient: Gradient, q: Array) -> Gradient:
        """Add what the noise parts have of dE/dk_ii = q (n,)."""
        k, X = self.kernel, self.points
        gradient = added(gradient, k.diag_pullback(X, q))
        return added(gradient, scaled(k.diag_pullback(X, q, noise=False), -1.0))


def _each(factor: Factor) -> list[Factor]:
    return factor.factors if isinstance(factor, CoupledFactor) else [factor]


class FeatureFactor(ReducedFactor):
    """C = E - E [F, H] (R'R)^-1 [F, H]'E; R'R is the posterior precision of weights and basis."""

    exact: ClassVar[bool] = True

    def charge(self) -> Charge | None:
        return None

    @property
    def report(self) -> dict[str, Any]:
        return {"weights": self.gram.m} | ({"reflections": True} if self.reflected else {})

    def settled(self, s: Array) -> Array:
        """(I - C K) s for s (n, r)."""
        return self._settled(s)[0]

    def carried(self, rows: slice, F: Array) -> Array:
        """C F of some rows, (q, m)."""
        S, m = self.inverse(), self.gram.m
        return np.asarray(self.E[rows, None] * (F @ S[:m] + self.H[rows] @ S[m:]))

    def operator(self) -> WeightOperator:  # type: ignore[override]  # it stands on no points
        return WeightOperator(self.gram.signal, np.zeros((self.gram.m, 1)), [self.R])


class HeldFactor(Factor):
    """C where some rows A are held fast, W_i = inf: a loss has a kink there.

    Given all other rows the weights have the precision R'R, and the values at A the covariance
    S = T'T, T = R^-T F_A', of which C_AA is the inverse. A basis H (n, k) is projected out by
    G = C H and M = H'G, and what the weights leave of it is h(x) - phi(x)'B.
    """

    def __init__(self, gram: WeightGram, W: Array, H: Array | None = None) -> None:
        self.gram, self.W, self.held = gram, W, np.flatnonzero(np.isinf(W))
        self.others = FeatureFactor(gram, np.where(np.isinf(W), 0.0, W))
        self.T = transposed_solve(self.others.R, gram.features(self.held).T)
        S = self.T.T @ self.T
        if len(self.held) > gram.m or cholesky(S):
            raise NotPositiveDefiniteError("K is singular on the rows that are held fast")
        self.S = np.triu(S)
        self.H = np.zeros((len(W), 0)) if H is None else H
        self.G, self.B = self._solved(self.H)
        M = self.H.T @ self.G
        if cholesky(M):
            raise NotPositiveDefiniteError("the rows with curvature do not determine the basis")
        self.M = np.triu(M)

    def _solved(self, V: Array) -> tuple[Array, Array]:
        """C V (n, r) without the basis, and the weights (m, r) that it stands for."""
        E, R = self.others.E[:, None], self.others.R
        b = self.others.lift(self.gram.project(E * V))
        if not V.shape[1]:
            return V, np.zeros((self.gram.m, 0))
        a = lapack.dpotrs(self.S, V[self.held] - self.gram.features(self.held) @ b, lower=0)[0]
        b = b + np.asarray(solve_triangular(R, self.T @ a))
        found = E * (V - self.gram.expand(b))
        found[self.held] = a
        return found, b

    def projected(self, H: Array) -> Factor:
        return HeldFactor(self.gram, self.W, H)

    def solve(self, V: Array) -> Array:
        first = self._solved(V)[0]
        if not self.H.shape[1]:
            return first
        return np.asarray(first - self.G @ lapack.dpotrs(self.M, self.H.T @ first, lower=0)[0])

    def _known(self) -> Array:
        """The variance (n,) that the held rows leave, without the basis."""
        left = np.empty(len(self.W))
        for rows in self.gram.blocks():
            half = transposed_solve(self.others.R, self.gram.features(rows).T)
            known = transposed_solve(self.S, self.T.T @ half)
            left[rows] = np.einsum("ij,ij->j", half, half) - np.einsum("ij,ij->j", known, known)
        left[self.held] = 0.0
        return np.maximum(left, 0.0)  # rounding leaves -1e-16 of what the others leave

    def _squares(self, V: Array) -> Array:
        """v'M^-1 v for each row of V (n, k)."""
        half = transposed_solve(self.M, V.T)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def cov_diag(self) -> Array:
        return self._known() + self._squares(self.H - self.gram.expand(self.B))

    def diag(self) -> Array:
        E, inverse = self.others.E, self.S.copy()
        found = E - E**2 * self._known()
        half_inverse(inverse)
        inverse_of_half(inverse)
        found[self.held] = np.diagonal(inverse)
        return np.asarray(found - self._squares(self.G))

    def logdet(self) -> float:
        return float("inf")


class JointFactor(CoupledFactor):
    """C of c classes that a softmax couples: R'R (c m, c m) is the precision of all weights.

    With D_i = w_i p_i and W_i = diag(D_i) - D_i D_i' / sum_c D_ic at row i,

        R'R = I + sum_i W_i (x) phi_i phi_i',     C = W - W Phi (R'R)^-1 Phi'W
    """

    def __init__(self, gram: WeightGram, D: Array) -> None:
        F, m, c = gram.features(slice(None)), gram.m, D.shape[1]
        self.gram, self.D, self.share = gram, D, D / D.sum(axis=1, keepdims=True)
        B = np.empty((c * m, c * m))
        for i in range(c):
            for j in range(i, c):
                W = D[:, i] * ((i == j) - self.share[:, j])
                B[i * m : (i + 1) * m, j * m : (j + 1) * m] = F.T @ (W[:, None] * F)
        B[np.diag_indices(c * m)] += 1.0
        if cholesky(B):
            raise NotPositiveDefiniteError(
                "the classes together are not positive definite: some sample weight is too small, "
                "or the kernel's variance too large, for double precision; rescale them"
            )
        self.R = np.triu(B)
        self.factors, self.shared, self.total, self.jitter = [], self.R, D.sum(axis=1), None
        self._whole: Array | None = None

    def _sites(self, V: Array) -> Array:
        """W V for V (n, c)."""
        return np.asarray(self.D * (V - (self.share * V).sum(axis=1, keepdims=True)))

    def solve(self, V: Array) -> Array:
        g = self.gram.project(self._sites(V))
        b = np.asarray(lapack.dpotrs(self.R, g.T.ravel(), lower=0)[0])
        return self._sites(V - self.gram.expand(b.reshape(V.shape[1], -1).T))

    def settled(self, s: Array) -> Array:
        """(I - C K) s = s - W Phi (R'R)^-1 Phi's for s (n, c)."""
        b = np.asarray(lapack.dpotrs(self.R, self.gram.project(s).T.ravel(), lower=0)[0])
        return s - self._sites(self.gram.expand(b.reshape(s.shape[1], -1).T))

    def inverse(self) -> Array:
        """(R'R)^-1 (c, m, c, m)."""
        if self._whole is None:
            whole = self.R.copy()
            half_inverse(whole)
            inverse_of_half(whole)
            whole = np.triu(whole) + np.triu(whole, 1).T
            c, m = self.D.shape[1], self.gram.m
            self._whole = np.ascontiguousarray(whole).reshape(c, m, c, m)
        return self._whole

    def point_blocks(self, gram: Any) -> Array:
        c = self.D.shape[1]
        found = np.empty((len(self.D), c, c))
        for rows in self.gram.blocks():
            found[rows] = pairs(self.inverse(), self.gram.features(rows))
        return found

    def carried(self, rows: slice, F: Array) -> Array:
        """The sum over the classes of C_cc F of some rows, (q, m)."""
        S, total = self.inverse(), np.zeros(F.shape)
        for c in range(self.D.shape[1]):
            each = [F @ S[e, :, c] for e in range(self.D.shape[1])]
            mixed = sum(s[:, None] * Y for s, Y in zip(self.share[rows].T, each, strict=True))
            total += self.D[rows, c, None] * (each[c] - mixed)
        return total

    def logdet(self) -> float:
        return float(2.0 * np.log(np.diagonal(self.R)).sum())

    def release(self) -> None:
        return

    def beginning(self) -> None:
        return None

    def operator(self) -> WeightOperator:  # type: ignore[override]  # of all classes together
        c, m = self.D.shape[1], self.gram.m
        return WeightOperator(self.gram.signal, np.zeros((m, c)), [self.R])


def pairs(S: Array, F: Array) -> Array:
    """phi_i'S_ce phi_i (q, c, c) for S (c, m, c, m) and F (q, m)."""
    c = len(S)
    found = np.empty((len(F), c, c))
    for i in range(c):
        for j in range(i, c):
            found[:, i, j] = found[:, j, i] = np.einsum("qm,qm->q", F @ S[i, :, j], F)
    return found
