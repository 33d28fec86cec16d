"""Slow and obvious versions of what losses do: dense sums and refined grids."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from mercer.core.arrays import Array
from mercer.losses.base import Loss

NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)


def dense_grid(
    m: float, v: float, kinks: list[float], reach: float, panels: int = 8_000
) -> tuple[Array, Array]:
    """Nodes and weights of short panels over m +- reach s, shorter near 0, cut at the kinks."""
    s = np.sqrt(v)
    cuts = np.linspace(m - reach * s, m + reach * s, panels + 1)
    fine = np.concatenate([np.linspace(-60, 60, 6001), kinks])
    inside = fine[(cuts[0] < fine) & (fine < cuts[-1])]
    cuts = np.sort(np.concatenate([cuts, inside]))
    half = 0.5 * np.diff(cuts)[:, None]
    nodes = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * NODES
    return nodes.ravel(), (half * WEIGHTS).ravel()


def kinks_of(loss: Loss, y: float) -> list[float]:
    """Where in f a derivative of the loss jumps, for one target."""
    return [float(k) for k in np.reshape(loss.kinks(np.array([y])), -1)]


def tilted(loss: Loss, y: float, m: float, v: float) -> tuple[float, float, float]:
    """log Z and its derivatives in m, from the tilted mean and variance."""
    f, w = dense_grid(m, v, kinks_of(loss, y), 40.0)
    at: Any = np.float64(y)
    log_density = -loss.value(at, f) - (f - m) ** 2 / (2 * v)
    log_density -= 0.5 * np.log(2 * np.pi * v)
    top = log_density.max()
    w = w * np.exp(np.maximum(log_density - top, -700))
    total = w.sum()
    mean = w @ (f - m) / total
    spread = w @ (f - m - mean) ** 2 / total
    return float(np.log(total) + top), float(mean / v), float((spread - v) / v**2)


def expected(
    loss: Loss, y: float, m: float, v: float, reach: float = 12.0
) -> tuple[float, float, float]:
    """E[g], dE/dm and dE/dv by Stein's identities: the Gaussian is differentiated, not the loss."""
    f, w = dense_grid(m, v, kinks_of(loss, y), reach)
    w = w * np.exp(-((f - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    at: Any = np.float64(y)
    g = loss.value(at, f)
    t = (f - m) ** 2 / v
    return float(w @ g), float(w @ (g * (f - m)) / v), float(w @ (g * (t - 1)) / (2 * v))


def conjugate(loss: Loss, y: float, u: float, low: float = -60.0, high: float = 60.0) -> float:
    """sup_f u f - g(y, f) by a grid and then a bounded minimiser around its best point."""
    f = np.linspace(low, high, 24_001)
    at: Any = np.float64(y)

    def height(x: float) -> float:
        point: Any = np.float64(x)
        return float(loss.value(at, point)) - u * x

    best = float(f[np.argmax(u * f - loss.value(at, f))])
    step = float(f[1] - f[0])
    found = optimize.minimize_scalar(
        height, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-12}
    )
    return -float(found.fun)
