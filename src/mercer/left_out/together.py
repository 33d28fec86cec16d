"""Leave-group-out of a Gaussian posterior: whole blocks of rows from the others, nothing refitted.

With C = (K + D)^-1, D = diag(noise / weight), and P = C - C H (H'CH)^-1 H'C for an unpenalised
basis H (P = C without one), the rows of a block B given all others have

    y_B - mean_B = (P_BB)^-1 alpha_B,   cov_B = (P_BB)^-1,   alpha = P y,

the block form of GPML (5.12), exact at fixed hyperparameters. If the targets were centred on their
mean, the block is left out of that as well: c_B = -sum_B w y / sum_others w is the mean of the
others, and the prediction is linear in the targets (theory G11, here for blocks).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array, Index


def left_out_together(
    K: Array,
    y: Array,
    noise: float,
    groups: Index,
    *,
    weights: Array | None = None,
    basis: Array | None = None,
    centred: bool = False,
) -> tuple[Array, Array]:
    """Return mean and variance (n,) of every observation, given the rows of the other groups.

    K (n, n) are prior covariances of the function, y (n,) targets less the prior mean, ``groups``
    (n,) equal numbers for rows that stay together, ``weights`` (n,) how often each row counts,
    ``basis`` (n, k). The variance is that of one new observation, noise included.

    Examples
    --------
    >>> import numpy as np
    >>> mean, variance = left_out_together(np.ones((3, 3)), np.array([1.0, 1.0, 4.0]), 1.0,
    ...                                    np.array([0, 0, 1]))
    >>> mean.round(3).tolist(), variance.round(3).tolist()
    ([2.0, 2.0, 0.667], [1.5, 1.5, 1.333])
    """
    n = len(y)
    w = np.ones(n) if weights is None else weights
    D = noise / w
    C = cho_solve(cho_factor(K + np.diag(D), lower=True), np.eye(n))
    if basis is not None and basis.shape[1]:
        CH = C @ basis
        C = C - CH @ np.linalg.solve(basis.T @ CH, CH.T)
    alpha, ones = C @ y, C.sum(axis=1)
    mean, variance = np.empty(n), np.empty(n)
    total = float(w.sum())
    for code in np.unique(groups):
        rows = np.flatnonzero(groups == code)
        cov = np.linalg.inv(C[np.ix_(rows, rows)])
        residual = cov @ alpha[rows]
        others = total - float(w[rows].sum())
        if centred and others > 0.0:
            c = -float(w[rows] @ y[rows]) / others
            residual = residual - c * (cov @ ones[rows])
        mean[rows] = y[rows] - residual
        variance[rows] = np.diag(cov) - D[rows] + noise
    return mean, variance
