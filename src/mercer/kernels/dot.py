"""Kernels of the inner product: constant, linear, polynomial."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, Kernel, inner, other_points
from mercer.kernels.checks import finite, like, positive, rescaled, whole
from mercer.kernels.mapped import is_sparse


class Constant(Kernel):
    """Constant kernel, k = value: an unknown offset of prior variance ``value`` (a bias).

    Parameters
    ----------
    value : float
        Positive prior variance of the offset.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, table 4.1.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> RBF() + 3.0
    Sum(parts=[RBF(), Constant(value=3.0)])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"value": POSITIVE}

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.full((len(X), len(X if Z is None else Z)), positive(self, "value"))

    def diag(self, X: Array) -> Array:
        return np.full(len(X), positive(self, "value"))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        total = float(np.sum(Q))
        return float(positive(self, "value")) * total, {"value": total}

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        K += positive(self, "value")

    def features(self, X: Any) -> Any:
        return np.full((len(X), 1), np.sqrt(positive(self, "value")))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self


class Linear(Kernel):
    """Linear kernel, k = sum_d weight_d (x_d - centre_d) (z_d - centre_d).

    The prior of a linear function with independent coefficients of variance ``weight``, zero at
    the centre; add a :class:`Constant` for an offset.

    Parameters
    ----------
    weight : float or array (d,)
        Prior variance of the coefficients, shared or one per column.
    centre : array (d,) or None
        Where the function is zero; None means the origin. Given, not searched.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (2.12), table 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> Linear(weight=2.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[8.]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"weight": POSITIVE}

    def __init__(self, weight: float | Array = 1.0, centre: float | Array | None = None) -> None:
        self.weight = weight
        self.centre = centre

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

    def features(self, X: Any) -> Any:
        root = np.sqrt(positive(self, "weight", X.shape[1]))
        if is_sparse(X) and self.centre is None:
            return X.multiply(root).tocsr()
        return self._centred(X, None)[0] * root

    @property
    def takes_sparse(self) -> bool:
        return self.centre is None  # a shift would fill the zeros

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        centre = np.asarray(shift, dtype=float)
        if self.centre is not None:
            centre = centre + scale * np.asarray(self.centre, dtype=float)
        weight = rescaled(self.weight, 1.0 / np.square(scale))
        return self._restated(weight=weight, centre=centre if centre.any() else None)

    def _centred(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        X, Z, same = other_points(X, Z)
        if self.centre is None:
            return X, Z, same
        centre = finite(self, "centre", X.shape[1])
        X = X - centre
        return X, (X if same else Z - centre), same


class Polynomial(Kernel):
    """Polynomial kernel, k = (offset + sum_d weight_d x_d z_d)^degree.

    Parameters
    ----------
    degree : int
        At least one; given, not searched.
    offset : float or None
        Positive; None leaves it out and keeps the monomials of exactly this degree.
    weight : float or array (d,)
        Positive weights of the columns, shared or one per column.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.2 and table 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Polynomial
    >>> Polynomial(degree=3)(np.array([[1.0]]), np.array([[2.0]]))
    array([[27.]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"offset": POSITIVE, "weight": POSITIVE}

    def __init__(
        self, degree: int = 2, offset: float | None = 1.0, weight: float | Array = 1.0
    ) -> None:
        self.degree = degree
        self.offset = offset
        self.weight = weight

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

    def _base(self, X: Array, Z: Array | None) -> Array:
        K = Linear(self.weight)(X, Z)
        K += self._offset()
        return K

    def _offset(self) -> Array:
        return np.zeros(()) if self.offset is None else positive(self, "offset")
