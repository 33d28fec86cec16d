"""A smoothing spline in exact fractions: any linear functional of the curve, nothing rounded.

The functional (t, i) is the i-th derivative at t; i = -1 is the integral from the origin to t. With
phi(u) = (t - u)_+^(m-1-i) / (m-1-i)! its prior covariance with (s, j) is the integral of phi psi
over u > 0, and with the polynomials x^k / k! it is t^(k-i) / (k-i)!. Given the rows, by the
saddle-point system B = [[K + N, H], [H', 0]] (universal kriging).
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, log, pi


def _covariance(one, two, m):
    (t, i), (s, j) = one, two
    if t > s:
        (t, i), (s, j) = two, one
    p, q, d = m - 1 - i, m - 1 - j, s - t  # w = t - u: w^p (w + d)^q from 0 to t
    total = sum(comb(q, k) * d ** (q - k) * t ** (p + k + 1) / (p + k + 1) for k in range(q + 1))
    return Fraction(total) / (factorial(p) * factorial(q))


def _log(value):
    value = abs(value)
    return log(value.numerator) - log(value.denominator)


def _inverse(rows):
    """Inverse and log |det| by elimination with exact pivots."""
    size = len(rows)
    work = [row + [Fraction(int(i == j)) for j in range(size)] for i, row in enumerate(rows)]
    logdet = 0.0
    for j in range(size):
        pivot = next(i for i in range(j, size) if work[i][j] != 0)
        work[j], work[pivot] = work[pivot], work[j]
        head = work[j][j]
        logdet += _log(head)
        work[j] = [v / head for v in work[j]]
        for i in range(size):
            if i != j and work[i][j] != 0:
                f = work[i][j]
                work[i] = [a - f * b for a, b in zip(work[i], work[j], strict=True)]
    return [row[size:] for row in work], logdet


class Rational:
    """The posterior of rows x, y of noise variance noise / w, process variance noise / lam."""

    def __init__(self, x, y, w, m, lam, noise, origin):
        self.m, self.origin = m, Fraction(origin)
        self.scale = Fraction(noise) / Fraction(lam)
        self.rows = [(self._from(v), 0) for v in x]
        n, self.n = len(x), len(x)
        B = [[self.scale * _covariance(a, b, m) for b in self.rows] for a in self.rows]
        for i in range(n):
            B[i][i] += Fraction(noise) / Fraction(float(w[i]))
        H = [self._polynomials(a) for a in self.rows]
        B = [B[i] + H[i] for i in range(n)]
        B += [[H[i][k] for i in range(n)] + [Fraction(0)] * m for k in range(m)]
        self.inverse, logdet = _inverse(B)
        self.y = [Fraction(float(v)) for v in y] + [Fraction(0)] * m
        self.a = self._apply(self.y)
        fit = sum(u * v for u, v in zip(self.y, self.a, strict=True))
        self.evidence = -0.5 * (float(fit) + logdet + (n - m) * log(2.0 * pi))

    def _from(self, value):
        return Fraction(float(value)) - self.origin

    def _polynomials(self, functional):
        t, i = functional
        power = [k - i for k in range(self.m)]
        return [t**p / Fraction(factorial(p)) if p >= 0 else Fraction(0) for p in power]

    def _apply(self, v):
        return [sum(a * b for a, b in zip(row, v, strict=True)) for row in self.inverse]

    def _cross(self, functional):
        c = [self.scale * _covariance(functional, row, self.m) for row in self.rows]
        return c + self._polynomials(functional)

    def mean(self, t, i=0):
        """The i-th derivative at t."""
        return self._mean((self._from(t), i))

    def _mean(self, functional):
        return float(sum(a * b for a, b in zip(self._cross(functional), self.a, strict=True)))

    def upper(self, t, k):
        """The sum of a_i (x_i - t)^k / k! over the rows to the right of t, for P y = a."""
        far = [
            (row[0] - self._from(t), a) for row, a in zip(self.rows, self.a[: self.n], strict=True)
        ]
        return float(sum(a * d**k for d, a in far if d > 0) / factorial(k))

    def integral(self, low, high):
        """The integral of the mean."""
        ends = [self._cross((self._from(t), -1)) for t in (low, high)]
        return float(sum((b - a) * c for a, b, c in zip(*ends, self.a, strict=True)))

    def cov(self, t, s, i=0, j=0):
        """Covariance of the i-th derivative at t with the j-th at s."""
        one, two = (self._from(t), i), (self._from(s), j)
        right = self._apply(self._cross(two))
        known = sum(a * b for a, b in zip(self._cross(one), right, strict=True))
        return float(self.scale * _covariance(one, two, self.m) - known)
