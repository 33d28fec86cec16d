"""Preconditioned conjugate gradients for many right-hand sides, apart and together.

With A = K + D, a preconditioner P <= A and r = y - A v,

    v'(y + r)  <=  y'A^-1 y  <=  v'(y + r) + rho^2,      rho^2 = r'P^-1 r                       (I8)

for any v: so both solvers know at every step how far they are. Apart, each column has a Krylov
space of its own, whose coefficients are those of a quadrature. Together, every column is sought in
the space of all: half as many rounds, or fewer, at the price of (n, r) x (r, r) products.

References: Hestenes and Stiefel (1952); O'Leary (1980) for the block; Ji and Li (2017) for what is
left out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array

FRESH = 50  # rounds after which residuals are computed anew
RISES = 20  # rounds in a row in which rho may rise before the solver gives up
ALIKE = 1e-12  # of the largest squared length, below which a direction is rounding

Operate: TypeAlias = Callable[[Array], Array]
Enough: TypeAlias = Callable[[Array, Array], NDArray[np.bool_]]


@dataclass
class SolvedColumns:
    """Columns V with (K + D) V = Y, as far as the solver came.

    ``rho2`` (r,) are r'P^-1 r; ``steps`` the coefficients (length, ratio) of each round, (r,) each.
    """

    V: Array
    residual: Array
    rho2: Array
    rounds: int
    converged: bool
    steps: list[tuple[Array, Array]] = field(default_factory=list)


def apart(
    apply: Operate,
    precondition: Operate,
    Y: Array,
    tol: float | Array,
    limit: int,
    start: Array | None = None,
) -> SolvedColumns:
    """Solve A V = Y (n, r) until each rho^2 <= tol; a column that is done rests.

    A column begins at ``start`` (n, r) where (I8) says more there than at zero.
    """
    V, R = np.zeros_like(Y), Y.copy()
    Z = precondition(R)
    g = np.einsum("ij,ij->j", R, Z)
    if start is not None and np.any(start):
        V, R, Z, g = _begun(apply, precondition, Y, start, Z, g)
    S = Z.copy()
    best, rises, rounds, steps = g.copy(), 0, 0, []
    going = g > tol
    while np.any(going) and rounds < limit and rises < RISES:
        T = apply(S[:, going])
        t = g[going] / np.einsum("ij,ij->j", S[:, going], T)
        V[:, going] += S[:, going] * t
        rounds += 1
        if rounds % FRESH == 0:
            R[:, going] = Y[:, going] - apply(V[:, going])
        else:
            R[:, going] -= T * t
        Z = precondition(R[:, going])
        new = np.einsum("ij,ij->j", R[:, going], Z)
        length, ratio = np.full(len(g), np.nan), np.full(len(g), np.nan)
        length[going], ratio[going] = t, new / g[going]
        steps.append((length, ratio))
        S[:, going] = Z + S[:, going] * (new / g[going])
        g[going] = new
        better = g < best
        rises = 0 if np.any(better & going) else rises + 1
        best = np.minimum(best, g)
        going = g > tol
    return SolvedColumns(V, R, g, rounds, bool(np.all(g <= tol)), steps)


def _begun(
    apply: Operate, precondition: Operate, Y: Array, start: Array, Z: Array, g: Array
) -> tuple[Array, Array, Array, Array]:
    """Return V, R, P^-1 R and rho^2 of the better of two beginnings, zero and ``start``."""
    V, R = start.copy(), Y.copy()
    given = np.any(start != 0.0, axis=0)
    R[:, given] -= apply(start[:, given])
    warm = precondition(R)
    rho2 = np.einsum("ij,ij->j", R, warm)
    worse = np.einsum("ij,ij->j", V, Y + R) + rho2 > g  # the upper values of y'A^-1 y
    V[:, worse], R[:, worse], warm[:, worse] = 0.0, Y[:, worse], Z[:, worse]
    return V, R, warm, np.where(worse, g, rho2)


def together(
    apply: Operate, precondition: Operate, Y: Array, enough: Enough, limit: int
) -> SolvedColumns:
    """Solve A V = Y (n, r), all columns in one space, until ``enough`` of all of them.

    ``enough(low, rho2)`` says it from the ends low (r,) and low + rho2 of the brackets of y'A^-1 y.
    Directions are made orthonormal in each round: then columns may be alike, or done.
    """
    V, R = np.zeros_like(Y), Y.copy()
    Z = precondition(R)
    g = np.einsum("ij,ij->j", R, Z)
    low, rounds, rises, best = np.zeros_like(g), 0, 0, float(g.max(initial=0.0))
    S = _directions(Z)
    while not np.all(done := enough(low, g)) and rounds < limit and rises < RISES:
        T = apply(S)
        M = S.T @ T
        step = np.linalg.solve(M, S.T @ R)
        V += S @ step
        R -= T @ step
        Z = precondition(R)
        g, low = np.einsum("ij,ij->j", R, Z), np.einsum("ij,ij->j", V, Y + R)
        S = _directions(Z - S @ np.linalg.solve(M, T.T @ Z))
        rounds += 1
        rises = 0 if float(g.max()) < best else rises + 1
        best = min(best, float(g.max()))
    return SolvedColumns(V, R, g, rounds, bool(np.all(done)))


def _directions(Z: Array) -> Array:
    """Return an orthonormal basis (n, q), q <= r, of the columns of Z, whatever their lengths are.

    What rounding alone would tell apart is left out: it is no direction to go.
    """
    length = np.sqrt(np.einsum("ij,ij->j", Z, Z))
    unit = Z / np.where(length > 0.0, length, 1.0)
    values, vectors = np.linalg.eigh(unit.T @ unit)
    kept = values > ALIKE * values[-1]
    return np.asarray(unit @ (vectors[:, kept] / np.sqrt(values[kept])))
