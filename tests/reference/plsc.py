"""Probabilistic least-squares classification again, slow and obvious: refits and quadrature.

H is (n, k); y holds -1 and +1. GPML section 6.5.1.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from tests.reference import gp


def probability(y, mu, s, a, c):
    """int Phi(y (a f + c)) N(f | mu, s) df, the integral of (6.42)."""
    sd = np.sqrt(s)
    points = sorted({float(np.clip(-c / a, mu - 10 * sd, mu + 10 * sd)), mu})
    return quad(
        lambda f: norm.cdf(y * (a * f + c)) * norm.pdf(f, mu, sd),
        mu - 12 * sd,
        mu + 12 * sd,
        points=points,
        epsabs=1e-13,
        epsrel=1e-13,
        limit=400,
    )[0]


def objective(K, y, noise, tau, b, H=None, latent=False):
    """sum_i log Phi(y_i (mu_i + b) / sqrt(tau^2 + s_i)), each mu_i, s_i from a fit without i."""
    mean, variance, _ = gp.leave_one_out(K + noise * np.eye(len(y)), y, H)
    s = variance - noise if latent else variance
    return float(norm.logcdf(y * (mean + b) / np.sqrt(tau**2 + s)).sum())


def book_gradient(K, dK, y, noise, a, c):
    """GPML (6.43), (6.44), (5.13) literally: d/d alpha, d/d beta and d/d theta_j for each dK_j."""
    Ki = np.linalg.inv(K + noise * np.eye(len(y)))
    alpha, d = Ki @ y, np.diagonal(Ki)
    mu, s = y - alpha / d, 1 / d
    root = np.sqrt(1 + a**2 * s)
    r = (a * mu + c) / root
    rho = y * np.exp(norm.logpdf(r) - norm.logcdf(y * r))
    by_a = np.sum(rho / root * (mu - a * s * (a * mu + c) / (1 + a**2 * s)))
    by_c = np.sum(rho / root)
    by_theta = []
    for D in dK:
        Z = Ki @ D
        zk = np.diagonal(Z @ Ki)
        dmu = (Z @ alpha) / d - alpha * zk / d**2
        ds = zk / d**2
        by_theta.append(
            np.sum(rho / root * (a * dmu - a**2 * (a * mu + c) / (2 * (1 + a**2 * s)) * ds))
        )
    return by_a, by_c, np.array(by_theta)
