"""Kernels that ask whether two inputs, observations or latent functions are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, Index, as_matrix
from mercer.core.component import POSITIVE, REAL, UNIT, Domains, Names, Words
from mercer.kernels.base import (
    Gradient,
    Kernel,
    like,
    other_points,
    positive,
    prefixed,
    zero_gradient,
)
from mercer.kernels.compose import Wrapper, _Parts
from mercer.kernels.dot import Level
from mercer.kernels.stationary.matern import Matern


class Categorical(Kernel):
    """Kernel of category codes: per column 1 if the codes agree, else ``correlation``; multiplied.

    k = prod_d correlation_d^[x_d != z_d]: neither order nor distance of the codes plays a role.

    Parameters
    ----------
    correlation : float or array (d,), default=0.5; of two different categories, in (0, 1].

    References
    ----------
    Roustant et al., Group kernels for Gaussian process metamodels with categorical inputs (2020),
    section 2 (compound symmetry).

    Examples
    --------
    >>> Categorical(correlation=0.25)(np.array([[0.0]]), np.array([[0.0], [1.0]]))
    array([[1.  , 0.25]])
    """

    domains: ClassVar[Domains] = {"correlation": UNIT}
    spatial = False
    words: ClassVar[Words] = {"correlation": "correlation of different categories"}

    def __init__(self, correlation: float | Array = 0.5) -> None:
        self.correlation = correlation

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.integers(0, 4, size=(n, 2)).astype(float)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, _ = other_points(X, Z)
        K = np.ones((X.shape[0], Z.shape[0]))
        for d, correlation in enumerate(self._correlations(X.shape[1])):
            np.multiply(K, correlation, out=K, where=X[:, d, None] != Z[:, d])
        return K

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        M = self(X, Z)
        M *= Q
        X, Z, _ = other_points(X, Z)
        sums = np.array([M.sum(where=X[:, d, None] != Z[:, d]) for d in range(X.shape[1])])
        sums /= self._correlations(X.shape[1])
        return float(M.sum()), {"correlation": like(self.correlation, sums)}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self  # codes that agree still do

    def _correlations(self, d: int) -> Array:
        correlation, given = np.broadcast_to(positive(self, "correlation", d), d), self.correlation
        if (correlation > 1.0).any():
            raise ValueError(f"Categorical: correlation must lie in (0, 1], got {given!r}")
        return correlation


class Coregionalised(Wrapper):
    """A kernel of rows (x, j) for several outputs j that learn from each other: B_jl k(x, z).

    B = A A' + diag(own): outputs share r functions, and each has one of its own. With ``noise``
    every observation (x, j) has noise of its output's variance: that is no part of the signal.

    Parameters
    ----------
    kernel : Kernel; of x, all columns but the last, which holds the number j = 0 .. m - 1.
    loadings : array (m, r) or None; A, None for outputs that share nothing.
    own : array (m,); positive variances.
    noise : array (m,) or None; positive variances of one observation of each output.

    References
    ----------
    Goovaerts, Geostatistics for natural resources evaluation (1997), section 4.2.3; Bonilla, Chai
    and Williams, Multi-task Gaussian process prediction (2008).

    Examples
    --------
    >>> k = Coregionalised(Matern(), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))
    >>> k(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    array([[ 1.5, -1. ]])
    """

    domains: ClassVar[Domains] = {"loadings": REAL, "own": POSITIVE, "noise": POSITIVE}
    spatial = False
    words: ClassVar[Words] = {
        "loadings": "how much each output has of the shared functions",
        "own": "variance of what each output has of its own",
        "noise": "noise variance of one observation of each output",
    }

    def __init__(
        self, kernel: Kernel, loadings: Array | None, own: Array, noise: Array | None = None
    ) -> None:
        self.kernel, self.loadings, self.own, self.noise = kernel, loadings, own, noise

    @classmethod
    def example(cls) -> Self:
        A = np.array([[1.0, 0.3], [-0.4, 0.8], [0.2, 0.5]])
        return cls(Matern(nu=2.5, length_scale=0.8), A, np.array([0.3, 0.2, 0.5]))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        inputs = self.kernel.example_inputs(rng, n)
        return np.column_stack([inputs, rng.integers(0, len(self.own), n).astype(float)])

    @property
    def positional(self) -> bool:
        return self.noise is not None or self.kernel.positional

    @property
    def covariance(self) -> Array:
        """B (m, m)."""
        own = np.diag(positive(self, "own", len(self.own)))
        return own if self.loadings is None else own + self.loadings @ self.loadings.T

    def outputs(self, X: Array) -> Index:
        """Return the output j of each row (n,), or refuse a number that is none."""
        numbers, m = np.rint(X[:, -1]).astype(np.intp), len(self.own)
        off = np.abs(numbers - X[:, -1]).max(initial=0.0) > 1e-9
        if X.shape[1] < 2 or off or not ((numbers >= 0) & (numbers < m)).all():
            raise ValueError(f"the last column holds the number of the output, 0 .. {m - 1}")
        return numbers

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = other_points(X, Z)
        t, s = self.outputs(X), self.outputs(Z)
        K = self.kernel(X[:, :-1], None if same else Z[:, :-1])
        K *= self.covariance[np.ix_(t, s)]
        if same and self.noise is not None:
            K.flat[:: len(K) + 1] += positive(self, "noise", len(self.own))[t]
        return K

    def diag(self, X: Array) -> Array:
        X = as_matrix(X)
        t = self.outputs(X)
        found = self.kernel.diag(X[:, :-1]) * np.diagonal(self.covariance)[t]
        return found if self.noise is None else found + positive(self, "noise", len(self.own))[t]

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        X, Z, same = other_points(X, Z)
        x, z = X[:, :-1], None if same else Z[:, :-1]
        left, right = (np.eye(len(self.own))[self.outputs(rows)] for rows in (X, Z))
        B = self.covariance
        value, gradient = self.kernel._value_and_pullback(x, z, Q * (left @ B @ right.T))
        G = left.T @ (Q * self.kernel(x, z)) @ right  # d<Q, K>/dB
        noise = left.T @ np.diagonal(Q) if same else np.zeros(len(B))
        value += 0.0 if self.noise is None else float(noise @ self.noise)
        return value, prefixed("kernel", gradient) | self.slopes(G, noise)

    def slopes(self, G: Array, noise: Array) -> Gradient:
        """Return the gradient in its own parameters from those in B (m, m) and the noise (m,)."""
        found = Gradient(own=np.diagonal(G).copy())
        if self.loadings is not None:
            found["loadings"] = (G + G.T) @ self.loadings
        return found if self.noise is None else found | Gradient(noise=noise)

    def noise_free(self) -> Kernel | None:
        signal = self.kernel.noise_free()
        if signal is None or (signal is self.kernel and self.noise is None):
            return None if signal is None else self
        return Coregionalised(signal, self.loadings, self.own)

    def terms(self) -> list[Kernel]:
        return [self]

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return Kernel.in_units(self, shift, scale)  # of all columns, the last included

    def resolve(self, names: Sequence[str] | None, n_features: int) -> Kernel:
        inner = self.kernel.resolve(None if names is None else names[:-1], n_features - 1)
        return self._rebuilt({"kernel": inner})

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        inner = self.kernel.frozen(X[:, :-1], weights)
        return self if inner is self.kernel else self._rebuilt({"kernel": inner})


class Nugget(Level):
    """An independent random effect for each distinct input: k = variance if x = z, else 0.

    Two rows with the same inputs share the effect, where :class:`White` gives each of them its own
    draw. Given repeated rows, it separates variation that repeats with the inputs from the noise
    of the loss. At a new input it adds to the variance as noise does.

    Parameters
    ----------
    variance : float, default=1.0; positive variance of the effect, in squared units of f.

    References
    ----------
    Cressie, Statistics for Spatial Data (1993), section 3.2.1.

    Examples
    --------
    >>> Nugget(0.5)(np.array([[1.0]]), np.array([[1.0], [2.0]]))
    array([[0.5, 0. ]])
    """

    domains: ClassVar[Domains] = {"variance": POSITIVE}
    words: ClassVar[Words] = {"variance": "variance of what every place has of its own"}
    names: ClassVar[Names] = {"matern52_nugget": lambda: Matern(nu=2.5) + Nugget(0.5)}

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.integers(0, 4, size=(n, 2)).astype(float)

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        K[_equal(X, Z)] += self._variance()

    def _total(self, X: Array, Z: Array | None, Q: Array) -> float:
        return float(np.sum(Q[_equal(X, Z)]))


def _equal(X: Any, Z: Any) -> tuple[Index, Index]:
    """Return the pairs (i, j) of rows with x_i = z_j: one look-up for each row, no n x m array."""
    X, Z, _ = other_points(X, Z)
    places: dict[bytes, list[int]] = {}
    for j, row in enumerate(np.ascontiguousarray(Z + 0.0)):  # the bytes of -0 become those of 0
        places.setdefault(row.tobytes(), []).append(j)
    found = [places.get(row.tobytes(), []) for row in np.ascontiguousarray(X + 0.0)]
    rows = np.repeat(np.arange(len(found)), [len(each) for each in found])
    return rows, np.array([j for each in found for j in each], dtype=np.intp)


class White(Level):
    """Independent noise: variance ``noise`` between each point and itself, zero otherwise.

    It adds to ``k(X)``, not to ``k(X, Z)``: two rows of the same values are two observations.

    Parameters
    ----------
    noise : float, default=1.0; positive noise variance, in squared units of the function.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (2.20).

    Examples
    --------
    >>> (Matern() + White(0.1))(np.zeros((2, 1)))
    array([[1.1, 1. ],
           [1. , 1.1]])
    """

    domains: ClassVar[Domains] = {"noise": POSITIVE}
    positional = True
    words: ClassVar[Words] = {"noise": "noise variance of one observation"}
    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, noise: float = 1.0) -> None:
        self.noise = noise

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        noise = self._variance()
        if Z is None:
            K.flat[:: K.shape[1] + 1] += noise

    def _total(self, X: Array, Z: Array | None, Q: Array) -> float:
        return float(np.trace(Q)) if Z is None else 0.0

    def noise_free(self) -> Kernel | None:
        return None

    def width(self, X: Array) -> int | None:
        return 0


class Noise(Wrapper):
    """Coloured noise: a kernel that is part of what is observed, not of the signal.

    ``k(X)`` and its diagonal are those of the kernel inside; ``k(X, Z)`` is zero.

    Parameters
    ----------
    kernel : Kernel; covariance of the noise.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 5.4.3 (fourth term).

    Examples
    --------
    >>> (Matern() + Noise(0.2 * Matern(nu=0.5))).diag(np.zeros((1, 1)))
    array([1.2])
    """

    positional = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @classmethod
    def example(cls) -> Self:
        return cls(0.3 * Matern(nu=0.5, length_scale=0.4))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel(X) if Z is None else np.zeros((len(X), len(Z)))

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X)

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        if Z is not None:
            return 0.0, zero_gradient(self)
        value, gradient = self.kernel._value_and_pullback(X, None, Q)
        return value, prefixed("kernel", gradient)

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        if Z is None:
            self.kernel._add_to(K, X, None)

    def noise_free(self) -> Kernel | None:
        return None


class Several(_Parts, abstract=True):
    """A kernel for each of m latent functions, which are independent before the data speak.

    The covariance of f_i(x) and f_j(z) is k_i(x, z) if i = j, else 0. As it has one value for each
    function it is no kernel of x itself: machines take ``parts``, and a list of kernels is made one
    (``GPRegressor(kernel=[...], loss="heteroscedastic")``, ``GPClassifier(kernel=[...])``).

    Parameters
    ----------
    parts : sequence of Kernel; one for each latent function, in the order of the loss.

    References
    ----------
    Jaakkola and Haussler, Probabilistic kernel regression models (1999), theorem 1.

    Examples
    --------
    >>> Several([Matern(), 0.5 * Matern(nu=0.5)]).map(lambda k: 3.0 * k).parts[1]
    Scale(kernel=Matern(nu=0.5), variance=1.5)
    """

    alike = True
    separate = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        raise self._of_each("k(x, z)")

    def diag(self, X: Array) -> Array:
        raise self._of_each("k(x, x)")

    def pullback(self, X: Array, Z: Array | None, Q: Array) -> Gradient:
        raise self._of_each("d<Q, k>")

    @staticmethod
    def _of_each(what: str) -> NotImplementedError:
        return NotImplementedError(
            f"there is a kernel for each latent function, and {what} is that of one of them: take "
            "it from .parts"
        )

    def noise_free(self) -> Kernel | None:
        signals, same = self._signals()
        known = {str(i): part for i, part in enumerate(signals) if part is not None}
        return self if same else self._rebuilt(known) if len(known) == len(signals) else None

    def workspace(self) -> int:
        return 1 + len(self.parts) + max(part.workspace() for part in self._checked())

    def map(self, change: Callable[[Kernel], Kernel]) -> Several:
        """Return the same with each kernel changed."""
        return Several([change(part) for part in self._checked()])
