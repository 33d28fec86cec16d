"""Arrays: the one place that knows which array library is in use, and what every table needs.

Matrices that are factored are symmetric, so row-major and column-major copies are the same
matrix; LAPACK is given the transposed view and works in place without a copy. An array on a device
(:class:`~mercer.core.device.array.DeviceArray`) answers the same functions where it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from threading import RLock
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular
from scipy.sparse import issparse

from mercer.core.device.array import Distant, unboxed

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
Matrix: TypeAlias = Any  # an Array, or a DeviceArray that stands for one on a device

SHARE = 1 << 17  # entries of a kernel matrix for which a thread was measured to pay


def threads(entries: int, share: int = SHARE) -> int:
    """Return how many threads may share so many entries: as many as the BLAS may use.

    It is asked anew each time: ``OMP_NUM_THREADS``, ``threadpool_limits`` and joblib decide.
    """
    if entries < 2 * share:
        return 1
    allowed = [int(library.num_threads) for library in blas_libraries()]
    if not allowed:  # one that cannot be asked
        allowed = [int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)]
    return max(1, min(*allowed, entries // share))


@cache
def blas_libraries() -> list[Any]:
    """Return the BLAS libraries in this process: NumPy's and SciPy's are loaded by now."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_thread() -> Iterator[int]:
    """Let the BLAS use one thread: its sums then have one order. Yields how many it might use.

    All threads of a process share this number, so those that want several wait for each other.
    """
    libraries = blas_libraries()
    if all(library.num_threads == 1 for library in libraries):
        yield 1
        return
    with _ALONE:
        allowed = [library.num_threads for library in libraries]
        try:
            for library in libraries:
                library.set_num_threads(1)
            yield min(allowed)
        finally:
            for library, count in zip(libraries, allowed, strict=True):
                library.set_num_threads(count)


_ALONE = RLock()


def as_matrix(X: Any) -> Array:
    """Return ``X`` as a C-contiguous float64 matrix (n, d); a vector becomes one column."""
    if X.__class__ is Distant:
        return cast(Array, X)
    A = np.ascontiguousarray(X, dtype=np.float64)
    return A[:, None] if A.ndim == 1 else A


def host(A: Any) -> Array:
    """Return an array in the memory of the CPU; from a device only this brings one back."""
    if A.__class__ is Distant:
        return cast(Array, A.fetched())
    B = np.asarray(A)
    return host(unboxed(B)) if B.dtype == object and unboxed(B).__class__ is Distant else B


def is_sparse(X: Any) -> bool:
    """Say whether X is a sparse matrix or array of SciPy."""
    return bool(issparse(X))


def as_columns(y: Any) -> Array:
    """Return ``y`` as float64 columns (n, m): one column per output."""
    A = np.asarray(y, dtype=np.float64)
    return A[:, None] if A.ndim == 1 else A


def cholesky(A: Matrix) -> int:
    """Factor the symmetric matrix ``A`` (n, n) in place, ``A = L L'``.

    Afterwards the *upper* triangle of ``A`` (row-major) holds ``L'``; the lower triangle is
    undefined. Returns 0, or the order of the first leading minor that is not positive.
    """
    if A.__class__ is Distant:
        return int(A.cholesky())
    _, info = lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)
    return int(info)


