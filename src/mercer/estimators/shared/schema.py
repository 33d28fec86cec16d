"""Schema: what the state of a machine may be. Checked before any part of it is built.

The sizes are d columns, m outputs, N rows with leave-one-out figures and, for each posterior, n
points and k basis functions. Support vector machines have fields of their own, in ``sv_schema``.

Stored labels: classes and weights by class as plain values for a model file, and back.

Packing: values and parts as plain JSON with arrays beside it, and back.

Frame: what the state of every machine has in common, written and read back.

The parameters, the columns, the classes and the units in which the machine works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.estimators.shared.units import Units
from mercer.left_out.figures import LeftOut

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
    if loo is None:
        return {}
    own = ["weights", "codes", "proba"] if loo.proba is not None else ["weights", "codes", "bound"]
    own += [] if loo.codes is not None else ["mean", "variance", "log_density"]
    named = {f"loo.{name}": getattr(loo, name) for name in own} | {"loo.cavity": loo.margin}
    return {key: value for key, value in named.items() if value is not None}


def unpacked_loo(arrays: Mapping[str, Array], report: Mapping[str, Any]) -> Any:
    """Return the figures of :func:`packed_loo`; why a bound is missing stands in the report."""
    stored: dict[str, Any] = {
        k.removeprefix("loo."): v for k, v in arrays.items() if k.startswith("loo.")
    }
    if not stored:
        return None
    if "codes" not in stored:
        return LeftOut(**stored)
    if "proba" in stored:
        return LeftOut.of_classes(stored["proba"], stored["codes"], stored["weights"])
    return LeftOut(
        stored["weights"],
        codes=stored["codes"],
        margin=stored.get("cavity"),
        bound=stored.get("bound"),
        reason=report.get("loo_bound"),
    )


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


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


def packed_frame(machine: Any, arrays: dict[str, Array], **instead: Any) -> dict[str, Any]:
    """Return the parameters, number and names of the columns; arrays among them go to ``arrays``.

    ``instead`` are parameters that are written with another value than the machine was given.
    """
    params = machine.get_params(deep=False) | instead
    if not isinstance(params.get("random_state"), (int, np.integer, type(None))):
        params["random_state"] = None  # a generator's state is not part of a model
    names = getattr(machine, "feature_names_in_", None)
    return {
        "params": {k: packed_param(v, f"params.{k}", arrays) for k, v in params.items()},
        "n_features": int(machine.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def unpacked_frame(
    make: Any, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
) -> Any:
    """Return ``make(**params)`` with its columns and, where there are any, its classes."""
    machine = make(**{k: unpacked(v, arrays, resolve) for k, v in manifest["params"].items()})
    machine.n_features_in_ = manifest["n_features"]
    if manifest["feature_names"] is not None:
        machine.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
    if manifest.get("classes") is not None:
        machine.classes_ = unpacked_classes(manifest["classes"])
    return machine


def packed_units(units: Units) -> dict[str, Array]:
    """Return the four arrays of the units by their keys."""
    return {f"units.{name}": getattr(units, name) for name in UNITS}


def unpacked_units(arrays: Mapping[str, Array]) -> Units:
    """Return the units of :func:`packed_units`."""
    return Units(*(arrays[f"units.{name}"] for name in UNITS))
