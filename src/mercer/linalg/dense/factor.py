"""Dense factor: one Cholesky factorisation in place, and its inverse in the same memory.

OpenBLAS solves with a triangle at half the rate at which it multiplies. The compiled ``blocked``
splits the matrix into halves, so that nearly all is multiplication, and shares bands of it among
threads, with the same result to the bit. With another BLAS, or no vectors of eight doubles, LAPACK
does the work. Theory (G4), (G6).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cython_blas, cython_lapack, eigh

from mercer._native import blocked, core
from mercer.core import arrays
from mercer.core.arrays import (
    Array,
    Index,
    Matrix,
    cholesky_logdet,
    diagonal,
    mirror,
    set_diagonal,
    threads,
)
from mercer.core.deadline import CURRENT, check_time
from mercer.core.device.array import Distant
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Factor
from mercer.linalg.operators import CholeskyOperator

if TYPE_CHECKING:
    from mercer.linalg.dense.gram import DenseGram

SMALLEST = 256  # rows from which halving was measured to gain
TINY = 32  # the same where the triangle is there already
PANEL = 128  # columns that are solved for at a time without
NONE = np.empty(0)
# The ladder of relative jitters tried when the factorisation fails; the first that works is
# reported. The last is the largest change to a variance that we are willing to make: 1e-8 of it.
JITTERS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
ROWS = 256  # of an n x n array that are worked on at a time where a copy of them is needed


def cholesky(A: Matrix) -> int:
    """See :func:`mercer.core.arrays.cholesky`."""
    if CURRENT.get() is not None:
        check_time()
    with _team(A) as team:
        return blocked.cholesky(A, team) if team else arrays.cholesky(A)


def solve_rows(
    L: NDArray[Any], X: NDArray[Any], squares: Array | None = None, *, back: bool = False
) -> NDArray[Any]:
    """X L^-T, or X L^-1 if ``back``, in place of X (q, m), for a lower triangle L (m, m).

    A triangle is solved with, not inverted: it may be close to singular. ``squares`` (q,) gets the
    sum of the squares of each row of the result.
    """
    if X.flags.c_contiguous and X.dtype == np.float64:
        with _team(L, TINY) as team:
            if team:
                into = NONE if squares is None else squares
                blocked.solve_triangle(L, X, not back, into, team)
                return X
    # panels of columns: mostly multiplication
    solve = blas.strsm if X.dtype == np.float32 else blas.dtrsm
    for i in range(0, len(L), PANEL)[:: -1 if back else 1]:
        j = slice(i, i + PANEL)
        if back and j.stop < len(L):
            X[:, j] -= X[:, j.stop :] @ L[j.stop :, j]
        elif i and not back:
            X[:, j] -= X[:, :i] @ L[j, :i].T
        X[:, j] = solve(1.0, L[j, j], X[:, j].T, lower=1, trans_a=back).T
    if squares is not None:
        np.einsum("ij,ij->i", X, X, out=squares, dtype=np.float64)
    return X


def half_inverse(A: Matrix) -> None:
    """See :func:`mercer.core.arrays.half_inverse`."""
    with _team(A) as team:
        blocked.half_inverse(A, team) if team else arrays.half_inverse(A)


def inverse_of_half(A: Matrix) -> None:
    """See :func:`mercer.core.arrays.inverse_of_half`."""
    with _team(A) as team:
        blocked.inverse_of_half(A, team) if team else arrays.inverse_of_half(A)


def inverse_diag(A: Matrix) -> Array:
    """Return the diagonal (n,) of ``(L L')^-1`` for ``A`` as left by :func:`half_inverse`."""
    if A.__class__ is Distant:
        return np.asarray(A.inverse_diag())
    squares = np.empty(len(A))
    blocked.row_squares(A, squares)
    return squares


def scale_upper(A: Matrix, scale: Array, diagonal: float, out: Array) -> None:
    """s_i s_j A_ij and this diagonal, the upper triangle of ``out`` (n, n)."""
    if A.__class__ is Distant:
        A.scale_upper(scale, diagonal, out)
    else:
        core.scale_upper(A, scale, diagonal, out, threads(out.size))


def add_scaled_upper(A: Matrix, scale: Array, M: Array) -> None:
    """Add s_i s_j A_ij to the upper triangle of M (n, n)."""
    if A.__class__ is Distant:
        A.add_scaled_upper(scale, M)
    else:
        core.add_scaled_upper(A, scale, M, threads(M.size))


def swap_triangles(A: Matrix) -> None:
    """Exchange the strictly upper and the strictly lower triangle of A (n, n)."""
    A.swap_triangles() if A.__class__ is Distant else core.swap_triangles(A)


def gradient_weights(A: Matrix, scale: Array, a: Array, count: float) -> None:
    """(a a' - count S A S) / 2 over A (n, n), of which the upper triangle counts; symmetric."""
    if A.__class__ is Distant:
        A.gradient_weights(scale, a, count)
    else:
        core.gradient_weights(A, scale, np.ascontiguousarray(a), count, threads(A.size))


@contextmanager
def _team(A: NDArray[Any], smallest: int = SMALLEST) -> Iterator[int]:
    """How many threads halve A (n, n): asked anew each time, for they may be limited in between.

    They call a BLAS of one thread each, so that the result has the same bits whatever their number.
    Zero: A is not halved, or it is on a device.
    """
    here = len(A) >= smallest and isinstance(A, np.ndarray)
    fits = here and A.flags.c_contiguous and _connected()
    if fits and {one.internal_api for one in arrays.blas_libraries()} == {"openblas"}:
        with arrays.one_thread() as count:
            yield count
    else:
        yield 0


@cache
def _connected() -> bool:
    """Hand SciPy's routines to the compiled part; whether it can work with them."""
    return blocked.connect(dict(cython_blas.__pyx_capi__), dict(cython_lapack.__pyx_capi__))


class DenseFactor(CholeskyOperator, Factor):
    r"""C = S M^-1 S with M = S K S + diag(1 / (1 + W K_ii)), S_i = sqrt(W_i / (1 + W_i K_ii)).

    M has unit diagonal whatever the weights are: W_i = 0 (point carries no information) and
    W_i = inf (noise-free) are both ordinary values. M = L L'.

    All happens in one (n, n) array A, row-major, and in a second one only where L must survive its
    inverse. The upper triangle holds what is in use, the strictly lower one what waits:

        factorised      beside (diag, add_to)   half an inverse         the inverse
                                                (scratch: the same A;   (in either)
                                                 else a second array)
        +--------+      +--------+              +--------+              +--------+
        |\   L'  |      |\   L'  |              |\ L^-1' |              |\ M^-1  |
        | \      |      | \      |              | \      |              | \      |
        |  ? \   |      |  X \   |              |  ? \   |              |  ? \   |
        |      \ |      |      \ |              |      \ |              |      \ |
        +--------+      +--------+              +--------+              +--------+

    X is L^-1, or M^-1 if ``_beside_whole``; its diagonal, which has no room in A, is ``_beside``.
    While X is made the two change places: X in the upper triangle, L in the lower one. With
    ``scratch`` the inverse takes the memory of L: then ``cholesky`` is empty (0, 0), and solutions
    go by L^-1 as long as that is there (``_whole`` is False), and not at all afterwards. The
    gradient writes its weights over M^-1, which ends its life.
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
        self.W, self._K_diag, self._noisy, self._gram = W, K_diag, noisy, gram
        self.scale = 1.0 / np.sqrt(noisy)
        self._inverse: Array | None = None  # the array whose upper triangle is an inverse
        self._whole = False  # whether that is M^-1, not only L^-1
        self._beside: Array | None = None  # (n,) the diagonal of X, once it lies below L'
        self._beside_whole = False  # whether X is M^-1, not only L^-1
        self._inverse_diag: Array | None = None  # (n,) of M^-1
        self._cov_diag: Array | None = None
        self.cholesky = self._factorise()
        self._logdet = cholesky_logdet(self.cholesky)

    @property
    def report(self) -> dict[str, Any]:
        return {"jitter": self.jitter}

    def _unit(self, jitter: float) -> Array:
        # the compiled core works in place: a kernel may return another order or precision
        K = M = self._gram.matrix
        if isinstance(K, np.ndarray):
            K = M = np.asarray(K, dtype=np.float64, order="C")
        if self._gram.keep:
            M = self._gram.take()
        elif isinstance(K, np.ndarray) and not K.flags.writeable:
            M = K.copy()
        scale_upper(K, self.scale, 1.0 + jitter, M)
        return M

    def _factorise(self) -> Array:
        M: Matrix
        for jitter in JITTERS:
            M = self._unit(jitter)
            if cholesky(M) == 0:
                self.jitter = jitter
                return cast(Array, M)
            self._gram.give(M)
        M = mirror(self._unit(0.0))
        if not np.isfinite(float(M.sum())):
            raise NotPositiveDefiniteError(
                "the kernel matrix has entries that are not finite: "
                "check the kernel's parameters and the scale of the inputs"
            )
        if M.__class__ is Distant:
            lowest = float(M.smallest_eigenvalue())
        else:
            lowest = float(eigh(M, eigvals_only=True, subset_by_index=(0, 0))[0])
        raise NotPositiveDefiniteError(
            "the kernel matrix plus noise is not positive definite: scaled to unit diagonal its "
            f"smallest eigenvalue is {lowest:.3g}, and a relative jitter of {JITTERS[-1]:g} does "
            "not repair it; use a valid kernel, or raise the noise to at least "
            f"{max(-lowest, 0.0):.3g} of the prior variance"
        )

    def half(self, V: Array) -> Array:
        if self.cholesky.size:
            return super().half(V)
        return arrays.half_product(self._spent(), self.scale[:, None] * V)

    def half_transposed(self, V: Array) -> Array:
        if self.cholesky.size:
            return super().half_transposed(V)
        return self.scale[:, None] * arrays.back_product(self._spent(), V)

    def _spent(self) -> Array:
        if self._inverse is None or self._whole:
            raise RuntimeError("this factor was used up by its inverse: set scratch=False")
        return self._inverse

    def solve(self, V: Array) -> Array:
        return self.half_transposed(self.half(V))

    def projected(self, H: Array) -> Factor:
        from mercer.linalg.dense.projected import Projected

        return Projected(self, H)

    def quad_diag(self, A: Array) -> Array:
        return self.reduce_diag(A, None)

    def _half_inverse(self) -> Array:
        """L^-1 (upper triangle, row-major, of its transpose), or M^-1 if that was made of it."""
        if self._inverse is None:
            if self._gram.scratch:
                A, self.cholesky = self.cholesky, np.empty((0, 0))
            else:
                A = self._gram.take()
                A[...] = self.cholesky
            self._whole = self._beside_whole
            if self._beside is None:
                half_inverse(A)
            else:
                swap_triangles(A)
                set_diagonal(A, self._beside)
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
        roots = diagonal(A).copy()
        try:
            yield A
            self._beside = diagonal(A).copy()
        finally:
            swap_triangles(A)
            set_diagonal(A, roots)

    def diag(self) -> Array:
        if self._inverse_diag is None:
            if self._beside is not None:  # a whole one: half of it comes with the diagonal
                self._inverse_diag = self._beside
            elif self._inverse is not None or self._gram.scratch:
                A = self._half_inverse()
                self._inverse_diag = diagonal(A).copy() if self._whole else inverse_diag(A)
            else:
                with self._laid_beside() as A:
                    half_inverse(A)
                    self._inverse_diag = inverse_diag(A)
        return np.asarray(self.scale**2 * self._inverse_diag)

    def add_to(self, M: Array) -> None:
        if self._inverse is not None or self._beside is not None:
            add_scaled_upper(self.inverse(), self.scale, M)
            return
        with self._laid_beside() as A:
            half_inverse(A)
            inverse_of_half(A)
            add_scaled_upper(A, self.scale, M)
        self._beside_whole = True

    def _weak(self) -> Iterator[tuple[Index, Array]]:
        """Points where W_i K_ii is tiny, and their columns (n, some) of K, some at a time."""
        weak = np.flatnonzero(self.W * self._K_diag < 1e-6)
        for i in range(0, len(weak), ROWS):
            yield weak[i : i + ROWS], self._gram.rows(weak[i : i + ROWS]).T

    def cov_diag(self) -> Array:
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

    def release(self) -> None:
        self._gram.give(self.cholesky, self._inverse)
        self.cholesky, self._inverse = np.empty((0, 0)), None

    def cov(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = np.where(np.isinf(self.W), 0.0, self.scale / self.W)
        reach[self.W * self._K_diag < 1e-6] = 0.0
        # (K^-1 + W)^-1 = W^-1 - W^-1 C W^-1
        variances, inverse = self.cov_diag(), self.inverse()
        S = mirror(inverse if self.cholesky.size else inverse.copy())
        if self.cholesky.size:
            self._inverse = None  # written over it: it can be made again
        S *= -reach[:, None]
        S *= reach
        for some, K in self._weak():
            columns = K - self._gram @ self.solve(K)
            S[:, some], S[some] = columns, columns.T
        set_diagonal(S, variances)
        return S

    def logdet(self) -> float:
        return self._logdet + float(np.log1p(self.W * self._K_diag).sum())

    def logdet_noisy(self) -> float:
        return self._logdet + float(np.log(self._noisy).sum())

    def gradient_weights(self, a: Array, count: float) -> Array:
        Q = self.inverse()
        self._inverse = None
        gradient_weights(Q, self.scale, a, count)
        return Q

    def operator(self) -> CholeskyOperator:
        return CholeskyOperator(self.cholesky, self.scale)
