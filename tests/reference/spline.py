"""Slow and obvious smoothing splines: dense matrices, in double or in eighty digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, factorial

import numpy as np


def kernel(x, z, m):
    """k_m(x, z) for numbers of any type measured from the origin."""
    v, d = min(x, z), abs(x - z)
    total = v ** (2 * m - 1) / (2 * m - 1)
    for j in range(1, m):
        total += comb(m - 1, j) * d**j * v ** (2 * m - 1 - j) / (2 * m - 1 - j)
    return total / factorial(m - 1) ** 2


def dense(x, y, w, m, lam, origin=None, at=None):
    """Mean, variance at ``at`` for unit noise; log|K + 1/W| + log|A|, y'Py and P: GPML (2.42)."""
    origin = x.min() if origin is None else origin
    at = x if at is None else at

    def k(a, b):
        return np.array([[kernel(s - origin, t - origin, m) for t in b] for s in a]) / lam

    def h(a):
        return np.array([(a - origin) ** j / factorial(j) for j in range(m)]).T

    H = h(x)
    C = np.linalg.inv(k(x, x) + np.diag(1.0 / w))
    A = H.T @ C @ H
    P = C - C @ H @ np.linalg.solve(A, H.T @ C)
    beta = np.linalg.solve(A, H.T @ C @ y)
    cross = k(at, x)
    rest = h(at) - cross @ C @ H
    mean = cross @ C @ (y - H @ beta) + h(at) @ beta
    var = np.diag(k(at, at)) - np.einsum("ij,jk,ik->i", cross, C, cross)
    var = var + np.einsum("ij,ji->i", rest, np.linalg.solve(A, rest.T))
    logdet = -np.linalg.slogdet(C)[1] + np.linalg.slogdet(A)[1]
    return mean, var, logdet, y @ P @ y, P


def reml(x, y, w, m, lam, noise):
    """Log density of contrasts, restated for the factorial basis: section 2.7 of GPML."""
    H = np.array([(x - x.min()) ** j / factorial(j) for j in range(m)]).T
    Q = np.linalg.qr(H, mode="complete")[0][:, m:]
    K = np.array([[kernel(a - x.min(), b - x.min(), m) for b in x] for a in x]) * noise / lam
    S = Q.T @ (K + np.diag(noise / w)) @ Q
    z = Q.T @ y
    value = -0.5 * (z @ np.linalg.solve(S, z) + np.linalg.slogdet(S)[1])
    value -= 0.5 * len(z) * np.log(2.0 * np.pi)
    return value - 0.5 * np.linalg.slogdet(H.T @ H)[1]


def exactly(x, y, w, m, lam, digits=80):
    """Fit (n,), variance (n,) for unit noise and logdet_noisy + log|A|, y'Py in ``digits`` digits.

    The saddle-point system [K + W^-1, H; H', 0] [a; b] = [y; 0] by Gauss-Jordan elimination; its
    determinant is (-1)^m |K + W^-1| |A|.
    """
    with localcontext() as context:
        context.prec = digits

        def number(value):
            exact = Fraction(float(value))
            return Decimal(exact.numerator) / Decimal(exact.denominator)

        n, lam = len(x), number(lam)
        x = [number(v) - number(min(x)) for v in x]
        y, w = [number(v) for v in y], [number(v) for v in w]
        rows = []
        for i in range(n):
            row = [kernel(x[i], x[j], m) / lam for j in range(n)]
            row[i] += 1 / w[i]
            rows.append(row + [x[i] ** k / factorial(k) if k else Decimal(1) for k in range(m)])
        for k in range(m):
            rows.append([rows[i][n + k] for i in range(n)] + [Decimal(0)] * m)
        size = n + m
        rows = [row + [Decimal(int(i == j)) for j in range(n)] for i, row in enumerate(rows)]
        logdet = Decimal(0)
        for j in range(size):
            pivot = max(range(j, size), key=lambda i: abs(rows[i][j]))
            rows[j], rows[pivot] = rows[pivot], rows[j]
            head = rows[j][j]
            logdet += abs(head).ln()
            top = rows[j] = [v / head for v in rows[j]]
            for i in range(size):
                f = rows[i][j]
                if i != j and f:
                    row = rows[i]
                    row[j:] = [a - f * b for a, b in zip(row[j:], top[j:], strict=True)]
        P = [rows[i][size:] for i in range(n)]
        alpha = [sum(P[i][j] * y[j] for j in range(n)) for i in range(n)]
        fit = [float(y[i] - alpha[i] / w[i]) for i in range(n)]
        var = [float((1 - P[i][i] / w[i]) / w[i]) for i in range(n)]
        q = float(sum(a * b for a, b in zip(alpha, y, strict=True)))
        return np.array(fit), np.array(var), float(logdet), q
