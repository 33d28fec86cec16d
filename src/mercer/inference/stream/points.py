"""Which points of a stream to keep: a pivoted Cholesky factor, by variance left and by stake."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf

from mercer.core.arrays import Array, Index

LEAST = 1e-6  # share of the largest pivot that a kept point must have


@dataclass(frozen=True)
class Kept:
    """The points to keep and to drop, both ascending.

    Attributes
    ----------
    A : (k, d) = K_kk^-1 K_kd.
    V : (d, d) = K_dd - K_dk A, the prior covariance of the dropped given the kept.
    """

    keep: Index
    drop: Index
    A: Array
    V: Array


def chosen(K: Array, stakes: Array, budget: int) -> Kept:
    """Choose at most ``budget`` of N points with prior covariance K (N, N) and stakes (N,) >= 0.

    Greedily, each the one with the largest prior variance left by those before it, times its
    stake: one pivoted Cholesky factor of K, scaled by the roots of the stakes.
    """
    root = np.sqrt(np.maximum(stakes, LEAST * stakes.max()))
    scaled = K * root
    scaled *= root[:, None]
    least = LEAST * scaled.diagonal().max()
    L, order, rank, _ = dpstrf(scaled.T, tol=least, lower=1, overwrite_a=1)
    if rank < 1:  # the prior is zero on all points, and f with it: one of them tells as much as any
        points = np.arange(len(K), dtype=np.intp)
        return Kept(points[:1], points[1:], np.zeros((1, len(K) - 1)), K[1:, 1:].copy())
    k = min(int(rank), budget)
    order = order.astype(np.intp) - 1
    first, last = np.argsort(order[:k]), np.argsort(order[k:])
    keep, drop = order[:k][first], order[k:][last]
    low = np.ascontiguousarray(L[k:, :k][last])
    # with the pivots in order K = L L' / (root root'): K_kk^-1 K_kd = root L_kk^-T L_dk' / root
    A = dtrsm(1.0, L[:k, :k], low.T, lower=1, trans_a=1)[first]
    A *= root[keep][:, None]
    A /= root[drop]
    low /= root[drop][:, None]
    return Kept(keep, drop, A, K[drop].T[drop] - low @ low.T)
