"""Kernels on a line whose process is Markov: sums of Matern processes, and any rational spectrum.

A kernel of the second sort is a stack of independent blocks, each a linear differential equation
ds = F s dx + noise of intensity N, at rest with the covariance P: F P + P F' + N = 0. f is the sum
of the first entries, k(r) = sum_b [exp(F_b r) P_b]_00. A sum stacks the blocks of its terms. A
product of two is the process of the Kronecker products: F = F1 x I + I x F2, P = P1 x P2 and
N = N1 x P2 + P1 x N2. Theory (F10), (F12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import comb
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mercer._native import rational, waves
from mercer.core.arrays import Array

if TYPE_CHECKING:
    from mercer.kernels.base import Kernel

ANY = -1  # a kernel that looks at no column at all: a constant


@dataclass(frozen=True)
class StateSpace:
    """A sum of Matern covariances of one column: k(x, z) = sum_c variance_c M_c(rate_c |x - z|).

    M_c, of smoothness order_c - 1/2, is Markov with order_c - 1 derivatives (GPML appendix B.2).

    Attributes
    ----------
    orders : (c,) 1, 2 or 3, as 32-bit integers.
    rates : (c,) sqrt(2 order - 1) / length scale.
    variances : (c,)
    column : the column that the kernel looks at; None if it is the only one.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> (2.0 * Matern(nu=1.5)).state_space().variances
    array([2.])
    """

    orders: np.ndarray[tuple[int, ...], np.dtype[np.int32]]  # (c,) 1, 2 or 3
    rates: Array  # (c,) sqrt(2 order - 1) / length scale
    variances: Array  # (c,)
    column: int | None = None  # that the kernel looks at; None if it is the only one

    @property
    def size(self) -> int:
        """Return the number of entries of the state."""
        return int(self.orders.sum())

    @property
    def arrays(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int32]], Array, Array]:
        """Return orders, rates and variances, as the compiled core takes them."""
        return self.orders, self.rates, self.variances

    def line(self, X: Array) -> Array:
        """Return the coordinates (n,) of X (n, d)."""
        return np.ascontiguousarray(X[:, 0 if self.column is None else self.column])


def stacked(parts: Sequence[StateSpace | None]) -> StateSpace | None:
    """Return the state space of a sum, or None if a part has none or looks at another column."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({part.column for part in found}) != 1:
        return None
    arrays = ([getattr(p, name) for p in found] for name in ("orders", "rates", "variances"))
    orders, rates, variances = (np.concatenate(a) for a in arrays)
    return StateSpace(orders, rates, variances, found[0].column)


class Block(NamedTuple):
    """One linear process: drift F, intensity N of its noise, covariance P at rest, (p, p) each."""

    F: Array
    N: Array
    P: Array


Slopes: TypeAlias = list[tuple[Array, Array]]  # by F and by P of each block


@dataclass(frozen=True)
class MarkovProcess:
    """A covariance of rational spectrum on one column: k(r) = sum_b [exp(F_b r) P_b]_00.

    Attributes
    ----------
    blocks : the independent processes whose first entries add up.
    column : the column that the kernel looks at; None if it is the only one, ANY if it is none.

    Examples
    --------
    >>> from mercer.kernels import Cosine, Matern
    >>> (Matern(nu=1.5) * Cosine(period=2.0)).markov_process().size
    4
    """

    blocks: tuple[Block, ...]
    column: int | None = None

    @property
    def size(self) -> int:
        """Return the number of entries of the state."""
        return sum(len(block.F) for block in self.blocks)

    def line(self, X: Array) -> Array:
        """Return the coordinates (n,) of X (n, d)."""
        return np.ascontiguousarray(X[:, 0 if self.column is None else self.column])

    @property
    def arrays(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int32]], Array, Array, Array]:
        """Return sizes (b,), and F, N, P as the compiled core takes them."""
        sizes = np.array([len(block.F) for block in self.blocks], dtype=np.int32)
        F, N, P = (np.concatenate([np.ravel(b[i]) for b in self.blocks]) for i in range(3))
        return sizes, F, N, P

    def divided(self, F: Array, P: Array) -> Slopes:
        """Return the numbers F and P, in the order of :attr:`arrays`, as matrices of the blocks."""
        found, start = [], 0
        for block in self.blocks:
            own = slice(start, start := start + block.F.size)
            found.append((F[own].reshape(block.F.shape), P[own].reshape(block.F.shape)))
        return found

    def scaled(self, variance: float) -> MarkovProcess:
        """Return the process times a constant: its covariance times ``variance``."""
        parts = tuple(Block(b.F, variance * b.N, variance * b.P) for b in self.blocks)
        return replace(self, blocks=parts)


