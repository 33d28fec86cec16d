"""The contract of a loss with one latent function for each class."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.testing.clauses import close, holds

H = 1e-5


def check_classes(loss: Loss, y: Array) -> None:
    """Check value, three derivatives, conjugate, probabilities and draws of such a loss."""
    rng = np.random.default_rng(0)
    c = int(y.max()) + 1
    c = max(c, 3)
    y = y[:6]
    f = rng.normal(size=(len(y), c))
    g = loss.value(y, f)
    holds("softmax", np.shape(g) == y.shape, "value(y, f) must be (n,) for f (n, c)")
    _check_derivatives(loss, y, f)
    far = np.tile([1e3, -1e3, 0.0], (len(y), 1))
    calm = np.all(np.isfinite(loss.value(np.minimum(y, 2.0), far)))
    holds("softmax far out", calm, "the loss must be finite at f = +-1000")
    bend = np.linalg.eigvalsh(loss.derivatives(y, f)[1])
    if loss.convex:
        holds("softmax convex", np.all(bend >= -1e-12), "no curvature may be negative")
    if loss.offers("conjugate"):
        _check_conjugate(loss, y, f)
    if loss.normalised:
        _check_probabilities(loss, f)


def _check_derivatives(loss: Loss, y: Array, f: Array) -> None:
    d1, d2, d3 = loss.derivatives(y, f)
    n, c = f.shape
    shapes = d1.shape == (n, c) and d2.shape == (n, c, c) and d3.shape == (n, c, c, c)
    holds("softmax", shapes, "derivatives are (n, c), (n, c, c) and (n, c, c, c)")
    for j in range(c):
        e = H * np.eye(c)[j]
        up, down = loss.derivatives(y, f + e), loss.derivatives(y, f - e)
        first = (loss.value(y, f + e) - loss.value(y, f - e)) / (2 * H)
        close("softmax first derivative", d1[:, j], first, 0.0, 1e-9, f"in latent {j}")
        second = (up[0] - down[0]) / (2 * H)
        close("softmax second derivative", d2[..., j], second, 0.0, 1e-9, f"in latent {j}")
        third = (up[1] - down[1]) / (2 * H)
        close("softmax third derivative", d3[..., j], third, 0.0, 1e-9, f"in latent {j}")


def _check_conjugate(loss: Loss, y: Array, f: Array) -> None:
    d1 = loss.derivatives(y, f)[0]
    gap = loss.value(y, f) + loss.conjugate(y, d1) - np.sum(d1 * f, axis=1)
    close("softmax conjugate", gap, np.zeros(len(y)), 0.0, 1e-12, "g + g* = u'f at the slope u")
    outside = d1 + 0.1 * np.eye(f.shape[1])[0]
    infinite = np.all(loss.conjugate(y, outside) == np.inf)
    holds("softmax conjugate", infinite, "it is infinite where u does not sum to zero")


def _check_probabilities(loss: Loss, f: Array) -> None:
    n, c = f.shape
    p = np.array([np.exp(-loss.value(np.full(n, float(k)), f)) for k in range(c)]).T
    close("softmax normalised", p.sum(axis=1), np.ones(n), 0.0, 1e-12, "probabilities sum to one")
    rng = np.random.default_rng(1)
    m, v = rng.normal(size=(3, c)), rng.uniform(0.2, 2.0, (3, c))
    found = loss.predict(m, v)
    holds("softmax predict", np.shape(found) == (3, c), "predict(m, v) must be (n, c)")
    close("softmax predict", found.sum(axis=1), np.ones(3), 0.0, 1e-9, "it must sum to one")
    draws = rng.standard_normal((100_000, c))
    draws = np.vstack([draws, -draws])
    for i in range(3):
        latent = m[i] + np.sqrt(v[i]) * draws
        each = [np.exp(-loss.value(np.full(len(latent), float(k)), latent)) for k in range(c)]
        average = np.array([e.mean() for e in each])
        close("softmax predict", found[i], average, 0.0, 4e-3, "the average over the latents")
    y = np.zeros(3)
    logs = loss.log_predictive(y, m, v)
    close("softmax log_predictive", logs, np.log(found[:, 0]), 1e-10, 1e-12, "log of predict")
    if loss.offers("sample"):
        y = loss.sample(np.broadcast_to(f[0], (100_000, c)), rng)
        close("softmax sample", loss.check_targets(y), y, 0.0, 0.0, "a draw must be a target")
        share = np.bincount(y.astype(int), minlength=c) / len(y)
        close("softmax sample", share, p[0], 0.0, 0.01, "the share of each class")
