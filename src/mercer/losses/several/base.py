"""Losses of several latent functions: g(y, f_1, ..., f_m), each f with a kernel of its own.

The prior is block diagonal, K_1 .. K_m (Jaakkola and Haussler 1999, theorem 1): theory (A21).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.base import Loss, absent, check_levels, needs
from mercer.losses.numbers import defaults as numeric
from mercer.losses.numbers.defaults import partials

NODES = {1: 24, 2: 32, 3: 14}  # of the product rule in one dimension, by the number of functions
STEPS = 60  # Newton steps at most to where a tilted density is largest


class SeveralLatents(Loss):
    """A loss of m latent functions; a child states their names and ``value``.

    Latent values stand in the last axis: f and m are (..., m), y and what is returned (...).
    Gradient and Hessian are differences of ``value`` unless a child states them. A loss that is not
    convex states ``information``, which then is the curvature of Laplace's Gaussian.

    Attributes
    ----------
    latents : names of the latent functions; the first is what y is about.
    powers : the power of the unit of y in each of them: 1 for a mean, 0 for a logarithm.

    Examples
    --------
    >>> class Uncertain(SeveralLatents):
    ...     latents, powers, convex = ("mean", "log_noise"), (1.0, 0.0), False
    ...
    ...     def value(self, y, f):
    ...         return 0.5 * (f[..., 1] + np.square(y - f[..., 0]) * np.exp(-f[..., 1]))
    >>> Uncertain().gradient(np.array([2.0]), np.zeros((1, 2))).round(6)
    array([[-2. , -1.5]])
    """

    abstract: ClassVar[bool] = True
    latents: ClassVar[tuple[str, ...]] = ()
    powers: ClassVar[tuple[float, ...]] = ()

    # ------------------------------------------------------------------ derivatives
    def gradient(self, y: Array, f: Array) -> Array:
        """Return dg/df, (..., m)."""
        return partials(lambda at: self.value(y, at), f)

    def hessian(self, y: Array, f: Array) -> Array:
        """Return d2g/df2, (..., m, m)."""
        found = partials(lambda at: self.gradient(y, at), f)
        return np.asarray(0.5 * (found + np.swapaxes(found, -1, -2)))

    @absent(
        "the loss is not convex, so that its Hessian may be no precision: write information(f), "
        "the mean of the Hessian over y given f, (..., m, m)"
    )
    def information(self, f: Array) -> Array:
        """Return the Fisher information, the mean of the Hessian over y given f: (..., m, m)."""
        raise NotImplementedError

    def curvature(self, y: Array, f: Array) -> Array:
        """Return what Laplace takes for the Hessian: itself if convex, else the information."""
        return self.hessian(y, f) if self.convex else self.information(f)

    def curvature_slope(self, y: Array, f: Array) -> Array:
        """Return d curvature / df, (..., m, m, m); the last axis says by which f."""
        return partials(lambda at: self.curvature(y, at), f)

    def trace_slope(self, y: Array, f: Array, Sigma: Array) -> Array:
        """Return d tr(Sigma W(f)) / df, (..., m), for matrices Sigma (..., m, m)."""
        return np.asarray(np.einsum("...jk,...jkc->...c", Sigma, self.curvature_slope(y, f)))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return gradient (..., m), Hessian (..., m, m) and third derivatives (..., m, m, m)."""
        third = partials(lambda at: self.hessian(y, at), f)
        return self.gradient(y, f), self.hessian(y, f), third

    @absent("the conjugate of several latent functions is not known: use Newton or Laplace")
    def conjugate(self, y: Array, u: Array) -> Array:
        raise NotImplementedError

    @absent("EP knows one latent function; use Laplace inference")
    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        raise NotImplementedError

    @absent("several latent functions have mixed derivatives; use Laplace inference")
    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def start(self, y: Array) -> Array:
        """Return where a mode may lie, (n, m): the first function at its centre, others at zero."""
        f = np.zeros((len(y), len(self.latents)))
        f[:, 0] = np.asarray(self.centers(y)).mean(axis=0)
        return f

    # ------------------------------------------------------------------ Gaussian averages
    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return E[g], dE/dm and dE/dv for independent f_j ~ N(m_j, v_j); m, v are (..., m)."""

        def parts(f: Array) -> Array:
            bend = np.diagonal(self.hessian(y[..., None], f), axis1=-2, axis2=-1)
            value = self.value(y[..., None], f)[..., None]
            return np.concatenate([value, self.gradient(y[..., None], f), 0.5 * bend], axis=-1)

        y = np.asarray(y, dtype=np.float64)
        f, weights = product_rule(m, np.asarray(v)[..., None] * np.eye(len(self.latents)))
        found = np.einsum("...kp,k->...p", parts(f), weights)
        k = len(self.latents)
        return found[..., 0], found[..., 1 : k + 1], found[..., k + 1 :]

    @needs("normalised", "moments")
    def predict(self, m: Array, v: Array) -> Any:
        """Return mean and variance (...) of a new y for f ~ N(m, v): (..., m), (..., m, m)."""
        f, weights = product_rule(m, v)
        mean, variance = self.moments(f)
        first = mean @ weights
        return first, (variance + np.square(mean - first[..., None])) @ weights

    @needs("normalised", "conditional_cdf")
    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        f, weights = product_rule(m, v)
        return np.asarray(self.conditional_cdf(np.asarray(y)[..., None], f) @ weights)

    @needs("normalised", "conditional_cdf")
    def quantile(self, q: Array, m: Array, v: Array) -> Array:
        shape = m.shape[:-1]
        q = np.broadcast_to(np.asarray(q, dtype=np.float64), shape)
        check_levels(q)
        if self.response in ("count", "ordinal"):
            return numeric.smallest_integer(lambda k: self.cdf(k, m, v), q)
        mean, variance = self.predict(m, v)
        wide = np.sqrt(np.abs(v[..., 0, 0])) + 1.0  # a first step, where there is no variance
        usual = np.isfinite(variance) & (variance > 0.0)
        step = np.where(usual, np.sqrt(np.where(usual, variance, 1.0)), wide)
        return numeric.increasing_root(lambda y: self.cdf(y, m, v) - q, mean, step)

    @needs("normalised")
    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        """Return log p(y); the rule stands where exp(-g) N(f; m, v) is largest."""
        y = np.broadcast_to(np.asarray(y, dtype=np.float64), m.shape[:-1])
        center, spread = self._largest(y, m, v)
        f, weights = product_rule(center, spread)
        root, ahead = root_of(spread), root_of(v)
        # N(f; m, v) / N(f; center, spread), by the two whitened residuals
        far, near = (
            np.linalg.solve(r[..., None, :, :], (f - c[..., None, :])[..., None])[..., 0]
            for r, c in ((ahead, m), (root, center))
        )
        sizes = np.linalg.slogdet(root)[1] - np.linalg.slogdet(ahead)[1]
        ratio = 0.5 * (np.square(near) - np.square(far)).sum(axis=-1) + sizes[..., None]
        terms = ratio - self.value(y[..., None], f) + np.log(weights)
        return np.asarray(np.logaddexp.reduce(terms, axis=-1))

    def _largest(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """Return where exp(-g) N(f; m, v) is largest, and the inverse of its curvature there."""

        def objective(at: Array) -> Array:
            moved = np.linalg.solve(v, (at - m)[..., None])[..., 0]
            return np.asarray(self.value(y, at) + 0.5 * ((at - m) * moved).sum(axis=-1))

        f, eye = np.array(m, dtype=np.float64), np.eye(m.shape[-1])
        for _ in range(STEPS):
            W = self.curvature(y, f)
            inner = np.linalg.solve(eye + v @ W, np.eye(m.shape[-1]))
            push = (v @ self.gradient(y, f)[..., None])[..., 0] + (f - m)
            step = -(inner @ push[..., None])[..., 0]
            t, now = np.ones(m.shape[:-1]), objective(f)
            with np.errstate(over="ignore", invalid="ignore"):
                for _ in range(30):
                    worse = ~(objective(f + t[..., None] * step) <= now + 1e-12 * np.abs(now))
                    if not np.any(worse):
                        break
                    t = np.where(worse, 0.5 * t, t)
            f = f + np.where(worse, 0.0, t)[..., None] * step
            if np.abs(step).max() <= 1e-8:
                break
        spread = np.linalg.solve(eye + v @ self.curvature(y, f), v)
        return f, np.asarray(0.5 * (spread + np.swapaxes(spread, -1, -2)), dtype=np.float64)


def two_by_two(own: Array, mixed: Array, other: Array) -> Array:
    """Return symmetric matrices (..., 2, 2) from their entries (...)."""
    found = np.empty((*np.shape(own), 2, 2))
    found[..., 0, 0], found[..., 0, 1] = own, mixed
    found[..., 1, 0], found[..., 1, 1] = mixed, other
    return found


def root_of(v: Array) -> Array:
    """Return a square root of matrices v (..., m, m), which may be singular up to rounding."""
    values, vectors = np.linalg.eigh(v)
    floor = np.finfo(float).eps * np.maximum(values[..., -1:], 1e-300)
    return np.asarray(vectors * np.sqrt(np.maximum(values, floor))[..., None, :])


def product_rule(m: Array, v: Array) -> tuple[Array, Array]:
    """Return points (..., k, m) and weights (k,) of the Gauss-Hermite rule for N(m, v)."""
    dimensions = m.shape[-1]
    if dimensions not in NODES:
        raise ValueError(
            f"averages over {dimensions} latent functions have no rule: write predict, cdf and "
            "log_predictive of the loss"
        )
    x, w = np.polynomial.hermite_e.hermegauss(NODES[dimensions])
    grid = np.stack(np.meshgrid(*[x] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    weights = np.ones(1)
    for _ in range(dimensions):
        weights = np.multiply.outer(weights, w / w.sum()).ravel()
    some = weights > 1e-30
    root = root_of(np.asarray(v, dtype=np.float64))
    points = np.asarray(m)[..., None, :] + np.einsum("...ij,kj->...ki", root, grid[some])
    return points, weights[some]


def check_elementwise(loss: Loss) -> None:
    """Refuse a loss whose value does not go entry by entry, as if f had several values a row."""
    if any(np.ndim(value) for value in loss.get_params(deep=False).values()):
        return  # it knows something of each row
    y = loss.example_targets(np.random.default_rng(0), 3)
    f = np.array([0.3, -0.2, 0.1])
    try:
        found, first = np.asarray(loss.value(y, f)), np.asarray(loss.value(y[:1], f[:1]))
        fine = found.shape == f.shape and bool(np.allclose(found[:1], first, equal_nan=True))
    except IndexError:
        fine = False
    if not fine:
        raise ValueError(
            f"{type(loss).__name__}.value(y, f) does not go entry by entry: f is (n,), one latent "
            "value for each target. A loss of several latent functions is a child of "
            'losses.SeveralLatents that names them, latents = ("mean", "log_noise"); f is then '
            "(..., m)"
        )
