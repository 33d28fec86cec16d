"""Sequential variational logistic regression: one example after the other, in blocks.

This is the quadratic bound (:class:`mercer.inference.Bound`) in its sequential form. Each example
turns into a Gaussian observation y = S/(4 l) of precision W = 2 w l, with the xi that is best for
the posterior before it. On a block of b examples with prior mean M and covariance K, the
recurrences (18)-(23) are a Cholesky factor built column by column,

    R R' = K + diag(1/W),    v = R^-1 (y - M),

in which the pivot of an example needs its own l, and that needs the mean and variance after the
examples before it. So alpha = R^-T v and C = R^-T R^-1 in formulas (1) and (2).

Reference: Jaakkola & Haussler (1999), section 3; (8) with its sign corrected.
Theory (O1), (O2), (O5), (O7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._native import sequential as native
from mercer.core.arrays import Array, back_solve
from mercer.inference.base import Report, Solution
from mercer.linalg.gram import Factor
from mercer.linalg.operators import CholeskyOperator

ONE_PASS = Report()  # a closed form for each example: there is nothing to converge


class BlockFactor(CholeskyOperator, Factor):
    """C = (K + W^-1)^-1 = R^-T R^-1 for R (b, b), lower triangular, and W (b,) > 0.

    ``gain`` is log|I + K W|.
    """

    def __init__(self, R: Array, W: Array, gain: float) -> None:
        super().__init__(R.T, np.ones(len(R)))
        self.W = W
        self.gain = gain

    def solve(self, V: Array) -> Array:
        return self.half_transposed(self.half(V))

    def quad(self, A: Array, B: Array) -> Array:
        return self.reduce(A, B, None, None)

    def quad_diag(self, A: Array) -> Array:
        return self.reduce_diag(A, None)

    def diag(self) -> Array:
        return self.quad_diag(np.eye(len(self.W)))

    def cov_diag(self) -> Array:
        return np.asarray((1.0 - self.diag() / self.W) / self.W)

    def logdet(self) -> float:
        return self.gain

    def logdet_noisy(self) -> float:
        return 2.0 * float(np.log(self.cholesky.diagonal()).sum())

    def operator(self) -> CholeskyOperator:
        return CholeskyOperator(self.cholesky, self.scale)


@dataclass(frozen=True, kw_only=True)
class BlockSolution(Solution):
    """The posterior of one latent function given b examples, by way of those before each of them.

    Attributes
    ----------
    R : (b, b) lower triangular, and v : (b,), as above.
    mean, var : (b,) of each example before the block, from the caller.
    xi : (b,) the variational parameters (23).
    M, kappa : (b,) mean and variance of each example just before it was absorbed.
    log_q : sum of the log bounds on the probability of each label given those before it: a lower
        bound on the log evidence of the block.
    gain : log |K| - log |K after the block|, the sum of log(1 + 2 w l kappa).
    """

    R: Array
    v: Array
    mean: Array
    var: Array
    xi: Array
    M: Array
    kappa: Array
    log_q: float
    gain: float


def absorb(mean: Array, cov: Array, S: Array, w: Array) -> BlockSolution:
    """Absorb b examples in their order: labels S = -1 or +1 (b,) of weight w > 0 (b,).

    ``mean`` (b,) and ``cov`` (b, b) are those of the latent function before the block; the lower
    triangle of ``cov`` is read. One pass over the b columns, compiled: each label waits for the
    one before it.

    Examples
    --------
    >>> import numpy as np
    >>> block = absorb(np.zeros(1), np.array([[3.0]]), np.ones(1), np.ones(1))
    >>> block.xi.round(6)
    array([1.648394])
    """
    b = len(mean)
    R, found = np.empty((b, b)), np.empty((4, b))
    mean, cov, S, w = (np.ascontiguousarray(each, dtype=np.float64) for each in (mean, cov, S, w))
    log_q, gain = native.absorb(mean, cov, S, w, R, found)
    v, xi, M, kappa = found
    lam = np.array([native.curvature(each) for each in xi.tolist()])
    W = 2.0 * w * lam
    return BlockSolution(
        back_solve(R.T, v[:, None]) if b else np.empty((0, 1)),
        W,
        (S / (4.0 * lam) - mean)[:, None],
        BlockFactor(R, W, gain),
        None,
        w,
        ONE_PASS,
        R=R,
        v=v,
        mean=mean,
        var=cov.diagonal().copy(),
        xi=xi,
        M=M,
        kappa=kappa,
        log_q=log_q,
        gain=gain,
    )
