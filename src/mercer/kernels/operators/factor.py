"""Spectral factorisation: the process on a line whose spectral density is 1 / P(w^2).

P(w^2) = a_M u^(2 M) |d(i w / u)|^2, d(s) = s^M + sum_i c_i s^i with all roots in the left half
plane, u a unit of the derivatives: f^(M) + .. = white noise of intensity 1 / a_M. Theory (F11).
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.markov import Block, driven
from mercer.kernels.operators.greens import polished

STEPS = 20  # of Newton's method at most


def factored(a: Array) -> tuple[float, Array]:
    """Return the unit u and c (M,) of P(z) = sum_m a_m z^m, which is positive for z >= 0.

    From the roots, and Newton's method on d(s) d(-s) = b(s): roots of a cluster are known badly,
    what they have in common is not, and neither is a root that is far smaller than the others.
    """
    unit, b = _scaled(a)
    P = np.polynomial.Polynomial(b)
    q = np.sqrt(-polished(P, P.roots().astype(np.complex128)))  # Re q > 0
    c: Array = np.asarray(np.polynomial.polynomial.polyfromroots(-q).real, dtype=np.float64)
    for _ in range(STEPS):
        rest: Array = _alternated(b)[:-1] - _square(c)[:-1]
        step = np.linalg.solve(_change(c), rest)
        c[:-1] += step
        if np.all(np.abs(step) <= 1e-15 * np.abs(c[:-1])):
            break
    return unit, c[:-1]


def process_block(a: Array) -> Block:
    """Return the process in (f, f'/u, .., f^(M-1)/u^(M-1))."""
    unit, c = factored(a)
    M = len(c)
    block = driven(c, 1.0 / (a[-1] * unit ** (2 * M - 1)))
    return Block(unit * block.F, unit * block.N, block.P)


def block_slopes(a: Array, F: Array, P: Array) -> Array:
    """Return the gradient by a (M + 1,), given those by F and P (M, M) of :func:`process_block`.

    The unit may be held: another one is another name of the same state. P follows F and the noise
    by F P + P F' + N = 0, whose adjoint is F'X + X F + (slope by P) = 0.
    """
    from scipy.linalg import solve_continuous_lyapunov

    unit, c = factored(a)
    block, M = process_block(a), len(c)
    X = np.atleast_2d(solve_continuous_lyapunov(block.F.T, -0.5 * (P + P.T)))
    by_c = -unit * (F + 2.0 * X @ block.P)[-1]
    _, b = _scaled(a)
    by_b = _alternated(np.linalg.solve(_change(np.append(c, 1.0)).T, by_c))
    units = unit ** (2.0 * np.arange(M) - 2.0 * M)
    own = -(by_b @ b[:-1] + X[-1, -1] * block.N[-1, -1]) / a[-1]
    return np.append(by_b * units / a[-1], own)


def _scaled(a: Array) -> tuple[float, Array]:
    """Return the unit u = (a_0 / a_M)^(1 / 2M) and b_m = a_m u^(2 m - 2 M) / a_M, b_M = 1."""
    M = len(a) - 1
    unit = float(np.exp((np.log(a[0]) - np.log(a[-1])) / (2.0 * M)))
    return unit, np.asarray(a / a[-1] * unit ** (2.0 * np.arange(M + 1) - 2.0 * M))


def _alternated(b: Array) -> Array:
    """Return (-1)^m b_m: z = -s^2."""
    return np.asarray(b * np.where(np.arange(len(b)) % 2, -1.0, 1.0))


def _square(c: Array) -> Array:
    """Return the coefficients of s^0, s^2, .. in d(s) d(-s)."""
    return np.convolve(c, _alternated(c))[::2]


def _change(c: Array) -> Array:
    """Return the derivatives (M, M) of those of s^0 .. s^(2M - 2) by c_0 .. c_(M-1)."""
    M = len(c) - 1
    J = np.zeros((M, M))
    for m in range(M):
        for i in range(max(0, 2 * m - M), min(M, 2 * m + 1)):
            J[m, i] = 2.0 * (-1.0) ** i * c[2 * m - i]
    return J
