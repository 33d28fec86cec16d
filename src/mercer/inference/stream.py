"""A stream: several latent functions on the same points, which absorb, forget and are projected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.arrays import Array
from mercer.inference.pivots import chosen
from mercer.inference.sequential import Block
from mercer.inference.sequential_growing import Growing
from mercer.inference.sequential_latent import Latent
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
    moved : sum over the projections of what :meth:`Explicit.shift` lost.
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

    def absorb(self, X: Array, S: Array, w: Array) -> tuple[Stream, list[Block]]:
        """Absorb X (b, d) with labels S (b, m) and weights w (b,), in this order."""
        K, prior = self.kernel(self.points, X), self.kernel(X)
        steps = [
            latent.absorb(K, prior, labels, w)
            for latent, labels in zip(self.latents, S.T, strict=True)
        ]
        whole = self.S is not None and self.w is not None
        after = Stream(
            self.kernel,
            np.concatenate([self.points, X]),
            tuple(latent for latent, _ in steps),
            np.concatenate([self.S, S]) if whole else None,
            np.concatenate([self.w, w]) if whole else None,
            self.moved,
        )
        return after, [block for _, block in steps]

    def forget(self, rho: float) -> Stream:
        """Return the stream with the posterior moved towards the prior; rho = 1 changes nothing."""
        if rho == 1.0 or not len(self.points):
            return self
        K = self.kernel(self.points)
        latents = tuple(latent.explicit().forget(rho, K) for latent in self.latents)
        return Stream(self.kernel, self.points, latents, None, None, self.moved)

    def project(self, budget: int) -> Stream:
        """Return the stream on at most ``budget`` of its points; :meth:`lost` says what this cost.

        The points are taken greedily, each the one with the largest prior variance left by those
        before it, times its leverage (K C)_ii: the degrees of freedom that the examples at this
        point have in the posterior, so that what is forgotten goes first.
        """
        if len(self.points) <= budget:
            return self
        K = self.kernel(self.points)
        latents = [latent.explicit() for latent in self.latents]
        keep, drop, A = chosen(K, latents, budget)
        kept = K[np.ix_(keep, keep)]
        after = tuple(latent.project(keep, drop, A) for latent in latents)
        moved = sum(latent.shift(K) for latent in latents)
        moved -= sum(latent.shift(kept) for latent in after)
        return Stream(self.kernel, self.points[keep], after, None, None, self.moved + moved)

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
