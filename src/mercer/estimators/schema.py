"""Schema: what the state of a machine may be. Checked before any part of it is built.

The sizes are d columns, m outputs, N rows with leave-one-out figures and, for each posterior, n
points and k basis functions. Support vector machines have fields of their own, in ``sv_schema``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

import numpy as np

from mercer.arrays import Array

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "kernel": (dict,),
    "loss": (dict,),
    "basis": (dict, NoneType),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "classes": (dict, NoneType),
    "flat": (bool,),
    "log_evidence": (float, NoneType),
    "report": (dict,),
    "draws": (list,),
}
_OPERATORS: tuple[set[str], ...] = (
    set(),
    {"matrix"},
    {"weights"},
    {"weights", "certain"},
    {"cholesky", "scale"},
    {"cholesky", "scale", "basis_q", "basis_r"},
    {"half", "anchor", "cross", "block"},
    {"half", "anchor", "cross", "block", "gain", "tilt"},
)
UNITS = ("x_shift", "x_scale", "y_shift", "y_scale")
Shapes = dict[str, tuple[int, ...]]


def check_state(manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str]) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be.

    ``names`` are the constructor's parameters. Leave-one-out figures need not be finite: they do
    not exist for a row without which the basis has no unique coefficients.
    """
    _check_fields(manifest, names)
    check_arrays(manifest, arrays, _shapes(manifest, arrays))


def _check_fields(manifest: Mapping[str, Any], names: set[str]) -> None:
    check_fields(manifest, _FIELDS, names)
    draws = manifest["draws"]
    if not draws or any(
        type(draw) is not dict or set(draw) != {"kernel", "loss"} for draw in draws
    ):
        raise ValueError("draws must be pairs of a kernel and a loss, at least one")


def check_fields(
    manifest: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]], names: set[str]
) -> None:
    """Refuse other fields than ``fields`` or of another type, and what no machine writes."""
    if set(manifest) != set(fields):
        raise ValueError(f"the state does not consist of {', '.join(fields)}")
    for field, kinds in fields.items():
        if type(manifest[field]) not in kinds:
            raise ValueError(f"{field} is a {type(manifest[field]).__name__}")
    if not set(manifest["params"]) <= names:  # one that was added since has its default
        raise ValueError("the parameters are not those of this estimator")
    if manifest["n_features"] < 1:
        raise ValueError("n_features must be at least 1")
    columns = manifest["feature_names"]
    if columns is not None and not (
        len(columns) == manifest["n_features"] and all(type(c) is str for c in columns)
    ):
        raise ValueError(f"feature_names must be {manifest['n_features']} texts")
    if not _plain(manifest["report"]):
        raise ValueError("the report holds more than plain values")


def check_arrays(manifest: Mapping[str, Any], arrays: Mapping[str, Array], shapes: Shapes) -> None:
    """Refuse arrays that are neither in ``shapes`` nor referred to, and those of another shape."""
    known = shapes.keys() | set(_references(manifest))
    if known != arrays.keys():
        odd = sorted(known ^ arrays.keys())[0]
        raise ValueError(f"the array {odd[:60]!r} is missing, or is not part of such a model")
    for name, array in arrays.items():
        if array.dtype != np.float64:
            raise ValueError(f"the array {name[:60]!r} is not one of doubles")
        if name in shapes and array.shape != shapes[name]:
            raise ValueError(f"{name} has shape {array.shape}, expected {shapes[name]}")
        if name in shapes:
            _check_values(name, array)


def unit_shapes(d: int, m: int) -> Shapes:
    """Return the shapes of the units of d columns and m outputs."""
    return {f"units.{name}": (d,) if name[0] == "x" else (m,) for name in UNITS}


