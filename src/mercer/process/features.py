"""Functions that are linear in features: those of a kernel, or what a relevance search leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.linalg.operators import CholeskyOperator
from mercer.process.process import BATCH_BYTES, Process, batched


class FeatureProcess(Process):
    """Formulas (1) and (2) in weight space, for a mode: the covariance is that of the kernel.

        mean(x) = phi(x)'w + b,    cov(x, z) = k(x, z) = phi(x)'phi(z)

    What was learned is in the weights, so that memory does not grow with the rows seen.

    Parameters
    ----------
    kernel : k, which offers the features phi.
    weights : (k, m) weights of the m features, one row for each of k functions.
    bias : (k,) constants b, zero if None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> FeatureProcess(Linear(), np.array([[1.0, -2.0]]), np.array([0.5])).mean(np.eye(2))
    array([[ 1.5],
           [-1.5]])
    """

    def __init__(self, kernel: Kernel, weights: Array, bias: Array | None = None) -> None:
        self.kernel, self.weights, self.bias = kernel, weights, bias

    def of_features(self, F: Any) -> Array:
        """Return the mean without the bias for features F (q, m), which may be sparse: (q, k)."""
        return np.asarray(F @ self.weights.T)

    def mean(self, X: Any) -> Array:
        width = 2 * self.weights.shape[1]
        f = batched(lambda rows: self.of_features(self.kernel.features(rows)), X, width)
        return f if self.bias is None else f + self.bias

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel(X, Z)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X)


class Sparse(Process):
    """A process on few functions, X (q, d) -> phi (q, p), the flat ones first.

        mean(x) = phi(x)'mu,    cov(x, z) = phi(x)' Sigma phi(z)

    mu (p,) and the operator ``spread`` Sigma are those of the posterior of the weights. As a prior
    this is a Gaussian process of finite rank (GPML 6.45): far from all centres phi, and with it the
    variance, tends to zero. Theory (R3), (R9), (R10).
    """

    def __init__(
        self, functions: Callable[[Array], Array], mu: Array, spread: CholeskyOperator
    ) -> None:
        self.functions, self.mu, self.spread = functions, mu, spread

    def mean(self, X: Array) -> Array:
        p = len(self.mu)
        return _batched(lambda part: self.functions(part) @ self.mu, X, p)[:, None]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        if not len(self.mu):
            return np.zeros((len(X), len(X if Z is None else Z)))
        A = self.functions(X).T
        B = A if Z is None else self.functions(Z).T
        return self.spread.reduce(A, B, None, None)

    def diag(self, X: Array) -> Array:
        if not len(self.mu):
            return np.zeros(len(X))
        p = len(self.mu)
        return _batched(lambda x: self.spread.reduce_diag(self.functions(x).T, None), X, p)


def _batched(one: Callable[[Array], Array], X: Array, width: int) -> Array:
    """Return ``one`` at X (q, d), its last axis; ``width`` doubles are needed for each row."""
    size = max(1, BATCH_BYTES // (8 * max(1, width)))
    if len(X) <= size:
        return np.asarray(one(X))
    return np.concatenate([one(X[i : i + size]) for i in range(0, len(X), size)], axis=-1)


@dataclass(frozen=True)
class Augmentation:
    """What the added function needs of the training rows: where they are and what each says."""

    kernel: Kernel  # of the functions
    points: Array  # (n, d) the training rows
    F: Array  # (p, n) the functions in the model at the rows
    a: Array  # (n,) derivative of each row's log likelihood
    b: Array  # (n,) its curvature
    variance: float  # of the added function at its own centre


class Augmented(Sparse):
    """The process with one more function, centred on each point where it is asked.

    Rasmussen & Quinonero-Candela (2005), section 4: with phi_* = k(X, x), its precision alpha_* and
    e = phi_*(x) - phi(x)'Sigma F B phi_*,  q = phi_*'a,  s = phi_*'C^-1 phi_*,

        mean += e q / (alpha_* + s),      var += e^2 / (alpha_* + s)

    alpha_* = k(x, x)^2 / variance, so that far away the variance tends to ``variance``. Each point
    has its own model: there is no covariance between points.
    """

    def __init__(self, plain: Sparse, added: Augmentation) -> None:
        super().__init__(plain.functions, plain.mu, plain.spread)
        self.added = added

    def _moments(self, X: Array) -> Array:
        """Mean and variance at X (q, d): (2, q)."""
        added = self.added
        phi, star = self.functions(X).T, added.kernel(added.points, X)
        height, there = added.kernel.diag(X), (added.F * added.b) @ star
        near, there = (self.spread.half(A) if len(self.mu) else A for A in (phi, there))
        e = height - np.einsum("ij,ij->j", near, there)
        s = added.b @ star**2 - np.einsum("ij,ij->j", there, there)
        total = height**2 / added.variance + np.maximum(s, 0.0)  # s is a squared length
        total[total == 0.0] = np.inf  # a function that is zero at its centre adds nothing
        mean = self.mu @ phi + e * (added.a @ star) / total
        return np.array([mean, np.einsum("ij,ij->j", near, near) + e**2 / total])

    def mean(self, X: Array) -> Array:
        return np.asarray(_batched(self._moments, X, 2 * len(self.added.points))[0][:, None])

    def diag(self, X: Array) -> Array:
        return np.asarray(_batched(self._moments, X, 2 * len(self.added.points))[1])

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        raise ValueError(
            "augmented error bars (heal) are defined one point at a time and have no covariance "
            "between points; use heal=False for covariances and joint samples, or GPRegressor"
        )
