"""The gradient of the evidence by probes: unbiased, from solutions alone.

With u = G z, G G' = P, p = P^-1 u and w = (K + D)^-1 u, for z with independent signs,

    E[w p'] = C,      dE/dK = (alpha alpha' - C) / 2  ~  (alpha alpha' - mean w p') / 2       (I12)

The targets and the probes climb side by side. The value is unbiased as well, but the gradient is
not its derivative: for steps that average over draws, not for a search along a line.

Reference: Gibbs and MacKay (1997); Wenger et al. (2022). Theory (I12).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Gradient, Kernel, added, blocks, scaled, zero_gradient
from mercer.linalg.gram import Factor
from mercer.linalg.iterative.determinant import LogDet, quadrature
from mercer.linalg.iterative.gram import ENTRIES, IterativeFactor, IterativeGram


class ProbedGram(IterativeGram):
    """An iterative Gram whose factor estimates C, and with it the gradient of the evidence.

    ``begin`` holds the solutions (n, m) of a problem nearby, where the solver may start; those of
    this Gram take their place.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        centres: Array,
        begin: list[Array] | None = None,
        **given: Any,
    ) -> None:
        super().__init__(kernel, points, centres, **given)
        self.begin = [] if begin is None else begin

    def factor(self, W: Array) -> ProbedFactor:
        return ProbedFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        assert isinstance(factor, ProbedFactor)
        assert U is None
        w, p = factor.w, factor.p
        share = -0.25 * alpha.shape[1] / w.shape[1]
        left, right = np.hstack([0.5 * alpha, share * w, share * p]), np.hstack([alpha, p, w])
        gradient = zero_gradient(self.kernel)
        n, X = len(left), self.points
        # blocks of the upper triangle: with both arguments given a kernel has no noise parts
        for rows, columns, weight in blocks(n, n, True, max(64, ENTRIES // n)):
            Q = weight * left[rows] @ right[columns].T
            gradient = added(gradient, self.kernel.pullback(X[rows], X[columns].copy(), Q))
        if self.signal is not self.kernel:
            slope = np.einsum("ij,ij->i", left, right)
            gradient = added(gradient, self.kernel.diag_pullback(X, slope))
            signal = self.kernel.diag_pullback(X, slope, noise=False)
            gradient = added(gradient, scaled(signal, -1.0))
        return gradient


class ProbedFactor(IterativeFactor):
    """C with its diagonal and determinant estimated by probes, which are solved for with y."""

    has_diagonal: ClassVar[bool] = True

    def solve(self, V: Array) -> Array:
        gram, n, m = self.gram, len(self.D), V.shape[1]
        assert isinstance(gram, ProbedGram)
        U = self.half(gram.rng.choice([-1.0, 1.0], size=(n, gram.probes)))
        start = np.zeros((n, m + gram.probes))
        if gram.begin:
            start[:, :m] = gram.begin[0]
        found = self._climb(np.hstack([V, U]), start, gram.tol, self._limit(None))
        self.w, self.p = found.V[:, m:], self.P.solve(U)
        pairs = [quadrature(found.steps, m + j) for j in range(gram.probes)]
        self._logdet = LogDet(self.P.logdet_noisy() + n * np.array(pairs))
        worst = float(found.rho2.max())
        self.told = {"rounds": found.rounds, "rho2": worst, "solved": found.converged}
        gram.begin[:] = [np.ascontiguousarray(found.V[:, :m])]
        return gram.begin[0]

    def diag(self) -> Array:
        """The estimate of the diagonal of C."""
        return np.asarray((self.w * self.p).mean(axis=1))
