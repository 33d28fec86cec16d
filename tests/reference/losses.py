"""Slow and obvious versions of what losses do: dense sums, refined grids, one integral a class."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
from scipy import optimize

NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)


def dense_grid(m, v, kinks, reach, panels=8_000):
    """Nodes and weights of short panels over m +- reach s, shorter near 0, cut at the kinks."""
    s = np.sqrt(v)
    cuts = np.linspace(m - reach * s, m + reach * s, panels + 1)
    fine = np.concatenate([np.linspace(-60, 60, 6001), kinks])
    inside = fine[(cuts[0] < fine) & (fine < cuts[-1])]
    cuts = np.sort(np.concatenate([cuts, inside]))
    half = 0.5 * np.diff(cuts)[:, None]
    nodes = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * NODES
    return nodes.ravel(), (half * WEIGHTS).ravel()


def kinks_of(loss, y):
    return [float(k) for k in np.reshape(loss.kinks(np.array([y])), -1)]


def tilted(loss, y, m, v):
    """log Z and its derivatives in m, from the tilted mean and variance."""
    f, w = dense_grid(m, v, kinks_of(loss, y), 40.0)
    log_density = -loss.value(y, f) - (f - m) ** 2 / (2 * v) - 0.5 * np.log(2 * np.pi * v)
    top = log_density.max()
    w = w * np.exp(np.maximum(log_density - top, -700))
    total = w.sum()
    mean = w @ (f - m) / total
    spread = w @ (f - m - mean) ** 2 / total
    return np.log(total) + top, mean / v, (spread - v) / v**2


def expected(loss, y, m, v, reach=12.0):
    """E[g], dE/dm and dE/dv by Stein's identities: the Gaussian is differentiated, not the loss."""
    f, w = dense_grid(m, v, kinks_of(loss, y), reach)
    w = w * np.exp(-((f - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    g = loss.value(y, f)
    t = (f - m) ** 2 / v
    return w @ g, w @ (g * (f - m)) / v, w @ (g * (t - 1)) / (2 * v)


def conjugate(loss, y, u, low=-60.0, high=60.0):
    """sup_f u f - g(y, f) by a grid and then a bounded minimiser around its best point."""
    f = np.linspace(low, high, 24_001)
    best = f[np.argmax(u * f - loss.value(y, f))]
    step = f[1] - f[0]
    found = optimize.minimize_scalar(
        lambda x: float(loss.value(y, np.float64(x))) - u * x,
        bounds=(best - step, best + step),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return -found.fun


def mills(z, terms=4000):
    """r = N/Phi at z < 0 and two derivatives in 60 digits, by the continued fraction of Laplace."""
    with localcontext() as context:
        context.prec = 60
        x, rest = Decimal(-z), Decimal(0)
        for k in range(terms, 0, -1):
            rest = Decimal(k) / (x + rest)
        r = x + rest
        return [float(n) for n in (r, -r * rest, r * (rest * rest + r * rest - 1))]


def softmax_probabilities(m, v):
    """E softmax(f) for independent f_j ~ N(m_j, v_j), by the Gumbel trick.

    softmax_k is the probability that f_k plus Gumbel noise is the largest: one integral over the
    winning value x, of its density times the other distribution functions.
    """
    m, s = np.asarray(m), np.sqrt(np.asarray(v))
    span = 9.0 * s.max()
    x = np.linspace(m.min() - span - 6, m.max() + span + 40, 1001)
    t = np.linspace(-8.5, 8.5, 401)
    weight = np.exp(-(t**2) / 2)
    weight /= weight.sum()
    cdf, pdf = [], []
    for mj, sj in zip(m, s, strict=True):
        r = x[:, None] - mj - sj * t
        e = np.exp(-np.maximum(r, -600))
        cdf.append(np.exp(-e) @ weight)
        pdf.append(np.exp(-r - e) @ weight)
    cdf, pdf = np.array(cdf), np.array(pdf)
    out = [
        np.trapezoid(pdf[k] * np.prod(np.delete(cdf, k, axis=0), axis=0), x) for k in range(len(m))
    ]
    return np.array(out)
