"""Sequential variational logistic regression: one example after the other, in blocks.

Each example turns into a Gaussian observation y = S/(4 l) of variance 1/(2 w l) by the quadratic
bound of the logistic, with the xi that is best for the posterior before it. On a block of b
examples with prior mean M and covariance K, the recurrences (18)-(23) are a Cholesky factor built
column by column,

    R R' = K + diag(1/(2 w l)),    v = R^-1 (y - M),

in which the pivot of an example needs its own l, and that needs the mean and variance after the
examples before it.

Reference: Jaakkola & Haussler (1999), section 3; (8) with its sign corrected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array
from mercer.inference.logistic_bound import best_xi, curvature, log_bound


@dataclass(frozen=True)
class Block:
    """What b examples did to one latent function.

    Attributes
    ----------
    R : (b, b) lower triangular, and v : (b,), as above.
    mean, var : (b,) of each example before the block, from the caller.
    xi : (b,) the variational parameters (23).
    M, kappa : (b,) mean and variance of each example just before it was absorbed.
    log_q : sum of the log bounds on the probability of each label given those before it.
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


def absorb(mean: Array, cov: Array, S: Array, w: Array) -> Block:
    """Absorb b examples in their order: labels S = -1 or +1 (b,) of weight w > 0 (b,).

    ``mean`` (b,) and ``cov`` (b, b) are those of the latent function before the block. One pass
    over the b columns; each is one matrix-vector product.

    Examples
    --------
    >>> import numpy as np
    >>> block = absorb(np.zeros(1), np.array([[3.0]]), np.ones(1), np.ones(1))
    >>> block.xi.round(6)
    array([1.648394])
    """
    b = len(mean)
    R, v, xi, Ms, kappas = np.zeros((b, b)), *np.zeros((4, b))
    log_q = gain = 0.0
    for s, (label, weight) in enumerate(zip(S.tolist(), w.tolist(), strict=True)):
        row = R[s, :s]
        column = cov[s:, s] - R[s:, :s] @ row  # K_{s-1}(k, s), k >= s: (18) so far
        kappa = max(float(column[0]), 0.0)  # repeated rows of a vast prior round below zero
        M = float(mean[s] + row @ v[:s])  # (19) so far
        x = best_xi(M, kappa, label, weight)
        lam = curvature(x)
        pivot = math.sqrt(kappa + 0.5 / (weight * lam))  # c_s^-1/2, (20)
        R[s, s] = pivot
        R[s + 1 :, s] = column[1:] / pivot
        v[s] = (label / (4.0 * lam) - M) / pivot
        xi[s], Ms[s], kappas[s] = x, M, kappa
        log_q += log_bound(M, kappa, label, weight, x)
        gain += math.log1p(2.0 * weight * lam * kappa)
    return Block(R, v, mean, cov.diagonal().copy(), xi, Ms, kappas, log_q, gain)
