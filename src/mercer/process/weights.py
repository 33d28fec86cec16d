"""A stream in weight space: the posterior of the weights of few features, O(m^2) an example.

f(x) = m0 + phi(x)'b with b ~ N(0, I) before any example. An example with features phi turns into
an observation y of precision W (theory (O1), (O2)), and the posterior is N(R^-1 v, (R'R)^-1) with

    R'R <- R'R + W phi phi',     R'v <- R'v + W (y - m0) phi                               (O11)

by reflections, which subtract nothing. Jaakkola & Haussler (1999), (6) to (15); their (9), (10)
update the covariance, from which digits are lost.

Theory (O11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from mercer.core.arrays import Array, Index, transposed_solve
from mercer.inference.base import Solution
from mercer.inference.stream import Rule, StreamSolution
from mercer.inference.stream import absorb as by_bound
from mercer.kernels.base import Kernel
from mercer.kernels.features.explicit import width_of
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Gram
from mercer.linalg.reduced.weights import WeightGram, pays
from mercer.process.stream import ROWS, LatentStream, StreamPosterior

MOST = 500  # weights of a stream: beyond, the points of the first examples are fewer
PANEL = 32  # columns of a panel of reflections


def bordered(R: Array, v: Array) -> Array:
    """[R v; 0 1] (m + 1, m + 1) of R (m, m), upper, and v (m,), by columns as LAPACK likes it."""
    m = len(R)
    made = np.zeros((m + 1, m + 1), order="F")
    made[:m, :m], made[:m, m], made[m, m] = R, v, 1.0
    return made


def reflect(A: Array, rows: Array, triangle: bool = False) -> float:
    """Put [R v; 0 1] of [R v; rows] over A = [R v; 0 1], and return what cannot be explained.

    A (m + 1, m + 1), by columns, R upper; the rows (b, m + 1), by columns too, are written over. If
    they are a triangle of m rows and a last column of zeros, a third of the work is saved. The
    diagonal of R may be of either sign. The least |R b - v|^2 + |rows b - y|^2 over b grows by what
    is returned: O(b m^2), and nothing is subtracted.
    """
    m = len(A) - 1
    A[m, m] = 0.0
    below = len(rows) if triangle else 0
    lapack.dtpqrt(below, min(PANEL, m + 1), A, rows, overwrite_a=1, overwrite_b=1)
    unexplained = float(A[m, m]) ** 2
    A[m, m] = 1.0
    return unexplained


def reflected(R: Array, v: Array, A: Array, y: Array) -> tuple[Array, Array]:
    """R (m, m) upper with a positive diagonal, and v (m,), of [R v; A y] for rows A (b, m), y (b,).

    R'R + A'A and R'v + A'y in O(b m^2).
    """
    m, made = len(R), bordered(R, v)
    reflect(made, np.asfortranarray(np.column_stack([A, y])))
    sign = np.where(np.diagonal(made)[:m] < 0.0, -1.0, 1.0)
    whole = np.triu(sign[:, None] * made[:m, :m])
    return np.ascontiguousarray(whole), np.asarray(sign * made[:m, m])


@dataclass(frozen=True, eq=False)
class WeightLatent:
    """One latent function: R (m, m) and v (m,), as above."""

    R: Array
    v: Array

    @classmethod
    def empty(cls, m: int) -> WeightLatent:
        """Return the latent function of m weights before any example."""
        return cls(np.eye(m), np.zeros(m))

    @cached_property
    def weights(self) -> Array:
        """The means of the weights, (m,)."""
        return np.asarray(solve_triangular(self.R, self.v))

    def turned(self) -> WeightLatent:
        """Return less the function: what the other labels would have taught."""
        return WeightLatent(self.R, -self.v)

    def halved(self, F: Array) -> Array:
        """R^-T F' (m, q) for features F (q, m): its products are covariances."""
        return transposed_solve(self.R, F.T)

    def given(self, F: Array, W: Array, y: Array) -> WeightLatent:
        """Return it given observations y (b,) of precision W (b,) at features F (b, m)."""
        root = np.sqrt(W)
        return WeightLatent(*reflected(self.R, self.v, root[:, None] * F, root * y))

    def forget(self, rho: float) -> WeightLatent:
        """Return q^rho p^(1 - rho): the precision is rho R'R + (1 - rho) I."""
        m, root = len(self.v), np.sqrt(rho)
        rest = np.sqrt(1.0 - rho) * np.eye(m)
        return WeightLatent(*reflected(root * self.R, root * self.v, rest, np.zeros(m)))

    def drift(self, share: float) -> WeightLatent:
        """Return the law of sqrt(1 - share) b + sqrt(share) c, with c ~ N(0, I) independent.

        With M = (1 - share) I + share R R' the precision R'R becomes R'M^-1 R.
        """
        M = (1.0 - share) * np.eye(len(self.v)) + share * (self.R @ self.R.T)
        half = solve_triangular(np.linalg.cholesky(M), self.R, lower=True)
        R = np.asarray(np.linalg.qr(half, mode="r"))
        R = np.ascontiguousarray(np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None] * R)
        return WeightLatent(R, R @ (np.sqrt(1.0 - share) * self.weights))


