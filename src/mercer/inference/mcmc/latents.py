"""Latent values in whitened coordinates, and a Gaussian near their posterior.

f = mean + R nu with R R' = K, so that nu ~ N(0, I) before the data. Theory (A20), (A22).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.inference.base import Inference, Task
from mercer.inference.exact import Exact
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.laplace import Laplace
from mercer.inference.variational.gaussian import Variational
from mercer.losses.base import Loss


def stand_in(loss: Loss) -> Inference:
    """Return the Gaussian approximation for a loss: exact, Laplace or variational."""
    if loss.offers("quadratic"):
        return Exact()
    return Laplace() if loss.convex and not has_kinks(loss) else Variational()


@dataclass(frozen=True)
class Latents:
    """Prior and likelihood of latent functions that share K; states are (b, m, r + n): nu and R nu.

    Attributes
    ----------
    root : R (n, r), the directions of K with an eigenvalue above rounding.
    y, w, mean : (n,), (n,) and (n, m).
    """

    root: Array
    inverse: Array  # Q (r, n), Q R = I
    y: Array
    w: Array
    mean: Array
    loss: Loss

    @classmethod
    def of(cls, task: Task) -> Latents:
        """Return the latent functions of a task with one column, or one with classes."""
        K = task.gram.matrix
        require_memory(len(K), 4, "drawing latent values", "draw for")
        values, vectors = eigh(K)
        good = values > len(K) * np.finfo(float).eps * max(values[-1], 0.0)
        if not np.any(good):
            raise ValueError("the kernel is zero at all rows: there is nothing to draw")
        scale, vectors = np.sqrt(values[good]), vectors[:, good]
        y, mean = task.y.reshape(-1), task.mean.reshape(len(K), -1)
        return cls(vectors * scale, (vectors / scale).T, y, task.w, mean, task.loss)

    @property
    def rank(self) -> int:
        """How many directions K has."""
        return self.root.shape[1]

    def states(self, nu: Array) -> Array:
        """Return states (b, m, r + n) at nu (b, m, r)."""
        return np.concatenate([nu, nu @ self.root.T], axis=-1)

    def prior(self, rng: np.random.Generator, b: int) -> Array:
        """Return b draws of the prior as states."""
        return self.states(rng.standard_normal((b, self.mean.shape[1], self.rank)))

    def values(self, states: Array) -> Array:
        """Return the latent values (b, n, m) of states, prior mean included."""
        return np.swapaxes(states[..., self.rank :], -1, -2) + self.mean

    def likelihood(self, states: Array) -> Array:
        """Return -sum_i w_i g(y_i, f_i), (b,); -inf where the loss overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = -(self._loss(self.values(states)) @ self.w)
        return np.where(np.isnan(total), -np.inf, total)

    def _loss(self, f: Array) -> Array:
        if self.loss.response == "multiclass":
            return self.loss.value(np.broadcast_to(self.y, f.shape[:-1]), f)
        return self.loss.value(self.y, f[..., 0])

    def slope(self, f: Array) -> Array:
        """Return -w g'(y, f), (b, n, m), at latent values f (b, n, m)."""
        if self.loss.response == "multiclass":
            d1 = [self.loss.derivatives(self.y, one)[0] for one in f]
            return np.asarray(-self.w[:, None] * np.array(d1))
        return np.asarray(-self.w[:, None] * self.loss.derivatives(self.y, f[..., 0])[0][..., None])

    def score(self, states: Array, f: Array) -> Array:
        """Return the gradient (b, m, r) of the log posterior in nu: R'(-w g') - nu."""
        return np.asarray(np.swapaxes(self.slope(f), -1, -2) @ self.root - states[..., : self.rank])


@dataclass(frozen=True)
class Guess:
    """A Gaussian near the posterior: nu_j ~ N(centre_j, T_j T_j') for each latent function j.

    Draws do not depend on it, only how fast they are had and how sure their averages are.
    """

    centre: Array  # (m, r)
    scale: Array  # (m, r, r)
    half: Array  # (m, r, r) the inverse of each T_j'
    name: str

    @classmethod
    def of(cls, latents: Latents, task: Task) -> Guess:
        """Return the guess of the inference that stands in, or the prior where there is none."""
        m, r = latents.mean.shape[1], latents.rank
        method = stand_in(task.loss)
        try:
            method.check(task.loss)
        except ValueError:
            eye = np.tile(np.eye(r), (m, 1, 1))
            return cls(np.zeros((m, r)), eye, eye, "prior")
        whole = Task(task.gram, latents.y[:, None], task.loss, task.w, latents.mean)
        found = method.infer(whole, None)
        W = found.W.reshape(len(latents.y), -1)
        if task.loss.response == "multiclass":  # the diagonal of diag(D) - D D' / w
            W = W * (1.0 - W / task.w[:, None])
        W = np.where(np.isfinite(W) & (W > 0.0), W, 0.0)
        R, eye = latents.root, np.eye(r)
        halves = [cholesky(eye + R.T @ (column[:, None] * R), lower=True) for column in W.T]
        scales = [solve_triangular(half, eye, lower=True, trans="T") for half in halves]
        return cls(found.alpha.T @ R, np.array(scales), np.array(halves), type(method).__name__)

    def at(self, u: Array) -> Array:
        """Return nu (b, m, r) at u (b, m, r)."""
        return self.centre + np.einsum("jrk,bjk->bjr", self.scale, u, optimize=True)

    def log_ratio(self, nu: Array) -> Array:
        """Return log N(nu; 0, I) - log q(nu) at nu (b, m, r), for the density q of the guess."""
        u = np.einsum("jrk,bjr->bjk", self.half, nu - self.centre, optimize=True)
        logdet = float(np.log(np.diagonal(self.half, axis1=1, axis2=2)).sum())
        return np.asarray(0.5 * ((u**2).sum(axis=(1, 2)) - (nu**2).sum(axis=(1, 2))) - logdet)

    def back(self, gradient: Array) -> Array:
        """Return T'gradient, T_j' times each (m, r)."""
        return np.einsum("jrk,jr->jk", self.scale, gradient, optimize=True)

    def spread(self, score: Array) -> Array:
        """Return T T' score, for scores (b, m, r)."""
        half = np.einsum("jrk,bjr->bjk", self.scale, score, optimize=True)
        return np.einsum("jrk,bjk->bjr", self.scale, half, optimize=True)
