"""One probability for each of k classes from those of all pairs (Wu, Lin & Weng 2004).

A machine for each pair of classes says r_ij, the probability of class i if it is i or j. Those of
all pairs seldom belong to one p with r_ij = p_i / (p_i + p_j); the second method of the paper takes
the p that comes closest,

    minimise  sum_i sum_{j != i} (r_ji p_i - r_ij p_j)^2,   sum p = 1,   p >= 0         (21)

It is a linear system, [Q 1; 1' 0] (p, b) = (0, 1) with Q_ii = sum_{s != i} r_si^2 and
Q_ij = -r_ji r_ij, because its solution is never negative (theorem 3).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array

LEAST = 1e-7  # what a pair says is taken to be this far from 0 and 1, as LIBSVM does


def couple_pairs(r: Any) -> Array:
    """Return the probabilities p (q, k) of k classes from those of pairs, r (q, k, k).

    ``r[:, i, j]`` is the probability of class i if it is i or j; r_ij + r_ji = 1, and the diagonal
    is not read. Values are taken to be at least 1e-7 away from 0 and 1. Where they belong to one p,
    that is the answer.

    Examples
    --------
    >>> p = np.array([[0.5, 0.3, 0.2]])
    >>> couple_pairs(p[:, :, None] / (p[:, :, None] + p[:, None, :])).round(6)
    array([[0.5, 0.3, 0.2]])
    """
    r = np.asarray(r, dtype=np.float64)
    k = r.shape[-1]
    if r.ndim != 3 or r.shape[1] != k or k < 2:
        raise ValueError(f"couple_pairs needs r (q, k, k) of at least two classes, not {r.shape}")
    off = ~np.eye(k, dtype=bool)
    if not np.all((r[:, off] >= 0.0) & (r[:, off] <= 1.0)):
        raise ValueError(
            "couple_pairs needs probabilities between 0 and 1 for each pair of classes"
        )
    if not np.allclose((r + r.transpose(0, 2, 1))[:, off], 1.0, rtol=0.0, atol=1e-6):
        raise ValueError("couple_pairs needs r[:, i, j] + r[:, j, i] = 1 for each pair of classes")
    r = np.where(off, np.clip(r, LEAST, 1.0 - LEAST), 0.0)
    system = np.zeros((len(r), k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1)
    system[:, np.arange(k), np.arange(k)] = (r**2).sum(axis=1)
    system[:, :k, k] = system[:, k, :k] = 1.0
    right = np.zeros((len(r), k + 1, 1))
    right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :k, 0], 0.0)  # rounding, and no more
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def pairwise_proba(machine: Any, X: Any) -> Array:
    """Return the probabilities (q, k) of scikit-learn's OneVsOneClassifier at X (q, d).

    ``machine`` is fitted, and so are its estimators, one for each pair of ``classes_``, which must
    have ``predict_proba``. Their probabilities are coupled by :func:`couple_pairs`;
    ``machine.predict``, which counts votes, may differ from the most probable class.

    Examples
    --------
    >>> from sklearn.multiclass import OneVsOneClassifier
    >>> from mercer import KernelClassifier
    >>> X, y = np.arange(12.0)[:, None], np.repeat(["a", "b", "c"], 4)
    >>> machine = OneVsOneClassifier(KernelClassifier()).fit(X, y)
    >>> pairwise_proba(machine, X[[0, 6, 11]]).argmax(axis=1)
    array([0, 1, 2])
    """
    check_is_fitted(machine, "estimators_")
    k, members, columns = len(machine.classes_), machine.estimators_, machine.pairwise_indices_
    if not all(hasattr(one, "predict_proba") for one in members):
        raise ValueError(
            f"{type(members[0]).__name__} gives no probabilities to couple; use e.g. "
            "KernelClassifier(), GPClassifier() or SVC(probability='loo')"
        )
    table = np.asarray(X)
    r = np.zeros((len(table), k, k))
    for t, (i, j) in enumerate(combinations(range(k), 2)):  # the order of scikit-learn
        seen = table if columns is None else table[:, columns[t]]
        # a member's classes are 0 for i and 1 for j
        r[:, i, j], r[:, j, i] = np.asarray(members[t].predict_proba(seen)).T
    return couple_pairs(r)
