"""Values of scikit-learn's preprocessors as plain values, and back: a closed list of types.

Numbers, texts and arrays of them stand for themselves; the rest is a mapping with one of the keys
``tuple``, ``pairs`` (of a dict), ``slice``, ``type`` or ``dtype`` (of NumPy), ``texts`` and
``objects`` (arrays of one axis) and ``step`` (a preprocessor inside another).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.errors import ModelFileError
from mercer.persist.container import DTYPES

Inner = Callable[[Any], Any]
TYPES: dict[str, type[np.generic]] = {
    "float64": np.float64,
    "float32": np.float32,
    "int64": np.int64,
    "int32": np.int32,
    "bool": np.bool_,
    "object": np.object_,
}
WIDEST = 4096  # characters of a text in an array of texts: a file may not ask for more room
PLAIN = (bool, int, float, str)


def to_plain(value: Any, place: str, inner: Inner) -> Any:
    """Return ``value`` as plain values; ``inner(step)`` writes a preprocessor inside."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return _array(value, place)
    if isinstance(value, np.dtype) and value.name in TYPES:
        return {"dtype": value.name}
    if isinstance(value, type):
        known = issubclass(value, np.generic) or value in (bool, int, float, object)
        if known and np.dtype(value).name in TYPES:
            return {"type": np.dtype(value).name}
    elif isinstance(value, slice):
        return {"slice": [to_plain(v, place, inner) for v in (value.start, value.stop, value.step)]}
    elif isinstance(value, (list, tuple)):
        items = [to_plain(v, place, inner) for v in value]
        return items if isinstance(value, list) else {"tuple": items}
    elif isinstance(value, dict):
        return {"pairs": [[_key(k), to_plain(v, place, inner)] for k, v in value.items()]}
    elif hasattr(value, "get_params"):
        return {"step": inner(value)}
    raise TypeError(
        f"{place}={value!r:.80} cannot be written to a model file: only plain "
        "values and a closed list of scikit-learn's preprocessors can, no functions"
    )


def from_plain(value: Any, inner: Inner) -> Any:
    """Undo :func:`to_plain`, or refuse what it cannot have written."""
    if value is None or type(value) in PLAIN or isinstance(value, np.ndarray):
        return value
    if isinstance(value, list):
        return [from_plain(v, inner) for v in value]
    match value:
        case {"tuple": list(items), **rest} if not rest:
            return tuple(from_plain(v, inner) for v in items)
        case {"pairs": list(pairs), **rest} if not rest and all(map(_is_pair, pairs)):
            return {k: from_plain(v, inner) for k, v in pairs}
        case {"slice": [start, stop, step], **rest} if not rest and all(
            v is None or type(v) is int for v in (start, stop, step)
        ):
            return slice(start, stop, step)
        case {"type": str(name), **rest} if not rest and name in TYPES:
            return TYPES[name]
        case {"dtype": str(name), **rest} if not rest and name in TYPES:
            return np.dtype(TYPES[name])
        case {"texts": list(words), "width": int(width), **rest} if (
            not rest
            and 1 <= width <= WIDEST
            and all(type(w) is str and len(w) <= width for w in words)
        ):
            return np.array(words, dtype=f"<U{width}")
        case {"objects": list(items), **rest} if not rest and all(
            v is None or type(v) in PLAIN for v in items
        ):
            made = np.empty(len(items), dtype=object)
            made[:] = items
            return made
        case {"step": dict(step), **rest} if not rest:
            return inner(step)
    raise ModelFileError("a value of its pipeline is not one that mercer writes")


def _array(value: Any, place: str) -> Any:
    """Return an array: of numbers as it is, of texts and of objects as a list."""
    if value.dtype.newbyteorder("<") in DTYPES.values():
        return value
    if value.ndim == 1 and value.dtype.kind == "U" and value.dtype.itemsize <= 4 * WIDEST:
        return {"texts": value.tolist(), "width": max(1, value.dtype.itemsize // 4)}
    if value.ndim == 1 and value.dtype.kind == "O":
        items = [v.item() if isinstance(v, np.generic) else v for v in value]
        if all(v is None or type(v) in PLAIN for v in items):
            return {"objects": items}
    raise TypeError(
        f"{place}, an array of {value.dtype} with {value.ndim} axes, cannot be "
        "written to a model file: numbers, and one axis of texts and numbers, can"
    )


def _key(key: Any) -> Any:
    key = key.item() if isinstance(key, np.generic) else key
    if type(key) not in (str, int):
        raise TypeError(f"a mapping with the key {key!r:.40} cannot be written to a model file")
    return key


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (str, int)
