"""Green's functions of q^2 - laplacian in D dimensions, and the nodes that make kernels of them.

G_D(r; q) = (2 pi)^(-D/2) (q / r)^nu K_nu(q r),  nu = D/2 - 1,  Re q > 0,  and with z = -q^2

    dG_D/dz = G_{D-2} / (4 pi).

For D >= 2 it is singular at r = 0, but every singular term is a polynomial in z of degree M - 2 or
less, which the weights of a kernel of order M, 2 M > D, annihilate: :func:`small_terms` is the
power series without them.

For P(z) = sum_m a_m z^m, k = (1 / 2 pi i) contour integral of G(r; q) / P(z) dz around the roots of
P. Well conditioned roots contribute their residues G / P'. Others are enclosed together: the
trapezoidal rule on a circle in the plane of u = log q, whose error falls geometrically and which
feels neither how close the roots are to each other nor how well they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, log, pi, sin
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array

Complex: TypeAlias = NDArray[np.complex128]


def green(D: int, q: complex, r: Array) -> Complex:
    """Return G_D(r; q) at r > 0 (for D = 1, r >= 0)."""
    if D == 1:
        return np.asarray(np.exp(-q * r) / (2.0 * q))
    nu = 0.5 * D - 1.0
    bessel = bessel_k(abs(nu), np.asarray(q * r, dtype=np.complex128))
    return np.asarray((2.0 * pi) ** (-0.5 * D) * (q / r) ** nu * bessel)


def green_slope(D: int, q: complex, r: Array) -> Complex:
    """Return dG_D/dz at r > 0 (for D = 1, r >= 0), z = -q^2."""
    if D == 1:
        return np.asarray(np.exp(-q * r) * (q * r + 1.0) / (4.0 * q**3))
    return green(D - 2, q, r) / (4.0 * pi)


def bessel_k(nu: float, x: Complex) -> Complex:
    """Return K_nu(x), nu >= 0, Re x > 0; in closed form if nu is half an odd integer."""
    if nu % 1.0 == 0.5:  # DLMF 10.49.12
        n, total = int(nu), np.zeros_like(x)
        for k in range(n, -1, -1):  # sum_k (n + k)! / (k! (n - k)!) (2 x)^-k
            total = total / (2.0 * x) + factorial(n + k) / (factorial(k) * factorial(n - k))
        return np.asarray(np.sqrt(0.5 * pi / x) * np.exp(-x) * total)
    from scipy.special import kve

    return np.asarray(kve(nu, x) * np.exp(-x))


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


# Largest condition number of a root that residues are used for, and largest number of nodes.
_CONDITION = 30.0
_LARGEST = 200


class Nodes(NamedTuple):
    """k = Re sum_l weight_l G(q_l);  dk/da_m = Re sum_l (value_ml G(q_l) + slope_ml dG/dz(q_l)).

    Only nodes with Im q >= 0 are kept: those of the lower half plane are their conjugates.
    """

    q: Complex
    weight: Complex
    value: Complex
    slope: Complex


def contour_nodes(coefficients: Array) -> Nodes:
    """Return the nodes of P(z) = sum_m coefficients[m] z^m, positive for z >= 0."""
    P = np.polynomial.Polynomial(coefficients)
    z = polished(P, P.roots().astype(np.complex128))
    size = np.polynomial.Polynomial(np.abs(coefficients))(np.abs(z))
    condition = size / np.maximum(np.abs(z * P.deriv()(z)), 1e-300)
    u: Complex = np.asarray(0.5 * np.log(-z), dtype=np.complex128)
    groups = list(np.eye(len(u), dtype=bool))
    if condition.max() > _CONDITION:
        groups = _divided(u, np.ones(len(u), dtype=bool))
    found = [
        _residue(P, u[members][0]) if members.sum() == 1 else _circle(P, u, members)
        for members in groups
        if _centre(u[members]).imag >= 0.0
    ]
    return Nodes(*(np.hstack(parts) for parts in zip(*found, strict=True)))


def polished(P: np.polynomial.Polynomial, z: Complex) -> Complex:
    """Return the roots, those that are far smaller than others to their own digits.

    Eigenvalues are known to the digits of the largest; Newton's method gives a root of good
    condition the rest. Roots that have them already stay as they are.
    """
    size, new = np.polynomial.Polynomial(np.abs(P.coef)), z.copy()
    for _ in range(8):
        slope = P.deriv()(new)
        well = size(np.abs(new)) <= _CONDITION * np.abs(new * slope)
        well |= (new == 0.0) & (slope != 0.0)  # which P(0) > 0 excludes: lost beside the others
        new[well] -= P(new[well]) / slope[well]
    moved = np.abs(new - z) > 1e-10 * np.abs(z)
    return np.where(moved, new, z)


def _residue(P: np.polynomial.Polynomial, u: complex) -> Nodes:
    """Return the node of one simple root; its derivatives follow the root as it moves."""
    q = np.exp(np.array([u]))
    z, powers = -(q**2), np.arange(P.degree() + 1)[:, None]
    first, second = P.deriv(1)(z), P.deriv(2)(z)
    moved = -(z**powers) / first  # dz/da_m of the root
    weight = (2.0 if abs(u.imag) > 0.0 else 1.0) / first
    change = powers * z ** np.maximum(powers - 1, 0) + second * moved  # d P'(root) / da_m
    return Nodes(q, weight, -weight * change / first, weight * moved)


def _circle(P: np.polynomial.Polynomial, u: Complex, members: NDArray[np.bool_]) -> Nodes:
    """Return the nodes of a circle around several roots."""
    centre, radius, count = _geometry(u, members)
    steps = radius * np.exp(2j * np.pi * (np.arange(count) + 0.5) / count)
    steps = steps if centre.imag > 0.0 else steps[: count // 2]
    q = np.exp(centre + steps)
    z = -(q**2)
    weight = -4.0 * q**2 * steps / (count * P(z))  # dz = -2 q^2 du; twice for the conjugates
    value = -weight * z ** np.arange(P.degree() + 1)[:, None] / P(z)
    return Nodes(q, weight, value, np.zeros_like(value))


def _centre(u: Complex) -> complex:
    """Return the middle of the box around u: exactly real if u is symmetric."""
    return complex(u.real.min() + u.real.max(), u.imag.min() + u.imag.max()) / 2.0


def _geometry(u: Complex, members: NDArray[np.bool_]) -> tuple[complex, float, int]:
    """Return centre, radius and (even) number of nodes of the circle around the members.

    A larger circle, in which only the members lie and exp(-q r) does not grow (|Im u| <= pi / 2,
    which excludes the mirrored roots -q), bounds the error. The radius of fewest nodes is taken.
    """
    centre, others = _centre(u[members]), u[~members]
    inside = float(np.abs(u[members] - centre).max())
    outside = float(np.abs(others - centre).min(initial=0.5 * np.pi - abs(centre.imag)))
    best = (np.inf, 0.5 * outside)
    for radius in outside * np.linspace(0.5, 0.98, 25):
        inner = _count(inside / radius, 2 * int(members.sum()))
        outer = _count(radius / outside, 2 * len(others))
        best = min(best, (max(inner, outer), float(radius)))
    return centre, best[1], 2 * int(np.ceil(0.5 * min(best[0], 2.0 * _LARGEST)))


def _count(rate: float, poles: int) -> float:
    """Return the least N with N^poles rate^N below rounding; in 1 / P^2 a root is two poles."""
    if rate >= 1.0:
        return np.inf
    count, decay = 50.0, -np.log(max(rate, 1e-300))
    for _ in range(6):
        count = (37.0 + poles * np.log(max(count, 1.0))) / decay
    return float(count)


def _divided(u: Complex, members: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Return groups of roots that circles can enclose: divided at the widest gap until they can."""
    if members.sum() == 1 or _geometry(u, members)[2] <= _LARGEST:
        return [members]
    chosen = np.flatnonzero(members)
    distance = np.abs(u[chosen, None] - u[chosen])
    label = np.arange(len(chosen))
    order = np.column_stack(np.unravel_index(np.argsort(distance, axis=None), distance.shape))
    joins: list[float] = []
    for i, j in order:  # single linkage; the last join crosses the widest gap
        if label[i] != label[j]:
            label[label == label[j]] = label[i]
            joins.append(float(distance[i, j]))
    near = distance < max(joins) * (1.0 - 1e-9)
    groups: list[NDArray[np.bool_]] = []
    left = set(range(len(chosen)))
    while left:
        group = {left.pop()}
        while more := {int(j) for i in group for j in np.flatnonzero(near[i])} - group:
            group |= more
        left -= group
        part = np.zeros_like(members)
        part[chosen[sorted(group)]] = True
        groups += _divided(u, part)
    return groups