@dataclass(frozen=True, eq=False)
class Examples:
    """The rows that were seen, x, labels and weight side by side, in memory that doubles.

    Spare rows are shared: ``taken`` says how many of them someone has written.
    """

    table: Array  # (capacity, d + k + 1)
    n: int
    taken: list[int]
    d: int

    @classmethod
    def of(cls, X: Array, S: Array, w: Array) -> Examples:
        """Return rows X (n, d) with labels S (n, k) and weights w (n,)."""
        return cls(np.column_stack([X, S, w]), len(X), [len(X)], X.shape[1])

    @property
    def rows(self) -> Array:
        """All that was seen, (n, d + k + 1)."""
        return self.table[: self.n]

    def with_rows(self, X: Array, S: Array, w: Array) -> Examples:
        """Return it with b further rows."""
        n, more, table, taken = self.n, len(X), self.table, self.taken
        if taken[0] != n or n + more > len(table):
            table = np.zeros((max(2 * (n + more), 64), self.table.shape[1]))
            table[:n], taken = self.rows, [n]
        table[n : n + more] = np.column_stack([X, S, w])
        taken[0] = n + more
        return Examples(table, n + more, taken, self.d)


@dataclass(frozen=True, eq=False)
class WeightStream(LatentStream):
    """What a stream has learned of m weights; a value: every step returns another one."""

    kernel: Kernel  # the prior covariance, with explicit features
    latents: tuple[WeightLatent, ...]  # k of them
    d: int  # columns
    examples: Examples | None  # all that was seen, unless it has forgotten or has a budget
    offset: Array | None = None  # (k,) the prior means m0; None: zero

    weighs = True
    moved = 0.0  # nothing is projected

    @classmethod
    def empty(
        cls, kernel: Kernel, m: int, d: int, k: int, offset: Array | None = None
    ) -> WeightStream:
        """Return the prior of k functions of d columns with m features: no example was seen."""
        none = Examples.of(np.zeros((0, d)), np.zeros((0, k)), np.zeros(0))
        return cls(kernel, tuple(WeightLatent.empty(m) for _ in range(k)), d, none, offset)

    @property
    def points(self) -> Array:
        """The rows that were kept, (n, d): those of a second pass."""
        return np.zeros((0, self.d)) if self.examples is None else self.examples.rows[:, : self.d]

    @property
    def S(self) -> Array | None:
        """Their labels (n, k), or None."""
        return None if self.examples is None else self.examples.rows[:, self.d : -1]

    @property
    def w(self) -> Array | None:
        """Their weights (n,), or None."""
        return None if self.examples is None else self.examples.rows[:, -1]

    # ------------------------------------------------------------------ the process
    @property
    def per_row(self) -> int:
        return 2 * len(self.latents[0].v)

    def marginals_at(self, X: Array) -> tuple[Array, Array]:
        F = self.kernel.explicit(X)
        halves = [latent.halved(F) for latent in self.latents]
        mean = np.column_stack([F @ latent.weights for latent in self.latents])
        mean = mean + self.level
        return mean, np.column_stack([np.einsum("ij,ij->j", half, half) for half in halves])

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        self._require_one()
        left = self.latents[0].halved(self.kernel.explicit(X))
        right = left if Z is None else self.latents[0].halved(self.kernel.explicit(Z))
        return np.asarray(left.T @ right)

    # ------------------------------------------------------------------ learning
    def absorb(
        self, X: Array, S: Array, w: Array, budget: int | None = None, rule: Rule = by_bound
    ) -> tuple[WeightStream, list[StreamSolution]]:
        """Condition on X (b, d) with labels S (b, k) and weights w (b,), in this order.

        Also return what the batch did to each function. With a ``budget`` no example is kept.
        """
        F, latents, found = self.kernel.explicit(X), [], []
        for latent, labels, level in zip(self.latents, S.T, self.level, strict=True):
            half = latent.halved(F)
            block = rule(half.T @ latent.v + level, half.T @ half, labels, w)
            target = block.z[:, 0] + block.mean - level
            latents.append(latent.given(F, block.W, target))
            found.append(block)
        kept = self.examples if budget is None else None
        kept = None if kept is None else kept.with_rows(X, S, w)
        return replace(self, latents=tuple(latents), examples=kept), found

    def reordered(self, order: Index, turned: Array) -> WeightStream:
        """Return it with the latent functions of these numbers, some of them more than once.

        Where ``turned`` is -1 it is less the function: its labels are the other ones.
        """
        examples = self.examples
        if examples is not None:
            rows, d = examples.rows, self.d
            examples = Examples.of(rows[:, :d], turned * rows[:, d:-1][:, order], rows[:, -1])
        offset = None if self.offset is None else turned * self.offset[order]
        pairs = zip(order, turned, strict=True)
        latents = tuple(self.latents[j].turned() if t < 0.0 else self.latents[j] for j, t in pairs)
        return replace(self, latents=latents, examples=examples, offset=offset)

    def gram(self, points: Array) -> Gram:
        """Return the Gram of points (n, d) that are to be solved together."""
        if pays(len(points), len(self.latents[0].v)):
            return WeightGram(self.kernel, points)
        return DenseGram(self.kernel, points, keep=True)

    def given_sites(self, X: Array, S: Array, solution: Solution) -> WeightStream:
        """Return the posterior of rows X (n, d) that were solved together."""
        F, W = self.kernel.explicit(X), solution.W.reshape(S.shape)
        targets = solution.z + solution.alpha / W - self.level
        empty = WeightLatent.empty(F.shape[1])
        latents = tuple(empty.given(F, p, t) for p, t in zip(W.T, targets.T, strict=True))
        examples = Examples.of(X, S, solution.weights)
        return replace(self, latents=latents, examples=examples)

    def forget(self, rho: float) -> WeightStream:
        """Return the stream with the posterior moved towards the prior; rho = 1 changes nothing."""
        return self if rho == 1.0 else self._changed(lambda latent: latent.forget(rho))

    def drift(self, share: float) -> WeightStream:
        """Return the stream with a share of every latent function renewed; 0 changes nothing."""
        return self if share == 0.0 else self._changed(lambda latent: latent.drift(share))

    def _changed(self, change: Callable[[WeightLatent], WeightLatent]) -> WeightStream:
        return replace(self, latents=tuple(map(change, self.latents)), examples=None)

    def evidence(self, X: Array, S: Array, w: Array, shares: Array, rule: Rule = by_bound) -> Array:
        """Return for each share (s,) the log bound on the labels S (b, k) at X, had it drifted."""
        F, value = self.kernel.explicit(X), np.zeros(len(shares))
        prior = F @ F.T
        for latent, labels, level in zip(self.latents, S.T, self.level, strict=True):
            half = latent.halved(F)
            mean, cov = half.T @ latent.v, half.T @ half
            for i, kept in enumerate(1.0 - shares):
                moved = kept * cov + (1.0 - kept) * prior
                value[i] += rule(np.sqrt(kept) * mean + level, moved, labels, w).log_q
        return value

    def within(self, budget: int) -> WeightStream:
        """Return it without the examples, if these are more than ``budget``."""
        return self if len(self.points) <= budget else replace(self, examples=None)

    def lost(self) -> float:
        """Return zero: no example was projected."""
        return 0.0


def weighed(
    stream: StreamPosterior | WeightStream, n: int, eager: bool, budget: int | None, rule: Rule
) -> StreamPosterior | WeightStream:
    """Return the stream by the weights of its features, if these are few beside n rows.

    Few are at most 500 and the budget, and where the stream is not ``eager`` a quarter of the rows.
    The examples so far are absorbed once more, which gives the same numbers.
    """
    if stream.weighs or stream.S is None or stream.w is None:
        return stream
    d, m = stream.points.shape[1], width_of(stream.kernel, stream.points)
    if m is None or m > (MOST if budget is None else min(MOST, budget)):
        return stream
    if not (eager or pays(n, m)):
        return stream
    after = WeightStream.empty(stream.kernel, m, d, len(stream.latents), stream.offset)
    for i in range(0, len(stream.points), ROWS):
        rows = slice(i, i + ROWS)
        after, _ = after.absorb(stream.points[rows], stream.S[rows], stream.w[rows], None, rule)
    return after
