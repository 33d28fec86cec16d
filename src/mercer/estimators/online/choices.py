"""What an online learner chooses by the evidence of the labels: a share of drift, a length scale.

How much of what was learned still holds is asked before each batch; how smooth a kernel given by
name is, once, on the first batch.
"""

from __future__ import annotations

import copy
import numbers
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared import ard
from mercer.kernels.base import Kernel
from mercer.process.stream import StreamPosterior

SHARES = np.array([0.0, 0.03, 0.1, 0.3, 0.6, 0.9])  # of drift, for drift="auto"
HAZARD = 0.05  # prior probability of any change before a batch, the same for each kind
LOG_PRIOR = np.log(np.r_[1.0 - HAZARD, np.full(len(SHARES) - 1, HAZARD / (len(SHARES) - 1))])
FACTORS = (1.0, 0.5, 0.25, 0.125)  # of the length scale
PRICE = 1.0  # nats that each halving must gain: few rows do not outvote the default
ROWS = 128  # that are asked, at most


def check_drift(drift: Any) -> float | None:
    """Return the share if it is a number in [0, 1), and None for "auto"."""
    if isinstance(drift, str) and drift == "auto":
        return None
    real = isinstance(drift, numbers.Real) and not isinstance(drift, bool)
    if not real or not 0.0 <= float(drift) < 1.0:
        raise ValueError(
            f'drift must be a number in [0, 1), where 0 is no drift, or "auto", not {drift!r}'
        )
    return float(drift)


def likely_share(stream: StreamPosterior, X: Array, S: Array, w: Array) -> tuple[float, float]:
    """Return the most probable share given the labels S (b, m) at X, and its log prior.

    p(share | labels) is proportional to p(labels | share) p(share), the first by its lower bound.
    The log prior, added to the bound on the labels, leaves a lower bound: the law of the labels is
    the sum over all shares, and this is one term.
    """
    value = stream.evidence(X, S, w, SHARES) + LOG_PRIOR
    best = int(value.argmax())
    return float(SHARES[best]), float(LOG_PRIOR[best])


def likely_length(kernel: Kernel, X: Array, S: Array, w: Array) -> tuple[Kernel, float]:
    """Return the kernel with the length scale of the largest evidence, and its factor.

    The evidence is the sequential one of the labels S (n, m) at X (n, d), of at most 128 rows
    evenly spread over those given. A kernel without a tied length scale is returned unchanged.
    """
    best, chosen = -np.inf, (kernel, 1.0)
    if not ard.tied_scales(kernel) or len(X) < 2:
        return chosen
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), ROWS)).astype(np.intp))
    for factor in FACTORS:
        other = copy.deepcopy(kernel)
        for owner in ard.tied_scales(other):
            owner.set_params(length_scale=factor * owner.get_params()["length_scale"])
        _, blocks = StreamPosterior.empty(other, X.shape[1], S.shape[1]).absorb(
            X[rows], S[rows], w[rows]
        )
        value = sum(block.log_q for block in blocks) + PRICE * np.log2(factor)
        if value > best:
            best, chosen = value, (other, factor)
    return chosen
