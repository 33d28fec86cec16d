"""The Laplace approximation again, slow and obvious: a general minimiser, dense inverses."""

from __future__ import annotations

import numpy as np
from scipy.optimize import root
from scipy.special import softmax


def evidence(K, loss, y, f0, weights=None, mean=0.0):
    """log evidence, mode and posterior covariance of one latent function, begun near f0 (n,).

    The mode is a root of w g'(f) + K^-1 (f - mean), found by a general solver; K must be regular.
    """
    w = np.ones(len(y)) if weights is None else weights
    Ki = np.linalg.inv(K)

    def gradient(f):
        return w * loss.derivatives(y, f)[0] + Ki @ (f - mean)

    def jacobian(f):
        return Ki + np.diag(w * loss.derivatives(y, f)[1])

    f = root(gradient, f0, jac=jacobian, tol=1e-14).x
    f = f - np.linalg.solve(jacobian(f), gradient(f))
    precision = jacobian(f)
    assert np.linalg.eigvalsh(precision)[0] > 0, "not a maximum of the posterior"
    value = -w @ loss.value(y, f) - 0.5 * (f - mean) @ Ki @ (f - mean)
    value -= 0.5 * (np.linalg.slogdet(K)[1] + np.linalg.slogdet(precision)[1])
    return float(value), f, np.linalg.inv(precision)


def softmax_sites(f, w):
    """W (nc, nc) of a softmax at f (n, c), class by class: w_i (diag(p_i) - p_i p_i')."""
    n, c = f.shape
    p, W = softmax(f, axis=1), np.zeros((n * c, n * c))
    for i in range(n):
        index = i + n * np.arange(c)
        W[np.ix_(index, index)] = w[i] * (np.diag(p[i]) - np.outer(p[i], p[i]))
    return W


def softmax_evidence(K, y, weights, mean, classes):
    """log evidence, mode (n, c) and covariance (nc, nc), class by class; y (n,) class numbers."""
    n = len(y)
    own = np.eye(classes)[y.astype(int)]
    big = np.kron(np.eye(classes), K)
    Ki = np.linalg.inv(big)

    def gradient(v):
        f = v.reshape(classes, n).T
        return (weights[:, None] * (softmax(f, axis=1) - own)).T.ravel() + Ki @ (v - mean.T.ravel())

    def jacobian(v):
        return Ki + softmax_sites(v.reshape(classes, n).T, weights)

    v = root(gradient, mean.T.ravel(), jac=jacobian, tol=1e-14).x
    v = v - np.linalg.solve(jacobian(v), gradient(v))
    f, r = v.reshape(classes, n).T, v - mean.T.ravel()
    chosen = np.log(softmax(f, axis=1))[np.arange(n), y.astype(int)]
    W = softmax_sites(f, weights)
    value = weights @ chosen - 0.5 * r @ Ki @ r
    value -= 0.5 * np.linalg.slogdet(np.eye(n * classes) + big @ W)[1]
    return float(value), f, np.linalg.inv(Ki + W)
