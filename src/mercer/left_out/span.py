"""Leave-one-out of support vector machines without refitting, and bounds; theory (S5), (S6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.left_out.unlearning import Unlearning

# Share of the mean kernel variance that is added to the diagonal of the matrix of the free vectors:
# two that are (nearly) equal have no span, and no inverse without it.
JITTER = 1e-10


def left_out(
    kernel: Kernel,
    X: Array,
    lam: Array,
    f: Array,
    y: Array,
    bound: Array,
    bias: bool = True,
    least: float = 0.0,
) -> tuple[Array, int]:
    """Return f of each point when it is left out (n,), and of how many that is an estimate.

    Where no vector changes sides f_i - y_i lam_i S_i is exact, and an estimate else. The path of
    each vector is followed to its end, beginning with those whose output changes most, as long as
    that is not too much work; the others, and those of a change up to ``least``, keep their
    estimates.

    The span S_i (Vapnik & Chapelle 2000) with M = [K_FF 1; 1' 0] over the free vectors F:
    1 / [M^-1]_ii for a free vector, K_ii - v'M^-1 v with v = (K_Fi, 1) at the bound, and no change
    for lam_i = 0; without a bias the border of ones is left out. Where no free vector is left to
    move against, S_i = K_ii: with none, and for the only one beside a bias, whose formula divides
    by zero. lam (n,) >= 0 are the multipliers, f (n,) the outputs, bound (n,) their upper limit.
    """
    result = f.copy()
    support = np.flatnonzero(lam > 0)
    free = support[lam[support] < bound[support]]
    if not len(support):
        return result, 0
    spans = kernel.diag(X[support]).copy()
    jitter = JITTER * float(spans.mean())
    if len(free):
        m = len(free)
        M = np.ones((m + bias, m + bias))
        M[:m, :m] = kernel(X[free])
        M[m:, m:] = 0.0
        M[np.arange(m), np.arange(m)] += jitter
        inverse = np.linalg.inv(M)
        rest = np.setdiff1d(support, free)
        if m > bias:
            spans[np.searchsorted(support, free)] = 1.0 / np.diagonal(inverse)[:m]
        if len(rest):
            v = np.vstack([kernel(X[free], X[rest]), np.ones((int(bias), len(rest)))])
            spans[np.searchsorted(support, rest)] -= np.einsum("ij,ij->j", v, inverse @ v)
    falls = lam[support] * np.maximum(spans, 0.0)
    result[support] -= y[support] * falls
    order = np.argsort(-falls, kind="stable")
    order = order[falls[order] > least]
    estimates = len(support) - len(order)
    if not len(order):
        return result, estimates
    paths = Unlearning(kernel, X, lam, f, y, bound, bias, jitter)
    for i in support[order]:
        change = paths.change(int(i))
        if change is None:
            estimates += 1
        else:
            result[i] = f[i] + y[i] * change
    return result, estimates


@dataclass(frozen=True)
class Trained:
    """What leave-one-out needs of k machines that were fitted to n points."""

    kernel: Kernel
    points: Array  # (n, d)
    lam: Array  # (n, k) multipliers >= 0
    outputs: Array  # (n, k) f
    Y: Array  # (n, k) labels -1, +1
    bound: Array  # (n,) upper limit of the multipliers
    weights: Array  # (n,) how often each point counts
    bias: bool  # whether the machines have one
    place: Index  # (N,) the point of each row that was given, -1 if it has weight zero
    codes: Array  # (N,) its class 0 ..
    counts: Array  # (N,) how often it counts
    unused: Array  # (u, d) the rows of weight zero

    @cached_property
    def found(self) -> list[tuple[Array, int]]:
        """For each machine f of each point when it is left out (n,), and how many are estimates."""
        return self._without(0.0)

    def _without(self, least: float) -> list[tuple[Array, int]]:
        return [
            left_out(self.kernel, self.points, lam, f, y, self.bound, self.bias, least)
            for lam, f, y in zip(self.lam.T, self.outputs.T, self.Y.T, strict=True)
        ]

    def roughly(self) -> Array:
        """The same (n, k), estimated where that is at most one unit of margin from ``outputs``."""
        return np.column_stack([f for f, _ in self._without(1.0)])

    @property
    def left_out(self) -> Array:
        """f of each point when it is left out, (n, k)."""
        return np.column_stack([f for f, _ in self.found])

    def by_row(self, plain: Array) -> Array:
        """f of each row left out with all equal to it, (N, k); ``plain`` (u, k) of weight zero."""
        f = np.empty((len(self.place), self.Y.shape[1]))
        counted = self.place >= 0
        f[counted], f[~counted] = self.left_out[self.place[counted]], plain
        return f

    def figures(self, f: Array, proba: Array | None) -> LeftOut:
        """Collect the figures of the outputs :meth:`by_row`, and of probabilities (N, c)."""
        k = self.Y.shape[1]
        own = self.codes[:, None] == (np.ones(1) if k == 1 else np.arange(k))
        return LeftOut(
            self.counts,
            proba=proba,
            codes=self.codes,
            margin=np.where(own, 1.0, -1.0) * f,
            error_bounds=self.error_bounds(),
            jitter=JITTER,
            estimates=sum(count for _, count in self.found),
        )

    def error_bounds(self) -> dict[str, Array]:
        """Upper bounds (k,) of the exact leave-one-out error of each machine.

        "support" is the share of support vectors; "xi_alpha" that of the points with
        2 lam_i R^2 + xi_i >= 1 (Joachims), a bound where a free vector fixes the bias.
        """
        share = self.weights / self.weights.sum()
        radius = float(self.kernel.diag(self.points).max())
        slack = np.maximum(1.0 - self.Y * self.outputs, 0.0)
        risky = (2.0 * self.lam * radius + slack >= 1.0) & (self.lam > 0)
        return {"support": share @ (self.lam > 0), "xi_alpha": share @ risky}
