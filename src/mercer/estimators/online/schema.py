"""Schema of the state of an online learner, checked before any part of it is built.

The sizes are d columns, n points and m latent functions (one for two classes).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.schema import Shapes, check_arrays, check_fields, unit_shapes
from mercer.inference.stream.latent import PANEL

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "kernel": (dict,),
    "inside": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "classes": (dict,),
    "form": (str,),
    "gains": (list,),
    "moved": (float,),
    "log_evidence": (float,),
    "prequential": (list,),
    "report": (dict,),
}


def check_online_state(
    manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str]
) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be."""
    check_fields(manifest, _FIELDS, names)
    stored = manifest["classes"].get("values")
    if not isinstance(stored, list) or len(stored) < 2:
        raise ValueError("the classes are not at least two labels")
    d, m = manifest["n_features"], len(stored) if len(stored) > 2 else 1
    if len(manifest["gains"]) != m or len(manifest["prequential"]) != 3:
        raise ValueError("gains or prequential figures are not as many as there must be")
    if any(type(v) is not float for v in [*manifest["gains"], *manifest["prequential"]]):
        raise ValueError("gains and prequential figures must be numbers")
    if (
        manifest["form"] not in ("growing", "explicit")
        or arrays.get("points", np.empty(0)).ndim < 2
    ):
        raise ValueError("the form is neither growing nor explicit, or there are no points")
    n = len(arrays["points"])
    if n < 1:
        raise ValueError("there are no points")
    shapes: Shapes = unit_shapes(d, m) | {"points": (n, d)}
    if manifest["form"] == "growing":
        shapes |= {"labels": (n, m), "weights": (n,)}
    for j in range(m):
        if manifest["form"] == "explicit":
            shapes |= {f"{j}.C": (n, n), f"{j}.alpha": (n,)}
            continue
        shapes[f"{j}.v"] = (n,)
        for i, start in enumerate(range(0, n, PANEL)):
            shapes[f"{j}.panel{i}"] = (min(PANEL, n - start), (i + 1) * PANEL)
    check_arrays(manifest, arrays, shapes)
