"""Complete grids: K = K_1 x K_2 x ... of a product of kernels on columns of their own.

With K_j = U_j diag(l_j) U_j' the eigenvectors of K are the products of those of its factors, and
(K + s I)^-1, its diagonal, determinant and gradients cost O(n sum_j n_j) for one noise level s. n
rows are then a matter of n_j^3 each. Reference: Saatci, Scalable inference for structured Gaussian
process models (2012), chapter 5.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from mercer.core.arrays import Array, Index, group_rows
from mercer.core.errors import NotPositiveDefiniteError
from mercer.core.memory import require_memory
from mercer.kernels.base import Gradient, Kernel, prefixed
from mercer.kernels.compose import Product, Scale
from mercer.kernels.inputs.columns import Columns
from mercer.linalg.gram import Covariance, Factor, Gram
from mercer.linalg.operators import PosteriorOperator


def factors_of(kernel: Kernel) -> tuple[float, list[Kernel], list[list[int]]] | None:
    """Return variance, factors and their columns of a product on columns of their own; or None.

    Examples
    --------
    >>> from mercer.kernels import RBF, Matern
    >>> factors_of(2.0 * (RBF().on([0, 2]) * Matern().on(1)))[2]
    [[0, 2], [1]]
    >>> factors_of(RBF().on(0) * RBF().on(0)) is None
    True
    """
    variance = 1.0
    if isinstance(kernel, Scale):
        variance, kernel = float(kernel.variance), kernel.kernel
    if not isinstance(kernel, Product):
        return None
    parts, seen = list(kernel.parts), []
    for part in parts:
        inner = part
        while isinstance(inner, Scale):
            inner = inner.kernel
        if not isinstance(inner, Columns) or inner.noise_free() is not inner:
            return None
        seen.append([int(c) for c in inner.columns if not isinstance(c, str)])
    every = [c for columns in seen for c in columns]
    return (variance, parts, seen) if len(set(every)) == len(every) else None


class KroneckerGram(Gram):
    """K of a product of kernels at points (n, d) that are all combinations of some values.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> X = np.array([[x, t] for x in (0.0, 1.0, 3.0) for t in (0.0, 1.0)])
    >>> kernel = RBF().on(0) * RBF().on(1)
    >>> bool(np.allclose(KroneckerGram(kernel, X) @ np.eye(6), kernel(X)))
    True
    """

    name = "kronecker"

    def __init__(self, kernel: Kernel, points: Array) -> None:
        found = factors_of(kernel)
        if found is None:
            raise ValueError(
                "gram='kronecker' needs a product of kernels on columns of their own, such as "
                "RBF().on(['north', 'east']) * Matern().on('time'); use gram='auto'"
            )
        self.kernel, self.points = kernel, points
        self.variance, self.parts, columns = found
        self.values, places = [], []
        for own in columns:  # a row for each combination of the factor's columns, and where it is
            first, place = group_rows(np.ascontiguousarray(points[:, own]))
            self.values.append(np.ascontiguousarray(points[first]))
            places.append(place)
        self.shape = tuple(len(values) for values in self.values)
        self.at = np.ravel_multi_index(places, self.shape)
        full = int(np.prod(self.shape))
        if len(points) != full or len(np.unique(self.at)) != full:
            sizes = " x ".join(map(str, self.shape))
            raise ValueError(
                f"gram='kronecker' needs a complete grid: {len(points)} distinct rows are not the "
                f"{sizes} combinations of their values, each once; use gram='auto', or complete "
                "the table"
            )
        self.factors = [part(values) for part, values in zip(self.parts, self.values, strict=True)]
        eigen = [np.linalg.eigh(K) for K in self.factors]
        self.eigenvalues, self.vectors = [e[0] for e in eigen], [e[1] for e in eigen]

    def on_grid(self, V: Array) -> Array:
        """V (n, m) as (n_1, n_2, ..., m)."""
        out = np.empty(V.shape)
        out[self.at] = V
        return out.reshape(*self.shape, V.shape[1])

    def off_grid(self, G: Array) -> Array:
        """Return the reverse."""
        return np.asarray(G.reshape(len(self.points), -1)[self.at])

    @property
    def spectrum(self) -> Array:
        """The eigenvalues of K, (n_1, n_2, ...)."""
        return self.variance * reduce(np.multiply.outer, self.eigenvalues)

    def __matmul__(self, V: Array) -> Array:
        return self.variance * self.off_grid(along(self.factors, self.on_grid(V)))

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        return self.kernel(self.points[index], self.points)

    def factor(self, W: Array) -> KroneckerFactor:
        return KroneckerFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        assert isinstance(factor, KroneckerFactor)
        left = 0.5 * alpha if U is None or V is None else np.hstack([0.5 * alpha, 0.5 * U, 0.5 * V])
        right = alpha if U is None or V is None else np.hstack([alpha, V, U])
        L, R, weight = self.on_grid(left), self.on_grid(right), factor.inverse
        count, inside = alpha.shape[1], Gradient()
        for i, (part, values) in enumerate(zip(self.parts, self.values, strict=True)):
            # dE/dK_i: the others are contracted with the rest of dE/dK
            others = [None if j == i else K for j, K in enumerate(self.factors)]
            moved = along(others, R)
            size = self.shape[i]
            M = (
                np.moveaxis(L, i, 0).reshape(size, -1)
                @ np.moveaxis(moved, i, 0).reshape(size, -1).T
            )
            rest = [np.ones(size) if j == i else e for j, e in enumerate(self.eigenvalues)]
            shares = np.moveaxis(reduce(np.multiply.outer, rest) * weight, i, 0).reshape(size, -1)
            M -= 0.5 * count * (self.vectors[i] * shares.sum(axis=1)) @ self.vectors[i].T
            M = 0.5 * self.variance * (M + M.T)
            inside |= prefixed(str(i), part.pullback(values, None, M))
        if not isinstance(self.kernel, Scale):
            return inside
        total = float((left * (self @ right)).sum()) - 0.5 * count * float(
            (self.spectrum * weight).sum()
        )
        return Gradient(variance=total / self.variance) | prefixed("kernel", inside)

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


def along(matrices: list[Array | None] | list[Array], G: Array) -> Array:
    """Multiply axis j of G (n_1, n_2, ..., m) by the j-th matrix; None is the identity."""
    for j, M in enumerate(matrices):
        if M is not None:
            G = np.moveaxis(np.tensordot(M, G, axes=(1, j)), 0, j)
    return G


class KroneckerFactor(Factor):
    """C = (K + s I)^-1 in the eigenvectors of the factors."""

    def __init__(self, gram: KroneckerGram, W: Array) -> None:
        if not (np.all(W[0] == W) and W[0] > 0.0):
            raise ValueError(
                "gram='kronecker' needs one noise level: no weights, no repeated rows, no noise "
                "for each row; use gram='auto'"
            )
        self.gram, self.W = gram, W
        noisy = gram.spectrum + 1.0 / W[0]
        if not noisy.min() > 0.0:
            raise NotPositiveDefiniteError(
                "the covariance on the grid is not positive definite: raise the noise"
            )
        self.inverse, self._logdet = 1.0 / noisy, float(np.log(noisy).sum())

    def solve(self, V: Array) -> Array:
        U = self.gram.vectors
        inside = along([u.T for u in U], self.gram.on_grid(V))
        return self.gram.off_grid(along(U, inside * self.inverse[..., None]))

    def diag(self) -> Array:
        squares = along([u**2 for u in self.gram.vectors], self.inverse[..., None])
        return self.gram.off_grid(squares)[:, 0]

    def cov_diag(self) -> Array:
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(self.W), 0.0, (1.0 - self.diag() / self.W) / self.W)

    def logdet_noisy(self) -> float:
        return self._logdet

    def logdet(self) -> float:
        return self._logdet + len(self.W) * float(np.log(self.W[0]))

    def gradient_weights(self, a: Array, count: float) -> Array:
        require_memory(len(self.W), 3)
        C = self.solve(np.eye(len(self.W)))
        return np.asarray(0.5 * (a @ a.T - 0.5 * count * (C + C.T)))

    def operator(self) -> KroneckerOperator:
        return KroneckerOperator(self)


class KroneckerOperator(PosteriorOperator):
    """C on a complete grid."""

    def __init__(self, factor: KroneckerFactor) -> None:
        self.factor = factor

    @property
    def W(self) -> Array:
        """The weights (n,), all equal."""
        return self.factor.W

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return np.asarray(A.T @ self.factor.solve(B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        return np.asarray(np.einsum("ij,ij->j", A, self.factor.solve(A)))


def kronecker_gram(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
    """Return the Gram of a product of kernels on a complete grid."""
    assert isinstance(kernel, Kernel)
    return KroneckerGram(kernel, points)
