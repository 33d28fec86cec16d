"""Classes of a stream: their signs as labels of functions, and what the functions say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.estimators.shared import labels
from mercer.losses.numbers.averages import log_averaged


def class_logs(mean: Array, var: Array) -> Array:
    """Return log probabilities (q, k) of the classes from latent means and variances (q, m).

    One latent function is two classes; of several each is one class against the rest.
    """
    if mean.shape[1] == 1:  # the less probable class first: the other is what is left of one
        less = log_averaged(-np.abs(mean), var)
        more = np.where(mean == 0.0, less, np.log1p(-np.exp(less)))
        return np.hstack([np.where(mean < 0.0, more, less), np.where(mean < 0.0, less, more)])
    log_p = log_averaged(mean, var)
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def unseen(all_p: Array, log_p: Array, seen: NDArray[np.bool_], codes: Any) -> Array:
    """Return log_p (b, k), where a class is new with what a class not seen yet had.

    all_p (b, k + 1) has it last; classes that are new at the same time share it.
    """
    found, fresh = log_p.copy(), ~seen
    rows = fresh[codes]
    found[np.ix_(rows, fresh)] = all_p[rows, -1:] - np.log(max(int(fresh.sum()), 1))
    return found


def signs(codes: Any, k: int, grow: bool = False) -> Array:
    """Return the labels (b, m) as -1 and +1, one column for each latent function.

    If the classes ``grow``, the last is of classes that were not seen: all are -1.
    """
    if grow and k > 2:
        return labels.one_vs_rest(codes, k + 1)
    if grow:
        return np.column_stack([labels.binary_targets(codes), np.full(len(codes), -1.0)])
    return labels.binary_targets(codes)[:, None] if k == 2 else labels.one_vs_rest(codes, k)
