"""From latent means and variances to the probability of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mercer.core.arrays import Array, Index
from mercer.estimators.shared.labels import decided
from mercer.losses.base import Loss
from mercer.process.process import Process

TINY = float(np.log(np.finfo(float).tiny))
SMALLEST = 1e-300  # stands for a latent variance of zero, where an average is the value at m


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
    labels: tuple[float, ...] = (1.0,)
    v = None if v is None else np.maximum(v, SMALLEST)
    if m.shape[1] == 1:
        labels, m, v = (-1.0, 1.0), m[:, 0], None if v is None else v[:, 0]
    targets = [np.full(m.shape, label) for label in labels]
    log_p = np.column_stack(
        [-loss.value(y, m) if v is None else loss.log_predictive(y, m, v) for y in targets]
    )
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def sides_of_means(
    posteriors: Sequence[Process], losses: list[Loss], inside: Array
) -> Index | None:
    """Return the more probable of two classes, 0 or 1 (q,), where only the means are known.

    A loss that treats both labels alike gives the label of the sign of the mean, whatever the
    variance. None where the variances are known, or are needed: for several classes, for labels
    that are not alike, and for committees whose members differ.
    """
    if all(not p.has_spread or p.variance_known_at(inside) for p in posteriors):
        return None
    means = [p.mean(inside) for p in posteriors]
    zero = np.zeros(1)
    alike = all(
        loss.response == "binary"
        and np.allclose(loss.value(zero + 1.0, zero), loss.value(zero - 1.0, zero))
        for loss in losses
    )
    sides = np.array([m[:, 0] > 0.0 for m in means])
    if means[0].shape[1] > 1 or not alike or np.any(sides != sides[0]):
        return None
    return np.asarray(sides[0].astype(np.intp))


def latent(
    posterior: Process, loss: Loss, inside: Array, noise: bool = True
) -> tuple[Array, Array | None]:
    """Latent mean (q, m), and variance (q, m) or covariance (q, m, m); None for a mode.

    ``noise``: what a new observation sees, noise parts of the kernel included; else the signal.
    """
    m = posterior.mean(inside)
    if not posterior.has_spread:
        return m, None
    if not posterior.variance_known_at(inside):
        raise ValueError(
            "the kernel values of new points with the training points do not say how the new "
            "points vary, and a probability needs that: for all points give Precomputed(matrix), "
            "and row numbers of it as X; or predict with the mode, discriminant='mode'; of two "
            "classes predict(X) gives the more probable one without"
        )
    extra = posterior.noise(inside) if noise else np.zeros(len(inside))
    if m.shape[1] == 1:
        return m, (posterior.var(inside) + extra)[:, None]
    blocks = posterior.blocks(inside) + extra[:, None, None] * np.eye(m.shape[1])
    if loss.response == "multiclass":
        return m, blocks
    return m, np.maximum(np.diagonal(blocks, axis1=1, axis2=2), 0.0)  # rounding: -1e-16 of K_ii


def mixed(pairs: Sequence[tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
    """Mean and variance of equal shares of members, each with its own; no variance of a mode."""
    means = np.array([m for m, _ in pairs])
    mean, each = np.asarray(means.mean(axis=0)), [v for _, v in pairs if v is not None]
    return mean, np.mean(each, axis=0) + means.var(axis=0) if each else None


class Classifies(ClassifierMixin):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier that decides by a score: a child states ``decision_function``."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Array:
        """Return (q,) for two classes, positive for the second; (q, k) for more, largest wins."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d): shape (q,)."""
        scores = self.decision_function(X)
        return decided(self.classes_, scores)
