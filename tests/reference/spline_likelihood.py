"""Slow and obvious splines with any likelihood: dense matrices, undamped steps, plain grids."""

from __future__ import annotations

import numpy as np

from tests.reference.spline import dense

LOG_2PI = np.log(2.0 * np.pi)


def gaussian_evidence(x, z, W, m, variance):
    """log of the integral of N(z; f, 1/W) over f and its polynomial: GPML (2.45)."""
    _, _, logdet, quadratic, _ = dense(x, z, W, m, 1.0 / variance)
    return -0.5 * (quadratic + logdet + (len(x) - m) * LOG_2PI)


def log_normal(z, mean, var):
    return -0.5 * (np.log(2.0 * np.pi * var) + (z - mean) ** 2 / var)


def laplace(loss, x, y, w, m, variance, steps=200):
    """Mode, variances and evidence; each step moves half the way if the whole is worse.

    The evidence is that of section 4.7: the likelihood in place of the working targets' density.
    """

    def bent(f):
        if loss.convex:
            return w * loss.derivatives(y, f)[1]
        return w * np.full(len(f), (loss.df + 1.0) / ((loss.df + 3.0) * loss.scale**2))

    f = dense(x, loss.centers(y).mean(axis=0), np.ones(len(x)), m, 1.0 / variance)[0]
    for _ in range(steps):
        W = bent(f)
        z = f - w * loss.derivatives(y, f)[0] / W
        new = dense(x, z, W, m, 1.0 / variance)[0]
        change = np.abs(new - f).max()
        f = new if change < 2.0 else f + (new - f) / change
        if change < 1e-12:
            break
    W = bent(f)
    z = f - w * loss.derivatives(y, f)[0] / W
    f, var, *_ = dense(x, z, W, m, 1.0 / variance)
    value = -(w @ loss.value(y, f)) - log_normal(z, f, 1.0 / W).sum()
    return f, var, value + gaussian_evidence(x, z, W, m, variance)


def ep(loss, x, y, w, m, variance, sweeps=400):
    """Mean, variances and evidence of EP: moments on grids of 1401 points, damped by half."""
    f, var, _ = laplace(loss, x, y, w, m, variance)
    W = w * loss.derivatives(y, f)[1]
    z = f - w * loss.derivatives(y, f)[0] / W
    steps = np.linspace(-14.0, 14.0, 1401)
    for _ in range(sweeps):
        f, var, *_ = dense(x, z, W, m, 1.0 / variance)
        v = 1.0 / (1.0 / var - W)
        c = v * (f / var - W * z)
        t = c[:, None] + np.sqrt(v)[:, None] * steps
        logs = -w[:, None] * loss.value(y[:, None], t) - 0.5 * steps**2
        top = logs.max(axis=1, keepdims=True)
        p = np.exp(logs - top)
        total = p.sum(axis=1)
        mean = (p * t).sum(axis=1) / total
        spread = (p * (t - mean[:, None]) ** 2).sum(axis=1) / total
        fresh = 1.0 / spread - 1.0 / v
        h = 0.5 * (mean / spread - c / v + W * z)
        moved = np.abs(fresh - W).max()
        W = 0.5 * (W + fresh)
        z = h / W
        if moved < 1e-13:
            break
    log_z = top[:, 0] + np.log(total * (steps[1] - steps[0])) - 0.5 * LOG_2PI
    # the scale of a site: it makes the tilted normaliser right under its own cavity
    scale = log_z - log_normal(z, c, v + 1.0 / W)
    return f, var, scale.sum() + gaussian_evidence(x, z, W, m, variance)
