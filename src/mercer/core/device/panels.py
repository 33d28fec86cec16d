"""Triangles in place, by panels: nearly all is multiplication of matrices.

The functions take square matrices A (n, n) of Torch, row-major, and read and write the *upper*
triangle alone (the lower one may hold something else): U with A = U'U from :func:`cholesky`, its
inverse V from :func:`inverse`, V V' from :func:`square`. Beside A no more is held than a panel of
its rows or columns. An inverse by halves takes a quarter of the time of ``torch.cholesky_inverse``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WIDTH = 1024  # rows of a panel, and of the triangles that are inverted at once


def cholesky(A: Any) -> int:
    """Factor the symmetric A = U'U; the lower triangle is set to zero.

    Returns 0, or the order of the first leading minor that is not positive.
    """
    import torch

    lower = A.mT  # column-major, as LAPACK and cuSOLVER want it: they work in place
    info = torch.empty((), dtype=torch.int32, device=A.device)
    torch.linalg.cholesky_ex(lower, out=(lower, info))
    return int(info)


def solve(A: Any, B: Any, *, back: bool = False) -> Any:
    """Return U^-T B, or U^-1 B if ``back``, for the factor U in A; B is (n, m)."""
    import torch

    lower = A.mT  # a view that Torch need not copy
    if back:  # X' = B'L^-1
        return torch.linalg.solve_triangular(lower, B.mT, upper=False, left=False).mT
    return torch.linalg.solve_triangular(lower, B, upper=False)


def inverse(U: Any) -> None:
    """U^-1 over U, by halves: of [[P, R], [0, S]] it is [[P^-1, -P^-1 R S^-1], [0, S^-1]]."""
    import torch

    n = len(U)
    if n <= WIDTH:
        one = torch.eye(n, dtype=U.dtype, device=U.device)
        _write_upper(U, torch.linalg.solve_triangular(U.triu(), one, upper=True))
        return
    h = n // 2
    P, R, S = U[:h, :h], U[:h, h:], U[h:, h:]
    inverse(P)
    inverse(S)
    # R <- -P^-1 R from the top: a panel of rows needs itself and those below, not yet written
    for rows in _panels(h):
        top = P[rows, rows].triu() @ R[rows]
        if rows.stop < h:
            top.addmm_(P[rows, rows.stop :], R[rows.stop :])
        R[rows] = top.neg_()
    # R <- R S^-1 from the right: a panel of columns needs itself and those to its left
    for cols in reversed(list(_panels(n - h))):
        right = R[:, cols] @ S[cols, cols].triu()
        if cols.start:
            right.addmm_(R[:, : cols.start], S[: cols.start, cols])
        R[:, cols] = right


def square(V: Any) -> None:
    """V V' over V, by halves: of [[P, R], [0, S]] it is [[P P' + R R', R S'], [., S S']]."""
    n = len(V)
    if n <= WIDTH:
        whole = V.triu()
        _write_upper(V, whole @ whole.mT)
        return
    h = n // 2
    P, R, S = V[:h, :h], V[:h, h:], V[h:, h:]
    square(P)
    for rows in _panels(h):
        part = R[rows] @ R[rows].mT
        P[rows, rows].add_(part.triu_())
        if rows.stop < h:
            P[rows, rows.stop :].addmm_(R[rows], R[rows.stop :].mT)
    # R <- R S' from the left: a panel of columns needs itself and those to its right
    for cols in _panels(n - h):
        left = R[:, cols] @ S[cols, cols].triu().mT
        if cols.stop < n - h:
            left.addmm_(R[:, cols.stop :], S[cols, cols.stop :].mT)
        R[:, cols] = left
    square(S)


def product(V: Any, B: Any, *, transposed: bool = False) -> Any:
    """Return V B, or V'B, for the upper triangle V; B is (n, m)."""
    out = B.new_empty(B.shape)
    for rows in _panels(len(V)):
        own = V[rows, rows].triu()
        if transposed:
            out[rows] = own.mT @ B[rows] + V[: rows.start, rows].mT @ B[: rows.start]
        else:
            out[rows] = own @ B[rows] + V[rows, rows.stop :] @ B[rows.stop :]
    return out


def row_squares(V: Any) -> Any:
    """Return the sum of squares (n,) of each row of the upper triangle."""
    sums = V.new_empty(len(V))
    for rows in _panels(len(V)):
        sums[rows] = V[rows, rows].triu().square_().sum(dim=1)
        sums[rows] += V[rows, rows.stop :].square().sum(dim=1)
    return sums


def add_scaled(A: Any, s: Any, M: Any) -> None:
    """M_ij += s_i s_j A_ij for i <= j."""
    for rows in _panels(len(A)):
        part = A[rows, rows.start :] * s[rows.start :]
        part *= s[rows, None]
        M[rows, rows.start :] += part.triu_()


def mirror(A: Any) -> None:
    """Copy the upper triangle to the lower one."""
    for rows in _panels(len(A)):
        own = A[rows, rows].triu()
        A[rows, rows] = own + own.triu(1).mT
        A[rows.stop :, rows] = A[rows, rows.stop :].mT


def transpose(A: Any) -> None:
    """A' over A."""
    for rows in _panels(len(A)):
        A[rows, rows] = A[rows, rows].mT.clone()
        right = A[rows, rows.stop :].clone()
        A[rows, rows.stop :] = A[rows.stop :, rows].mT
        A[rows.stop :, rows] = right.mT


def _panels(n: int) -> Iterator[slice]:
    for start in range(0, n, WIDTH):
        yield slice(start, min(start + WIDTH, n))


def _write_upper(A: Any, values: Any) -> None:
    """Write the upper triangle of ``values`` to that of a small A."""
    A.copy_(values.triu() + A.tril(-1))
