"""The contract of a loss of several latent functions: all it states against slow sums."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.several.base import SeveralLatents
from mercer.testing.clauses import close, holds

REACH, POINTS = 7.0, {1: 2001, 2: 141, 3: 41}  # deviations of a grid, and its points on an axis


def check_several(loss: SeveralLatents, y: Array) -> None:
    """Derivatives, curvature, and what a likelihood says of a new y."""
    m, rng = len(loss.latents), np.random.default_rng(3)
    holds("latents", m > 1, "a loss of one latent function is a child of Loss")
    holds("latents", len(loss.powers) == m, "powers must say of each which unit it has")
    y, f = y[:6], 0.7 * rng.normal(size=(6, m))
    g = loss.value(y, f)
    holds("shapes", np.shape(g) == (6,), "value(y, f) must be (n,) for f (n, m)")
    twice = loss.value(y[:, None], f[:, None])
    close("shapes", twice[:, 0], g, 0.0, 1e-14, "latent values stand in the last axis")
    _check_derivatives(loss, y, f)
    if loss.normalised:
        _check_density(loss, f[:3])
        _check_averages(loss, y[:3], f[:3])
    if loss.offers("in_units"):
        unit = np.asarray(loss.powers)
        moved = loss.in_units(3.0).value(3.0 * y, np.where(unit, 3.0 * f, f))
        close("in_units", moved, g + np.log(3.0), 1e-10, 1e-10, "the loss of 3 y")


def _check_derivatives(loss: SeveralLatents, y: Array, f: Array) -> None:
    d1, d2 = loss.gradient(y, f), loss.hessian(y, f)
    W, slope = loss.curvature(y, f), loss.curvature_slope(y, f)
    close("second derivative", d2, np.swapaxes(d2, 1, 2), 0.0, 1e-12, "it must be symmetric")
    for j, e in enumerate(1e-5 * np.eye(f.shape[1])):
        for what, entry, numeric in (
            ("first derivative", d1[..., j], loss.value),
            ("second derivative", d2[..., j], loss.gradient),
            ("curvature_slope", slope[..., j], loss.curvature),
        ):
            found = (numeric(y, f + e) - numeric(y, f - e)) / (2 * e[j])
            close(what, entry, found, 1e-6, 1e-8, f"in {loss.latents[j]}")
    Sigma = np.broadcast_to(np.eye(f.shape[1]) + 0.3, d2.shape)
    wanted = np.einsum("njk,njkc->nc", Sigma, slope)
    close("trace_slope", loss.trace_slope(y, f, Sigma), wanted, 1e-9, 1e-9, "d tr(Sigma W)/df")
    positive = bool(np.all(np.linalg.eigvalsh(W) >= -1e-12))
    holds("curvature", positive, "the Hessian of a convex loss, or the information, is a precision")


def _mean(loss: SeveralLatents, f: Array, function: Any, top: float = np.inf) -> float:
    """The mean of function(y) over y <= top given f (m,)."""

    def density(y: Array) -> Array:
        return np.asarray(np.exp(-loss.value(y, np.broadcast_to(f, (len(y), len(f))))))

    if loss.response in ("count", "ordinal", "binary"):
        y = np.array([-1.0, 1.0]) if loss.response == "binary" else np.arange(400.0)
        y = y[y <= top]
        return float(density(y) @ function(y))
    x, w = np.polynomial.legendre.leggauss(16)
    x = (np.linspace(-1.0, 1.0, 51)[:-1, None] + 0.02 * (x + 1.0)).ravel()
    w = np.tile(w, 50) / 50.0
    half = 0.5 * (np.arctan(top - f[0]) + 0.5 * np.pi)  # y = f + tan, from -pi/2
    tangent = np.tan(half * (x + 1.0) - 0.5 * np.pi)
    y = f[0] + tangent
    return float((half * w * (1.0 + np.square(tangent)) * density(y)) @ function(y))


def _check_density(loss: SeveralLatents, f: Array) -> None:
    for at in f:
        close("normalised", _mean(loss, at, np.ones_like), 1.0, 0.0, 1e-8, "over all y")
        if loss.offers("information"):
            found, m = loss.information(at[None])[0], f.shape[1]
            for i, j in product(range(m), range(m)):

                def entry(y: Array, i: int = i, j: int = j, at: Array = at) -> Array:
                    return loss.hessian(y, np.broadcast_to(at, (len(y), len(at))))[:, i, j]

                wanted = _mean(loss, at, entry)
                close("information", found[i, j], wanted, 1e-6, 1e-8, "the mean of the Hessian")
        if loss.offers("moments"):
            mean, variance = (float(part[0]) for part in loss.moments(at[None]))
            first = _mean(loss, at, lambda y: y)
            close("moments", mean, first, 1e-6, 1e-8, "mean of y given f")
            if np.isfinite(variance):
                square = _mean(loss, at, lambda y, c=first: np.square(y - c))
                close("moments", variance, square, 1e-5, 1e-8, "variance of y given f")
        if loss.offers("conditional_cdf"):
            top = np.array([0.0, 1.0, 2.5])
            below = [_mean(loss, at, np.ones_like, t) for t in top]
            found = loss.conditional_cdf(top, np.broadcast_to(at, (3, len(at))))
            close("conditional_cdf", found, below, 1e-6, 1e-6, "P(Y <= y | f)")
        if loss.offers("sample"):
            _check_sample(loss, at)


def _check_sample(loss: SeveralLatents, at: Array) -> None:
    draws = loss.sample(np.broadcast_to(at, (40_000, len(at))), np.random.default_rng(5))
    close("sample", loss.check_targets(draws), draws, 0.0, 0.0, "a draw must be a target")
    if loss.offers("conditional_cdf"):
        top = np.quantile(draws, [0.3, 0.8])
        share = [(draws <= t).mean() for t in top]
        wanted = loss.conditional_cdf(top, np.broadcast_to(at, (2, len(at))))
        close("sample", share, wanted, 0.0, 0.015, "the share of draws below a value")


def _check_averages(loss: SeveralLatents, y: Array, m: Array) -> None:
    """Averages over f ~ N(m, V) against sums over a grid."""
    k = m.shape[1]
    axis = np.linspace(-REACH, REACH, POINTS[k])
    grid = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weights = np.exp(-0.5 * np.square(grid).sum(axis=1))
    weights /= weights.sum()
    root = 0.4 * np.tril(np.full((k, k), 0.5) + 0.5 * np.eye(k))
    V = np.broadcast_to(root @ root.T, (len(m), k, k))
    f = m[:, None] + grid @ root.T
    log_p = loss.log_predictive(y, m, V)
    wanted = np.log(np.exp(-loss.value(y[:, None], f)) @ weights)
    close("log_predictive", log_p, wanted, 1e-5, 1e-5, "log of the average of exp(-g)")
    if loss.offers("predict"):
        mean, variance = loss.predict(m, V)
        first, second = loss.moments(f)
        average = first @ weights
        close("predict", mean, average, 1e-5, 1e-6, "the mean of a new y")
        if np.all(np.isfinite(variance)):
            spread = (second + np.square(first - average[:, None])) @ weights
            close("predict", variance, spread, 1e-4, 1e-6, "the variance of a new y")
    if loss.offers("cdf"):
        below = loss.conditional_cdf(y[:, None], f) @ weights
        close("cdf", loss.cdf(y, m, V), below, 1e-5, 1e-5, "P(Y <= y) for a new Y")
        q = loss.quantile(np.full(len(m), 0.7), m, V)
        reached = loss.cdf(q, m, V)
        fine = np.all(reached >= 0.7 - 1e-9)
        if loss.response == "real":
            close("quantile", reached, np.full(len(m), 0.7), 1e-8, 1e-8, "where the cdf is q")
        holds("quantile", bool(fine), "of a count the smallest at which the cdf reaches q")
    v = np.square(0.4) * np.ones((len(m), k))
    f = m[:, None] + 0.4 * grid
    mean, dm, dv = loss.expected(y, m, v)
    close("expected", mean, loss.value(y[:, None], f) @ weights, 1e-5, 1e-6, "E[g]")
    slope = np.einsum("nkj,k->nj", loss.gradient(y[:, None], f), weights)
    close("expected", dm, slope, 1e-5, 1e-6, "dE/dm, the mean of the gradient")
    bend = np.einsum("nkjj,k->nj", loss.hessian(y[:, None], f), weights)
    close("expected", dv, 0.5 * bend, 1e-4, 1e-6, "dE/dv, half the mean of the Hessian's diagonal")
