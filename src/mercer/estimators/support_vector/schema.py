"""Schema of the state of a support vector machine, checked before any part of it is built.

The sizes are d columns, n support vectors and k machines, one of each class against the rest
(k = 1 for two classes, and where there are no classes).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import NoneType
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.schema import Shapes, check_arrays, check_fields

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "kernel": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "support": (list,),
    "report": (dict,),
    "iterations": (int,),
    "extra": (dict,),
}
_NUMBER = (int, float)
_PARAMS: dict[str, tuple[type, ...]] = {
    "C": _NUMBER,
    "nu": _NUMBER,
    "epsilon": _NUMBER,
    "tol": _NUMBER,
    "cache_size": _NUMBER,
    "coef0": _NUMBER,
    "degree": _NUMBER,
    "gamma": (str, *_NUMBER),
    "kernel": (str, dict),
    "bias": (bool, int),
    "max_iter": (int,),
    "probability": (str, NoneType),
    "calibration": (str, NoneType),
    "inference": (str, dict, NoneType),
    "search": (str, dict, NoneType),
    "discriminant": (str,),
    "class_weight": (str, dict, NoneType),
    "random_state": (int, NoneType),
}
_PRECISIONS = ("float32", "float64")


def check_support_state(
    manifest: Mapping[str, Any],
    arrays: Mapping[str, Array],
    names: set[str],
    extra: tuple[str, ...],
    classes: bool,
) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be.

    ``names`` are the constructor's parameters, ``extra`` the further fitted attributes that the
    machine has, ``classes`` whether it is a classifier.
    """
    fields = _FIELDS | ({"classes": (dict,)} if classes else {})
    check_fields(manifest, fields, names)
    _check_params(manifest["params"])
    if manifest["iterations"] < 1:
        raise ValueError("iterations must be at least 1")
    if not str(manifest["report"].get("precision")).startswith(_PRECISIONS):
        raise ValueError(f"the precision in the report is none of {', '.join(_PRECISIONS)}")
    if set(manifest["extra"]) != set(extra):
        raise ValueError(f"extra does not consist of {', '.join(extra) or 'nothing'}")
    k = _machines(manifest)
    if "intercept_" in arrays and arrays["intercept_"].shape != (k,):
        raise ValueError(f"intercept_ does not have one value for each of {k} machines")
    d, n = manifest["n_features"], len(_rows(manifest["support"]))
    shapes: Shapes = {"support_vectors_": (n, d), "dual_coef_": (k, n), "intercept_": (k,)}
    check_arrays(manifest, arrays, shapes | _sigmoid(manifest, k))
    for name in extra:
        _check_extra(name, manifest["extra"][name], arrays)


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse a parameter of a type it cannot have; what its value may be the machine knows."""
    for name, value in params.items():
        if type(value) not in _PARAMS.get(name, (type(value),)):
            raise ValueError(f"the parameter {name} is a {type(value).__name__}")
        wanted = {"kernel": {"part"}, "class_weight": {"pairs"}}.get(name)
        if type(value) is dict and wanted is not None and set(value) != wanted:
            raise ValueError(f"the parameter {name} is none that a machine can have")


def _machines(manifest: Mapping[str, Any]) -> int:
    """Return k, by the number of classes."""
    values = manifest.get("classes", {}).get("values", [])
    if "classes" in manifest and not (isinstance(values, list) and len(values) > 1):
        raise ValueError("the classes are not at least two labels")
    return len(values) if len(values) > 2 else 1


def _rows(support: list[Any]) -> list[int]:
    """Return the numbers of the support vectors' rows, which rise."""
    fine = all(type(i) is int and 0 <= i < 2**62 for i in support)
    if not fine or any(a >= b for a, b in pairwise(support)):
        raise ValueError("support must be row numbers, each larger than the one before")
    return support


def _sigmoid(manifest: Mapping[str, Any], k: int) -> Shapes:
    """Return the shapes of slope and offsets of the probabilities, where they are known from here.

    A machine whose calibration needs more than the parameter ``probability`` checks its own.
    """
    if "slope_" not in manifest["extra"] or "probability" not in manifest["params"]:
        return {}
    off = manifest["params"]["probability"] is None
    return {"extra.slope_": (0,) if off else (1,), "extra.offsets_": (0,) if off else (k,)}


def _check_extra(name: str, value: Any, arrays: Mapping[str, Array]) -> None:
    if f"extra.{name}" not in arrays:
        if type(value) is not float or not np.isfinite(value):
            raise ValueError(f"{name} is not a finite number")
        return
    if value != {"array": f"extra.{name}"}:
        raise ValueError(f"{name} is not its array")
    if name == "slope_" and np.any(arrays["extra.slope_"] < 0.0):
        raise ValueError("slope_ must not be negative: more likely classes have larger margins")
