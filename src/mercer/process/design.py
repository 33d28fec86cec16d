"""What observations would say: the joint law of candidate rows, conditioned pick by pick.

An observation at row i says W about the latent functions there; with V_j and C_ji the posterior
variance at j and covariance of j with i, conditioning is a rank-c downdate of everything,

    G_j = C_ji U,    U U' = (W^-1 + V_i)^-1,    V_j <- V_j - G_j G_j',    C_jk <- C_jk - G_j G_k'

which needs one column C_.i for each pick, never the matrix of all candidates. Theory (D1), (D2).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import entr, erfcx, log_ndtr, softmax

from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.losses.numbers import quadrature
from mercer.losses.numbers.averages import normal_points, symmetric_root
from mercer.losses.numbers.special import LOG_2PI, normal_pdf
from mercer.process.process import Process

DRAWS = 128  # of latent values, where an average has no formula: fixed and quasi-random
SMALLEST = 1e-300  # stands for a latent variance of zero, where an average is the value at m


class Prospects:
    """Rows X (q, d) that may be observed, and what is known of the latent functions there.

    Parameters
    ----------
    process, loss : the posterior, and what an observation says of it.
    X : (q, d) the candidates.
    at : (r, d) further rows that are watched but cannot be picked, or None.

    Attributes
    ----------
    mean : (q + r, m) the latent means.
    V : (q + r, c, c) the latent covariances: c = 1 where the functions share one, else c = m.
    """

    def __init__(self, process: Process, loss: Loss, X: Array, at: Array | None = None) -> None:
        self.process, self.loss, self.q = process, loss, len(X)
        self.X = X if at is None else np.concatenate([X, at])
        self.mean = process.mean(self.X)
        self.several = loss.response in ("binary", "multiclass") and self.mean.shape[1] > 1
        if self.several:
            self.V = process.blocks(self.X)
        else:
            self.V = process.var(self.X)[:, None, None]
        self.noise = process.noise(self.X)  # noise parts of the kernel are no part of f
        self.factors: list[Array] = []  # G (q + r, c, c) of each pick

    @property
    def variance(self) -> Array:
        """The variance (q + r, c) of each function, not below zero."""
        return np.maximum(np.diagonal(self.V, axis1=1, axis2=2), 0.0)  # rounding: -1e-16 of K_ii

    def column(self, i: int) -> Array:
        """Return the covariance of all rows with row i, given the picks: (q + r, c, c)."""
        z = self.X[i : i + 1]
        known = self.process.cross_blocks(self.X, z) if self.several else self._shared(z)
        for G in self.factors:
            known = known - G @ G[i].T
        return np.asarray(known)

    def _shared(self, z: Array) -> Array:
        return self.process.cross(self.X, z)[:, :, None]

    def precision(self, i: int) -> Array:
        """Return W (c, c), what an observation at row i would say of f there."""
        m, V = self.mean[i : i + 1], self.V[i : i + 1]
        if self.loss.response == "multiclass":
            p = class_draws(self.loss, m, V)[0]
            return np.asarray(np.diag(p.mean(axis=0)) - p.T @ p / len(p))
        W = expected_precision(self.loss, m[0, : V.shape[1]], np.diagonal(V[0]))
        with np.errstate(divide="ignore"):
            return np.diag(1.0 / (1.0 / W + self.noise[i]))

    def observe(self, i: int) -> Array:
        """Condition on an observation at row i, whatever it will be; return G (q + r, c, c)."""
        return self._learn(i, self.precision(i))

    def pin(self, i: int) -> Array:
        """Condition on the latent value at row i itself; return G (q + r, c, c)."""
        return self._learn(i, np.full((1, 1), np.inf))

    def _learn(self, i: int, W: Array) -> Array:
        G = np.asarray(self.column(i) @ gain(W, self.V[i]))
        self.V = self.V - G @ np.swapaxes(G, 1, 2)
        self.factors.append(G)
        return G

    def information(self) -> Array:
        """Return the mutual information (q,) of an observation and the latent functions, in nats.

        For Gaussian noise 1/2 log(1 + V W) for each output, and for classes the entropy of the
        label less that expected with f known (BALD). Of other losses 1/2 log of the factor by which
        the variance is expected to fall, the same for Gaussian noise. Theory (D3).

        Reference: Houlsby, Huszar, Ghahramani & Lengyel, arXiv:1112.5745.
        """
        m, V = self.mean[: self.q], self.V[: self.q]
        if self.several:
            p = class_draws(self.loss, m, V)
            entropy = entr(p).sum(axis=2).mean(axis=1)
            return np.asarray(np.maximum(entr(p.mean(axis=1)).sum(axis=1) - entropy, 0.0))
        v = self.variance[: self.q, 0]
        if self.loss.response == "binary":
            return label_information(self.loss, m[:, 0], np.maximum(v, SMALLEST))
        with np.errstate(divide="ignore"):
            W = expected_precision(self.loss, m[:, 0], v)
            share = np.where(v > 0.0, v / (1.0 / W + self.noise[: self.q]), 0.0)
        return np.asarray(0.5 * m.shape[1] * np.log1p(share))


def gain(W: Array, V: Array) -> Array:
    """Return U (c, c) with U U' = (W^-1 + V)^-1; W may be singular, and for c = 1 infinite."""
    if len(V) == 1:
        with np.errstate(divide="ignore"):
            total = 1.0 / W + np.maximum(V, 0.0)
        return np.where(total > 0.0, 1.0 / np.sqrt(np.where(total > 0.0, total, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(W)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    L = np.linalg.cholesky(np.eye(len(V)) + R.T @ V @ R)
    return np.asarray(np.linalg.solve(L, R.T).T)


def expected_precision(loss: Loss, m: Array, v: Array) -> Array:
    """Return what one observation is expected to say of f ~ N(m, v), as a precision W (n,).

    1/W = 1/(1/V' - 1/v) with V' the posterior variance of f, averaged over the observation: exact
    for Gaussian noise and, by the law of total variance, never negative. Labels are summed over; of
    other losses 16 observations are drawn, the same for all rows.
    """
    if loss.offers("quadratic"):
        return np.asarray(loss.quadratic(m)[1])
    v = np.maximum(v, SMALLEST)
    if loss.response == "binary":
        each = [loss.tilted(np.full(m.shape, y), m, v) for y in (-1.0, 1.0)]
        bend = sum(np.exp(log_z) * second for log_z, _, second in each)
    else:
        if not loss.offers("sample"):
            raise ValueError(
                f"what an observation with {type(loss).__name__} would say is found from draws of "
                "it, and the loss has no sample(f, rng): propose by 'variance', or write it"
            )
        f = m[:, None] + np.sqrt(v)[:, None] * normal_points(1, 16)[:, 0]
        y = loss.sample(f, np.random.default_rng(0))
        bend = loss.tilted(y, m[:, None], v[:, None])[2].mean(axis=1)
    drop = np.clip(-v * bend, 0.0, 1.0 - 1e-15)  # 1 - V'/v
    return np.asarray(drop / ((1.0 - drop) * v))


def label_information(loss: Loss, m: Array, v: Array) -> Array:
    """Return H[E p] - E H[p] (n,) of a label of two, p its probability given f ~ N(m, v)."""

    def entropies(_: Array, f: Array) -> tuple[Array, ...]:
        each = [entr(np.exp(-loss.value(np.full(f.shape, y), f))) for y in (-1.0, 1.0)]
        return (np.asarray(each[0] + each[1]),)

    work = partial(quadrature.average, loss, entropies)
    expected = quadrature.by_rows(work, np.ones(m.shape), m, v)[0]
    p = np.asarray(loss.predict(m, v))
    return np.maximum(entr(p) + entr(1.0 - p) - expected, 0.0)


def class_draws(loss: Loss, m: Array, V: Array) -> Array:
    """Return probabilities (n, DRAWS, k) of k classes at draws of f ~ N(m, V), (n, k), (n, k, k).

    A binary loss is one machine for each class against the rest, as in prediction.
    """
    f = m[:, None, :] + normal_points(m.shape[1], DRAWS) @ symmetric_root(V)
    if loss.response == "multiclass":
        return np.asarray(softmax(f, axis=2))
    return np.asarray(softmax(-loss.value(np.ones(f.shape), f), axis=2))


def log_improvement(gap: Array, std: Array) -> Array:
    """Return log E[max(gap + std z, 0)], z ~ N(0, 1): expected improvement, finite far below best.

    E = std h(u), u = gap / std, h(u) = pdf(u) + u cdf(u). For u < -1 h is pdf(u) times
    1 - |u| cdf(u) / pdf(u), which is 1/u^2 - 3/u^4 where that cancels. Theory (D4).

    Reference: Jones, Schonlau & Welch (1998); the logarithm as in Ament et al., arXiv:2310.20708.

    Examples
    --------
    >>> np.exp(log_improvement(np.array([0.0, -40.0]), np.array([1.0, 1.0]))).round(4)
    array([0.3989, 0.    ])
    >>> bool(np.isfinite(log_improvement(np.array([-40.0]), np.array([1.0]))[0]))
    True
    """
    gap, std = np.broadcast_arrays(gap, std)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sure = np.log(np.maximum(gap, 0.0))
        u = np.clip(gap / std, -1e150, 1e150)
        near = np.log(normal_pdf(u) + u * np.exp(log_ndtr(u)))
        ratio = -u * np.sqrt(np.pi / 2.0) * erfcx(-u / np.sqrt(2.0))
        rest = np.where(u < -300.0, -2.0 * np.log(-u) + np.log1p(-3.0 / u**2), np.log1p(-ratio))
        far = -0.5 * (u**2 + LOG_2PI) + rest
        return np.where(std > 0.0, np.log(std) + np.where(u > -1.0, near, far), sure)
