"""Green's functions of q^2 - laplacian in D dimensions, and what is left of them near r = 0.

G_D(r; q) = (2 pi)^(-D/2) (q / r)^nu K_nu(q r),  nu = D/2 - 1,  Re q > 0,  and with z = -q^2

    dG_D/dz = G_{D-2} / (4 pi).

For D >= 2 it is singular at r = 0. The kernels built from it are sums over nodes q_l with weights
that annihilate polynomials in z up to degree M - 2 (2 M > D is the order of the operator), and
every singular term of G_D is such a polynomial. :func:`small_terms` is the power series of G_D
without the terms that cancel, so that r = 0 is an ordinary point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, log, pi, sin
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array

Complex: TypeAlias = NDArray[np.complex128]


def green(D: int, q: complex, r: Array) -> Complex:
    """Return G_D(r; q) at r > 0 (for D = 1, r >= 0)."""
    if D == 1:
        return np.asarray(np.exp(-q * r) / (2.0 * q))
    nu = 0.5 * D - 1.0
    return np.asarray(
        (2.0 * pi) ** (-0.5 * D)
        * (q / r) ** nu
        * bessel_k(abs(nu), np.asarray(q * r, dtype=np.complex128))
    )


def green_slope(D: int, q: complex, r: Array) -> Complex:
    """Return dG_D/dz at r > 0 (for D = 1, r >= 0), z = -q^2."""
    if D == 1:
        return np.asarray(np.exp(-q * r) * (q * r + 1.0) / (4.0 * q**3))
    return green(D - 2, q, r) / (4.0 * pi)


def bessel_k(nu: float, x: Complex) -> Complex:
    """Return K_nu(x), nu >= 0, Re x > 0; in closed form if nu is half an odd integer."""
    if nu % 1.0 == 0.5:  # DLMF 10.49.12
        return np.asarray(np.sqrt(0.5 * pi / x) * np.exp(-x) * _polynomial(int(nu), x))
    from scipy.special import kve

    return np.asarray(kve(nu, x) * np.exp(-x))


def _polynomial(n: int, x: Complex) -> Complex:
    """Return sum_k (n + k)! / (k! (n - k)!) (2 x)^-k."""
    total = np.zeros_like(x)
    for k in range(n, -1, -1):
        total = total / (2.0 * x) + factorial(n + k) / (factorial(k) * factorial(n - k))
    return total


@dataclass(frozen=True)
class Term:
    """One term c q^a (log q)^b r^power (log r + shift)^has_log of the series."""

    c: float
    a: float
    b: int
    power: float
    shift: float | None = None

    def of_r(self, r: Array) -> Array:
        """Return c r^power (log r + shift)^has_log; zero at r = 0 if the power is positive."""
        if self.shift is None:
            return np.asarray(self.c * r**self.power)
        safe = np.where(r > 0.0, r, 1.0)
        return np.asarray(self.c * r**self.power * (np.log(safe) + self.shift))

    def of_q(self, q: Complex) -> Complex:
        """Return q^a (log q)^b."""
        return np.asarray(q**self.a * np.log(q) ** self.b)

    def slope(self, q: Complex) -> Complex:
        """Return the derivative of q^a (log q)^b by z = -q^2."""
        by_q = self.a * q ** (self.a - 1.0) * np.log(q) ** self.b
        if self.b:
            by_q = by_q + q ** (self.a - 1.0)
        return np.asarray(by_q / (-2.0 * q))


def small_terms(D: int, M: int, count: int = 14) -> list[Term]:
    """Return the series of G_D without polynomials in z of degree <= M - 2, for |q| r <= 1.

    From DLMF 10.27.4 and 10.25.2 for odd D, 10.31.1 for even D, times (2 pi)^(-D/2) (q / r)^nu.
    """
    nu, front = 0.5 * D - 1.0, (2.0 * pi) ** (-0.5 * D)
    terms: list[Term] = []
    if D % 2:
        from scipy.special import gamma

        front *= pi / (2.0 * sin(pi * nu))
        for i in range(count):
            c = front / (factorial(i) * gamma(i + nu + 1.0)) * 2.0 ** (-nu - 2 * i)
            terms.append(Term(-c, 2 * nu + 2 * i, 0, 2 * i))
            if i > M - 2:
                c = front / (factorial(i) * gamma(i - nu + 1.0)) * 2.0 ** (nu - 2 * i)
                terms.append(Term(c, 2 * i, 0, 2 * i - 2 * nu))
        return terms
    from scipy.special import digamma

    n = D // 2 - 1
    for i in range(count):
        c = (-1.0) ** (n + 1) * front * 2.0 ** (-n - 2 * i) / (factorial(i) * factorial(n + i))
        terms.append(Term(c, 2 * n + 2 * i, 1, 2 * i))
        if n + i > M - 2:
            shift = -log(2.0) - 0.5 * float(digamma(i + 1.0) + digamma(n + i + 1.0))
            terms.append(Term(c, 2 * n + 2 * i, 0, 2 * i, shift))
    return terms
