"""Kernels of the inner product: constant, linear, polynomial."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array, Index, is_sparse, zeros
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import (
    Gradient,
    Kernel,
    finite,
    inner,
    like,
    other_points,
    positive,
    rescaled,
)
from mercer.kernels.markov import ANY, Block, MarkovProcess, Slopes
from mercer.kernels.parameters import symmetric, whole


class Level(Kernel, abstract=True):
    """One variance, its only parameter, for all pairs of points that count as the same.

    A child states ``_add_to``, and ``_total``, the sum of Q over these pairs.
    """

    alike = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = zeros(len(X), len(X if Z is None else Z), X)
        self._add_to(K, X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._variance())

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        total = self._total(X, Z, Q)
        return float(self._variance()) * total, {next(iter(self.domains)): total}

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        return np.zeros(Z.shape)

    def _total(self, X: Array, Z: Array | None, Q: Array) -> float:
        raise NotImplementedError

    def _variance(self) -> Array:
        return positive(self, next(iter(self.domains)))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self  # points that agree still do


class Constant(Level):
    """Constant kernel, k = value: an unknown offset of prior variance ``value`` (a bias).

    Parameters
    ----------
    value : float, default=1.0; positive prior variance of the offset, in squared units of f.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, table 4.1.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> RBF() + 3.0
    Sum(parts=[RBF(), Constant(value=3.0)])
    """

    domains: ClassVar[Domains] = {"value": POSITIVE}
    words: ClassVar[Words] = {"value": "variance of the level"}
    expects = "a level that is not known in advance"

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        K += self._variance()

    def _total(self, X: Array, Z: Array | None, Q: Array) -> float:
        return float(np.sum(Q))

    def features(self, X: Any) -> Any:
        return np.full((len(X), 1), np.sqrt(self._variance()))

    def markov_process(self) -> MarkovProcess:
        none = np.zeros((1, 1))
        return MarkovProcess((Block(none, none, np.full((1, 1), self._variance())),), ANY)

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        return {"value": float(slopes[0][1][0, 0])}

    def width(self, X: Array) -> int | None:
        return 1

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        return {"value": 0.5 * float(np.vdot(D, F)) / float(self._variance())}


class Linear(Kernel):
    """Linear kernel, k = sum_d weight_d (x_d - centre_d) (z_d - centre_d).

    The prior of linear functions that are zero at the centre; add :class:`Constant` for an offset.

    Parameters
    ----------
    weight : float or array (d,), default=1.0; positive prior variance of the coefficients.
    centre : array (d,) or None, default=None; in units of the inputs (None: 0); not searched.
    covariance : array (d, d) or None, default=None
        Prior covariance S of the coefficients where they are correlated, symmetric and not
        indefinite: k = weight (x - centre)'S (z - centre) with one ``weight``; not searched.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (2.12), table 4.1.

    Examples
    --------
    >>> Linear(weight=2.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[8.]])
    """

    alike = True

    domains: ClassVar[Domains] = {"weight": POSITIVE}
    before: ClassVar[dict[str, Any]] = {"covariance": None}
    words: ClassVar[Words] = {"weight": "variance of the slopes"}
    expects = "straight lines in the inputs"

    def __init__(
        self,
        weight: float | Array = 1.0,
        centre: float | Array | None = None,
        covariance: Array | None = None,
    ) -> None:
        self.weight, self.centre, self.covariance = weight, centre, covariance

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = self._centred(X, Z)
        root = np.sqrt(positive(self, "weight", X.shape[1]))
        X = X * root
        return np.asarray(X @ X.T if same else X @ (Z * root).T)

    def diag(self, X: Array) -> Array:
        X, _, _ = self._centred(X, None)
        return np.asarray((X * X * positive(self, "weight", X.shape[1])).sum(axis=1))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        X, Z, _ = self._centred(X, Z)
        sums = np.einsum("id,id->d", X, Q @ Z)
        weight = positive(self, "weight", X.shape[1])
        return float(np.sum(weight * sums)), {"weight": like(self.weight, sums)}

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        X, _, _ = self._centred(X, None)
        slopes = np.asarray((Q.T @ X) * positive(self, "weight", X.shape[1]))
        return slopes if self.covariance is None else slopes @ self._root(Z.shape[1]).T

    def features(self, X: Any) -> Any:
        root = np.sqrt(positive(self, "weight", X.shape[1]))
        if is_sparse(X) and self.takes_sparse:
            return X.multiply(root).tocsr()
        return self._centred(X, None)[0] * root

    def width(self, X: Array) -> int | None:
        return int(X.shape[1])

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        sums = 0.5 * np.einsum("id,id->d", D, F)  # phi_d is proportional to the root of its weight
        return {"weight": like(self.weight, sums / positive(self, "weight", X.shape[1]))}

    @property
    def takes_sparse(self) -> bool:
        return self.centre is None and self.covariance is None  # either would fill the zeros

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        centre = np.asarray(shift, dtype=float)
        if self.centre is not None:
            centre = centre + scale * np.asarray(self.centre, dtype=float)
        moved = {"centre": centre if centre.any() else None}
        if self.covariance is not None:
            stated = np.asarray(self.covariance, dtype=float) / np.outer(scale, scale)
            return self._restated(covariance=stated, **moved)
        return self._restated(weight=rescaled(self.weight, 1.0 / np.square(scale)), **moved)

    def reordered(self, order: Index) -> Kernel | None:
        same = super().reordered(order)
        if same is None or self.covariance is None:
            return same
        return same.replaced({"covariance": np.asarray(self.covariance)[np.ix_(order, order)]})

    def _centred(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        X, Z, same = other_points(X, Z)
        if self.centre is not None:
            centre = finite(self, "centre", X.shape[1])
            X = X - centre
            Z = X if same else Z - centre
        if self.covariance is not None:
            root = self._root(X.shape[1])
            X = X @ root
            Z = X if same else Z @ root
        return X, Z, same

    def _root(self, d: int) -> Array:
        """R (d, d) with R R' = S, the covariance; S is checked."""
        S = np.asarray(self.covariance, dtype=np.float64)
        if S.shape != (d, d) or not np.all(np.isfinite(S)):
            raise ValueError(
                f"Linear: covariance must be a finite array of shape ({d}, {d}), one row and "
                f"column for each column of the inputs, got shape {S.shape}"
            )
        if np.ndim(self.weight):
            raise ValueError(
                "Linear: beside a covariance there is one weight; multiply the rows and columns "
                "of the covariance by the roots of the others"
            )
        values, vectors = np.linalg.eigh(symmetric(S, "Linear: covariance"))
        if values[0] < -1e-10 * abs(values[-1]):
            raise ValueError(
                f"Linear: covariance has the negative eigenvalue {values[0]:.3g}; a covariance has "
                "none"
            )
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


