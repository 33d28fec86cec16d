"""Sequential variational logistic regression: one example after the other, in blocks.

Each example turns into a Gaussian observation y = S/(4 l) of variance 1/(2 w l) by the quadratic
bound of the logistic, with the xi that is best for the posterior before it. On a block of b
examples with prior mean M and covariance K, the recurrences (18)-(23) are a Cholesky factor built
column by column,

    R R' = K + diag(1/(2 w l)),    v = R^-1 (y - M),

in which the pivot of an example needs its own l, and that needs the mean and variance after the
examples before it.

Reference: Jaakkola & Haussler (1999), section 3; (8) with its sign corrected.
Theory (O1), (O2), (O5), (O7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._native import sequential as native
from mercer.core.arrays import Array


@dataclass(frozen=True)
class StreamBlock:
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


def absorb(mean: Array, cov: Array, S: Array, w: Array) -> StreamBlock:
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
    return StreamBlock(R, v, mean, cov.diagonal().copy(), xi, M, kappa, log_q, gain)