def added(parts: Sequence[MarkovProcess | None]) -> MarkovProcess | None:
    """Return the process of a sum, None if a part has none or looks at another column."""
    found = [part for part in parts if part is not None]
    columns = {part.column for part in found if part.column != ANY}
    if len(found) < len(parts) or len(columns) > 1:
        return None
    column = columns.pop() if columns else ANY
    return MarkovProcess(tuple(block for part in found for block in part.blocks), column)


def multiplied(a: MarkovProcess | None, b: MarkovProcess | None) -> MarkovProcess | None:
    """Return the process of a product: one block for each pair of blocks."""
    both = added([a, b])
    if both is None or a is None or b is None:
        return None
    pairs = [(one, two) for one in a.blocks for two in b.blocks]
    blocks = [
        Block(
            np.kron(one.F, np.eye(len(two.F))) + np.kron(np.eye(len(one.F)), two.F),
            np.kron(one.N, two.P) + np.kron(one.P, two.N),
            np.asarray(np.kron(one.P, two.P), dtype=np.float64),
        )
        for one, two in pairs
    ]
    return MarkovProcess(tuple(blocks), both.column)


def multiplied_slopes(a: MarkovProcess, b: MarkovProcess, slopes: Slopes) -> tuple[Slopes, Slopes]:
    """Return what slopes by F and P of the product are by those of its two factors."""
    by_a = [(np.zeros_like(one.F), np.zeros_like(one.F)) for one in a.blocks]
    by_b = [(np.zeros_like(two.F), np.zeros_like(two.F)) for two in b.blocks]
    given = iter(slopes)
    for (F1, P1), one in zip(by_a, a.blocks, strict=True):
        for (F2, P2), two in zip(by_b, b.blocks, strict=True):
            p, q = len(one.F), len(two.F)
            F, P = (part.reshape(p, q, p, q) for part in next(given))
            F1 += np.einsum("iaja->ij", F)
            F2 += np.einsum("iaib->ab", F)
            P1 += np.einsum("iajb,ab->ij", P, two.P)
            P2 += np.einsum("iajb,ij->ab", P, one.P)
    return by_a, by_b


def factor_slopes(factors: Sequence[MarkovProcess | None], slopes: Slopes) -> list[Slopes]:
    """Return the slopes of each factor of a product, from those of the whole."""
    each = [factor for factor in factors if factor is not None]
    befores = [each[0]]
    for factor in each[1:-1]:
        before = multiplied(befores[-1], factor)
        assert before is not None
        befores.append(before)
    found: list[Slopes] = []
    for factor, before in zip(reversed(each[1:]), reversed(befores), strict=False):
        slopes, own = multiplied_slopes(before, factor, slopes)
        found.append(own)
    return [slopes, *reversed(found)]


@cache
def matern_block(order: int) -> Block:
    """Return the process of Matern order - 1/2 at rate 1: (1 + d/dx)^order f is white noise.

    The state is (f, f', .., f^(order - 1)), as of GPML (B.34). Do not write to it.
    """
    return driven(np.array([comb(order, i) for i in range(order)], dtype=np.float64), None)


def driven(c: Array, intensity: float | None) -> Block:
    """Return the process f^(p) + sum_i c_i f^(i) = white noise, c (p,), in (f, .., f^(p - 1)).

    ``intensity`` is that of the noise; None makes the variance of f one.
    """
    from scipy.linalg import solve_continuous_lyapunov

    p = len(c)
    F, N = np.eye(p, k=1), np.zeros((p, p))
    F[-1], N[-1, -1] = -c, 1.0
    P = np.atleast_2d(solve_continuous_lyapunov(F, -N))
    places = np.arange(p)
    P = np.where((places[:, None] + places) % 2, 0.0, 0.5 * (P + P.T))  # k is even: exactly zero
    factor = 1.0 / P[0, 0] if intensity is None else intensity
    return Block(F, factor * N, np.asarray(factor * P, dtype=np.float64))


def state_space_of(kernel: Kernel, d: int) -> StateSpace | None:
    """Return a kernel of d columns as few Matern processes on one of them, if it is that."""
    states = kernel.state_space()
    if states is None or states.size > waves.LARGEST or (states.column is None and d != 1):
        return None
    return states


def process_of(kernel: Kernel, d: int) -> StateSpace | MarkovProcess | None:
    """Return the process of a kernel of d columns on one of them, if it is one of few states."""
    states = state_space_of(kernel, d)
    if states is not None:
        return states
    process = kernel.markov_process()
    if process is None or process.size > rational.LARGEST or process.column == ANY:
        return None
    return process if process.column is not None or d == 1 else None
