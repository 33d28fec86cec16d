"""Schema of the state of a relevance vector machine, checked before any part of it is built.

The sizes are d columns, M relevance vectors in all, k machines (one for two classes) with M_j of
them and p_j = M_j (+ 1 with a bias) functions each, and n training rows where it is augmented.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import NoneType
from typing import Any

from mercer.core.arrays import Array
from mercer.estimators.shared.schema import check_arrays, check_fields, unit_shapes

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "kernel": (dict, NoneType),
    "inside": (dict, NoneType),
    "own": (dict, NoneType),
    "loss": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "classes": (dict, NoneType),
    "relevance": (list,),
    "bias": (bool,),
    "machines": (list,),
    "healed": (list, NoneType),
    "log_evidence": (float,),
    "iterations": (int,),
    "report": (dict,),
}


def check_relevance_state(
    manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str], classes: bool
) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be."""
    check_fields(manifest, _FIELDS, names)
    if (manifest["classes"] is not None) != classes:
        raise ValueError("the model has classes, or none, where it cannot")
    values = manifest["classes"].get("values") if classes else [0, 1]
    if not isinstance(values, list) or len(values) < 2:
        raise ValueError("the classes are not at least two labels")
    k = len(values) if len(values) > 2 else 1
    machines, relevance = manifest["machines"], _rising(manifest["relevance"], None)
    if len(machines) != k:
        raise ValueError(f"there are {len(machines)} machines where there must be {k}")
    d, M, bias = manifest["n_features"], len(relevance), int(manifest["bias"])
    kernel = manifest["inside"] is not None
    if kernel != (manifest["kernel"] is not None) or (kernel and manifest["own"] is not None):
        raise ValueError("there must be a kernel, inside and outside, or functions of one's own")
    shapes = unit_shapes(d, k)
    shapes["relevance_vectors"] = (M if kernel else 0, d)
    shapes |= {"coefficients": (k, M), "intercept": (k,)}
    for j, places in enumerate(machines):
        size = len(_rising(places, M))
        p = size + bias
        shapes |= {f"{j}.precisions": (size,), f"{j}.mu": (p,), f"{j}.cholesky": (p, p)}
        shapes[f"{j}.scale"] = (p,)
        if kernel:
            shapes[f"{j}.centres"] = (size, d)
    if manifest["healed"] is not None:
        if not kernel or len(manifest["healed"]) != k or "points" not in arrays:
            raise ValueError("an augmented machine has a kernel, its rows and a variance for each")
        if any(type(v) is not float or not v > 0.0 for v in manifest["healed"]):
            raise ValueError("the variances of augmenting functions must be positive")
        n = len(arrays["points"])
        shapes |= {"points": (n, d)}
        shapes |= {f"{j}.{name}": (n,) for j in range(k) for name in ("a", "b")}
    if "loo.weights" in arrays:
        rows = (len(arrays["loo.weights"]),)
        shapes |= {key: rows for key in arrays if key.startswith("loo.")}
        if classes:
            shapes["loo.proba"] = (*rows, len(values))
    check_arrays(manifest, arrays, shapes)


def _rising(values: Any, below: int | None) -> list[int]:
    """Return numbers of rows or places, each larger than the one before."""
    top = 2**62 if below is None else below
    if not isinstance(values, list) or not all(type(i) is int and 0 <= i < top for i in values):
        raise ValueError("relevance vectors must be given by their numbers")
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("the numbers of relevance vectors must rise")
    return values