def _of_formulas(solve: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Let a solver take a B that is a formula, not an array: the inverse times B.

    ``mercer.export`` evaluates operators on formulas in order to write them down. An A on a device
    is solved with there.
    """

    @wraps(solve)
    def either(A: Matrix, B: Array) -> Array:
        if A.__class__ is Distant:
            found: Array | None = A.solved(solve.__name__, B)
            if found is not None:
                return found
            A = host(A)  # to be written down
        return solve(A, B) if isinstance(B, np.ndarray) else solve(A, np.eye(len(A))) @ B

    return either


@_of_formulas
def half_solve(A: Array, B: Array) -> Array:
    """``L^-1 B`` for ``A`` as left by :func:`cholesky`; B is (n, m)."""
    return _triangular(A, B, trans=0)


@_of_formulas
def back_solve(A: Array, B: Array) -> Array:
    """``L^-T B`` for ``A`` as left by :func:`cholesky`; B is (n, m)."""
    return _triangular(A, B, trans=1)


@_of_formulas
def transposed_solve(R: Array, B: Array) -> Array:
    """``R^-T B`` for an upper triangular matrix R (n, n); B is (n, m)."""
    return np.asarray(solve_triangular(R, B, trans="T"))


def half_inverse(A: Matrix) -> None:
    """``L^-1`` over ``A`` as left by :func:`cholesky`; its transpose is the *upper* triangle.

    The squares in each row of that triangle sum to the diagonal of ``(L L')^-1``.
    """
    if A.__class__ is Distant:
        A.half_inverse()
    else:
        lapack.dtrtri(A.T, lower=1, overwrite_c=1)


def half_product(A: Matrix, B: Array) -> Array:
    """``L^-1 B`` for ``A`` as left by :func:`half_inverse`; B is (n, m)."""
    if A.__class__ is Distant:
        return np.asarray(A.half_product(B))
    return np.asarray(blas.dtrmm(1.0, A.T, B, lower=1))


def back_product(A: Matrix, B: Array) -> Array:
    """``L^-T B`` for ``A`` as left by :func:`half_inverse`; B is (n, m)."""
    if A.__class__ is Distant:
        return np.asarray(A.back_product(B))
    return np.asarray(blas.dtrmm(1.0, A.T, B, lower=1, trans_a=1))


def inverse_of_half(A: Matrix) -> None:
    """``(L L')^-1`` over ``A`` as left by :func:`half_inverse`; the *upper* triangle is meant."""
    if A.__class__ is Distant:
        A.inverse_of_half()
    else:
        lapack.dlauum(A.T, lower=1, overwrite_c=1)


def cholesky_logdet(A: Matrix) -> float:
    """``log |L L'|`` for ``A`` as left by :func:`cholesky`."""
    return float(2.0 * np.log(diagonal(A)).sum())


def diagonal(A: Matrix) -> Array:
    """Return the diagonal (n,) of ``A`` (n, n), to be read."""
    return A.diagonal() if A.__class__ is Distant else np.diagonal(A)


def set_diagonal(A: Matrix, values: Array) -> None:
    """Write the diagonal (n,) of ``A`` (n, n)."""
    if A.__class__ is Distant:
        A.set_diagonal(values)
    else:
        A.flat[:: len(A) + 1] = values


def zeros(n: int, m: int, like: Any) -> Array:
    """Return zeros (n, m) where another array is."""
    if like.__class__ is Distant:
        blank: Array = like.zeros(n, m)
        return blank
    return np.zeros((n, m))


def mirror(A: Matrix) -> Array:
    """Copy the upper triangle of ``A`` (n, n) to the lower one, in place; return ``A``."""
    if A.__class__ is Distant:
        A.mirror()
    else:
        from mercer._native import core

        core.mirror_upper(A)
    return cast(Array, A)


def _triangular(A: Array, B: Array, trans: int) -> Array:
    X, info = lapack.dtrtrs(A.T, B, lower=1, trans=trans)
    if info:
        raise np.linalg.LinAlgError("the factor is singular or was used up by its inverse")
    return np.asarray(X)


def group_rows(X: Array) -> tuple[Index, Index]:
    """Return (a row of each distinct row of X, the group of each row); groups in sorted order."""
    order = np.argsort(X[:, 0], kind="stable")
    ordered = X[order, :1]
    if np.any(ordered[1:] == ordered[:-1]):  # the other columns decide
        order = np.lexsort(X.T[::-1])
        ordered = X[order]
    new = np.ones(len(X), dtype=bool)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def column_order(X: Array, y: Array, weights: Array) -> Index:
    """Return the columns (d,) of X (n, d) in an order by what they hold, not by where they stand.

    By their values, then by their sums and those of their products with y (n, m): neither the order
    of the rows matters, nor whether a row has a weight of two or is there twice.
    """
    products = [X, X * y.sum(axis=1, keepdims=True)]
    sums = [weights @ A / np.maximum(weights @ np.abs(A), np.finfo(float).tiny) for A in products]
    keys = np.round(sums, 9)  # what is left is the rounding of the sums
    by = [(np.unique(column).tobytes(), *key) for column, key in zip(X.T, keys.T, strict=True)]
    return np.array(sorted(range(len(by)), key=by.__getitem__), dtype=np.intp)


def canonical_order(X: Any, labels: Index, *, pairwise: bool = False) -> Index:
    """Return the rows (n,) in an order that depends on what they hold, not on where they stand.

    Of the values of a kernel between the rows (``pairwise``) the order of columns is of no account.
    """
    if not is_sparse(X):
        values = np.sort(X, axis=1) if pairwise else X
        return np.lexsort((labels, *values.T))
    parts = [slice(X.indptr[i], X.indptr[i + 1]) for i in range(X.shape[0])]
    keys = [
        (int(c), X.indices[p].tobytes(), X.data[p].tobytes())
        for c, p in zip(labels, parts, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def merge(group: Index, n: int, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Merge rows by group: weighted mean (n, m), total weight (n,), weighted spread (n, m)."""
    if len(group) == n:  # nothing repeats: the values as they are, in the order of the groups
        order = np.argsort(group)
        return y[order].copy(), weights[order].copy(), np.zeros((n, y.shape[1]))
    total: Array = np.asarray(np.bincount(group, weights, n), dtype=np.float64)
    first = np.zeros(n, dtype=np.intp)
    first[group[::-1]] = np.arange(len(group))[::-1]
    base = y[first]  # differences to a member of the group: equal values merge without rounding
    shift = y - base[group]
    mean = np.column_stack([np.bincount(group, weights * c, n) for c in shift.T]) / total[:, None]
    rest = shift - mean[group]
    spread: Array = np.column_stack([np.bincount(group, weights * c**2, n) for c in rest.T])
    return base + mean, total, spread


def column_sums(weights: Array, A: Array) -> Array:
    """Return weights @ A (d,), whose rounding does not depend on the place of a column."""
    if A.shape[1] == 1:
        return np.asarray(weights @ A)
    return np.asarray((weights[:, None] * A).sum(axis=0))  # row by row, as BLAS does not


def of_numpy(A: Any, what: str) -> Any:
    """Return an array of another library as one of NumPy; ``what`` is its name in an error."""
    if isinstance(A, np.ndarray) or not hasattr(A, "__dlpack__"):
        return A
    try:
        return np.asarray(A)
    except Exception as error:  # of any library: on another device, part of a graph
        raise TypeError(
            f"{what} is a {type(A).__module__}.{type(A).__name__} that NumPy cannot read "
            f"({error}): give it as a NumPy array in the memory of this machine"
        ) from error


def location_scale(A: Array, weights: Array, spread: Array | None = None) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of the columns of A (n, d).

    ``spread`` (n, d) is the weighted sum of squares of merged observations about each A_i.

    A constant column gets its absolute value as scale (1 for zeros). The columns are divided by
    their largest absolute value first, so that squares of 1e200 do not overflow.
    """
    top = np.max(np.abs(A), axis=0)
    top = np.where(top > 0, top, 1.0)
    B = A / top
    total = weights.sum()
    mean = column_sums(weights, B) / total
    squares = column_sums(weights, (B - mean) ** 2)
    if spread is not None:
        squares = squares + ((np.sqrt(spread) / top) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / total)
    constant = deviation <= 8 * np.finfo(float).eps
    return mean * top, np.where(constant, 1.0, deviation) * top


def median_spread(A: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted median of the columns of A (n, d), and the deviation that their quartiles say.

    That is their distance over 1.349, the deviation of a Gaussian: outliers do not move it. A
    column with equal quartiles gets the scale of :func:`location_scale`. A row of weight two is the
    same as two rows.

    Examples
    --------
    >>> center, spread = median_spread(np.array([[0.0], [1.0], [2.0], [3.0], [1e9]]), np.ones(5))
    >>> float(center[0]), round(float(spread[0]), 3)
    (2.0, 1.483)
    """
    order = np.argsort(A, axis=0, kind="stable")
    values, heap = np.take_along_axis(A, order, axis=0), np.cumsum(weights[order], axis=0)
    total, slack = heap[-1], 1e-12 * heap[-1]

    def quantile(level: float) -> Array:
        low = (heap < level * total - slack).sum(axis=0)
        high = np.minimum((heap < level * total + slack).sum(axis=0), len(A) - 1)
        ends = [np.take_along_axis(values, at[None], axis=0)[0] for at in (low, high)]
        return np.asarray(0.5 * ends[0] + 0.5 * ends[1])

    spread = (quantile(0.75) - quantile(0.25)) / 1.349
    center, scale = quantile(0.5), location_scale(A, weights)[1]
    return center, np.where(spread > 1e-9 * scale, spread, scale)
