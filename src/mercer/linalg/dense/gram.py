"""Dense Gram: the whole matrix in memory, one Cholesky factorisation in place; theory (G4), (G6).

Grams that follow one another in a search use the same memory, because fresh pages cost more than
the arithmetic on small matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer._native import core
from mercer.core.arrays import Array, Index, back_product, cholesky_logdet, half_product, mirror
from mercer.core.errors import NotPositiveDefiniteError
from mercer.core.memory import require_memory
from mercer.kernels.base import Gradient
from mercer.kernels.given import Precomputed
from mercer.linalg.dense.blocked import cholesky, half_inverse, inverse_diag, inverse_of_half
from mercer.linalg.gram import Covariance, Factor, Gram
from mercer.linalg.operators import CholeskyOperator

# The ladder of relative jitters tried when the factorisation fails; the first that works is
# reported. The last is the largest change to a variance that we are willing to make: 1e-8 of it.
JITTERS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
# Points up to which a Gram takes its memory without asking the system, 24 MB: a fit asks once
# before it begins, and a search makes a hundred of them.
SMALL = 1000
ROWS = 256  # of an n x n array that are worked on at a time where a copy of them is needed


class DenseGram(Gram):
    """K = k(P, P) as an (n, n) array.

    Parameters
    ----------
    kernel : the covariance function.
    points : (n, d).
    keep : keep K for repeated products and factorisations. If False the matrix is formed for each
        factorisation and overwritten by it, so that only one n x n array exists.
    scratch : let a Factor overwrite its Cholesky factor by the inverse, the first time that the
        inverse is asked for. For one evaluation of the evidence, which solves before and not after:
        one n x n array in all.
    spare : n x n arrays that may be written over, from Grams before this one; with ``scratch`` it
        gets this one's at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> gram = DenseGram(RBF(), np.array([[0.0], [1.0]]))
    >>> np.round(gram.factor(np.array([1.0, 1.0])).logdet(), 4)
    np.float64(1.2898)
    """

    def __init__(
        self,
        kernel: Covariance,
        points: Array,
        *,
        keep: bool = False,
        scratch: bool = False,
        spare: list[Array] | None = None,
    ) -> None:
        if len(points) > SMALL:
            require_memory(len(points), arrays=3)
        self.kernel = kernel
        self.points = points
        self.keep = keep
        self.scratch = scratch
        self.spare = [] if spare is None else spare
        self._matrix: Array | None = None
        self.room: list[Array] = []  # n x n arrays of factors that are done with

    @classmethod
    def given(cls, K: Array) -> DenseGram:
        """Return the Gram of a symmetric matrix K (n, n), kept as it is; points are row numbers."""
        gram = cls(Precomputed(K), np.arange(len(K), dtype=np.float64)[:, None], keep=True)
        gram._matrix = K
        return gram

    @property
    def matrix(self) -> Array:
        """K (n, n); do not write to it."""
        if self._matrix is not None:
            return self._matrix
        K = self._formed()
        if self.keep:
            self._matrix = K
        return K

    def _formed(self) -> Array:
        written = getattr(self.kernel, "written", None)
        out = None if written is None else self._taken()
        if written is None or out is None:
            return self.kernel(self.points)
        return np.asarray(written(self.points, out))

    def _taken(self) -> Array | None:
        """Take a spare array, if one fits. In one step: threads may share them."""
        try:
            out = self.spare.pop()
        except IndexError:
            return None
        return out if len(out) == len(self.points) else None

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(self.matrix @ V)

    def diag(self) -> Array:
        """See :meth:`Gram.diag`."""
        return self.kernel.diag(self.points)

    def take(self) -> Array:
        """Return an (n, n) array to be filled: fresh memory costs more than what fills it."""
        n = len(self.points)
        return self.room.pop() if self.room else np.empty((n, n))

    def give(self, *done: Array | None) -> None:
        """Keep (n, n) arrays that nobody reads any more for the next that ask."""
        if self.keep:
            self.room.extend(A for A in done if A is not None and A.size)

    def rows(self, index: Index) -> Array:
        """See :meth:`Gram.rows`."""
        return np.asarray(self.matrix[index])

    def factor(self, W: Array) -> Factor:
        """See :meth:`Gram.factor`; negative W_i are allowed where K^-1 + W stays positive."""
        W = W + 0.0  # a weight of -0.0 is none, and 1/W must not be -inf
        if np.any(W < 0):
            from mercer.linalg.dense.signed import SignedFactor

            return SignedFactor(self, W)
        return DenseFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """See :meth:`Gram.pullback`."""
        if self.scratch and self._matrix is not None:  # K has served: its memory for the rest
            self.give(self._matrix)
            self._matrix = None
        Q = factor.gradient_weights(alpha, float(alpha.shape[1]))
        if U is not None and V is not None:
            # U V' + V U' as one product, by rows: no second n x n array; NumPy is slow at rank one
            left, right = np.hstack([U, V]), 0.5 * np.ascontiguousarray(np.hstack([V, U]).T)
            for i in range(0, len(Q), ROWS):
                Q[i : i + ROWS] += left[i : i + ROWS] @ right
        if self.scratch:
            self.room.clear()  # no factor comes after this: let the kernel have the memory
        gradient = self.contract(Q)
        if self.scratch:
            self.spare[:] = [Q]
        return gradient

    def contract(self, Q: Array) -> Gradient:
        """See :meth:`Gram.contract`."""
        pullback = getattr(self.kernel, "pullback", None)
        if pullback is None:
            raise NotImplementedError(f"{type(self.kernel).__name__} has no parameters to learn")
        gradient: Gradient = pullback(self.points, None, Q)
        return gradient


class DenseFactor(CholeskyOperator, Factor):
    """C = S M^-1 S with M = S K S + diag(1 / (1 + W K_ii)), S_i = sqrt(W_i / (1 + W_i K_ii)).

    M has unit diagonal whatever the weights are: W_i = 0 (point carries no information) and
    W_i = inf (noise-free) are both ordinary values. M = L L'.
    """

    def __init__(self, gram: DenseGram, W: Array) -> None:
        K_diag = gram.diag()
        with np.errstate(divide="ignore", over="ignore"):
            noisy = K_diag + 1.0 / W  # inf where W = 0
        if not np.all(noisy > 0):
            raise NotPositiveDefiniteError(
                f"point {int(np.argmin(noisy))} has prior variance plus noise "
                f"{np.min(noisy):.3g}; it must be positive: raise the noise"
            )
        self.W = W
        self.scale = 1.0 / np.sqrt(noisy)
        self.jitter = 0.0
        self._noisy = noisy
        self._K_diag = K_diag
        self._gram = gram
        self._inverse: Array | None = None
        self._whole = False  # whether it is M^-1, not only L^-1
        self._beside: Array | None = None  # the diagonal of what lies below L': L^-1, or M^-1
        self._beside_whole = False
        self._inverse_diag: Array | None = None  # (n,) of M^-1
        self._cov_diag: Array | None = None
        self.cholesky = self._factorise(gram)
        self._logdet = cholesky_logdet(self.cholesky)

    def _unit(self, gram: DenseGram) -> Array:
        # the compiled core works in place: a kernel may return another order or precision
        K = np.asarray(gram.matrix, dtype=np.float64, order="C")
        M = K
        if gram.keep:
            M = gram.take()
        elif not K.flags.writeable:
            M = K.copy()
        core.scale_upper(K, self.scale, 1.0 + self.jitter, M)
        return M

    def _factorise(self, gram: DenseGram) -> Array:
        for jitter in JITTERS:
            self.jitter = jitter
            M = self._unit(gram)
            if cholesky(M) == 0:
                return M
            gram.give(M)
        self.jitter = 0.0
        M = mirror(self._unit(gram))
        if not np.all(np.isfinite(M)):
            raise NotPositiveDefiniteError(
                "the kernel matrix has entries that are not finite: "
                "check the kernel's parameters and the scale of the inputs"
            )
        lowest = float(eigh(M, eigvals_only=True, subset_by_index=(0, 0))[0])
        raise NotPositiveDefiniteError(
            "the kernel matrix plus noise is not positive definite: scaled to unit diagonal its "
            f"smallest eigenvalue is {lowest:.3g}, and a relative jitter of {JITTERS[-1]:g} does "
            "not repair it; use a valid kernel, or raise the noise to at least "
            f"{max(-lowest, 0.0):.3g} of the prior variance"
        )

    def half(self, V: Array) -> Array:
        """See :meth:`CholeskyOperator.half`; by L^-1 where that has taken the memory of L."""
        if self.cholesky.size:
            return super().half(V)
        return half_product(self._spent(), self.scale[:, None] * V)

    def half_transposed(self, V: Array) -> Array:
        """See :meth:`CholeskyOperator.half_transposed`, and :meth:`half`."""
        if self.cholesky.size:
            return super().half_transposed(V)
        return self.scale[:, None] * back_product(self._spent(), V)

    def _spent(self) -> Array:
        if self._inverse is None or self._whole:
            raise RuntimeError("this factor was used up by its inverse: set scratch=False")
        return self._inverse

    @property
    def report(self) -> dict[str, Any]:
        """The relative jitter added to each variance."""
        return {"jitter": self.jitter}

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        return self.half_transposed(self.half(V))

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return self.reduce(A, B, None, None)

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return self.reduce_diag(A, None)

    def _half_inverse(self) -> Array:
        """L^-1 (upper triangle, row-major, of its transpose), or M^-1 if that was made of it."""
        if self._inverse is None:
            A = self.cholesky
            if self._gram.scratch:
                self.cholesky = np.empty((0, 0))
            else:
                A, L = self._gram.take(), A
                A[...] = L
            self._whole = self._beside_whole
            if self._beside is None:
                half_inverse(A)
            else:
                core.swap_triangles(A)
                A.flat[:: len(A) + 1] = self._beside
            self._inverse = A
        return self._inverse

    def inverse(self) -> Array:
        """M^-1, upper triangle (row-major) only; kept until the gradient consumes it."""
        inverse = self._half_inverse()
        if not self._whole:
            inverse_of_half(inverse)
            self._whole = True
        return inverse

    @contextmanager
    def _laid_beside(self) -> Iterator[Array]:
        """Yield the array with L', for an inverse to be made over it; then both share its memory.

        L waits in the strictly lower triangle, and changes places with the inverse at the end.
        """
        A = mirror(self.cholesky)
        roots = np.diagonal(A).copy()
        try:
            yield A
            self._beside = np.diagonal(A).copy()
        finally:
            core.swap_triangles(A)
            A.flat[:: len(A) + 1] = roots

    def diag(self) -> Array:
        """See :meth:`Factor.diag`; half the work of :meth:`inverse`, no further n x n array."""
        if self._inverse_diag is None:
            if self._beside is not None:  # a whole one: half of it comes with the diagonal
                self._inverse_diag = self._beside
            elif self._inverse is not None or self._gram.scratch:
                A = self._half_inverse()
                self._inverse_diag = np.diagonal(A).copy() if self._whole else inverse_diag(A)
            else:
                with self._laid_beside() as A:
                    half_inverse(A)
                    squares = inverse_diag(A)
                self._inverse_diag = squares
        return np.asarray(self.scale**2 * self._inverse_diag)

    def add_to(self, M: Array) -> None:
        """See :meth:`Factor.add_to`; M^-1 stays, in the strictly lower triangle beside L'."""
        if self._inverse is not None or self._beside is not None:
            core.add_scaled_upper(self.inverse(), self.scale, M)
            return
        with self._laid_beside() as A:
            half_inverse(A)
            inverse_of_half(A)
            core.add_scaled_upper(A, self.scale, M)
        self._beside_whole = True

    def _weak(self) -> Iterator[tuple[Index, Array]]:
        """Points where W_i K_ii is tiny, and their columns (n, some) of K, some at a time."""
        weak = np.flatnonzero(self.W * self._K_diag < 1e-6)
        for i in range(0, len(weak), ROWS):
            yield weak[i : i + ROWS], self._gram.rows(weak[i : i + ROWS]).T

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`; by a triangular solve where W_i K_ii is tiny."""
        if self._cov_diag is None:
            # the solves first: the inverse may take the memory of the factor
            exact = [(some, self._K_diag[some] - self.quad_diag(K)) for some, K in self._weak()]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                share = self.diag() / self.W  # C_ii / W_i in (0, 1]
                result = np.where(np.isinf(self.W), 0.0, (1.0 - share) / self.W)
            for some, values in exact:
                result[some] = values
            self._cov_diag = result
        return self._cov_diag.copy()

    def trim(self) -> None:
        """See :meth:`Factor.trim`; nothing, if the inverse is all there is."""
        if self.cholesky.size:
            self._gram.give(self._inverse)
            self._inverse = None

    def release(self) -> None:
        """See :meth:`Factor.release`."""
        self._gram.give(self.cholesky, self._inverse)
        self.cholesky, self._inverse = np.empty((0, 0)), None

    def cov(self) -> Array:
        """See :meth:`Factor.cov`; rows where W_i K_ii is tiny by triangular solves."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = np.where(np.isinf(self.W), 0.0, self.scale / self.W)
        reach[self.W * self._K_diag < 1e-6] = 0.0
        # (K^-1 + W)^-1 = W^-1 - W^-1 C W^-1
        variances, inverse = self.cov_diag(), self.inverse()
        if self.cholesky.size:
            S, self._inverse = mirror(inverse), None  # written over it: it can be made again
        else:
            S = mirror(inverse.copy())
        S *= -reach[:, None]
        S *= reach
        for some, K in self._weak():
            columns = K - np.asarray(self._gram @ self.solve(K))
            S[:, some], S[some] = columns, columns.T
        S.flat[:: len(S) + 1] = variances
        return S

    def logdet(self) -> float:
        """See :meth:`Factor.logdet`."""
        return self._logdet + float(np.log1p(self.W * self._K_diag).sum())

    def logdet_noisy(self) -> float:
        """See :meth:`Factor.logdet_noisy`."""
        return self._logdet + float(np.log(self._noisy).sum())

    def gradient_weights(self, a: Array, count: float) -> Array:
        """See :meth:`Factor.gradient_weights`; written over M^-1, which is then forgotten."""
        Q = self.inverse()
        self._inverse = None
        core.gradient_weights(Q, self.scale, np.ascontiguousarray(a), count)
        return Q

    def operator(self) -> CholeskyOperator:
        """See :meth:`Factor.operator`; shares the factor's memory."""
        return CholeskyOperator(self.cholesky, self.scale)


class RecycledGrams:
    """Makes the dense Grams of one search: each is written over the last.

    Fresh memory has to be cleared by the system before it is given out, which takes a tenth of the
    time that it takes to form K. Between two evaluations one n x n array is kept. Of Grams that
    threads work on at the same time one gets it, and the others have memory of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> make, points = RecycledGrams(), np.array([[0.0], [1.0]])
    >>> gram = make(RBF(), points, scratch=True)
    >>> gradient = gram.pullback(np.ones((2, 1)), gram.factor(np.ones(2)))
    >>> len(make.spare)
    1
    """

    def __init__(self) -> None:
        self.spare: list[Array] = []

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> DenseGram:
        """Return the Gram of a kernel at points (n, d)."""
        return DenseGram(kernel, points, scratch=scratch, spare=self.spare)
