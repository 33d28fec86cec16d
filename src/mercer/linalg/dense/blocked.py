"""Cholesky factor and inverse: by halves where that is faster, else by LAPACK.

On one thread OpenBLAS solves with a triangle at about half the rate at which it multiplies. The
compiled ``blocked`` splits the matrix into halves, so that nearly all is multiplication: the same
operations as LAPACK's in another order. With several threads, with another BLAS, or on a processor
without vectors of eight doubles, LAPACK does the work.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from mercer._native import blocked
from mercer.core import arrays
from mercer.core.arrays import Array

SMALLEST = 256  # rows from which halving was measured to gain


def cholesky(A: Array) -> int:
    """See :func:`mercer.core.arrays.cholesky`."""
    return blocked.cholesky(A) if _halving(A) else arrays.cholesky(A)


def half_inverse(A: Array) -> None:
    """See :func:`mercer.core.arrays.half_inverse`."""
    (blocked if _halving(A) else arrays).half_inverse(A)


def inverse_of_half(A: Array) -> None:
    """See :func:`mercer.core.arrays.inverse_of_half`."""
    (blocked if _halving(A) else arrays).inverse_of_half(A)


def inverse_diag(A: Array) -> Array:
    """Return the diagonal (n,) of ``(L L')^-1`` for ``A`` as left by :func:`half_inverse`."""
    squares = np.empty(len(A))
    blocked.row_squares(A, squares)
    return squares


def _halving(A: Array) -> bool:
    """Whether to halve A (n, n): asked anew each time, for threads may be limited in between."""
    if len(A) < SMALLEST or not A.flags.c_contiguous or not _connected():
        return False
    libraries = _libraries()
    return bool(libraries) and all(
        library.internal_api == "openblas" and library.num_threads == 1 for library in libraries
    )


@cache
def _connected() -> bool:
    """Hand SciPy's routines to the compiled part; whether it can work with them."""
    return blocked.connect(dict(cython_blas.__pyx_capi__), dict(cython_lapack.__pyx_capi__))


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries in this process: NumPy's and SciPy's are loaded by now."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
