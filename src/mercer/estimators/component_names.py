"""Names of the components of an additive model, and what a user means by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.checks import did_you_mean
from mercer.kernels.columns import Columns
from mercer.kernels.compose import Product, Scale

BASIS, OFFSET = "basis", "offset"


def labels(terms: Sequence[Kernel], columns: Any) -> list[str]:
    """Return a name for each term: its kernel and columns, numbered where two are the same.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> labels([2.0 * RBF().on(0), RBF().on(0) * Linear().on([1]), RBF()], ["age", "bmi"])
    ['RBF(age)', 'RBF(age) * Linear(bmi)', 'RBF']
    """
    found = [_label(term, columns) for term in terms]
    return [
        name if found.count(name) == 1 else f"{name} [{found[: i + 1].count(name)}]"
        for i, name in enumerate(found)
    ]


def _label(kernel: Kernel, columns: Any) -> str:
    if isinstance(kernel, Columns):
        inner = _label(kernel.kernel, None)
        return f"{inner}({', '.join(_column(c, columns) for c in kernel.columns)})"
    if isinstance(kernel, Product):
        return " * ".join(_label(part, columns) for part in kernel.parts)
    if isinstance(kernel, Scale):
        return _label(kernel.kernel, columns)
    return type(kernel).__name__


def _column(column: int | str, columns: Any) -> str:
    if isinstance(column, str):
        return column
    return f"x{column}" if columns is None else str(columns[column])


def chosen_parts(part: Any, names: list[str], terms: Sequence[Kernel], columns: Any) -> list[int]:
    """Return the positions in ``names`` that ``part`` stands for; terms come first in names."""
    if not isinstance(part, (list, tuple)):
        return _one(part, names, terms, columns)
    found = [j for each in part for j in _one(each, names, terms, columns)]
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"a sum of components names each of them once, and at least one; got {part!r}"
        )
    return found


def _one(part: Any, names: list[str], terms: Sequence[Kernel], columns: Any) -> list[int]:
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        if not -len(names) <= part < len(names):
            raise ValueError(f"there are {len(names)} components, {', '.join(names)}; not {part}")
        return [int(part) % len(names)]
    if not isinstance(part, str):
        raise TypeError(
            f"a component is given by name, by position or by its column, or as a list of these, "
            f"not as {part!r}"
        )
    if part in names:
        return [names.index(part)]
    alone = [j for j, term in enumerate(terms) if _columns(term, columns) == {part}]
    if not alone:
        raise ValueError(f"there is no component {part!r}{did_you_mean(part, names)}")
    return alone


def _columns(kernel: Kernel, columns: Any) -> set[str]:
    """Return the names of the columns a term sees; empty if it is not on chosen columns."""
    if isinstance(kernel, Columns):
        return {_column(c, columns) for c in kernel.columns}
    if isinstance(kernel, Scale):
        return _columns(kernel.kernel, columns)
    if isinstance(kernel, Product):
        each = [_columns(part, columns) for part in kernel.parts]
        return set().union(*each) if all(each) else set()
    return set()
