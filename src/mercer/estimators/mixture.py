"""What the members of a committee say together: quantiles and covariances of their mixture.

Theory (H2), (H3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mercer.arrays import Array
from mercer.losses import numeric
from mercer.losses.base import Loss
from mercer.losses.special import exp


def mixture_quantile(
    losses: Sequence[Loss], latents: Sequence[tuple[Array, Array]], level: float
) -> Array:
    """Return the quantile (q, m) of a new y under equal shares of the members.

    ``latents`` are mean (q, m) and variance (q, 1) of f for each. The root of the average of the
    distribution functions; it lies between the quantiles of the members.
    """
    q = np.asarray(level)
    each = np.array([loss.quantile(q, *f) for loss, f in zip(losses, latents, strict=True)])
    low, high = np.asarray(each.min(axis=0)), np.asarray(each.max(axis=0))
    if len(each) == 1:
        return low

    def share(y: Array) -> Array:
        parts = [loss.cdf(y, *f) for loss, f in zip(losses, latents, strict=True)]
        return np.asarray(np.mean(parts, axis=0))

    response = losses[0].response
    if response in ("count", "ordinal"):
        return numeric.smallest_integer(share, np.full(low.shape, level))
    if response == "positive":
        low, high = np.log(low), np.log(high)
        return exp(_between(lambda t: share(exp(t)) - level, low, high))
    return _between(lambda y: share(y) - level, low, high)


def _between(excess: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The root of an increasing function that lies between low and high."""
    step = np.maximum(0.5 * (high - low), 1e-12 * (1.0 + np.abs(low)))
    return numeric.increasing_root(excess, 0.5 * (low + high), step)


def between_members(means: Array) -> Array:
    """Covariance (q, q, m) of the members' means (k, q, m): the law of total covariance adds it."""
    d = means - means.mean(axis=0)
    return np.asarray(np.einsum("kim,kjm->ijm", d, d, optimize=True) / len(means))
