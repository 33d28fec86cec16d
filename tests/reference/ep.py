"""Expectation propagation, slow and obvious: one site at a time, dense inverses, damped."""

from __future__ import annotations

import numpy as np
from scipy import integrate

from mercer.losses import Loss


def sequential(K, y, loss: Loss, mean, sweeps=300, damp=1.0, tol=1e-11):
    """Return h, W (n,) of the sites (f from the mean), mu (n,) and Sigma (n, n) at the fixed point.

    A row given twice is two rows of K: this version knows no weights.
    """
    n = len(y)
    prior = np.linalg.inv(K + 1e-12 * np.diag(np.diag(K)))
    h, W = np.zeros(n), np.zeros(n)
    Sigma, mu = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        before = np.concatenate([h, W])
        for i in range(n):
            v = 1.0 / (1.0 / Sigma[i, i] - W[i])
            m = v * (mu[i] / Sigma[i, i] - h[i])
            _, b, c = (float(x) for x in loss.tilted(y[i], mean[i] + m, v))
            # moments of the tilted density; the site is what turns the cavity into them
            new_v, new_m = v + v**2 * c, m + v * b
            W[i] += damp * (1.0 / new_v - 1.0 / v - W[i])
            h[i] += damp * (new_m / new_v - m / v - h[i])
            Sigma = np.linalg.inv(prior + np.diag(W))
            mu = Sigma @ h
        if np.abs(np.concatenate([h, W]) - before).max() < tol:
            break
    return h, W, mu, Sigma


def log_evidence(K, y, loss: Loss, mean, h, W, mu, Sigma):
    """Z_EP as in the text books: tilted normalisers, cavities, sites, and the Gaussian integral."""
    total = 0.5 * np.linalg.slogdet(Sigma @ np.linalg.inv(K))[1] + 0.5 * h @ mu
    for i in range(len(y)):
        v = 1.0 / (1.0 / Sigma[i, i] - W[i])
        m = v * (mu[i] / Sigma[i, i] - h[i])
        log_z = float(loss.tilted(y[i], mean[i] + m, v)[0])
        site = -0.5 * np.log1p(W[i] * v)
        site += (h[i] ** 2 * v + 2.0 * h[i] * m - W[i] * m**2) / (2.0 * (1.0 + W[i] * v))
        total += log_z - site
    return total


def exact_two(K, y, loss: Loss):
    """log of the 2-d integral of exp(-g1 - g2) N(f | 0, K), by nested adaptive quadrature."""
    P = np.linalg.inv(K)
    constant = -np.log(2.0 * np.pi) - 0.5 * np.linalg.slogdet(K)[1]
    ends = 9.0 * np.sqrt(np.diag(K))

    def density(f2, f1):
        f = np.array([f1, f2])
        loss_part = sum(float(loss.value(t, u)) for t, u in zip(y, f, strict=True))
        return np.exp(constant - 0.5 * f @ P @ f - loss_part)

    def inner(f1):
        centre = K[0, 1] / K[0, 0] * f1
        width = 9.0 * np.sqrt(K[1, 1] - K[0, 1] ** 2 / K[0, 0])
        edges = np.unique(np.clip([-1.0, 0.0, 1.0], centre - width, centre + width))
        return integrate.quad(
            density, centre - width, centre + width, args=(f1,), points=edges, epsabs=1e-11
        )[0]

    value = integrate.quad(inner, -ends[0], ends[0], points=[-1.0, 0.0, 1.0], epsabs=1e-9)[0]
    return np.log(value)


def importance(K, y, loss: Loss, mu, Sigma, rng, draws=40_000, df=6.0):
    """log of the evidence and its standard error: draws from q with t tails, reweighted."""
    n = len(y)
    L = np.linalg.cholesky(Sigma)
    e = rng.standard_normal((draws, n))
    s = np.sqrt(rng.chisquare(df, draws) / df)
    u = e / s[:, None]
    f = mu + u @ L.T
    from scipy.special import gammaln

    log_q = gammaln(0.5 * (df + n)) - gammaln(0.5 * df) - 0.5 * n * np.log(df * np.pi)
    log_q = log_q - np.log(np.diag(L)).sum() - 0.5 * (df + n) * np.log1p((u**2).sum(axis=1) / df)
    half = np.linalg.solve(np.linalg.cholesky(K), f.T)
    log_p = -0.5 * (half**2).sum(axis=0) - 0.5 * n * np.log(2 * np.pi)
    log_p -= 0.5 * np.linalg.slogdet(K)[1]
    log_w = log_p - sum(loss.value(y[i], f[:, i]) for i in range(n)) - log_q
    top = log_w.max()
    w = np.exp(log_w - top)
    return top + np.log(w.mean()), w.std() / w.mean() / np.sqrt(draws)
