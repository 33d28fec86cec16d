"""From latent means and variances to the probability of each class."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.losses.base import Loss
from mercer.process import Posterior

TINY = float(np.log(np.finfo(float).tiny))


def log_probabilities(loss: Loss, m: Array, v: Array | None) -> Array:
    """Log probability of each class, (q, k).

    m is (q, 1) for two classes and a binary loss, else (q, k). v is (q, 1), (q, k) or, for a
    softmax, (q, k, k); None takes the loss at m: a mode has no spread. With one machine per class
    the probabilities are normalised over the classes.
    """
    if loss.response == "multiclass":
        if v is None:
            return np.asarray(m - np.logaddexp.reduce(m, axis=1, keepdims=True))
        p = loss.predict(m, v)
        return np.asarray(np.log(np.maximum(p, np.exp(TINY))))
    if m.shape[1] == 1:
        pair = [_log_label(loss, s, m[:, 0], v if v is None else v[:, 0]) for s in (-1.0, 1.0)]
        log_p = np.column_stack(pair)
    else:
        log_p = _log_label(loss, 1.0, m, v)
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def _log_label(loss: Loss, label: float, m: Array, v: Array | None) -> Array:
    y = np.full(m.shape, label)
    return -loss.value(y, m) if v is None else loss.log_predictive(y, m, v)


def latent(posterior: Posterior, loss: Loss, inside: Array) -> tuple[Array, Array | None]:
    """Latent mean (q, m), and variance (q, m) or covariance (q, m, m); None for a mode."""
    m = posterior.mean(inside)
    if not posterior.has_spread:
        return m, None
    if m.shape[1] == 1:
        return m, np.maximum(posterior.diag(inside), 1e-300)[:, None]
    blocks = posterior.blocks(inside)
    if loss.response == "multiclass":
        return m, blocks
    return m, np.maximum(np.diagonal(blocks, axis1=1, axis2=2), 1e-300)
