"""Stored labels: classes and weights by class as plain values for a model file, and back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.inference.loo_bound import MarginLoo
from mercer.process import ClassLoo, Loo

_KINDS = "biufUO"
_PLAIN = (bool, int, float, str)


def packed_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return the sorted classes (k,) as {"dtype": ..., "values": [...]}.

    Examples
    --------
    >>> import numpy as np
    >>> packed_classes(np.array(["no", "yes"]))
    {'dtype': '<U3', 'values': ['no', 'yes']}
    """
    values = classes.tolist()
    odd = [v for v in values if not isinstance(v, _PLAIN)]
    if classes.dtype.kind not in _KINDS or odd:
        raise TypeError(
            f"labels of type {type(odd[0]).__name__ if odd else classes.dtype} cannot be written "
            "to a model file; use texts, numbers or booleans as labels"
        )
    return {"dtype": classes.dtype.str, "values": values}


def unpacked_classes(stored: Any) -> NDArray[Any]:
    """Return the classes (k,) of :func:`packed_classes`, or refuse what it cannot have written."""
    if not isinstance(stored, Mapping) or set(stored) != {"dtype", "values"}:
        raise ValueError("the classes are not a type and values")
    dtype, values = np.dtype(str(stored["dtype"])), stored["values"]
    if dtype.kind not in _KINDS or not isinstance(values, list) or not values:
        raise ValueError("the classes are not labels")
    if any(type(v) not in _PLAIN or v != v or v in (math.inf, -math.inf) for v in values):
        raise ValueError("a class is neither a text nor a finite number")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values or np.unique(classes).tolist() != values:
        raise ValueError("the classes are not sorted, or one is named twice")
    return classes


def packed_mapping(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a parameter that maps labels to numbers as {"pairs": [[label, number], ...]}."""
    pairs = [[_item(k), _item(v)] for k, v in given.items()]
    for value in (v for pair in pairs for v in pair):
        if not isinstance(value, _PLAIN):
            raise TypeError(f"{value!r} cannot be written to a model file")
    return {"pairs": pairs}


def unpacked_mapping(stored: Any) -> dict[Any, Any]:
    """Return the mapping of :func:`packed_mapping`."""
    fine = isinstance(stored, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(v) in _PLAIN for v in pair)
        for pair in stored
    )
    if not fine:
        raise ValueError("a mapping of the model file does not consist of plain pairs")
    return {key: value for key, value in stored}  # noqa: C416  # pairs may be lists


def packed_loo(loo: Any) -> dict[str, Array]:
    """Return the arrays of leave-one-out figures (None: there are none) by their keys."""
    fields = () if loo is None else dataclasses.fields(loo)
    named = {f"loo.{f.name}": getattr(loo, f.name) for f in fields}
    return {key: value for key, value in named.items() if isinstance(value, np.ndarray)}


def unpacked_loo(arrays: Mapping[str, Array], report: Mapping[str, Any]) -> Any:
    """Return the figures of :func:`packed_loo`; why a bound is missing stands in the report."""
    stored = {k.removeprefix("loo."): v for k, v in arrays.items() if k.startswith("loo.")}
    if not stored:
        return None
    if "codes" not in stored:
        return Loo(**stored)
    if "proba" in stored:
        return ClassLoo(stored["proba"], stored["codes"], stored["weights"])
    bound, cavity = stored.get("bound"), stored.get("cavity")
    reason = report.get("loo_bound")
    return MarginLoo(bound, cavity, stored["weights"], stored["codes"], reason)


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
