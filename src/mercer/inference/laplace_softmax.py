"""Laplace for several classes: one joint posterior of all latent functions.

At point i the sites have the precision W_i = w_i (diag(p_i) - p_i p_i') (c, c); their factor is
``linalg.coupled``. Reference: Williams & Barber (1998); GPML section 3.5, algorithm 3.3, with a
line search and an evidence gradient.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from mercer.arrays import Array
from mercer.inference.base import Evidence, Solution
from mercer.inference.laplace_mode import Start, Steps, settle
from mercer.inference.softmax import shared
from mercer.linalg.coupled import CoupledFactor, coupled
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss


def joint_solution(
    gram: Gram,
    y: Array,
    loss: Loss,
    mean: Array | None,
    w: Array,
    start: Solution | None,
    tol: float,
    max_iter: int,
) -> Solution:
    """Return alpha (n, c), W = w p (n, c), z = f (n, c) for class numbers y (n, 1)."""
    n, classes = len(y), int(y.max()) + 1
    offset = np.zeros((n, classes)) if mean is None else mean
    starts = []
    if start is not None and start.W.shape == offset.shape:
        h = start.alpha + times(start.W, start.z - offset)
        starts = [Start(start.W, h)]
    steps = Steps(gram, lambda D: coupled(gram, D), lambda D: D, cost=classes + 1)
    local = shared(loss, y[:, 0], w, classes)
    state, factor, D, report = settle(gram, local, offset, steps, starts, tol, max_iter)
    return Solution(state.a, D, state.f, factor, None, w, report)


def times(D: Array, f: Array) -> Array:
    """W f for D = w p and f, both (n, c)."""
    return np.asarray(D * f - D * ((D * f).sum(axis=1) / D.sum(axis=1))[:, None])


def joint_evidence(gram: Gram, y: Array, loss: Loss, solution: Solution) -> Evidence:
    """Return E and U, V (n, c) of formula (3).

    E = -sum_i w_i g - 1/2 sum_c a_c'K a_c - 1/2 log|I + K W| (GPML 3.44). With Sigma_i the (c, c)
    posterior covariance at point i, s = 1/2 d log|I + K W| / df at fixed Sigma:

        s_ic = w_i p_c / 2 [Sigma_cc - sum_k p_k Sigma_kk - 2 ((Sigma p)_c - p'Sigma p)]
    """
    a, f, w, factor = solution.alpha, solution.z, solution.weights, solution.factor
    assert isinstance(factor, CoupledFactor)
    value = -float(w @ loss.value(y[:, 0], f)) - 0.5 * float(np.vdot(a, np.asarray(gram @ a)))
    value -= 0.5 * factor.logdet()
    p, Sigma = softmax(f, axis=1), factor.point_blocks(gram)
    own = np.diagonal(Sigma, axis1=1, axis2=2)
    Sp = np.einsum("ice,ie->ic", Sigma, p)
    inner = own - 2.0 * Sp
    s = 0.5 * w[:, None] * p * (inner - (p * inner).sum(axis=1, keepdims=True))
    z = s - factor.solve(np.asarray(gram @ s))
    return Evidence(value, -z, a)
