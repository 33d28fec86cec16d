"""The posterior of a stream: a process that is conditioned again with every batch.

Formulas (1) and (2) for m latent functions on the same points, each with its own alpha and C
(:class:`mercer.inference.stream.Latent`). What is chosen by the evidence of the labels: before each
batch how much of what was learned still holds, on the first one how smooth a kernel is.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.core.arrays import Array, Index
from mercer.core.memory import keep_pages
from mercer.inference.base import Solution
from mercer.inference.stream import (
    Explicit,
    Growing,
    Latent,
    Rule,
    StreamSolution,
    chosen,
)
from mercer.inference.stream import absorb as by_bound
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import tied_scales
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Gram
from mercer.linalg.operators import PosteriorOperator, SeveralOperator
from mercer.process.process import BATCH_BYTES, Prior, Process, batched

SHARES = np.array([0.0, 0.03, 0.1, 0.3, 0.6, 0.9])  # of drift, for drift="auto"
HAZARD = 0.05  # prior probability of any change before a batch, the same for each kind
LOG_PRIOR = np.log(np.r_[1.0 - HAZARD, np.full(len(SHARES) - 1, HAZARD / (len(SHARES) - 1))])
FACTORS = (1.0, 0.5, 0.25, 0.125)  # of the length scale
PRICE = 1.0  # nats that each halving must gain: few rows do not outvote the default
ROWS = 128  # that are asked, at most


class LatentStream(Process):
    """A process of m latent functions that a stream is learned by; a child states its algebra."""

    kernel: Kernel
    latents: tuple[Any, ...]  # m of them
    offset: Array | None  # (m,) the prior means; None: zero

    @cached_property
    def parent(self) -> Prior:
        """The process before any example, but for its mean."""
        return Prior(self.kernel, len(self.latents))

    @property
    def level(self) -> Array:
        """The prior means (m,)."""
        return np.zeros(len(self.latents)) if self.offset is None else self.offset

    @property
    @abstractmethod
    def per_row(self) -> int:
        """How many numbers the answer for one row takes on the way."""

    @abstractmethod
    def marginals_at(self, X: Array) -> tuple[Array, Array]:
        """Return means and variances (q, m) at rows X (q, d) that memory has room for."""

    @abstractmethod
    def evidence(self, X: Array, S: Array, w: Array, shares: Array, rule: Rule = by_bound) -> Array:
        """Return for each share (s,) the log bound on the labels S (b, m) at X, had it drifted."""

    def marginals(self, X: Array) -> tuple[Array, Array]:
        """Return means and variances (q, m) of the latent functions at X (q, d), in one pass."""
        size = max(1, BATCH_BYTES // (8 * max(1, self.per_row)))
        if len(X) <= size:
            return self.marginals_at(X)
        parts = [self.marginals_at(X[i : i + size]) for i in range(0, len(X), size)]
        mean, var = (np.concatenate(each) for each in zip(*parts, strict=True))
        return mean, var

    def mean(self, X: Array) -> Array:
        return self.marginals(X)[0]

    def diag(self, X: Array) -> Array:
        self._require_one()
        return self.marginals(X)[1][:, 0]

    def blocks(self, X: Array) -> Array:
        return np.asarray(self.marginals(X)[1][:, :, None] * np.eye(len(self.latents)))

    def _require_one(self) -> None:
        if len(self.latents) > 1:
            raise NotImplementedError("the covariance of several latent functions: use blocks")


@dataclass(frozen=True, eq=False)
class StreamPosterior(LatentStream):
    """What has been learned so far; a value: every step returns another one.

    ``S`` and ``w`` are None once the stream has forgotten or been projected: then the points are no
    longer the examples.
    """

    kernel: Kernel  # the prior covariance, without noise parts
    points: Array  # (n, d)
    latents: tuple[Latent, ...]  # m of them
    S: Array | None  # (n, m) labels of the points
    w: Array | None  # (n,) weights of the points
    moved: float = 0.0  # sum over the projections of what Explicit.moved returns
    offset: Array | None = None  # (m,) the prior means; None: zero

    weighs = False

    @classmethod
    def empty(cls, kernel: Kernel, d: int, m: int, offset: Array | None = None) -> StreamPosterior:
        """Return the prior of m latent functions of d columns: no example was seen."""
        latents = tuple(Growing.empty() for _ in range(m))
        none = np.zeros((0, d)), latents, np.zeros((0, m)), np.zeros(0)
        return cls(kernel, *none, offset=offset)

    def gram(self, points: Array) -> Gram:
        """Return the Gram of points (n, d) that are to be solved together."""
        return DenseGram(self.kernel, points, keep=True)

    def given_sites(self, points: Array, S: Array, solution: Solution) -> StreamPosterior:
        """Return the posterior of points (n, d) with labels S (n, m), and nothing before."""
        latents, K, offset = [], self.kernel(points), self.offset
        W = solution.W.reshape(S.shape)
        targets = solution.z + solution.alpha / W  # C target = alpha
        targets = targets if offset is None else targets - offset
        for precision, target in zip(W.T, targets.T, strict=True):
            R = cholesky(K + np.diag(1.0 / precision), lower=True)
            v = solve_triangular(R, target, lower=True)
            gain = 2.0 * float(np.log(R.diagonal()).sum()) + float(np.log(precision).sum())
            latents.append(Growing.empty().with_rows(R, v, gain))
        kept = points, tuple(latents), S, solution.weights
        return StreamPosterior(self.kernel, *kept, offset=offset)

    # ------------------------------------------------------------------ the process
    @property
    def alpha(self) -> Array:
        """Coefficients (n, m) of formula (1)."""
        return np.column_stack([latent.explicit().alpha for latent in self.latents])

    @property
    def operator(self) -> PosteriorOperator:
        """C of formula (2)."""
        one = self.latents[0]
        return one if len(self.latents) == 1 else SeveralOperator(list(self.latents), None)

    @property
    def per_row(self) -> int:
        return len(self.points)

    def marginals_at(self, X: Array) -> tuple[Array, Array]:
        K = self.kernel(self.points, X)
        each = [latent.marginals(K) for latent in self.latents]
        mean = np.column_stack([mean for mean, _ in each])
        mean = mean if self.offset is None else mean + self.offset
        reduction = np.column_stack([drop for _, drop in each])
        # rounding can leave -1e-16 of the prior variance
        return mean, np.maximum(self.kernel.diag(X)[:, None] - reduction, 0.0)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        self._require_one()
        A = self.kernel(self.points, X)
        B = A if Z is None else self.kernel(self.points, Z)
        return np.asarray(self.kernel(X, Z) - self.latents[0].reduce(A, B, None, None))

    @cached_property
    def _explicit(self) -> tuple[Explicit, ...]:
        """The latent functions with C itself, for covariances with one point after the other."""
        return tuple(latent.explicit().settled() for latent in self.latents)

    def cross_blocks(self, X: Array, z: Array) -> Array:
        b, P = self.kernel(self.points, z), self.points
        c = np.hstack([latent.C @ b for latent in self._explicit])
        known = batched(lambda x: self.kernel(x, P) @ c, X, len(P))
        return np.asarray((self.kernel(X, z) - known)[:, :, None] * np.eye(len(self.latents)))

    def cross(self, X: Array, Z: Array) -> Array:
        self._require_one()
        return np.hstack([self.cross_blocks(X, z[None])[:, :, 0] for z in Z])

    # ------------------------------------------------------------------ learning
    def absorb(
        self, X: Array, S: Array, w: Array, budget: int | None = None, rule: Rule = by_bound
    ) -> tuple[StreamPosterior, list[StreamSolution]]:
        """Condition on X (b, d) with labels S (b, m) and weights w (b,), in this order.

        Also return what the batch did to each of the m latent functions. With a ``budget`` the
        result is projected, as by :meth:`within`; after few examples (less than a tenth of it) to a
        little below it, so that not every batch needs a projection.
        """
        n, points = len(self.points), np.concatenate([self.points, X])
        over = budget is not None and len(points) > budget
        if over:  # the projection needs the old points among themselves as well
            whole = self.kernel(points)
            K, prior = whole[:n, n:], whole[n:, n:]
        else:
            K, prior = self.kernel(self.points, X), self.kernel(X)
        steps = [
            latent.absorb(K, prior, labels, w, level, rule)
            for latent, labels, level in zip(self.latents, S.T, self.level, strict=True)
        ]
        blocks, latents = [block for _, block in steps], tuple(latent for latent, _ in steps)
        after = replace(self, points=points, latents=latents, S=None, w=None)
        if over and budget is not None:
            return after._projected(whole, budget - max(0, budget // 10 - len(X))), blocks
        if self.S is not None and self.w is not None:
            after = replace(after, S=np.concatenate([self.S, S]), w=np.concatenate([self.w, w]))
        return replace(after, latents=tuple(latent.settled() for latent in latents)), blocks

    def reordered(self, order: Index, turned: Array) -> StreamPosterior:
        """Return it with the latent functions of these numbers, some of them more than once.

        Where ``turned`` is -1 it is less the function: its labels are the other ones.
        """
        S = None if self.S is None else np.ascontiguousarray(turned * self.S[:, order])
        offset = None if self.offset is None else turned * self.offset[order]
        pairs = zip(order, turned, strict=True)
        latents = tuple(self.latents[j].turned() if t < 0.0 else self.latents[j] for j, t in pairs)
        return replace(self, latents=latents, S=S, offset=offset)

    def forget(self, rho: float) -> StreamPosterior:
        """Return the stream with the posterior moved towards the prior; rho = 1 changes nothing."""
        return self if rho == 1.0 else self._changed(Explicit.forget, rho)

    def drift(self, share: float) -> StreamPosterior:
        """Return the stream with a share of every latent function renewed; 0 changes nothing."""
        return self if share == 0.0 else self._changed(Explicit.drift, share)

    def _changed(
        self, change: Callable[[Explicit, float, Array], Explicit], size: float
    ) -> StreamPosterior:
        if not len(self.points):
            return self
        K = self.kernel(self.points)
        latents = tuple(change(latent.explicit(), size, K) for latent in self.latents)
        return replace(self, latents=latents, S=None, w=None)

    def evidence(self, X: Array, S: Array, w: Array, shares: Array, rule: Rule = by_bound) -> Array:
        """Return for each share (s,) the log bound on the labels S (b, m) at X, had it drifted so.

        A drift scales mean and reduction of the covariance: the kernel is evaluated once.
        """
        K, prior, value = self.kernel(self.points, X), self.kernel(X), np.zeros(len(shares))
        for latent, labels, level in zip(self.latents, S.T, self.level, strict=True):
            mean, A, B = latent.parts(K)
            reduction = A.T @ B
            for i, kept in enumerate(1.0 - shares):
                block = rule(np.sqrt(kept) * mean + level, prior - kept * reduction, labels, w)
                value[i] += block.log_q
        return value

    def within(self, budget: int) -> StreamPosterior:
        """Return the projection onto at most ``budget`` of the points, chosen as by ``chosen``.

        q stays as it is on those, with the law of the prior elsewhere given them: as in
        :meth:`Posterior.project`, C' = B C B' and alpha' = B alpha, here with B = [I, A] for points
        that are kept or dropped. The stake of a point (:meth:`Explicit.stakes`) is what the
        posterior learned from it: forgotten ones go first. :meth:`lost` returns what this cost.
        """
        if len(self.points) <= budget:
            return self
        return self._projected(self.kernel(self.points), budget)

    def _projected(self, K: Array, budget: int) -> StreamPosterior:
        keep_pages()  # one such step follows another
        latents = [latent.explicit() for latent in self.latents]
        at = chosen(K, np.sum([latent.stakes() for latent in latents], axis=0), budget)
        after = tuple(latent.project(at.keep, at.drop, at.A) for latent in latents)
        moved = self.moved + sum(latent.moved(at.drop, at.V) for latent in latents)
        kept = self.points[at.keep]
        return replace(self, points=kept, latents=after, S=None, w=None, moved=moved)

    def lost(self) -> float:
        """Return the sum over all projections of KL(q | projected q), over the latent functions.

        Each is KL(q | p) - KL(q_kept | p_kept). The determinants in the sum telescope: only that
        of the points there are now is left to compute, O(n^3).
        """
        if self.S is not None:
            return 0.0  # all examples are there
        K = self.kernel(self.points)
        gains = sum(latent.gain - latent.explicit().information(K) for latent in self.latents)
        return max(0.5 * (self.moved + gains), 0.0)  # a loss of nothing rounds below zero


def prior_means(given: Any, m: int) -> Array | None:
    """Return the prior means (m,) of m functions, None for zero; refuse what are none."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(2, np.nan)
    if found.shape not in ((), (m,)) or not np.all(np.isfinite(found)):
        each = f", or {m} of them, one for each class" if m > 1 else ""
        raise ValueError(f"mean, the prior mean of f, must be a finite number{each}, not {given!r}")
    return np.broadcast_to(found, (m,)).copy() if np.any(found) else None


