"""Processes: a prior over functions, and what conditioning makes of it. A posterior is a prior.

    mean(x)   = parent mean(x) + k(x, P) alpha + h(x)'beta            (1)
    cov(x, z) = k(x, z) - k(x, P) C k(P, z) + basis term              (2)

k is the parent's covariance: the kernel of a Prior, or (2) of the Posterior that came before.
Theory (G3), (G4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array
from mercer.inference.base import Solution
from mercer.kernels.base import BATCH_BYTES as BATCH_BYTES  # those of the other processes, too
from mercer.kernels.base import Kernel, blocked_matmul
from mercer.linalg.gram import Gram
from mercer.linalg.operators import ExplicitOperator, PosteriorOperator, SeveralOperator


def batched(one: Callable[[Any], Array], X: Any, width: int) -> Array:
    """Return ``one`` of all rows of X, by batches: so many that ``width`` doubles each are few."""
    size = max(1, BATCH_BYTES // (8 * max(1, width)))
    if X.shape[0] <= size:
        return np.asarray(one(X))
    return np.concatenate([one(X[i : i + size]) for i in range(0, X.shape[0], size)])


class Process(ABC):
    """A Gaussian process with m outputs that share one covariance."""

    @abstractmethod
    def mean(self, X: Array) -> Array:
        """Return the mean at X (n, d): shape (n, m)."""

    @abstractmethod
    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Return the covariance of the signal between X (n, d) and Z (q, d): shape (n, q)."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """Return the variance of the signal at X: shape (n,)."""

    @property
    def has_spread(self) -> bool:
        """Whether the covariance says how far the function may be from its mean."""
        return True

    def members(self) -> list[Process]:
        """Return the processes of which this one is a mixture in equal shares: itself, or draws."""
        return [self]

    @property
    def follows(self) -> bool:
        """Whether its covariance is that of the draw before it in a list of members."""
        return False

    def blocks(self, X: Array) -> Array:
        """Return the covariance of the m functions among each other at each point: (n, m, m)."""
        return np.asarray(self.diag(X)[:, None, None] * np.eye(self.mean(X[:1]).shape[1]))

    def noise(self, X: Array) -> Array:
        """Return the variance of noise that is part of the process, of new observations: (n,)."""
        return np.zeros(len(X))

    def noise_cov(self, X: Array) -> Array | None:
        """Return the covariance (n, n) of that noise, or None where there is none."""
        return None

    def variance_known_at(self, X: Array) -> bool:
        """Whether X says how the function varies there."""
        return True

    def matmul(self, X: Array, Z: Array, V: Array) -> Array:
        """Return the covariance of X (n, d) and Z (q, d) times V (q, r), by blocks: (n, r)."""
        return blocked_matmul(self, X, Z, V)

    def var(self, X: Array) -> Array:
        """Return the variance of the signal at X, not below zero: shape (n,)."""
        return np.maximum(self.diag(X), 0.0)  # rounding can leave -1e-16 of the prior variance

    def cov(self, X: Array) -> Array:
        """Return the covariance matrix of the signal at X: shape (n, n)."""
        return self(X)

    def sample(self, X: Array, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw joint samples of the signal at X (n, d): shape (n, m, n_samples)."""
        mean = self.mean(X)
        # The covariance at many close points is singular: its eigenvalues may be -1e-16.
        values, vectors = np.linalg.eigh(self.cov(X))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = rng.standard_normal((len(X), mean.shape[1] * n_samples))
        return np.asarray(mean[:, :, None] + (root @ draws).reshape(*mean.shape, n_samples))

    def condition(
        self,
        X: Array,
        solution: Solution,
        basis: Callable[[Array], Array] | None = None,
        gram: Gram | None = None,
    ) -> Posterior:
        """Return the process given what was learned at X (n, d).

        ``solution`` was solved on the Gram of this process at X, with this process's mean there;
        one that stands on few points says which (``gram``).
        """
        alpha, C = solution.alpha, solution.factor.operator()
        if gram is not None and not gram.exact:
            X, alpha = gram.support, gram.carry(alpha)
        return Posterior(self, X, alpha, C, beta=solution.beta, basis=basis)


class Prior(Process):
    """The zero-mean process of a kernel (its noise parts left out).

    Parameters
    ----------
    kernel : the covariance.
    outputs : m.
    precision : "single" lets :meth:`matmul`, and with it the mean of a posterior, use the kernel's
        compiled form in single precision, see :meth:`Kernel.matmul`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> Prior(2.0 * RBF()).var(np.zeros((1, 1)))
    array([2.])
    """

    def __init__(self, kernel: Kernel, outputs: int = 1, precision: str = "double") -> None:
        signal = kernel.signal()
        self.kernel, self.signal = kernel, signal
        self.outputs, self.precision = outputs, precision

    def mean(self, X: Array) -> Array:
        """Return zeros, shape (n, m)."""
        return np.zeros((len(X), self.outputs))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.signal(X, Z)

    def matmul(self, X: Array, Z: Array, V: Array) -> Array:
        if self.precision == "single":
            return self.signal.matmul(X, Z, V, precision="single")
        return super().matmul(X, Z, V)  # k(X, Z) @ V to the last bit, as models in files answered

    def diag(self, X: Array) -> Array:
        return self.signal.diag(X)


