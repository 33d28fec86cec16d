"""Gram and Factor: the contract between kernels and inference.

A Gram is the matrix K = k(P, P) on points P (n, d) in some representation. Its Factor for weights
W (n,) answers everything an inference asks of C = (K + W^-1)^-1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.base import Gradient
from mercer.linalg.operators import ExplicitOperator, PosteriorOperator


class Covariance(Protocol):
    """What a Gram is built from: a kernel, or a process that serves as the next prior."""

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Return the covariance (n, p) of X (n, d) and Z (p, d)."""

    def diag(self, X: Array) -> Array:
        """Return the variance (n,) at X."""


class Charge(NamedTuple):
    """What a lower bound on an evidence pays: half the trace of W (K - Q).

    ``slope`` (n,) is its derivative by W, ``freedom`` is sum_i C_ii / W_i.
    """

    value: float
    slope: Array
    freedom: float


class Factor(ABC):
    """C = (K + W^-1)^-1 for one Gram and one W; W_i = 0 (no information) is allowed.

    ``jitter`` is what was added to each variance, relatively; None where that cannot happen.
    """

    jitter: float | None = None
    exact: ClassVar[bool] = True  # whether nothing of K is left out or approximated
    has_diagonal: ClassVar[bool] = True  # whether ``diag`` and ``cov_diag`` can be had

    @abstractmethod
    def solve(self, V: Array) -> Array:
        """C V for V (n, m)."""

    def quad(self, A: Array, B: Array) -> Array:
        """A' C B for A (n, p), B (n, q): shape (p, q)."""
        return np.asarray(A.T @ self.solve(B))

    def quad_diag(self, A: Array) -> Array:
        """diag(A' C A) for A (n, p): shape (p,)."""
        return np.asarray(np.einsum("ij,ij->j", A, self.solve(A)))

    @abstractmethod
    def diag(self) -> Array:
        """The diagonal of C, shape (n,)."""

    @abstractmethod
    def cov_diag(self) -> Array:
        """The diagonal of K - K C K = (K^-1 + W)^-1, shape (n,)."""

    def cov(self) -> Array:
        """K - K C K = (K^-1 + W)^-1 in a fresh (n, n) array."""
        raise NotImplementedError(f"{type(self).__name__} has no explicit covariance")

    def release(self) -> None:
        """Give the memory to the next factor of the same Gram; this one is of no use afterwards."""
        return

    @abstractmethod
    def logdet(self) -> float:
        """log |I + K W|."""

    def logdet_noisy(self) -> float:
        """log |K + W^-1|; needs W_i > 0 for all i, W_i = inf allowed."""
        raise NotImplementedError(f"{type(self).__name__} has no log |K + W^-1|; use logdet()")

    def gradient_weights(self, a: Array, count: float) -> Array:
        """Return (a a' - count C) / 2 in a fresh symmetric (n, n) array, for a (n, m)."""
        raise NotImplementedError(f"{type(self).__name__} has no explicit inverse")

    def add_to(self, M: Array) -> None:
        """Add C to the upper triangle (row-major) of M (n, n)."""
        M += self.gradient_weights(np.zeros((len(M), 1)), -2.0)

    @property
    def report(self) -> dict[str, Any]:
        """What was done to the numbers, e.g. {"jitter": 0.0}."""
        return {} if self.jitter is None else {"jitter": self.jitter}

    def projected(self, H: Array) -> Factor:
        """Return the factor P with the unpenalised basis H (n, k) projected out."""
        raise NotImplementedError(f"{type(self).__name__} takes no unpenalised basis")

    def basis_coefficients(self, z: Array) -> Array:
        """Return the coefficients (k, m) of the basis that was projected out, for targets z."""
        raise NotImplementedError(f"{type(self).__name__} takes no unpenalised basis")

    def sites(self, h: Array, off: Array | float = 0.0) -> tuple[Array, Array]:
        """Return weights (n, m) and coefficients (k, m) of sites with natural parameters h (n, m).

        Of the basis that was projected out, H'(weights) = -off.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no unpenalised basis")

    def charge(self) -> Charge | None:
        """Return what a bound pays for prior variance that is not represented; None if exact."""
        return None

    def bounds(self, z: Array, alpha: Array) -> tuple[float, float] | None:
        """Return certain bounds on the log density of z (n, m), by solutions alpha; or None."""
        return None

    @property
    def unexplained(self) -> Array | float:
        """Prior variance (n,) at the points that the representation leaves out."""
        return 0.0

    def beginning(self) -> Factor | None:
        """Return what a nearby problem begins from beyond a, W and f, without an n x n array."""
        return None

    def operator(self) -> PosteriorOperator:
        """Return C as the operator of a finished posterior (dense if nothing better is known)."""
        return ExplicitOperator(self.solve(np.eye(len(self.diag()))))


class Gram(ABC):
    """K = k(P, P) in some representation.

    Attributes
    ----------
    points : (n, d) the points P.
    name : how a report calls this algebra.
    flat : how many functions with a flat prior stand beside K, as part of the Gram.
    """

    exact: ClassVar[bool] = True  # whether nothing of K is left out or approximated
    few: ClassVar[bool] = False  # whether rows are known by few features each: no n x n arrays
    points: Array
    name: str = "dense"
    flat: int = 0

    @abstractmethod
    def __matmul__(self, V: Array) -> Array:
        """K V for V (n, m)."""

    @abstractmethod
    def diag(self) -> Array:
        """The diagonal of K, shape (n,)."""

    @abstractmethod
    def rows(self, index: Index) -> Array:
        """Rows of K, shape (len(index), n)."""

    def each(self, m: int) -> list[Gram]:
        """Return the Gram of each of m latent functions: this one, shared by all."""
        return [self] * m

    @property
    def support(self) -> Array:
        """The points of the posterior: the points, or few that stand for all."""
        return self.points

    def carry(self, alpha: Array) -> Array:
        """Return the coefficients on the support of alpha (n, m) on the points."""
        return alpha

    def stands(
        self, alpha: Array, factor: Factor, beta: Array | None, z: Array
    ) -> tuple[Array, Array, PosteriorOperator]:
        """Return the points, the coefficients on them and the operator of a posterior.

        z (n, m) are the site means that alpha (n, m) was found from.
        """
        return self.points, alpha, factor.operator()

    def joint(self, D: Array) -> Factor | None:
        """Return C for softmax sites D = w p (n, c), where there is a shorter way; or None."""
        return None

    def square_root(self) -> Array:
        """Return G (n, r) with G G' = K; do not write to it."""
        K = self.rows(np.arange(len(self.points)))
        values, vectors = np.linalg.eigh(0.5 * (K + K.T))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))  # -1e-16 is zero

    @property
    def matrix(self) -> Array:
        """K (n, n); do not write to it."""
        return self.rows(np.arange(len(self.points)))

    def source(self, order: Index | None = None) -> tuple[Kernel, Array]:
        """Return a kernel and n points (in ``order`` (n,)) with K, for a solver that needs rows."""
        at = np.arange(len(self.points)) if order is None else order
        return Precomputed(self.matrix), at[:, None].astype(np.float64)

    @abstractmethod
    def factor(self, W: Array) -> Factor:
        """Return the Factor for weights W (n,)."""

    def placed(self, factor: Factor, z: Array, rest: Array) -> tuple[Array, Array]:
        """Return the mean f (n,), less that of the prior, and the weights a (n,) of Gaussian sites.

        ``z`` (n,) are the means of the sites that have one, ``rest`` (n,) the natural parameters of
        the others; flat functions are part of f.
        """
        if np.any(rest):
            z = z - np.asarray(self @ rest[:, None])[:, 0]
        a = factor.solve(z[:, None])[:, 0] + rest
        return np.asarray(self @ a[:, None])[:, 0], np.asarray(a)

    def joined(self, factor: Factor) -> Factor:
        """Return the factor of coupled functions with flat functions projected out, if any."""
        return factor

    def step(self, factor: Factor, s: Array, a: Array) -> tuple[Array, Array]:
        """Return the Newton step of a (n, m) from its residual s: da = (I + W K)^-1 s = s - C K s.

        The second is the step (k, m) of the coefficients of flat functions.
        """
        return s - factor.solve(np.asarray(self @ s)), np.zeros((0, s.shape[1]))

    def fitted(self, W: Array, z: Array) -> tuple[Factor, Array, Array]:
        """Return the factor for W (n,), the mean f = K a (n,) for targets z (n,), and a = C z.

        Flat functions are part of f; a = W (z - f).
        """
        factor = self.factor(W)
        a = factor.solve(z[:, None])
        return factor, np.asarray(self @ a)[:, 0], a[:, 0]

    def unpenalised(self, f: Array, a: Array) -> Array:
        """Return what of f (n,) is not penalised, f - K a; flat functions may be left in."""
        return np.asarray(f - np.asarray(self @ a[:, None])[:, 0])

    def smoothed(self, factor: Factor, s: Array) -> tuple[Array, Array]:
        """Sigma s for s (n,), Sigma = (K^-1 + W)^-1, and z = (I - C K) s = K^-1 Sigma s."""
        z = s[:, None] - factor.solve(np.asarray(self @ s[:, None]))
        return np.asarray(self @ z)[:, 0], z[:, 0]

    def take(self) -> Array:
        """Return an (n, n) array to be filled, one that was given back if there is any."""
        return np.empty((len(self.points), len(self.points)))

    def give(self, *done: Array | None) -> None:
        """Take back (n, n) arrays that nobody reads any more."""
        return

    @abstractmethod
    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """dE/d(kernel parameters) by formula (3), dE/dK = (alpha alpha' - C)/2 + U V'.

        alpha is (n, m): m outputs that share K, so C counts m times. U V' need not be symmetric.
        """

    @abstractmethod
    def contract(self, Q: Array) -> Gradient:
        """d<Q, K>/d(kernel parameters) for a symmetric Q (n, n)."""


class NoSpread(Factor):
    """C = 0: a mode says where the function is, not how far it may be from there."""

    def __init__(self, variance: Array) -> None:
        self.variance = variance

    def solve(self, V: Array) -> Array:
        return np.zeros_like(V)

    def diag(self) -> Array:
        return np.zeros(len(self.variance))

    def cov_diag(self) -> Array:
        return self.variance

    def logdet(self) -> float:
        return 0.0

    def operator(self) -> ExplicitOperator:
        return ExplicitOperator(None)
