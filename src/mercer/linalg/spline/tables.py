"""Exact tables of an integrated Wiener process on the unit interval, by rational arithmetic.

The state (g, g', .., g^(m-1)) moves over a gap d by A(d), and gains the covariance Q(d):

    A_ij(d) = d^(j-i) / (j-i)!  (j >= i),      Q_ij(d) = d^(2m-1-i-j) Q1_ij,
    Q1_ij   = 1 / ((2m-1-i-j) (m-1-i)! (m-1-j)!),     i, j = 0 .. m-1.

Between two known states the process is a bridge: at u in (0, 1) its mean is the Hermite
interpolant of both ends, with F(u) = Q(u) A(1-u)' Q(1)^-1 on the right one, and its covariance is
Q(u) - F(u) A(1-u) Q(u). Theory (P6).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import factorial

import numpy as np

from mercer.core.arrays import Array

Rows = list[list[Fraction]]
Polynomial = list[Fraction]


def _Q1(m: int) -> Rows:
    return [
        [
            Fraction(1, (2 * m - 1 - i - j) * factorial(m - 1 - i) * factorial(m - 1 - j))
            for j in range(m)
        ]
        for i in range(m)
    ]


@cache
def unit_cholesky(m: int) -> Array:
    """L1 (m, m), lower triangular, with L1 L1' = Q1, from the exact L D L' of Q1."""
    Q = _Q1(m)
    L = np.zeros((m, m))
    for j in range(m):
        pivot = Q[j][j]
        column = [Q[i][j] / pivot for i in range(m)]
        L[j:, j] = [float(c) for c in column[j:]]
        L[:, j] *= float(pivot) ** 0.5
        Q = [[Q[i][k] - column[i] * column[k] * pivot for k in range(m)] for i in range(m)]
    return _frozen(L)


@cache
def _hermite(m: int) -> tuple[tuple[Polynomial, ...], ...]:
    """F_kj(u) as polynomials: coefficients of u^0 .. u^(2m-1), for k, j = 0 .. m-1."""
    Q1 = _Q1(m)
    inverse = _inverse(Q1)
    table: list[tuple[Polynomial, ...]] = []
    for k in range(m):
        row = []
        for j in range(m):
            total: Polynomial = [Fraction(0)] * (2 * m)
            for i in range(m):  # Q(u)_ki = u^(2m-1-k-i) Q1_ki
                for p in range(i + 1):  # A(1-u)'_ip = (1-u)^(i-p) / (i-p)!
                    factor = Q1[k][i] * inverse[p][j] / factorial(i - p)
                    for power, c in enumerate(_binomial(i - p)):
                        total[2 * m - 1 - k - i + power] += factor * c
            row.append(total)
        table.append(tuple(row))
    return tuple(table)


@cache
def hermite(m: int, order: int) -> Array:
    """Weights of the right end's state in the derivative of ``order``: coefficients (m, 2m) in u.

    -1 is the integral from the left end on, and has one coefficient more: (m, 2m + 1).
    """
    polynomials = list(_hermite(m)[0])
    if order < 0:
        polynomials = [
            [Fraction(0), *(c / (i + 1) for i, c in enumerate(poly))] for poly in polynomials
        ]
    for _ in range(order):
        polynomials = [
            [c * (i + 1) for i, c in enumerate(poly[1:])] + [Fraction(0)] for poly in polynomials
        ]
    return _frozen(np.array([[float(c) for c in poly] for poly in polynomials]))


@cache
def bridge(m: int, order: int) -> Array:
    """Variance of the derivative of ``order`` < m at u, given both ends: coefficients in u.

    For order zero it is (u (1-u))^(2m-1) / ((2m-1) ((m-1)!)^2).
    """
    Q1 = _Q1(m)
    F = _hermite(m)[order]
    result: Polynomial = [Fraction(0)] * (4 * m)
    result[2 * m - 1 - 2 * order] = Q1[order][order]
    for j in range(m):
        for i in range(j, m):  # (A(1-u) Q(u))_j,order
            for power, c in enumerate(_binomial(i - j)):
                shift = 2 * m - 1 - i - order + power
                for p, f in enumerate(F[j]):
                    if f:
                        result[p + shift] -= f * c * Q1[i][order] / factorial(i - j)
    return _frozen(np.array([float(c) for c in result]))


def spread(m: int, order: int) -> float:
    """Q1_kk for k = ``order`` < m: the variance of that derivative a unit away from a state."""
    return float(_Q1(m)[order][order])


def _binomial(n: int) -> Polynomial:
    """(1-u)^n in powers of u."""
    return [
        Fraction((-1) ** i * factorial(n), factorial(i) * factorial(n - i)) for i in range(n + 1)
    ]


def _inverse(A: Rows) -> Rows:
    n = len(A)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(A)]
    for j in range(n):
        pivot = rows[j][j]  # never zero: A is positive definite
        rows[j] = [v / pivot for v in rows[j]]
        for i in range(n):
            if i != j:
                rows[i] = [v - rows[i][j] * p for v, p in zip(rows[i], rows[j], strict=True)]
    return [row[n:] for row in rows]


def _frozen(A: Array) -> Array:
    A.flags.writeable = False
    return A
