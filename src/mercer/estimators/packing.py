"""Packing: values and parts as plain JSON with arrays beside it, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.component import Component
from mercer.estimators.stored import packed_mapping, unpacked_mapping

Resolve = Callable[[str], type[Component]]


def packed_param(value: Any, key: str, arrays: dict[str, Array]) -> Any:
    """Pack a constructor's argument: as :func:`packed`, and mappings from label to number."""
    return packed_mapping(value) if isinstance(value, Mapping) else packed(value, key, arrays)


def packed(value: Any, key: str, arrays: dict[str, Array]) -> Any:
    """Replace arrays inside plain values by references {"array": key}."""
    if isinstance(value, Component):
        return {"part": packed(value.to_dict(), key, arrays)}
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {"array": key}
    if isinstance(value, Mapping):
        return {str(k): packed(v, f"{key}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [packed(v, f"{key}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"{key.split('.')[-1]}={value!r} cannot be written to a model file: only mercer's own "
        "parts and plain values can; wrap a function in a Component subclass of your own and "
        "pass that class to load(path, parts=[...])"
    )


def unpacked(value: Any, arrays: Mapping[str, Array], resolve: Resolve) -> Any:
    """Return what :func:`packed` or :func:`packed_param` was given, or refuse the file."""
    if isinstance(value, Mapping):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        if set(value) == {"part"}:
            return Component.from_dict(plain_part(value["part"], arrays), resolve)
        if set(value) == {"pairs"}:
            return unpacked_mapping(value["pairs"])
        raise ValueError("a value of the model file is neither plain nor a part")
    if isinstance(value, list):
        return [unpacked(v, arrays, resolve) for v in value]
    return value


def plain_part(value: Any, arrays: Mapping[str, Array]) -> Any:
    """Put the arrays back inside the dictionary form of a part."""
    if isinstance(value, Mapping):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        return {k: plain_part(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [plain_part(v, arrays) for v in value]
    return value


def finite(value: Any) -> Any:
    """Plain values for strict JSON: numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