class Posterior(Process):
    """A process after conditioning: formulas (1) and (2).

    Parameters
    ----------
    parent : the process before.
    points : (n, d) the points P.
    alpha : (n, m).
    operator : C.
    beta, basis : coefficients (k, m) and the functions h: (n, d) -> (n, k); or None.
    """

    def __init__(
        self,
        parent: Process,
        points: Array,
        alpha: Array,
        operator: PosteriorOperator,
        *,
        beta: Array | None = None,
        basis: Callable[[Array], Array] | None = None,
    ) -> None:
        self.parent, self.points, self.alpha, self.operator = parent, points, alpha, operator
        self.beta, self.basis = beta, basis if beta is not None else None

    @property
    def has_spread(self) -> bool:
        return not (isinstance(self.operator, ExplicitOperator) and self.operator.C is None)

    @property
    def follows(self) -> bool:
        return self.operator.follows

    def members(self) -> list[Process]:
        own = [Posterior(self.parent, self.points, *pair) for pair in self.operator.members()]
        return [*own] or [self]

    def _rows(self, X: Array) -> Array | None:
        return None if self.basis is None else self.basis(X)

    def mean(self, X: Array) -> Array:
        if self.operator.walks:
            walked = self.parent.mean(X) + self.operator.mean_at(X, self.alpha)
            if self.basis is not None and self.beta is not None:
                walked = walked + self.basis(X) @ self.beta
            return np.asarray(walked)

        def one(X: Array) -> Array:
            mean = self.parent.mean(X) + self.parent.matmul(X, self.points, self.alpha)
            if self.basis is not None and self.beta is not None:
                mean = mean + self.basis(X) @ self.beta
            return np.asarray(mean)

        return batched(one, X, len(self.points))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A = self.parent(X, self.points).T
        B = A if Z is None else self.parent(Z, self.points).T
        hA = self._rows(X)
        hB = hA if Z is None else self._rows(Z)
        return np.asarray(self.parent(X, Z) - self.operator.reduce(A, B, hA, hB))

    def diag(self, X: Array) -> Array:
        C = self.operator
        if C.knows_variances:
            return C.var_at(X)
        P = self.points
        known = batched(lambda x: C.reduce_diag(self.parent(x, P).T, self._rows(x)), X, len(P))
        return np.asarray(self.parent.diag(X) - known)

    def blocks(self, X: Array) -> Array:
        C, eye = self.operator, np.eye(self.alpha.shape[1])
        if not isinstance(C, SeveralOperator):
            return np.asarray(self.diag(X)[:, None, None] * eye)
        known = batched(lambda x: C.blocks(self.parent(x, self.points).T), X, len(self.points))
        return np.asarray(self.parent.diag(X)[:, None, None] * eye - known)

    def noise(self, X: Array) -> Array:
        prior = self.parent
        if isinstance(prior, Prior) and prior.signal is not prior.kernel:
            return np.asarray(prior.kernel.diag(X) - prior.signal.diag(X))
        return np.zeros(len(X))

    def noise_cov(self, X: Array) -> Array | None:
        prior = self.parent
        if isinstance(prior, Prior) and prior.signal is not prior.kernel:
            return np.asarray(prior.kernel(X) - prior.signal(X))
        return None

    def variance_known_at(self, X: Array) -> bool:
        # kernel values with the training points do not say it, but for these points themselves
        pairwise = isinstance(self.parent, Prior) and self.parent.kernel.pairwise
        return not pairwise or bool(np.array_equal(X, self.points))

    def project(self, points: Array) -> Posterior:
        """Return the process that keeps this one's law on ``points``, and the parent's elsewhere.

        With B = Kzz^-1 k(Z, P) for the points Z: alpha' = B alpha and C' = B C B'. That is
        q(u) = N(m, S) on them, alpha' = Kzz^-1 (m - parent mean), C' = Kzz^-1 - Kzz^-1 S Kzz^-1,
        but nothing cancels.
        """
        if self.basis is not None:
            raise ValueError("a posterior with an unpenalised basis cannot be projected")
        Kzz = cho_factor(self.parent(points), lower=True)
        B = cho_solve(Kzz, self.parent(points, self.points)).T
        C = self.operator.reduce(B, B, None, None)
        return Posterior(self.parent, points, B.T @ self.alpha, ExplicitOperator(0.5 * (C + C.T)))