def _shapes(manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> Shapes:
    """Return the shape that every array of the fitted state must have."""
    d = manifest["n_features"]
    (m,) = _sizes(arrays, "units.y_scale", 1)
    if manifest["flat"] and m != 1:
        raise ValueError(f"flat targets have one output, not {m}")
    shapes = unit_shapes(d, m)
    stored = {name.removeprefix("loo.") for name in arrays if name.startswith("loo.")}
    if stored:
        (N,) = _sizes(arrays, "loo.weights", 1)
        row = (N,) if manifest["flat"] else (N, m)
        figures = {"mean": row, "variance": row, "log_density": row, "weights": (N,)}
        if "codes" in stored:  # of a classifier: margins, one column for each machine
            figures = {"weights": (N,), "codes": (N,)}
            figures |= dict.fromkeys(stored & {"bound", "cavity"}, (N, m))
        if "proba" in stored:
            figures["proba"] = (N, 2 if m == 1 else m)
        shapes |= {f"loo.{name}": shape for name, shape in figures.items()}
    if "relevance" in arrays:
        shapes["relevance"] = (d,)
    for i in range(len(manifest["draws"])):
        n, _ = _sizes(arrays, f"{i}.points", 2)
        shapes |= {f"{i}.points": (n, d), f"{i}.alpha": (n, m)}
        head = f"{i}.operator."
        stored = {name.removeprefix(head) for name in arrays if name.startswith(head)}
        several = _several(stored, m)
        if stored not in _OPERATORS and not several:
            raise ValueError(f"there is no operator of {', '.join(sorted(stored))[:60]}")
        k = 0
        if manifest["basis"] is not None:
            k, _ = _sizes(arrays, f"{i}.beta", 2)
            shapes[f"{i}.beta"] = (k, m)
        elif stored & {"basis_q", "anchor"}:
            raise ValueError("there is an operator of a basis, but no basis")
        parts = {
            "matrix": (n, n),
            "cholesky": (n, n),
            "scale": (n,),
            "weights": (n,),
            "certain": (n,),
        }
        parts |= {"basis_q": (n, k), "basis_r": (k, k), "shared": (n, n)}
        parts |= {"half": (n - k, n), "anchor": (n, k), "cross": (n, k), "block": (k, k)}
        parts |= {"gain": (n - k, n), "tilt": (n - k, k)}
        own = {name: name.split("_", 1)[1] if name[0].isdigit() else name for name in stored}
        shapes |= {head + name: parts[own[name]] for name in stored}
    return shapes


def _several(stored: set[str], m: int) -> bool:
    """Whether the arrays are those of m > 1 latent functions, each under its number."""
    numbered = {name for name in stored if name[:1].isdigit()}
    found: dict[str, set[str]] = {}
    for name in numbered:
        number, _, rest = name.partition("_")
        found.setdefault(number, set()).add(rest)
    kinds = ({"matrix"}, {"cholesky", "scale"})
    return (
        m > 1
        and set(found) == {str(j) for j in range(m)}
        and all(names in kinds for names in found.values())
        and stored - numbered <= {"shared"}
    )


def _sizes(arrays: Mapping[str, Array], name: str, ndim: int) -> tuple[int, ...]:
    if name not in arrays:
        raise ValueError(f"the array {name} is missing")
    shape = arrays[name].shape
    if len(shape) != ndim or 0 in shape:
        raise ValueError(f"{name} has shape {shape}")
    return shape


def _check_values(name: str, array: Array) -> None:
    head, _, last = name.rpartition(".")
    if head == "loo" and last != "weights":
        return
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite")
    last = last.split("_", 1)[1] if last[0].isdigit() else last
    positive = {"x_scale": array, "y_scale": array}
    if last in ("cholesky", "basis_r", "shared"):
        pivots = array.diagonal()
        positive[last] = np.abs(pivots) if last == "basis_r" else pivots
    if not np.all(positive.get(last, 1.0) > 0.0):
        raise ValueError(f"{name} must be positive")
    if last in ("weights", "relevance", "scale") and not np.all(array >= 0.0):
        raise ValueError(f"{name} must not be negative")


def _references(value: Any) -> Iterator[str]:
    """Yield the arrays that parts refer to by {"array": name}."""
    if isinstance(value, Mapping):
        if set(value) == {"array"} and isinstance(value["array"], str):
            yield value["array"]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(k) is str and _plain(v) for k, v in value.items())
    if type(value) is list:
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, float, str)
