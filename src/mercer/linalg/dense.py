"""Dense Gram: the whole matrix in memory, one Cholesky factorisation in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer._native import core
from mercer.arrays import Array, Index, cholesky_logdet, mirror
from mercer.kernels.base import Gradient
from mercer.linalg.blocked import cholesky, cholesky_inverse
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Covariance, Factor, Gram
from mercer.linalg.memory import require_memory
from mercer.linalg.operators import CholeskyOperator

# The ladder of relative jitters tried when the factorisation fails; the first that works is
# reported. The last is the largest change to a variance that we are willing to make: 1e-8 of it.
JITTERS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
ROWS = 256  # of Q that the extra term of formula (3) is added to at a time


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

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> gram = DenseGram(RBF(), np.array([[0.0], [1.0]]))
    >>> np.round(gram.factor(np.array([1.0, 1.0])).logdet(), 4)
    np.float64(1.2898)
    """

    def __init__(
        self, kernel: Covariance, points: Array, *, keep: bool = False, scratch: bool = False
    ) -> None:
        require_memory(len(points), arrays=3)
        self.kernel = kernel
        self.points = points
        self.keep = keep
        self.scratch = scratch
        self._matrix: Array | None = None
        self.room: list[Array] = []  # n x n arrays of factors that are done with

    @property
    def matrix(self) -> Array:
        """K (n, n); do not write to it."""
        if self._matrix is not None:
            return self._matrix
        K = self.kernel(self.points)
        if self.keep:
            self._matrix = K
        return K

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(self.matrix @ V)

    def diag(self) -> Array:
        """See :meth:`Gram.diag`."""
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        """See :meth:`Gram.rows`."""
        return np.asarray(self.matrix[index])

    def factor(self, W: Array) -> Factor:
        """See :meth:`Gram.factor`; negative W_i are allowed where K^-1 + W stays positive."""
        W = W + 0.0  # a weight of -0.0 is none, and 1/W must not be -inf
        if np.any(W < 0):
            from mercer.linalg.signed import SignedFactor

            return SignedFactor(self, W)
        return DenseFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """See :meth:`Gram.pullback`."""
        Q = factor.gradient_weights(alpha, float(alpha.shape[1]))
        if U is not None and V is not None:
            # U V' + V U' as one product, by rows: no second n x n array; NumPy is slow at rank one
            left, right = np.hstack([U, V]), 0.5 * np.ascontiguousarray(np.hstack([V, U]).T)
            for i in range(0, len(Q), ROWS):
                Q[i : i + ROWS] += left[i : i + ROWS] @ right
        return self.contract(Q)

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
        self._cov_diag: Array | None = None
        self.cholesky = self._factorise(gram)
        self._logdet = cholesky_logdet(self.cholesky)

    def _unit(self, gram: DenseGram) -> Array:
        # the compiled core works in place: a kernel may return another order or precision
        if gram.keep and gram.room:
            M = gram.room.pop()
            M[...] = gram.matrix
        else:
            M = np.array(gram.matrix, dtype=np.float64, order="C", copy=gram.keep or None)
        core.scale_upper(M, self.scale, 1.0 + self.jitter)
        return M

    def _factorise(self, gram: DenseGram) -> Array:
        for jitter in JITTERS:
            self.jitter = jitter
            M = self._unit(gram)
            if cholesky(M) == 0:
                return M
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
        """See :meth:`CholeskyOperator.half`; refused once the inverse has taken the memory."""
        if not self.cholesky.size:
            raise RuntimeError("this factor was used up by its inverse: set scratch=False")
        return super().half(V)

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

    def inverse(self) -> Array:
        """M^-1, upper triangle (row-major) only; kept until the gradient consumes it."""
        if self._inverse is None:
            self._inverse = cholesky_inverse(self.cholesky, overwrite=self._gram.scratch)
            if self._gram.scratch:
                self.cholesky = np.empty((0, 0))  # used up: a later solve fails at once
        return self._inverse

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.asarray(self.scale**2 * np.diagonal(self.inverse()))

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`; by a triangular solve where W_i K_ii is tiny."""
        if self._cov_diag is None:
            weak = np.flatnonzero(self.W * self._K_diag < 1e-6)
            # the solve first: the inverse may take the memory of the factor
            taken = self.quad_diag(self._gram.rows(weak).T) if len(weak) else np.zeros(0)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                share = self.diag() / self.W  # C_ii / W_i in (0, 1]
                result = np.where(np.isinf(self.W), 0.0, (1.0 - share) / self.W)
            result[weak] = self._K_diag[weak] - taken
            self._cov_diag = result
        return self._cov_diag.copy()

    def trim(self) -> None:
        """See :meth:`Factor.trim`; nothing, if the inverse is all there is."""
        if self.cholesky.size and self._inverse is not None:
            self._gram.room = [self._inverse] if self._gram.keep else []
            self._inverse = None

    def release(self) -> None:
        """See :meth:`Factor.release`: fresh memory costs more than the copy that fills it."""
        done = self.cholesky if self.cholesky.size else self._inverse
        self.cholesky, self._inverse = np.empty((0, 0)), None
        if self._gram.keep and done is not None:
            self._gram.room = [done]

    def cov(self) -> Array:
        """See :meth:`Factor.cov`; rows where W_i K_ii is tiny by triangular solves."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = np.where(np.isinf(self.W), 0.0, self.scale / self.W)
        weak = np.flatnonzero(self.W * self._K_diag < 1e-6)
        reach[weak] = 0.0
        # (K^-1 + W)^-1 = W^-1 - W^-1 C W^-1
        variances, inverse = self.cov_diag(), self.inverse()
        if self.cholesky.size:
            S, self._inverse = mirror(inverse), None  # written over it: it can be made again
        else:
            S = mirror(inverse.copy())
        S *= -reach[:, None]
        S *= reach
        if len(weak):
            K = self._gram.rows(weak).T
            columns = K - np.asarray(self._gram @ self.solve(K))
            S[:, weak], S[weak] = columns, columns.T
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
