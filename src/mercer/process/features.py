"""FeatureProcess: functions that are linear in the explicit features of a kernel.

mean(x) = phi(x)'w + b,    cov(x, z) = k(x, z) = phi(x)'phi(z)

What a relevance search leaves: a process on few functions, and its augmented form.

    mean(x) = phi(x)'mu,    cov(x, z) = phi(x)' Sigma phi(z)

phi are the functions that were kept, the flat ones first. As a prior this is a Gaussian process of
finite rank (GPML 6.45): far from all centres phi, and with it the variance, tends to zero.
Theory (R3), (R9), (R10).
"""

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
        self.kernel = kernel
        self.weights = weights
        self.bias = bias

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
    """The process of the weights.

    Parameters
    ----------
    functions : X (q, d) -> phi (q, p).
    mu : (p,) posterior means of the weights.
    spread : Sigma as an operator: R^-T phi has the variance as its squared length.
    """

    def __init__(
        self, functions: Callable[[Array], Array], mu: Array, spread: CholeskyOperator
    ) -> None:
        self.functions, self.mu, self.spread = functions, mu, spread

    def mean(self, X: Array) -> Array:
        return self._batched(lambda part: self.functions(part) @ self.mu, X)[:, None]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        if not len(self.mu):
            return np.zeros((len(X), len(X if Z is None else Z)))
        A = self.functions(X).T
        B = A if Z is None else self.functions(Z).T
        return self.spread.reduce(A, B, None, None)

    def diag(self, X: Array) -> Array:
        if not len(self.mu):
            return np.zeros(len(X))
        return self._batched(lambda x: self.spread.reduce_diag(self.functions(x).T, None), X)

    def _batched(self, one: Callable[[Array], Array], X: Array) -> Array:
        size = max(1, BATCH_BYTES // (8 * self._width))
        if len(X) <= size:
            return np.asarray(one(X))
        return np.concatenate([one(X[i : i + size]) for i in range(0, len(X), size)])

    @property
    def _width(self) -> int:
        """Doubles that a row of a batch needs."""
        return max(1, len(self.mu))


@dataclass(frozen=True)
class Augmentation:
    """What the added function needs of the training rows: where they are and what each says.

    Attributes
    ----------
    kernel, points : the functions' kernel, and the training rows (n, d).
    F : (p, n) the functions in the model at the rows.
    a, b : (n,) derivative and curvature of each row's log likelihood.
    variance : of the added function at its own centre.
    """

    kernel: Kernel
    points: Array
    F: Array
    a: Array
    b: Array
    variance: float


class Augmented(Sparse):
    """The process with one more function, centred on each point where it is asked.

    Rasmussen & Quinonero-Candela (2005), section 4: with phi_* = k(X, x), its precision alpha_* and
    e = phi_*(x) - phi(x)'Sigma F B phi_*,  q = phi_*'a,  s = phi_*'C^-1 phi_*,

        mean += e q / (alpha_* + s),      var += e^2 / (alpha_* + s)

    alpha_* = k(x, x)^2 / variance, so that far away the variance tends to ``variance``. Each point
    has its own model: there is no covariance between points.
    """

    def __init__(
        self,
        functions: Callable[[Array], Array],
        mu: Array,
        spread: CholeskyOperator,
        added: Augmentation,
    ) -> None:
        super().__init__(functions, mu, spread)
        self.added = added

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance at X (q, d), (q,) each."""
        added, both = self.added, []
        size = max(1, BATCH_BYTES // (8 * self._width))
        for i in range(0, max(len(X), 1), size):
            part = X[i : i + size]
            phi = self.functions(part).T
            star = added.kernel(added.points, part)
            height = added.kernel.diag(part)
            near, there = (
                self.spread.half(A) if len(self.mu) else A
                for A in (phi, (added.F * added.b) @ star)
            )
            e = height - np.einsum("ij,ij->j", near, there)
            s = added.b @ star**2 - np.einsum("ij,ij->j", there, there)
            total = height**2 / added.variance + np.maximum(s, 0.0)  # s is a squared length
            total[total == 0.0] = np.inf  # a function that is zero at its centre adds nothing
            mean = self.mu @ phi + e * (added.a @ star) / total
            both.append((mean, np.einsum("ij,ij->j", near, near) + e**2 / total))
        return np.concatenate([m for m, _ in both]), np.concatenate([v for _, v in both])

    def mean(self, X: Array) -> Array:
        return self.moments(X)[0][:, None]

    def diag(self, X: Array) -> Array:
        return self.moments(X)[1]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Raise: augmented predictions have no covariance between points."""
        raise ValueError(
            "augmented error bars (heal) are defined one point at a time and have no covariance "
            "between points; use heal=False for covariances and joint samples, or GPRegressor"
        )

    @property
    def _width(self) -> int:
        return max(1, 2 * len(self.added.points))
