"""The functions of a relevance vector machine: of a kernel at given centres, columns, your own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.basis import Basis, as_basis
from mercer.kernels import Kernel, as_kernel
from mercer.process import Prior


@dataclass(frozen=True)
class Functions:
    """The functions in a model, as a function of the inputs in inside units.

    Attributes
    ----------
    bias : whether a constant comes first.
    kernel, centres : k(x, c_j), centres (M, d); or None.
    own : functions of the user's; None with ``columns`` alone means the columns of X.
    columns : which of them, or which columns of X.
    """

    bias: bool
    kernel: Kernel | None = None
    centres: Array | None = None
    own: Basis | None = None
    columns: tuple[int, ...] = ()

    def __call__(self, X: Array) -> Array:
        """Return the functions at X (q, d): shape (q, p)."""
        if self.kernel is not None and self.centres is not None:
            Phi = self.kernel(X, self.centres) if len(self.centres) else np.empty((len(X), 0))
        else:
            table = X if self.own is None else self.own(X)
            Phi = table[:, list(self.columns)]
        if not self.bias:
            return np.ascontiguousarray(Phi)
        return np.column_stack([np.ones(len(X)), Phi])


@dataclass(frozen=True)
class Choice:
    """What the user chose the candidates from: a kernel, own functions, or the columns (neither).

    ``named`` tells whether the kernel came by name, so that its length scale is the machine's.
    """

    kernel: Kernel | None
    own: Basis | None
    named: bool

    def kept(
        self, kernel: Kernel | None, bias: bool, centres: Array, active: list[int]
    ) -> Functions:
        """Return the functions of the chosen candidates."""
        if kernel is not None:
            return Functions(bias, kernel, np.ascontiguousarray(centres[active]))
        return Functions(bias, own=self.own, columns=tuple(active))


def choose(kernel: Any, functions: Any, names: Any, d: int) -> Choice:
    """Read the parameters ``kernel`` and ``functions`` for d columns, or refuse with a sentence."""
    if functions is not None:
        if kernel is not None:
            raise ValueError(
                "give a kernel, whose functions at the training rows are the candidates, or "
                "functions of your own, not both"
            )
        if isinstance(functions, str):
            if functions != "columns":
                raise ValueError(
                    "functions must be None, 'columns' or a function X -> (n, m), "
                    f"not {functions!r}"
                )
            return Choice(None, None, False)
        return Choice(None, as_basis(functions), False)
    named = kernel is None or isinstance(kernel, str)
    part = as_kernel("rbf" if kernel is None else kernel).__sklearn_clone__()
    part = part.resolve(None if names is None else [str(name) for name in names], d)
    if part.pairwise:
        return Choice(None, None, False)  # X holds the functions' values already
    return Choice(Prior(part).signal, None, named and not part.positional)
