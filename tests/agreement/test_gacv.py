"""Generalised approximate cross-validation (Xiang and Wahba 1996) beside the cavity of each row.

It stands for the mean loss of left-out rows, a proxy of the generalised comparative
Kullback-Leibler distance (Seeger's thesis, 1.2.4). The cavity has the same first-order step for
each row that GACV averages over all of them, and so has no need of it: decision 0044.
"""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelClassifier
from mercer.kernels import RBF


def mode(K, y):
    """The minimum of sum log(1 + exp(-s f)) + f'K^-1 f / 2 over f (n,), by Newton: its alpha."""
    alpha = np.zeros(len(y))
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-K @ alpha))
        W = p * (1.0 - p)
        alpha = np.linalg.solve(np.eye(len(y)) + W[:, None] * K, W * (K @ alpha) + y - p)
    return alpha


def gacv(K, y, alpha):
    """Mean loss + (tr H / n) sum y (y - p) / (n - tr(W^1/2 H W^1/2)), H = (W + K^-1)^-1."""
    n, f = len(y), K @ alpha
    p = 1.0 / (1.0 + np.exp(-f))
    W = p * (1.0 - p)
    H = K @ np.linalg.inv(np.eye(n) + W[:, None] * K)
    observed = np.mean(np.logaddexp(0.0, f) - y * f)
    return observed + np.trace(H) / n * (y @ (y - p)) / (n - W @ np.diag(H))


def losses(n=50, variance=4.0, scales=(0.4, 0.7, 1.2, 2.0)):
    """Mean left-out loss for each length scale: by refits, by the cavity, by GACV: (s, 3)."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    y = (np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=n) > 0.0).astype(float)
    sign, found = 2.0 * y - 1.0, []
    for scale in scales:
        kernel = variance * RBF(scale)
        K = kernel(X)
        alpha = mode(K, y)
        model = KernelClassifier(kernel, search=None, basis=None).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), K @ alpha, atol=1e-5)
        refit = np.empty(n)
        for r in range(n):
            rest = np.delete(np.arange(n), r)
            refit[r] = K[r, rest] @ mode(K[np.ix_(rest, rest)], y[rest])
        true = np.logaddexp(0.0, -sign * refit).mean()
        cavity = np.logaddexp(0.0, -model.left_out_.margin[:, 0]).mean()
        found.append((true, cavity, gacv(K, y, alpha)))
    return np.array(found)


def test_the_cavity_is_nearer_to_refits_than_gacv():
    true, cavity, averaged = losses().T
    assert np.all(np.abs(cavity - true) < 0.5 * np.abs(averaged - true))
    assert np.argmin(cavity) == np.argmin(true)
    assert np.abs(averaged - true).max() == pytest.approx(0.0, abs=0.15)  # it is a fair proxy
