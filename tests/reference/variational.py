"""Variational Gaussians the slow way: dense inverses, sampling, and competing bounds."""

from __future__ import annotations

import numpy as np
from scipy import special, stats


def free_energy(K, y, w, loss, mean, mu, sigma) -> float:
    """F of N(mu, sigma) by thesis (4.7), with K^-1 and the determinants written out."""
    n, inverse, r = len(y), np.linalg.inv(K), mu - mean
    average = loss.expected(y, mu, np.diagonal(sigma).copy())[0]
    value = w @ average + 0.5 * r @ inverse @ r + 0.5 * np.trace(inverse @ sigma)
    value += 0.5 * np.linalg.slogdet(K)[1] - 0.5 * np.linalg.slogdet(sigma)[1]
    return float(value - 0.5 * n)


def evidence_by_sampling(K, y, loss, mu, sigma, rng, count=200_000) -> tuple[float, float]:
    """Log evidence and its standard error by importance sampling from N(mu, 1.3 sigma)."""
    proposal = stats.multivariate_normal(mu, 1.3 * sigma, allow_singular=True)
    f = proposal.rvs(count, random_state=rng)
    prior = stats.multivariate_normal(np.zeros(len(y)), K)
    logs = prior.logpdf(f) - proposal.logpdf(f) - loss.value(y[None], f).sum(axis=1)
    top = logs.max()
    weights = np.exp(logs - top)
    error = weights.std() / np.sqrt(count) / weights.mean()
    return float(top + np.log(weights.mean())), float(error)


def evidence_of_two(K, y, loss, nodes=801) -> float:
    """Log evidence of n = 2 points on a grid of whitened coordinates."""
    t = np.linspace(-9.0, 9.0, nodes)
    z = np.array(np.meshgrid(t, t, indexing="ij")).reshape(2, -1)
    f = np.linalg.cholesky(K) @ z
    logs = -loss.value(y[:, None], f).sum(axis=0) - 0.5 * (z**2).sum(axis=0) - np.log(2 * np.pi)
    return float(special.logsumexp(logs) + 2.0 * np.log(t[1] - t[0]))


def jaakkola(K, y, steps=3000) -> float:
    """F of the quadratic bound for the logistic loss, by expectation maximisation."""
    n, xi = len(y), np.ones(len(y))
    for _ in range(steps):
        lam = np.tanh(0.5 * xi) / (4.0 * xi)
        sigma = K @ np.linalg.inv(np.eye(n) + 2.0 * lam[:, None] * K)
        mu = 0.5 * sigma @ y
        xi = np.sqrt(mu**2 + np.diagonal(sigma))
    lam = np.tanh(0.5 * xi) / (4.0 * xi)
    sigma = K @ np.linalg.inv(np.eye(n) + 2.0 * lam[:, None] * K)
    mu = 0.5 * sigma @ y
    value = np.sum(np.logaddexp(0.0, -xi) + 0.5 * xi - lam * xi**2) - 0.25 * y @ mu
    return float(value + 0.5 * np.linalg.slogdet(np.eye(n) + 2.0 * lam[:, None] * K)[1])


def normaliser_bound(mu, v, C=1.0):
    """Upper bound on E log Z of the normalised hinge, thesis C.2.3: B1 + B2 + B3."""
    mu, s = np.asarray(mu, dtype=float), np.sqrt(v)

    def outer(m):
        log_mass = special.log_ndtr((-1.0 - m) / s)
        exponent = C * (m - 1.0) + 0.5 * C**2 * v + special.log_ndtr((-1.0 - C * v - m) / s)
        return np.exp(log_mass) * np.logaddexp(0.0, exponent - log_mass)

    low, high = (-1.0 - mu) / s, (1.0 - mu) / s
    right = low > 0
    inside = np.where(
        right, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low)
    )
    density = [stats.norm.pdf(x, mu, s) for x in (-1.0, 1.0)]
    moment = v * ((mu - 1.0) * density[0] - (mu + 1.0) * density[1])
    second = np.clip(mu**2 + v + moment / np.maximum(inside, 1e-300), 0.0, 1.0)
    xi = 2.0 * C * np.sqrt(second)
    middle = inside * (np.logaddexp(0.5 * xi, -0.5 * xi) - C)
    return outer(mu) + middle + outer(-mu)
