"""A stream: several latent functions on the same points, which absorb, forget and are projected."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.core.arrays import Array
from mercer.core.memory import keep_pages
from mercer.inference.stream.block import StreamBlock, absorb
from mercer.inference.stream.latent import Growing, Latent
from mercer.inference.stream.points import chosen
from mercer.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class Stream:
    """What has been learned so far; a value: every step returns another one.

    Attributes
    ----------
    kernel : the prior covariance, without noise parts.
    points : (n, d).
    latents : m latent functions.
    S, w : labels (n, m) and weights (n,) of the points, or None once the stream has forgotten or
        been projected: then the points are no longer the examples.
    moved : sum over the projections of what :meth:`Explicit.moved` says.
    """

    kernel: Kernel
    points: Array
    latents: tuple[Latent, ...]
    S: Array | None
    w: Array | None
    moved: float = 0.0

    @classmethod
    def empty(cls, kernel: Kernel, d: int, m: int) -> Stream:
        """Return a stream of m latent functions of d columns before any example."""
        latents = tuple(Growing.empty() for _ in range(m))
        return cls(kernel, np.zeros((0, d)), latents, np.zeros((0, m)), np.zeros(0))

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Return means and variances (q, m) of the latent functions at X (q, d)."""
        K = self.kernel(self.points, X)
        found = [latent.moments(K) for latent in self.latents]
        mean = np.column_stack([mean for mean, _ in found])
        reduction = np.column_stack([drop for _, drop in found])
        # rounding can leave -1e-16 of the prior variance
        return mean, np.maximum(self.kernel.diag(X)[:, None] - reduction, 0.0)

    def absorb(
        self, X: Array, S: Array, w: Array, budget: int | None = None
    ) -> tuple[Stream, list[StreamBlock]]:
        """Absorb X (b, d) with labels S (b, m) and weights w (b,), in this order.

        With a ``budget`` the result is projected, as by :meth:`project`; after few examples (less
        than a tenth of it) a little below it, so that not each of them has a projection of its own.
        """
        n, points = len(self.points), np.concatenate([self.points, X])
        over = budget is not None and len(points) > budget
        if over:  # the projection needs the old points among themselves as well
            whole = self.kernel(points)
            K, prior = whole[:n, n:], whole[n:, n:]
        else:
            K, prior = self.kernel(self.points, X), self.kernel(X)
        steps = [
            latent.absorb(K, prior, labels, w)
            for latent, labels in zip(self.latents, S.T, strict=True)
        ]
        blocks, latents = [block for _, block in steps], tuple(latent for latent, _ in steps)
        after = Stream(self.kernel, points, latents, None, None, self.moved)
        if over and budget is not None:
            return after._projected(whole, budget - max(0, budget // 10 - len(X))), blocks
        if self.S is not None and self.w is not None:
            after = replace(after, S=np.concatenate([self.S, S]), w=np.concatenate([self.w, w]))
        return replace(after, latents=tuple(latent.settled() for latent in latents)), blocks

    def forget(self, rho: float) -> Stream:
        """Return the stream with the posterior moved towards the prior; rho = 1 changes nothing."""
        if rho == 1.0 or not len(self.points):
            return self
        K = self.kernel(self.points)
        latents = tuple(latent.explicit().forget(rho, K) for latent in self.latents)
        return Stream(self.kernel, self.points, latents, None, None, self.moved)

    def drift(self, share: float) -> Stream:
        """Return the stream with a share of every latent function renewed; 0 changes nothing."""
        if share == 0.0 or not len(self.points):
            return self
        K = self.kernel(self.points)
        latents = tuple(latent.explicit().drift(share, K) for latent in self.latents)
        return Stream(self.kernel, self.points, latents, None, None, self.moved)

    def evidence(self, X: Array, S: Array, w: Array, shares: Array) -> Array:
        """Return for each share (s,) the log bound on the labels S (b, m) at X, had it drifted so.

        A drift scales mean and reduction of the covariance: the kernel is evaluated once.
        """
        K, prior, value = self.kernel(self.points, X), self.kernel(X), np.zeros(len(shares))
        for latent, labels in zip(self.latents, S.T, strict=True):
            mean, reduction = latent.joint(K)
            for i, kept in enumerate(1.0 - shares):
                block = absorb(np.sqrt(kept) * mean, prior - kept * reduction, labels, w)
                value[i] += block.log_q
        return value

    def project(self, budget: int) -> Stream:
        """Return the stream on at most ``budget`` of its points; :meth:`lost` says what this cost.

        The points are taken greedily, each the one with the largest prior variance left by those
        before it, times its stake (:meth:`Explicit.stakes`): what the posterior knows by it, so
        that what is forgotten goes first.
        """
        if len(self.points) <= budget:
            return self
        return self._projected(self.kernel(self.points), budget)

    def _projected(self, K: Array, budget: int) -> Stream:
        keep_pages()  # one such step follows another
        latents = [latent.explicit() for latent in self.latents]
        at = chosen(K, np.sum([latent.stakes() for latent in latents], axis=0), budget)
        after = tuple(latent.project(at.keep, at.drop, at.A) for latent in latents)
        moved = self.moved + sum(latent.moved(at.drop, at.V) for latent in latents)
        return Stream(self.kernel, self.points[at.keep], after, None, None, moved)

    def lost(self) -> float:
        """Return the sum over all projections of KL(q | projected q), over the latent functions.

        Each is KL(q | p) - KL(q_kept | p_kept). The determinants in the sum telescope: only that
        of the points there are now is left to compute, O(n^3).
        """
        if all(isinstance(latent, Growing) for latent in self.latents):
            return 0.0
        K = self.kernel(self.points)
        gains = sum(latent.gain - latent.explicit().information(K) for latent in self.latents)
        return max(0.5 * (self.moved + gains), 0.0)  # a loss of nothing rounds below zero


def from_sites(
    kernel: Kernel, points: Array, S: Array, w: Array, W: Array, targets: Array
) -> Stream:
    """Return the stream of sites found together: precisions W and targets, each (n, m)."""
    latents = []
    K = kernel(points)
    for precision, target in zip(W.T, targets.T, strict=True):
        R = cholesky(K + np.diag(1.0 / precision), lower=True)
        v = solve_triangular(R, target, lower=True)
        gain = 2.0 * float(np.log(R.diagonal()).sum()) + float(np.log(precision).sum())
        latents.append(Growing.of(R, v, gain))
    return Stream(kernel, points, tuple(latents), S, w)
