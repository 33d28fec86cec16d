"""How much of what was learned still holds: a share chosen by the evidence of each batch."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.inference.stream import Stream

SHARES = np.array([0.0, 0.03, 0.1, 0.3, 0.6, 0.9])  # what "auto" chooses from
HAZARD = 0.05  # prior probability of any change before a batch, the same for each kind
LOG_PRIOR = np.log(np.r_[1.0 - HAZARD, np.full(len(SHARES) - 1, HAZARD / (len(SHARES) - 1))])


def check_drift(drift: Any) -> float | None:
    """Return the share if it is a number in [0, 1), and None for "auto"."""
    if isinstance(drift, str) and drift == "auto":
        return None
    real = isinstance(drift, numbers.Real) and not isinstance(drift, bool)
    if not real or not 0.0 <= float(drift) < 1.0:
        raise ValueError(
            f'drift must be a number in [0, 1), 0 for a law that stays, or "auto", not {drift!r}'
        )
    return float(drift)


def likely_share(stream: Stream, X: Array, S: Array, w: Array) -> tuple[float, float]:
    """Return the most probable share given the labels S (b, m) at X, and its log prior.

    p(share | labels) is proportional to p(labels | share) p(share), the first by its lower bound.
    The log prior, added to the bound on the labels, leaves a lower bound: the law of the labels is
    the sum over all shares, and this is one term.
    """
    value = stream.evidence(X, S, w, SHARES) + LOG_PRIOR
    best = int(value.argmax())
    return float(SHARES[best]), float(LOG_PRIOR[best])
