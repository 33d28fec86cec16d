"""Basis: unpenalised functions h(x)'beta beside the kernel's f (GPML 2.7, flat prior on beta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, combinations_with_replacement
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.component import Component

__all__ = ["Basis", "FunctionBasis", "PolynomialBasis", "as_basis"]


class Basis(Component):
    """Functions h(x) of an unpenalised linear part.

    ``raw`` tells whether the functions want the columns as the user gave them; otherwise they are
    evaluated on standardised columns, which spans the same functions and is better conditioned.
    """

    raw: ClassVar[bool] = False
    public_module: ClassVar[str | None] = "basis"

    def __call__(self, X: Array) -> Array:
        """Return h at X (n, d): shape (n, k)."""
        raise NotImplementedError

    def size(self, d: int) -> int | None:
        """Return the number k of functions of d columns, without evaluating them; None: unknown."""
        return None

    def logdet_units(self, scale: Array) -> float:
        """Return log |det T| for h(x in user's units) = T h(x / scale); scale is (d,)."""
        return 0.0


class PolynomialBasis(Basis):
    """All monomials of total degree at most ``degree``; 0 is a constant, 1 adds a plane.

    Reference: GPML section 2.7.

    Examples
    --------
    >>> import numpy as np
    >>> PolynomialBasis(degree=1)(np.array([[2.0, 3.0]]))
    array([[1., 2., 3.]])
    """

    def __init__(self, degree: int = 0) -> None:
        self.degree = degree
        if not isinstance(degree, (int, np.integer)) or degree < 0:
            raise ValueError(f"the degree of a polynomial basis is 0, 1, 2, ..., not {degree!r}")

    def size(self, d: int) -> int:
        """Return the number of monomials, (d + degree)! / (d! degree!)."""
        return math.comb(d + int(self.degree), min(d, int(self.degree)))

    def _monomials(self, d: int) -> list[tuple[int, ...]]:
        each = (combinations_with_replacement(range(d), k) for k in range(self.degree + 1))
        return list(chain.from_iterable(each))

    def __call__(self, X: Array) -> Array:
        return np.column_stack([X[:, list(c)].prod(axis=1) for c in self._monomials(X.shape[1])])

    def logdet_units(self, scale: Array) -> float:
        """Triangular T: the sum of the log scales of every monomial's factors."""
        return float(sum(np.log(scale[list(c)]).sum() for c in self._monomials(len(scale))))


class FunctionBasis(Basis):
    """Functions of your own: ``function(X) -> (n, k)``, given the columns in the user's units.

    Reference: GPML section 2.7.

    Examples
    --------
    >>> import numpy as np
    >>> FunctionBasis(lambda X: np.sin(X))(np.array([[0.0]]))
    array([[0.]])
    """

    raw: ClassVar[bool] = True

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.function = function

    def __call__(self, X: Array) -> Array:
        H = as_matrix(self.function(X))
        if len(H) != len(X) or not np.all(np.isfinite(H)):
            raise ValueError(
                f"the basis function must return finite values of shape ({len(X)}, k), "
                f"it returned shape {H.shape}"
            )
        return H

    @classmethod
    def example(cls) -> FunctionBasis:
        return cls(np.sin)


def as_basis(given: Any) -> Basis | None:
    """Return a Basis from None, "constant", "linear", a degree, a function or a Basis.

    Examples
    --------
    >>> as_basis("linear")
    PolynomialBasis(degree=1)
    """
    names = {"constant": 0, "linear": 1, "quadratic": 2, "cubic": 3}
    if given is None or isinstance(given, Basis):
        return given
    if isinstance(given, str):
        if given not in names:
            raise ValueError(f"unknown basis {given!r}; known are {', '.join(names)}")
        return PolynomialBasis(names[given])
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return PolynomialBasis(int(given))
    if callable(given):
        return FunctionBasis(given)
    raise TypeError(f"basis must be None, a name, a degree, a function or a Basis, not {given!r}")