def likely_share(
    stream: LatentStream, X: Array, S: Array, w: Array, rule: Rule = by_bound
) -> tuple[float, float]:
    """Return the most probable share given the labels S (b, m) at X, and its log prior.

    p(share | labels) is proportional to p(labels | share) p(share), the first by its lower bound.
    The log prior added leaves a lower bound: one term of the sum over all shares.
    """
    value = stream.evidence(X, S, w, SHARES, rule) + LOG_PRIOR
    best = int(value.argmax())
    return float(SHARES[best]), float(LOG_PRIOR[best])


def likely_length(kernel: Kernel, X: Array, S: Array, w: Array) -> tuple[Kernel, float]:
    """Return the kernel with the length scale of the largest evidence, and its factor.

    The evidence is the sequential one of the labels S (n, m) at X (n, d), of at most 128 rows
    evenly spread. A kernel without a tied length scale is returned unchanged.
    """
    best, chosen = -np.inf, (kernel, 1.0)
    if not tied_scales(kernel) or len(X) < 2:
        return chosen
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), ROWS)).astype(np.intp))
    for factor in FACTORS:
        other = copy.deepcopy(kernel)
        for owner in tied_scales(other):
            owner.set_params(length_scale=factor * owner.get_params()["length_scale"])
        stream = StreamPosterior.empty(other, X.shape[1], S.shape[1])
        _, blocks = stream.absorb(X[rows], S[rows], w[rows])
        value = sum(block.log_q for block in blocks) + PRICE * np.log2(factor)
        if value > best:
            best, chosen = value, (other, factor)
    return chosen
