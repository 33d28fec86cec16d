"""Which points of a stream to keep: a pivoted Cholesky factor, by variance left and leverage."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from mercer.arrays import Array, Index
from mercer.inference.sequential_latent import Explicit

LEAST = 1e-6  # share of the largest variance that a kept point must add to those kept before it


def chosen(K: Array, latents: list[Explicit], budget: int) -> tuple[Index, Index, Array]:
    """Return the points to keep and to drop, and K_kk^-1 K_kd: one pivoted Cholesky."""
    leverage = np.mean([np.einsum("ij,ij->i", K, latent.C) for latent in latents], axis=0)
    root = np.sqrt(np.clip(leverage, LEAST, 1.0))
    scaled = K * root[:, None] * root
    L, order, rank, _ = dpstrf(scaled, tol=LEAST * scaled.diagonal().max(), lower=1)
    k = max(1, min(int(rank), budget))
    keep, drop = order[:k] - 1, order[k:] - 1
    # with the pivots in order K = L L' / (root root'): K_kk^-1 K_kd = root L_kk^-T L_dk' / root
    A = solve_triangular(L[:k, :k], L[k:, :k].T, lower=True, trans="T", check_finite=False)
    return keep, drop, root[keep][:, None] * A / root[drop]
