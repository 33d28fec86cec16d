"""Additive models in O(n): a sum of Matern kernels of one column each, solved by products.

K = sum_j K_j, and each K_j v is two walks along the sorted column j. Conjugate gradients on the
reduced prior of few centres do the rest, with the certificates of :mod:`mercer.linalg.iterative`:
the prior of all columns together is of low rank wherever functions of one column are smooth, and
it needs a fraction of the rounds of symmetric backfitting. Theory (I7) to (I10), section 11.

Reference: Hastie and Tibshirani, Generalized additive models (1990), for backfitting.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.markov import StateSpace, stacked
from mercer.linalg.gram import Factor
from mercer.linalg.iterative.gram import IterativeFactor, IterativeGram
from mercer.linalg.iterative.operator import IterativeOperator
from mercer.linalg.line import Line, state_space_of


def columns_of(kernel: Kernel, d: int) -> list[StateSpace] | None:
    """Return a state space for each column that a sum of kernels sees; None if one has none.

    Examples
    --------
    >>> from mercer.kernels import RBF, Matern
    >>> [s.column for s in columns_of(Matern().on(0) + 2.0 * Matern(nu=0.5).on(1), 2)]
    [0, 1]
    >>> columns_of(Matern().on(0) + RBF().on(1), 2) is None
    True
    """
    found: dict[int | None, list[StateSpace]] = {}
    for term in kernel.terms():
        states = state_space_of(term, d)
        if states is None:
            return None
        found.setdefault(states.column, []).append(states)
    each = [stacked(parts) for parts in found.values()]
    return [states for states in each if states is not None]


class AdditiveGram(IterativeGram):
    """K = sum_j K_j of kernels with a state space on one column each: K V in O(n).

    Parameters are those of :class:`~mercer.linalg.iterative.gram.IterativeGram`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Matern
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    >>> kernel = Matern(nu=0.5).on(0) + Matern(nu=0.5).on(1)
    >>> gram = AdditiveGram(kernel, X, X[:2])
    >>> bool(np.allclose(gram @ np.eye(3), kernel(X)))
    True
    """

    def __init__(self, kernel: Kernel, points: Array, centres: Array, **given: Any) -> None:
        super().__init__(kernel, points, centres, **given)
        each = columns_of(self.signal, points.shape[1])
        if each is None:
            raise ValueError(
                "an additive model in O(n) needs a sum of Matern kernels of nu 1/2, 3/2 or 5/2, "
                "each on one column: Matern().on(0) + Matern().on(1)"
            )
        self.lines = [Line(states, points) for states in each]

    def product(self, V: Array, *, exact: bool = False) -> Array:
        self.products += 1
        total = np.zeros(V.shape)
        for line in self.lines:
            total += line.times(V)
        return total

    def factor(self, W: Array) -> AdditiveFactor:
        return AdditiveFactor(self, W)


class AdditiveFactor(IterativeFactor):
    """C = (K + D)^-1 of an additive model.

    At the rows themselves K (v - C y) = D C r - r, so that the mean there is within
    |r_i| + sqrt(D_i) rho of the exact one, ``row_error``: nothing of it grows with the prior.
    """

    def solve(self, V: Array) -> Array:
        found = super().solve(V)
        assert self.found is not None
        self.residual, self.rho = self.found.residual, np.sqrt(np.maximum(self.found.rho2, 0.0))
        error = np.abs(self.residual) + np.sqrt(self.D)[:, None] * self.rho
        self.told["row_error"] = float(error.max(initial=0.0))
        return found

    def projected(self, H: Array) -> SolvedBasis:
        return SolvedBasis(self, H)

    def operator(self) -> AdditiveOperator:
        return AdditiveOperator(self)


class SolvedBasis(Factor):
    """P = C - T A^-1 T' with T = C H and A = H'T, where C is known by solutions alone.

    For any V the matrix A_0 = V'H + H'V - V'(K + D)V lies below H'C H, and A_0 + R'P^-1 R above,
    R = H - (K + D) V: so is log |H'C H| bounded. For v with H'v = 0, v'(2 z - (K + D) v) is below
    z'P z, and (I8) for z - H beta above it whatever beta is.
    """

    exact: ClassVar[bool] = False
    has_diagonal: ClassVar[bool] = False

    def __init__(self, inner: AdditiveFactor, H: Array) -> None:
        self.inner, self.H, self.jitter = inner, H, inner.jitter
        if np.linalg.matrix_rank(H) < H.shape[1]:
            raise ValueError(
                f"the {H.shape[1]} basis functions are linearly dependent on the {len(H)} training "
                "inputs: drop some of them or choose a lower degree"
            )
        # beta is off by at most rho |C^1/2 z| / A: z'C z is about n, and A at most H'P^-1 H
        scale, least = np.sqrt(np.einsum("ij,ij->j", H, inner.P.solve(H))), 1.0
        for _ in range(8):
            tol = least * inner.gram.tol / len(H)
            found = [inner.solved(H[:, [j]] / scale[j], tol) for j in range(H.shape[1])]
            self.T = np.hstack([one.V for one in found]) * scale
            R = np.hstack([one.residual for one in found]) * scale
            self.low = H.T @ self.T + self.T.T @ R  # A_0 = V'(H + R)
            self.low = 0.5 * (self.low + self.low.T)
            smallest = float((np.diagonal(self.low) / scale**2).min())
            if smallest >= 0.5 * least or not all(one.converged for one in found):
                break
            least = max(smallest, 1e-3 * least)
        self.high = self.low + R.T @ inner.P.solve(R)
        self._cho = cho_factor(self.low)

    def basis_coefficients(self, z: Array) -> Array:
        return np.asarray(cho_solve(self._cho, self.T.T @ z))

    def solve(self, V: Array) -> Array:
        """P V; what is certified at the rows counts the error of the coefficients, too.

        beta is off by A^-1 (H'v + H'C r), and the mean at the rows by -r + D (C r + C H delta).
        """
        inner = self.inner
        found = inner.solve(V - self.H @ self.basis_coefficients(V))
        r, rho, D = inner.residual, inner.rho, inner.D
        loose = float(np.sqrt(max(np.trace(self.high - self.low), 0.0)))  # rho of the basis
        off = np.linalg.norm(self.H.T @ found + self.T.T @ r, axis=0) + loose * rho
        off = off / np.linalg.eigvalsh(self.low)[0]
        reach = D * np.linalg.norm(self.T, axis=1) + np.sqrt(D) * loose
        error = np.abs(r) + np.sqrt(D)[:, None] * rho + reach[:, None] * off
        inner.told["row_error"] = float(error.max(initial=0.0))
        return found

    def logdet(self) -> float:
        return self.inner.logdet() + float(np.linalg.slogdet(self.low)[1])

    def logdet_noisy(self) -> float:
        return self.inner.logdet_noisy() + float(np.linalg.slogdet(self.low)[1])

    def bounds(self, z: Array, alpha: Array) -> tuple[float, float]:
        n, m = z.shape
        constant = n * float(np.log(2.0 * np.pi))
        ends = self.inner.logdet_bounds()
        low, high = (
            m * (end + float(np.linalg.slogdet(A)[1]) + constant)
            for end, A in zip(ends, (self.low, self.high), strict=True)
        )
        rest = z - self.H @ self.basis_coefficients(z)
        v = alpha - self.H @ np.linalg.lstsq(self.H, alpha, rcond=None)[0]
        Kv = self.inner._apply(v, exact=True)
        low += float((v * (2.0 * z - Kv)).sum())
        high += sum(self.inner.quadratic_bounds(rest[:, j], alpha[:, j])[1] for j in range(m))
        return -0.5 * high, -0.5 * low

    def diag(self) -> Array:
        return self.inner.diag()

    def cov_diag(self) -> Array:
        return self.inner.diag()

    @property
    def report(self) -> dict[str, Any]:
        return self.inner.report

    def operator(self) -> AdditiveOperator:
        return AdditiveOperator(self.inner, self.T, self.low)


class AdditiveOperator(IterativeOperator):
    """C of an additive model, its basis included: means in O(n + q), variances by solutions.

    Parameters
    ----------
    factor : C without the basis.
    T, A : C H (n, k) and H'C H (k, k); or None.
    """

    walks: ClassVar[bool] = True
    knows_variances: ClassVar[bool] = False  # of the kernel alone, without the basis

    def __init__(
        self, factor: AdditiveFactor, T: Array | None = None, A: Array | None = None
    ) -> None:
        super().__init__(factor)
        self.T, self.A = T, A

    @property
    def W(self) -> Array:
        """The weights (n,)."""
        return self.factor.W

    @property
    def centres(self) -> Array:
        """The centres (m, d) of the preconditioner."""
        return self.factor.gram.reduced.support

    @property
    def rank(self) -> int:
        """The number of centres."""
        return len(self.centres)

    def mean_at(self, X: Array, alpha: Array) -> Array:
        gram = self.factor.gram
        assert isinstance(gram, AdditiveGram)
        both = np.vstack([gram.points, X])
        V = np.concatenate([alpha, np.zeros((len(X), alpha.shape[1]))])
        total = np.zeros((len(X), alpha.shape[1]))
        for line in gram.lines:
            total += Line(line.states, both).times(V)[len(alpha) :]
        return total

    def _basis(self, A: Array, h: Array | None) -> Array:
        """(h - A'T) with which a basis moves, (p, k)."""
        assert self.T is not None
        return np.asarray((0.0 if h is None else h) - A.T @ self.T)

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        known = super().reduce(A, B, hA, hB)
        if self.A is None:
            return known
        return np.asarray(
            known - self._basis(A, hA) @ np.linalg.solve(self.A, self._basis(B, hB).T)
        )

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        known = super().reduce_diag(A, hA)
        if self.A is None:
            return known
        G = self._basis(A, hA)
        return np.asarray(known - np.einsum("ij,ji->i", G, np.linalg.solve(self.A, G.T)))
