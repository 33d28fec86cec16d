"""JSON without its tolerances, and plain values to and from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.errors import ModelFileError

MAX_DEPTH = 64
DIGEST = "sha256"  # a tensor of every file


def parse(text: bytes | str, what: str) -> Any:
    """Return the value of a JSON text; no duplicate keys, no NaN or infinity, no bad UTF-8."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ModelFileError(f"its {what} names a key twice")
        return found

    def refuse(literal: str) -> Any:
        raise ModelFileError(f"its {what} contains {literal[:20]}, which is not a JSON number")

    def finite(literal: str) -> Any:
        value = float(literal)
        return value if math.isfinite(value) else refuse(literal)

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(
            decoded, object_pairs_hook=unique, parse_constant=refuse, parse_float=finite
        )
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError(f"its {what} is nested too deeply") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are both
        raise ModelFileError(f"its {what} is not valid JSON ({error})") from None


def encode(
    value: Any, arrays: dict[str, np.ndarray[Any, Any]], place: str = "", depth: int = 0
) -> Any:
    """Return plain values as JSON values; each array met is put into ``arrays`` by its place.

    What JSON lacks is spelled with a dollar key: ``{"$array": name}``, ``{"$float": "inf"}``,
    ``{"$text": [...]}`` for arrays of strings, ``{"$pairs": [[key, value], ...]}`` for a mapping
    whose own keys begin with a dollar.
    """
    if depth > MAX_DEPTH:
        raise ValueError("this model is nested too deeply for a model file")
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "UO":
            if value.ndim != 1 or not all(isinstance(v, str) for v in value):
                raise TypeError("an array of objects cannot be written to a model file")
            return {"$text": [str(v) for v in value], "kind": value.dtype.kind}
        name = place
        while name in arrays or name in ("", DIGEST):  # of keys that contain a slash
            name += "+"
        arrays[name] = value
        return {"$array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [encode(v, arrays, f"{place}/{i}", depth + 1) for i, v in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        head = f"{place}/" if place else ""
        inside = {k: encode(v, arrays, head + k, depth + 1) for k, v in value.items()}
        return {"$pairs": [*map(list, inside.items())]} if _dollar(inside) else inside
    raise TypeError(
        f"a {type(value).__name__} cannot be written to a model file; wrap it in a Component "
        "subclass and pass that class to load(path, parts=[...])"
    )


def decode(value: Any, arrays: dict[str, np.ndarray[Any, Any]], depth: int = 0) -> Any:
    """Undo :func:`encode` (tuples stay lists); each array that is used is taken from ``arrays``."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its manifest is nested too deeply")
    if isinstance(value, list):
        return [decode(v, arrays, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if not _dollar(value):
        return {k: decode(v, arrays, depth + 1) for k, v in value.items()}
    match value:
        case {"$array": str(name), **rest} if not rest and name in arrays:
            return arrays.pop(name)
        case {"$float": "nan" | "inf" | "-inf" as literal, **rest} if not rest:
            return float(literal)
        case {"$text": list(words), "kind": "U" | "O" as kind, **rest} if not rest and all(
            isinstance(w, str) for w in words
        ):
            return np.array(words, dtype=object if kind == "O" else str)
        case {"$pairs": list(pairs), **rest} if not rest and all(map(_is_pair, pairs)):
            return {k: decode(v, arrays, depth + 1) for k, v in pairs}
    raise ModelFileError(f"its manifest has a malformed entry {min(value)[:40]!r}")


def _dollar(value: Mapping[str, Any]) -> bool:
    return any(k.startswith("$") for k in value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
