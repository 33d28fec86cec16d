"""Kernels with an explicit feature map (``Mapped``), and random Fourier features as one of them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix, is_sparse
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import Gradient, Kernel, inner, like, other_points, positive, rescaled
from mercer.kernels.parameters import whole


class Mapped(Kernel, abstract=True):
    """k(x, z) = phi(x)'phi(z). A subclass implements ``features``, phi(X) (n, m)."""

    def features(self, X: Any) -> Any:
        raise self._unstated("features(X)", "phi(X) (n, m), dense or sparse")

    def __call__(self, X: Any, Z: Any = None) -> Array:
        X = rows_of(X)
        F = self.features(X)
        if Z is None:
            return product(F, F)
        Z = rows_of(Z)
        if X.shape[1] != Z.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}")
        return product(F, self.features(Z))

    def width(self, X: Array) -> int | None:
        """See :class:`Kernel`; None where there are parameters and no gradient is stated."""
        stated = type(self).explicit_pullback is not Kernel.explicit_pullback
        if not stated and any(True for _ in self.differentiable()):
            return None
        return int(self.features(X[:1]).shape[1])

    def diag(self, X: Any) -> Array:
        F = self.features(rows_of(X))
        if is_sparse(F):
            return np.asarray(F.multiply(F).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", F, F))


def rows_of(X: Any) -> Any:
    """Return X (n, d) as a row-major matrix of doubles; a sparse one unchanged."""
    return X if is_sparse(X) else as_matrix(X)


def product(F: Any, G: Any) -> Array:
    """Return F G' (n, p), dense, of features that are both dense or both sparse."""
    K = F @ G.T
    return np.ascontiguousarray(K.toarray() if is_sparse(K) else K)


def not_frozen(kernel: Kernel, name: str) -> ValueError:
    """Return the error of a kernel that has not seen any data yet."""
    return ValueError(
        f"{type(kernel).__name__} takes {name} from the first rows it sees, and has seen none: "
        f"call kernel.frozen(X) first (estimators do it in fit), or give {name}"
    )


class RandomFourier(Mapped):
    """Random Fourier features of the RBF or a Matern kernel: an explicit map of 2 * size columns.

        k(x, z) = 1/size sum_j cos(omega_j'(x - z) / length_scale)
        phi(x) = (cos(omega_j'x / length_scale), sin(omega_j'x / length_scale)) / sqrt(size)

    with omega_j from the kernel's spectral density. k differs from that kernel by 1/sqrt(size).

    Parameters
    ----------
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).
    size : int, default=200; number of frequencies, 1 or more.
    nu : float or None, default=None; positive smoothness of the Matern kernel; None is the RBF.
    seed : int, default=0; of the frequencies: equal seeds are equal kernels.
    frequencies : array (size, d) or None, default=None
        The draws at length scale one. None draws them from ``seed``; an estimator keeps them, so
        that a model file does not depend on a random number generator.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines (2007); GPML section 4.2.1.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0.0, 2.0, 5)[:, None]
    >>> bool(np.abs(RandomFourier(size=2000)(X) - RBF()(X)).max() < 0.05)
    True
    """

    domains: ClassVar[Domains] = {"length_scale": POSITIVE}
    words: ClassVar[Words] = {
        "length_scale": "length scale: the distance over which the function changes"
    }

    def __init__(
        self,
        length_scale: float | Array = 1.0,
        size: int = 200,
        nu: float | None = None,
        seed: int = 0,
        frequencies: Array | None = None,
    ) -> None:
        self.length_scale = length_scale
        self.size = size
        self.nu = nu
        self.seed = seed
        self.frequencies = frequencies

    @classmethod
    def example(cls) -> Self:
        return cls(length_scale=1.3, size=30, nu=2.5)

    def frozen(self, X: Any, weights: Array | None = None) -> Self:
        return self._restated(frequencies=self._draws(X.shape[1]))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(length_scale=rescaled(self.length_scale, scale))  # shifts cancel

    def features(self, X: Any) -> Any:
        X = as_matrix(X)
        d = X.shape[1]
        P = (X / positive(self, "length_scale", d)) @ self._draws(d).T
        F = np.empty((len(P), 2 * P.shape[1]))
        np.cos(P, out=F[:, : P.shape[1]])
        np.sin(P, out=F[:, P.shape[1] :])
        F /= np.sqrt(P.shape[1])
        return F

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        X, Z, same = other_points(X, Z)
        F = self.features(X)
        G = F if same else self.features(Z)
        slope = self._slope(X, F, Q @ G)
        slope = 2.0 * slope if same else slope + self._slope(Z, G, Q.T @ F)
        return inner(Q @ G, F), {"length_scale": like(self.length_scale, slope)}

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        return {"length_scale": like(self.length_scale, self._slope(X, F, D))}

    def _slope(self, X: Array, F: Array, D: Array) -> Array:
        """Return d<D, F>/d length_scale (d,), F the features of X and D (n, 2 size) held fixed."""
        m = F.shape[1] // 2
        H = F[:, :m] * D[:, m:] - F[:, m:] * D[:, :m]  # by the phases omega'x / length_scale
        scale = positive(self, "length_scale", X.shape[1])
        return np.asarray(-np.einsum("id,id->d", X, H @ self._draws(X.shape[1])) / scale**2)

    def _draws(self, d: int) -> Array:
        size = whole(self, "size", 1)
        if self.frequencies is not None:
            omega = np.asarray(self.frequencies, dtype=np.float64)
            if omega.shape != (size, d) or not np.isfinite(omega).all():
                what = f"finite and of shape ({size}, {d}), size x columns, got {omega.shape}"
                raise ValueError(f"RandomFourier: frequencies must be {what}")
            return omega
        rng = np.random.default_rng(whole(self, "seed", 0))
        omega = rng.standard_normal((size, d))
        if self.nu is None:
            return omega
        nu = float(positive(self, "nu"))  # GPML (4.15): Student's t with 2 nu degrees of freedom
        return np.asarray(omega / np.sqrt(rng.chisquare(2.0 * nu, size) / (2.0 * nu))[:, None])
