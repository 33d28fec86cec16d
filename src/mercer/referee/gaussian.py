"""The bound of a given Gaussian: F(q) for q = N(mu, Sigma), whoever found it; theory (T8).

    F(q) = -sum_i w_i E_q[g(y_i, f_i)] - KL(q || prior) <= log p(y)

At the Gaussian of the Laplace approximation this is the thesis's "variational Laplace" (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, qmc

from mercer.core.arrays import Array, half_solve
from mercer.inference.mcmc.latents import Latents
from mercer.linalg.operators import PosteriorOperator, SeveralOperator, _product
from mercer.losses.base import Loss
from mercer.referee.rows import Training

POINTS, SCRAMBLES = 512, 8  # of the quasi-random rule for several latent functions


@dataclass(frozen=True)
class Whitened:
    """A Gaussian over latent functions in the coordinates nu of :class:`Latents`."""

    mean: Array  # (m, r)
    spread: Array  # (m, r, m, r) covariance

    @classmethod
    def of(cls, latents: Latents, alpha: Array, operator: PosteriorOperator) -> Whitened:
        """Return the Gaussian of alpha (n, m) and C: nu ~ N(R'alpha, I - R'C R)."""
        R, m = latents.root, alpha.shape[1]
        r = R.shape[1]
        spread = np.zeros((m, r, m, r))
        if isinstance(operator, SeveralOperator):
            for c, one in enumerate(operator.operators):
                spread[c, :, c] = np.eye(r) - one.reduce(R, R, None, None)
            if operator.shared is not None:
                halves = [
                    half_solve(operator.shared, _product(one, R)) for one in operator.operators
                ]
                joint = np.stack(halves, axis=1)  # (n, m, r)
                spread += np.einsum("ncr,nes->cres", joint, joint, optimize=True)
        else:
            own = np.eye(r) - operator.reduce(R, R, None, None)
            for c in range(m):
                spread[c, :, c] = own
        return cls(alpha.T @ R, spread)

    def divergence(self) -> float:
        """KL(q || N(0, I)) = (tr S + |mean|^2 - dim - log |S|) / 2; inf where S is singular."""
        size = self.mean.size
        S = self.spread.reshape(size, size)
        values = np.linalg.eigvalsh(0.5 * (S + S.T))
        if values[0] <= 0.0:
            return float("inf")
        return 0.5 * float((values - 1.0 - np.log(values)).sum() + (self.mean**2).sum())

    def blocks(self, latents: Latents) -> tuple[Array, Array]:
        """Return mean (n, m) and covariance (n, m, m) of the latent values at each row."""
        R = latents.root
        mean = latents.mean + (self.mean @ R.T).T
        half = np.einsum("cres,ns->crne", self.spread, R, optimize=True)
        return mean, np.einsum("nr,crne->nce", R, half, optimize=True)


def bound(latents: Latents, gaussian: Whitened) -> tuple[float, float]:
    """Return F(q) and its error: zero for one latent function, of a quasi-random rule for more."""
    mean, blocks = gaussian.blocks(latents)
    loss, y, w = latents.loss, latents.y, latents.w
    divergence = gaussian.divergence()
    if loss.response != "multiclass":
        v = np.maximum(blocks[:, 0, 0], np.finfo(float).tiny)
        return -float(w @ loss.expected(y, mean[:, 0], v)[0]) - divergence, 0.0
    totals = _scrambled(loss, y, w, mean, blocks)
    error = float(np.std(totals, ddof=1) / np.sqrt(len(totals)))
    return -float(totals.mean()) - divergence, error


def _scrambled(loss: Loss, y: Array, w: Array, mean: Array, blocks: Array) -> Array:
    """Return sum_i w_i E[g(y_i, f_i)] by several scrambles of a Sobol rule: (SCRAMBLES,)."""
    values, vectors = np.linalg.eigh(blocks)
    half = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    totals = []
    for seed in range(SCRAMBLES):
        rule = qmc.Sobol(mean.shape[1], seed=seed).random(POINTS)
        z = norm.ppf(rule)
        f = mean + np.einsum("nce,ke->knc", half, z, optimize=True)
        totals.append(float((loss.value(np.broadcast_to(y, f.shape[:2]), f) @ w).mean()))
    return np.array(totals)


def gaussians(rows: Training) -> Iterator[tuple[Latents, Whitened]]:
    """Yield prior and likelihood of each output of a model, and the posterior that it has of it."""
    if not rows.exact:
        raise ValueError(
            "a posterior on few points has no bound as a Gaussian over all rows; its own "
            "log_evidence_ may be one, see evidence_bounds_"
        )
    operator, alpha = rows.posterior.operator, rows.posterior.alpha
    each = getattr(operator, "operators", None)
    for j, task in enumerate(rows.tasks()):
        latents = Latents.of(task)
        if rows.loss.response == "multiclass":
            yield latents, Whitened.of(latents, alpha, operator)
        else:
            own = operator if each is None else each[j]
            yield latents, Whitened.of(latents, alpha[:, [j]], own)


def gaussian_bound(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the lower bound on the log evidence that a model's own Gaussian posterior proves.

    For the best Gaussian this is what ``inference="variational"`` reports; for those of Laplace and
    EP it is less, and unlike their own evidence it is below the truth for certain.

    Parameters
    ----------
    model : a fitted Gaussian process, see :func:`check_inference_on`.
    X, y, sample_weight : the rows that it was fitted to.

    Reference: Seeger, Bayesian methods for support vector machines and Gaussian processes, sections
    4.3.1 and 4.4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier
    >>> from mercer.referee import gaussian_bound
    >>> X = np.linspace(0, 3, 12)[:, None]
    >>> y = np.sin(2 * X[:, 0]) > 0
    >>> ep = GPClassifier(inference="ep", loss="logistic").fit(X, y)
    >>> bool(gaussian_bound(ep, X, y) < ep.log_evidence_)
    True
    """
    rows = Training.of(model, X, y, sample_weight)
    return rows.in_user_units(sum(bound(*pair)[0] for pair in gaussians(rows)))
