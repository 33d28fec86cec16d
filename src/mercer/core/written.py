"""A part as text: exactly, and for readers as a formula with four digits."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np


def exact(value: Any) -> str:
    """Return a parameter as a constructor takes it, with up to twelve digits."""
    if isinstance(value, float):
        return repr(float(f"{value:.12g}")) if abs(value) < 1e6 else f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return " ".join(np.array2string(value, precision=4, threshold=12, separator=", ").split())
    return repr(value)


def brief(value: Any) -> str:
    """Return a parameter for readers, with four digits.

    Examples
    --------
    >>> brief(1234.5678), brief([1.0, 0.123456])
    ('1235', '[1, 0.1235]')
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=4, threshold=6, edgeitems=2, separator=", ")
        return " ".join(text.split())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(brief, value))}]"
    return str(value) if hasattr(value, "parameter_names") else repr(value)


def written(part: Any, show: Callable[[Any], str], same: Callable[[Any, Any], bool]) -> str:
    """Return the call that makes a part, without arguments that are the ``same`` as defaults."""
    defaults = inspect.signature(type(part).__init__).parameters
    shown = [
        f"{name}={show(getattr(part, name))}"
        for name in part.parameter_names()
        if not same(getattr(part, name), defaults[name].default)
    ]
    return f"{type(part).__name__}({', '.join(shown)})"


def formula(part: Any) -> str | None:
    """Return a sum, a product or a scaled part as a formula; None of any other.

    ``sign`` of its class says which it is: "+" and "*" stand between its ``parts``, "." between its
    ``variance`` and its ``kernel``. A sum inside a product is in brackets.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> print(2.0 * RBF(3.0) * (Linear() + RBF().on([1])))
    2 * RBF(length_scale=3) * (Linear() + RBF().on(1))
    """
    sign = getattr(part, "sign", None)
    if sign == "+":
        return " + ".join(map(str, part.parts))
    if sign == "*":
        return " * ".join(map(_factor, part.parts))
    return f"{float(part.variance):.4g} * {_factor(part.kernel)}" if sign == "." else None


def _factor(part: Any) -> str:
    return f"({part})" if getattr(part, "sign", None) == "+" else str(part)
