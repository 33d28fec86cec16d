"""A metric of the inputs that is learned, not one length scale for each column; theory (F14)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.component import POSITIVE, REAL, Domains, Words
from mercer.kernels.base import Gradient, Kernel, like, positive, prefixed
from mercer.kernels.features.fourier import not_frozen
from mercer.kernels.inputs.columns import LinearMap
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import RBF


class Mahalanobis(LinearMap):
    """A kernel of linearly mapped inputs: any stationary one with a matrix for its length scales.

    With factors L (d, q) and weights w, the kernel inside sees (L'x, w x). One of the distance then
    sees the squared distance

        (x - z)' (L L' + diag(w^2)) (x - z),

    q directions of the inputs in which the function changes, beside the columns themselves. Give
    the kernel inside a fixed length scale, ``RBF().fix()``: the metric has it already.

    Parameters
    ----------
    kernel : Kernel; of the mapped inputs, q + d columns (q without ``weight``).
    factors : array (d, q) or None, default=None
        In inverse units of the inputs, searched as they are. None takes a start of ``rank`` columns
        from the first rows seen; give some where the function has several waves across the data.
    weight : float, array (d,) or None, default=1.0; positive inverse length scales; None: no part.
    rank : int, default=1; q where the factors are not given.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (5.2), the factor
    analysis distance.

    Examples
    --------
    >>> kernel = Mahalanobis(RBF().fix(), np.array([[1.0], [-1.0]]), weight=None)
    >>> kernel(np.zeros((1, 2)), np.array([[3.0, 3.0], [1.0, 0.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    domains: ClassVar[Domains] = {"factors": REAL, "weight": POSITIVE}
    words: ClassVar[Words] = {
        "factors": "directions of the inputs in which the function changes",
        "weight": "inverse length scales of the columns themselves",
    }

    def __init__(
        self,
        kernel: Kernel,
        factors: Array | None = None,
        weight: float | Array | None = 1.0,
        rank: int = 1,
    ) -> None:
        self.kernel, self.factors, self.weight, self.rank = kernel, factors, weight, rank

    @classmethod
    def example(cls) -> Self:
        return cls(
            RBF(length_scale=1.2).fix(), np.array([[0.5, 0.1], [-0.4, 0.3], [0.2, 0.7]]), 0.6
        )

    def width(self, X: Array) -> int | None:
        return None  # a finite map says nothing of how it moves with the metric

    def explicit(self, X: Array) -> Any:
        return None

    def as_rbf(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        return self.kernel.as_rbf(self._inside(X), self._inside(centre[None])[0])

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if self.factors is not None:
            return super().frozen(X, weights)
        X = as_matrix(X)
        d, w = X.shape[1], np.ones(len(X)) if weights is None else weights
        spread = np.sqrt(w @ (X - w @ X / w.sum()) ** 2 / w.sum())
        # zero would be a saddle of every criterion: small directions that favour no column
        drawn = np.random.default_rng(0).standard_normal((d, whole(self, "rank", 1)))
        start = 0.3 * drawn / (np.sqrt(d) * np.where(spread > 0.0, spread, 1.0))[:, None]
        clone = self._restated(factors=start)
        clone.kernel = self.kernel.frozen(clone._inside(X), weights)
        return clone

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # d<Q, k(XA, ZA)>/dA = X'G + Z'H, with G and H the slopes by the mapped points
        U, V = self._both(X, Z)
        value, gradient = self.kernel._value_and_pullback(U, V, Q)
        X, Z = as_matrix(X), None if Z is None else as_matrix(Z)
        if Z is None or V is None:
            by_map = 2.0 * X.T @ self.kernel.pullback_points(U, U, Q)
        else:
            by_map = Z.T @ self.kernel.pullback_points(U, V, Q)
            by_map += X.T @ self.kernel.pullback_points(V, U, np.ascontiguousarray(Q.T))
        return value, self._by_path(by_map) | prefixed("kernel", gradient)

    def _by_path(self, by_map: Array) -> Gradient:
        q = self._factors(len(by_map)).shape[1]
        gradient: Gradient = {"factors": np.ascontiguousarray(by_map[:, :q])}
        if self.weight is not None:
            gradient["weight"] = like(self.weight, np.diagonal(by_map[:, q:]).copy())
        return gradient

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        return Kernel.diag_pullback(self, X, q, noise=noise)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, 3 if self.factors is None else len(self.factors)))

    def _map(self, d: int) -> Array:
        """Return A (d, q + d): the mapped inputs are X A."""
        L = self._factors(d)
        if self.weight is None:
            return L
        return np.hstack([L, np.diag(np.broadcast_to(positive(self, "weight", d), d))])

    def _factors(self, d: int) -> Array:
        if self.factors is None:
            raise not_frozen(self, "factors")
        L = np.asarray(self.factors, dtype=np.float64)
        if L.ndim != 2 or len(L) != d or not L.shape[1] or not np.isfinite(L).all():
            raise ValueError(
                f"Mahalanobis: for inputs of {d} columns the factors must be finite numbers in {d} "
                f"rows, and a column for each direction, got shape {L.shape}"
            )
        return L
