"""Support vector machines without one of their vectors, exactly: theory (S6a).

The multiplier of the vector goes down to zero, and all others follow so that they stay optimal. The
path is made of straight pieces: on one, with F the free vectors and Q_jk = y_j y_k K_jk,

    [Q_FF y_F; y_F' 0] [dlam_F; db] = -[Q_Fi; y_i] dlam_i
    dg = Q_.F dlam_F + y db + Q_.i dlam_i

with g = y f - 1. A piece ends where a free multiplier reaches zero or its bound, or where g of
another vector reaches zero: that one leaves F, or enters it. Without any such event the one piece
is (S5), (S6).

Reference: Cauwenberghs and Poggio, Incremental and decremental support vector machine learning
(2001).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Kernel

WORK = 1e9  # multiplications in all, after which the rows that are left keep their estimates
SPARE = 64  # columns of vectors that join, at first
OVERHEAD = 1e5  # of a piece, in multiplications
FEW = 40  # vectors up to which the inverse is computed anew each time
NEAR = 1e-8  # of its variance is left to a vector: the inverse is computed anew
EQUAL = 1e-9  # of the bound: a multiplier that has arrived there
FLAT = 1e-12  # of the largest: a slope that is rounding
NEVER, FREE, UPPER, GONE = -1, 0, 1, 2  # multiplier at zero, between, at its bound; the vector i


class Unlearning:
    """The paths of one machine, on n points with outputs f.

    Parameters
    ----------
    kernel, X : the kernel and the points (n, d).
    lam, f, y, bound : (n,) multipliers, outputs, labels -1 or +1, upper limits of the multipliers.
    bias : whether there is one.
    jitter : what is added to the diagonal of K.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        lam: Array,
        f: Array,
        y: Array,
        bound: Array,
        bias: bool,
        jitter: float,
    ) -> None:
        self.kernel, self.X, self.y, self.bound, self.bias = kernel, X, y, bound, bias
        self.lam, self.jitter, self.spent = lam, jitter, 0.0
        self.state = np.where(lam <= 0.0, NEVER, np.where(lam < bound, FREE, UPPER))
        self.g = np.where(self.state == FREE, 0.0, y * f - 1.0)
        # columns of Q, computed when they are first asked for
        free = np.flatnonzero(self.state == FREE)
        self.columns = np.empty((len(free) + SPARE, len(X)))
        self.place, self.held = np.full(len(X), -1), 0
        self._fetch(free)

    def _fetch(self, index: Index) -> None:
        new = index[self.place[index] < 0]
        if not len(new):
            return
        at = self.held + np.arange(len(new))
        if at[-1] >= len(self.columns):
            room = np.empty((len(self.columns) // 2 + SPARE, len(self.X)))
            self.columns = np.vstack([self.columns, room])
        Q = self.kernel(self.X[new], self.X)
        Q[np.arange(len(new)), new] += self.jitter
        Q *= self.y[new, None] * self.y
        self.columns[at], self.place[new] = Q, at
        self.held += len(new)
        self.spent += 8.0 * Q.size

    @cached_property
    def first(self) -> Border:
        """Where every path begins: all free vectors."""
        return Border(self, np.flatnonzero(self.state == FREE))

    def change(self, i: int) -> float | None:
        """Return by how much y_i f(x_i) changes when i is left out; None if the path is too long.

        It is too long where the work for all paths is spent, too, and where no machine is left.
        """
        if self.spent > WORK:
            return None
        y, lam, g, state = self.y, self.lam.copy(), self.g.copy(), self.state.copy()
        self._fetch(np.array([i]))
        border = self.first.without(i) if state[i] == FREE else self.first
        state[i] = GONE
        before, limit = g[i], 200 + 4 * len(self.first.free)
        for _ in range(limit):
            F = border.free
            self.spent += OVERHEAD + len(F) * (len(y) + 4.0 * len(F))
            if self.spent > WORK:
                return None
            if not len(F) and self.bias:
                j, into = self._enter_by_bias(i, g, state), FREE
                if j < 0:
                    return None
            else:
                down, slope = self._direction(i, border)
                step, j, into = self._event(F, lam, down, g, slope, state, float(lam[i]))
                lam[F] += step * down
                lam[i] -= step
                g += step * slope
                g[F] = 0.0
                if j < 0:
                    return float(g[i] - before) + self._centred(i, F, lam, g, state)
            state[j] = into
            if into == FREE:
                self._fetch(np.array([j]))
                g[j], border = 0.0, border.beside(j)
            else:
                lam[j], border = 0.0 if into == NEVER else self.bound[j], border.without(j)
        return None

    def _direction(self, i: int, border: Border) -> tuple[Array, Array]:
        """Return how lam_F (m,) and g (n,) move while lam_i falls by one."""
        F, own = border.free, self.columns[self.place[i]]
        if not len(F):
            return np.zeros(0), -own
        found = border.inverse @ border.column(i)
        down = found[int(self.bias) :]
        # most are free from the beginning: their columns come first, and need not be gathered
        begun, at = len(self.first.free), self.place[F]
        weights, joined = np.zeros(begun), at >= begun
        weights[at[~joined]] = down[~joined]
        slope = weights @ self.columns[:begun] - own
        if joined.any():
            slope += down[joined] @ self.columns[at[joined]]
        if self.bias:
            slope += found[0] * self.y
        return down, slope

    def _centred(self, i: int, F: Index, lam: Array, g: Array, state: Array) -> float:
        """Return what g_i gains by a bias in the middle, where no multiplier holds it any more."""
        low = lam[F] <= EQUAL * self.bound[F]
        high = lam[F] >= (1.0 - EQUAL) * self.bound[F]
        if not self.bias or not np.all(low | high):
            return 0.0
        state[F[low]], state[F[high]] = NEVER, UPPER
        # y f >= 1 for those at zero, <= 1 for those at their bound
        up = self.y * np.where(state == NEVER, 1.0, -1.0) > 0.0  # a smaller bias breaks these
        room, at = -self.y * g, state != GONE
        least, most = room[at & up].max(initial=-np.inf), room[at & ~up].min(initial=np.inf)
        if not np.isfinite(least + most):
            return 0.0
        return float(self.y[i] * 0.5 * (least + most))

    def _event(
        self,
        F: Index,
        lam: Array,
        down: Array,
        g: Array,
        slope: Array,
        state: Array,
        most: float,
    ) -> tuple[float, int, int]:
        """Return how far lam_i can fall, and which vector then goes where; -1: to the end."""
        step, j, into = most, -1, GONE
        flat = FLAT * float(np.abs(slope).max(initial=0.0))
        for which, room, rate, to in (
            (F, lam[F], -down, NEVER),
            (F, self.bound[F] - lam[F], down, UPPER),
            *(
                (at, sign * g[at], -sign * slope[at], FREE)
                for at, sign in (
                    (np.flatnonzero((state == NEVER) & (slope < -flat)), 1.0),
                    (np.flatnonzero((state == UPPER) & (slope > flat)), -1.0),
                )
            ),
        ):
            moving = rate > 0.0
            if not moving.any():
                continue
            reach = np.maximum(room[moving], 0.0) / rate[moving]
            k = int(np.argmin(reach))
            if reach[k] < step:
                step, j, into = float(reach[k]), int(which[moving][k]), to
        return step, j, into

    def _enter_by_bias(self, i: int, g: Array, state: Array) -> int:
        """Move the bias until a vector is free that can take over from lam_i; -1: there is none.

        Those are vectors of its own class that may rise, and of the other that may fall: both are
        met as the bias turns away from the class of i.
        """
        own = self.y == self.y[i]
        gap = np.where(own & (state == NEVER), g, np.inf)
        gap = np.where(~own & (state == UPPER), -g, gap)
        j = int(np.argmin(gap))
        if not np.isfinite(gap[j]):
            return -1
        g -= self.y * self.y[i] * max(float(gap[j]), 0.0)
        return j


class Border:
    """The inverse of M = [0 y_F'; y_F Q_FF], the first row and column only with a bias.

    A vector more or less is one rank of the inverse, O(m^2).
    """

    def __init__(self, of: Unlearning, free: Index, inverse: Array | None = None) -> None:
        self.of, self.free = of, free
        self.inverse = self._computed() if inverse is None else inverse

    def _computed(self) -> Array:
        of, F, b = self.of, self.free, int(self.of.bias)
        if not len(F):
            return np.zeros((b, b))  # nobody asks for it
        M = np.zeros((len(F) + b, len(F) + b))
        M[b:, b:] = of.columns[of.place[F]][:, F]
        M[:b, b:], M[b:, :b] = of.y[F], of.y[F, None]
        return np.asarray(np.linalg.inv(M), dtype=np.float64)

    def column(self, j: int) -> Array:
        """The column (p,) of M that belongs to vector j."""
        own = self.of.columns[self.of.place[j]][self.free]
        return np.concatenate([self.of.y[j : j + 1], own]) if self.of.bias else own

    def beside(self, j: int) -> Border:
        """Return the one with vector j, too."""
        of, free = self.of, np.append(self.free, j)
        if len(free) < FEW:
            return Border(of, free)
        u, own = self.column(j), float(of.columns[of.place[j], j])
        v = self.inverse @ u
        rest = own - float(u @ v)
        if rest <= NEAR * own:  # the others determine it: digits are lost
            return Border(of, free)
        p = len(v)
        found = np.empty((p + 1, p + 1))
        found[:p, :p] = self.inverse + np.outer(v, v / rest)
        found[p, :p] = found[:p, p] = -v / rest
        found[p, p] = 1.0 / rest
        return Border(of, free, found)

    def without(self, j: int) -> Border:
        """Return the one without vector j."""
        at = int(np.flatnonzero(self.free == j)[0])
        free, k = np.delete(self.free, at), at + int(self.of.bias)
        if len(free) < FEW:
            return Border(self.of, free)
        row, pivot = np.delete(self.inverse[k], k), float(self.inverse[k, k])
        left = np.delete(np.delete(self.inverse, k, axis=0), k, axis=1)
        if abs(pivot) * float(self.of.columns[self.of.place[j], j]) < NEAR:
            return Border(self.of, free)
        return Border(self.of, free, left - np.outer(row, row / pivot))
