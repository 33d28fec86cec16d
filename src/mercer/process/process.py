"""Processes: a prior over functions, and what conditioning makes of it. A posterior is a prior.

    mean(x)   = parent mean(x) + k(x, P) alpha + h(x)'beta            (1)
    cov(x, z) = k(x, z) - k(x, P) C k(P, z) + basis term              (2)

k is the parent's covariance: the kernel of a Prior, or (2) of the Posterior that came before.
Theory (G3), (G4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array
from mercer.core.device.array import unboxed
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

    def cross(self, X: Array, Z: Array) -> Array:
        """Return the covariance of X (n, d) with few points Z (q, d), by blocks: shape (n, q)."""
        return batched(lambda rows: self(rows, Z), X, len(X))

    def cross_blocks(self, X: Array, z: Array) -> Array:
        """Return the covariance of the m functions at X (n, d) with those at z (1, d): (n, m, m).

        Rows are the functions at X, columns those at z.
        """
        m = self.mean(z).shape[1]
        return np.asarray(self.cross(X, z)[:, :, None] * np.eye(m))

    def each(self, X: Array, Z: Array | None = None) -> list[Array] | Array:
        """Return the covariance (n, q), one for each function if these have their own."""
        return self(X, Z)

    def variances(self, X: Array) -> Array:
        """Return the variance of each function at X, (n, m), or (n, 1) if all have the same."""
        return self.diag(X)[:, None]

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
        if gram is not None and gram.few:
            X, alpha, C = gram.stands(solution.alpha, solution.factor, solution.beta, solution.z)
        else:
            alpha, C = solution.alpha, solution.factor.operator()
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
        # kernels of the latent functions, where each has its own
        self._own: list[Kernel] = list(signal.children().values()) if signal.separate else []  # type: ignore[arg-type]  # its parts are kernels

    def mean(self, X: Array) -> Array:
        """Return zeros, shape (n, m)."""
        return np.zeros((len(X), self.outputs))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = self.signal(X, Z)
        boxed = K.__class__ is np.ndarray and not K.ndim  # numpy.asarray of one on a device
        return cast(Array, unboxed(K)) if boxed else K

    def each(self, X: Array, Z: Array | None = None) -> list[Array] | Array:
        return [k(X, Z) for k in self._own] if self._own else self(X, Z)

    def variances(self, X: Array) -> Array:
        if not self._own:
            return self.diag(X)[:, None]
        return np.column_stack([k.diag(X) for k in self._own])

    def matmul(self, X: Array, Z: Array, V: Array) -> Array:
        if self._own:  # a column for each
            columns = (blocked_matmul(k, X, Z, V[:, [j]]) for j, k in enumerate(self._own))
            return np.hstack(list(columns))
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
        return self.operator.spreads

    @property
    def follows(self) -> bool:
        return self.operator.follows

    def supported(self) -> Posterior:
        """Return the same on the points that count: of a mode, those with alpha_i != 0."""
        counts = np.any(self.alpha != 0.0, axis=1)
        if self.has_spread or counts.all():
            return self
        counts[0] |= not counts.any()  # no points would have no columns
        points, alpha = self.points[counts], self.alpha[counts]
        return Posterior(
            self.parent, points, alpha, self.operator, beta=self.beta, basis=self.basis
        )

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

        C = self.operator
        P = C.beside(self.points) if C.distant else self.points

        def one(X: Array) -> Array:
            mean = self.parent.mean(X) + self.parent.matmul(X, P, self.alpha)
            if self.basis is not None and self.beta is not None:
                mean = mean + self.basis(X) @ self.beta
            return np.asarray(mean)

        return batched(one, X, len(self.points))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        if self.operator.weighs:
            hZ = None if Z is None else self._rows(Z)
            return self.operator.cov_at(X, X if Z is None else Z, self._rows(X), hZ)
        A = self.parent(X, self.points).T
        B = A if Z is None else self.parent(Z, self.points).T
        hA = self._rows(X)
        hB = hA if Z is None else self._rows(Z)
        return np.asarray(self.parent(X, Z) - self.operator.reduce(A, B, hA, hB))

    def cross(self, X: Array, Z: Array) -> Array:
        P, h = self.points, self._rows(Z)
        if not self.operator.expands:
            return super().cross(X, Z)
        c, d = self.operator.against(self.parent(P, Z), h)
        prior = self.parent.cross(X, Z)
        result = prior - batched(lambda x: self.parent(x, P) @ c, X, len(P))
        return result if d is None or self.basis is None else result + self.basis(X) @ d

    def cross_blocks(self, X: Array, z: Array) -> Array:
        P, C, m = self.points, self.operator, self.alpha.shape[1]
        if not isinstance(C, SeveralOperator):
            return super().cross_blocks(X, z)
        c = C.column(self.parent(P, z)).reshape(len(P), m * m)
        known = batched(lambda x: self.parent(x, P) @ c, X, len(P)).reshape(len(X), m, m)
        return np.asarray(self.parent(X, z)[:, :, None] * np.eye(m) - known)

    def observing(self, X: Array, y: Array, noise: Array) -> Posterior:
        """Return the process given y (q, m) at X (q, d), in O(n^2 q): the operator must grow.

        ``noise`` (q, q) is the covariance of y given f. Theory (D5).
        """
        h = self._rows(X)
        A, T = self.parent(self.points, X), self.parent(X) + noise
        operator = self.operator.bordered(A, T, h)
        c, d = self.operator.against(A, h)
        S = T - A.T @ c if d is None or h is None else T - A.T @ c + h @ d
        a = cho_solve(cho_factor(0.5 * (S + S.T), lower=True), y - self.mean(X))
        beta = self.beta if d is None or self.beta is None else self.beta + d @ a
        points, alpha = np.concatenate([self.points, X]), np.concatenate([self.alpha - c @ a, a])
        return Posterior(self.parent, points, alpha, operator, beta=beta, basis=self.basis)

    def diag(self, X: Array) -> Array:
        C = self.operator
        if C.knows_variances:
            return C.var_at(X, self._rows(X))
        P = C.beside(self.points) if C.distant else self.points
        known = batched(lambda x: C.reduce_diag(self.parent(x, P).T, self._rows(x)), X, len(P))
        return np.asarray(self.parent.diag(X) - known)

    def blocks(self, X: Array) -> Array:
        C, eye = self.operator, np.eye(self.alpha.shape[1])
        if C.weighs:
            return C.blocks_at(X, self._rows(X))
        if not isinstance(C, SeveralOperator):
            return np.asarray(self.diag(X)[:, None, None] * eye)

        def one(x: Array) -> Array:
            A = self.parent.each(x, self.points)
            return C.blocks([K.T for K in A] if isinstance(A, list) else A.T, self._rows(x))

        known = batched(one, X, len(self.points) * (len(eye) if self.separate else 1))
        return np.asarray(self.parent.variances(X)[:, :, None] * eye - known)

    @property
    def separate(self) -> bool:
        """Whether its functions have kernels of their own."""
        return isinstance(self.parent, Prior) and self.parent.signal.separate

    def cov_of(self, j: int, X: Array) -> Array:
        """Return the covariance matrix of function j at X, (n, n)."""
        prior, cross = self.parent.each(X), self.parent.each(X, self.points)
        K, A = (one[j] if isinstance(one, list) else one for one in (prior, cross))
        C = self.operator
        if isinstance(C, SeveralOperator):
            return np.asarray(K - C.reduce_of(j, A.T))
        return np.asarray(K - C.reduce(A.T, A.T, None, None))

    def noise(self, X: Array) -> Array:
        prior = self.parent
        if isinstance(prior, Prior) and prior.signal is not prior.kernel and not self.separate:
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
        if self.operator.weighs:
            raise ValueError(
                "a posterior of weights has no points to be projected from: fit with gram='dense'"
            )
        if self.basis is not None:
            raise ValueError("a posterior with an unpenalised basis cannot be projected")
        Kzz = cho_factor(self.parent(points), lower=True)
        B = cho_solve(Kzz, self.parent(points, self.points)).T
        C = self.operator.reduce(B, B, None, None)
        return Posterior(self.parent, points, B.T @ self.alpha, ExplicitOperator(0.5 * (C + C.T)))