class Polynomial(Kernel):
    """Polynomial kernel, k = (offset + sum_d weight_d x_d z_d)^degree.

    Parameters
    ----------
    degree : int, default=2; 1 or more; not searched.
    offset : float or None, default=1.0; positive; None keeps the monomials of exactly this degree.
    weight : float or array (d,), default=1.0; positive weights of the columns.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.2 and table 4.1.

    Examples
    --------
    >>> Polynomial(degree=3)(np.array([[1.0]]), np.array([[2.0]]))
    array([[27.]])
    """

    alike = True

    domains: ClassVar[Domains] = {"offset": POSITIVE, "weight": POSITIVE}
    words: ClassVar[Words] = {
        "offset": "variance of the level beside the slopes",
        "weight": "variance of the slopes",
    }

    def __init__(
        self, degree: int = 2, offset: float | None = 1.0, weight: float | Array = 1.0
    ) -> None:
        self.degree, self.offset, self.weight = degree, offset, weight

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.asarray(self._base(X, Z) ** whole(self, "degree", 1))

    def diag(self, X: Array) -> Array:
        X, _, _ = other_points(X, None)
        squares = X * X @ np.broadcast_to(positive(self, "weight", X.shape[1]), X.shape[1])
        return np.asarray((squares + self._offset()) ** whole(self, "degree", 1))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        p, base = whole(self, "degree", 1), self._base(X, Z)
        X, Z, _ = other_points(X, Z)
        M = base ** (p - 1)
        M *= Q
        value = inner(M, base)
        sums = p * np.einsum("id,id->d", X, M @ Z)
        gradient: Gradient = {"weight": like(self.weight, sums)}
        if self.offset is not None:
            gradient["offset"] = p * float(M.sum())
        return value, gradient

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        p = whole(self, "degree", 1)
        M = p * Q * self._base(X, Z) ** (p - 1)
        return Linear(self.weight).pullback_points(X, Z, M)

    def width(self, X: Array) -> int | None:
        free = X.shape[1] - (self.offset is None)
        return comb(free + whole(self, "degree", 1), free) if X.shape[1] else None

    def explicit(self, X: Array) -> Any:
        """Return the monomials (n, m), each with the root of its multinomial coefficient."""
        X, _, _ = other_points(X, None)
        powers, roots = self._monomials(X.shape[1])
        columns = X * np.sqrt(positive(self, "weight", X.shape[1]))
        if self.offset is not None:
            columns = np.column_stack([columns, np.full(len(X), np.sqrt(self._offset()))])
        F = np.tile(roots, (len(X), 1))
        for j in range(powers.shape[1]):
            F *= columns[:, powers[:, j]]
        return F

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        # a monomial is proportional to the roots of the weights in it
        d, powers = X.shape[1], self._monomials(X.shape[1])[0]
        share = 0.5 * np.einsum("ij,ij->j", D, F)
        sums = np.bincount(powers.ravel(), np.repeat(share, powers.shape[1]), d + 1)
        gradient: Gradient = {"weight": like(self.weight, sums[:d] / positive(self, "weight", d))}
        if self.offset is not None:
            gradient["offset"] = float(sums[d]) / float(self._offset())
        return gradient

    def _monomials(self, d: int) -> tuple[Index, Array]:
        """Return the columns (m, degree) in each monomial, the offset last, and roots (m,).

        The squares of the roots are degree! / prod_j (power of column j)!.
        """
        p = whole(self, "degree", 1)
        each = combinations_with_replacement(range(d + (self.offset is not None)), p)
        powers = np.array(list(each), dtype=np.intp)
        squares = np.full(len(powers), float(factorial(p)))
        run = np.ones(len(powers))  # how often a column has come so far
        for j in range(1, p):
            run = np.where(powers[:, j] == powers[:, j - 1], run + 1.0, 1.0)
            squares /= run
        return powers, np.sqrt(squares)

    def _base(self, X: Array, Z: Array | None) -> Array:
        K = Linear(self.weight)(X, Z)
        K += self._offset()
        return K

    def _offset(self) -> Array:
        return np.zeros(()) if self.offset is None else positive(self, "offset")
