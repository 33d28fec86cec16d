"""Latent values in whitened coordinates, and a Gaussian near their posterior.

f = mean + R nu with R R' = K, so that nu ~ N(0, I) before the data. Theory (T1), (T3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.inference.base import Inference, Task
from mercer.inference.exact import Exact
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.ep import EP
from mercer.inference.sites.laplace import Laplace
from mercer.inference.variational.gaussian import Variational
from mercer.losses.base import Loss


def stand_in(loss: Loss) -> Inference:
    """Return the Gaussian approximation for a loss: exact, EP, Laplace or variational."""
    if loss.offers("quadratic"):
        return Exact()
    if loss.response == "binary" and loss.normalised and loss.convex:
        return EP()
    return Laplace() if loss.convex and not has_kinks(loss) else Variational()


@dataclass(frozen=True)
class Latents:
    """Prior and likelihood of latent functions that share K; states are R nu, (b, m, n).

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
        return int(self.root.shape[1])

    def prior(self, rng: np.random.Generator, b: int) -> Array:
        """Return b draws of the prior as states."""
        return np.asarray(rng.standard_normal((b, self.mean.shape[1], self.rank)) @ self.root.T)

    def nu(self, states: Array) -> Array:
        """Return the coordinates (..., m, r) of states."""
        return np.asarray(states @ self.inverse.T)

    def values(self, states: Array) -> Array:
        """Return the latent values (b, n, m) of states, prior mean included."""
        return np.swapaxes(states, -1, -2) + self.mean

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
        if self.loss.response == "multiclass":  # e_y - p: the check has seen that it is a softmax
            own = np.eye(f.shape[-1])[self.y.astype(np.intp)]
            return np.asarray(self.w[:, None] * (own - softmax(f, axis=-1)))
        return np.asarray(-self.w[:, None] * self.loss.derivatives(self.y, f[..., 0])[0][..., None])

    def score(self, nu: Array, slope: Array) -> Array:
        """Return the gradient (b, m, r) of the log posterior in nu: R'(-w g') - nu."""
        return np.asarray(np.swapaxes(slope, -1, -2) @ self.root - nu)


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
        return self.centre + _each(u, np.swapaxes(self.scale, 1, 2))

    def log_ratio(self, nu: Array) -> Array:
        """Return log N(nu; 0, I) - log q(nu) at nu (b, m, r), for the density q of the guess."""
        u = _each(nu - self.centre, self.half)
        logdet = float(np.log(np.diagonal(self.half, axis1=1, axis2=2)).sum())
        return np.asarray(0.5 * ((u**2).sum(axis=(1, 2)) - (nu**2).sum(axis=(1, 2))) - logdet)

    def back(self, score: Array) -> Array:
        """Return T' score, for scores (b, m, r)."""
        return _each(score, self.scale)

    def spread(self, score: Array) -> Array:
        """Return T T' score, for scores (b, m, r)."""
        return _each(self.back(score), np.swapaxes(self.scale, 1, 2))


def _each(u: Array, matrices: Array) -> Array:
    """Return u_j' M_j for u (b, m, r) and M (m, r, k): (b, m, k)."""
    return np.swapaxes(np.matmul(np.swapaxes(u, 0, 1), matrices), 0, 1)
