"""Frame: what the state of every machine has in common, written and read back.

The parameters, the columns, the classes and the units in which the machine works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.estimators.packing import Resolve, packed_param, unpacked
from mercer.estimators.schema import UNITS
from mercer.estimators.stored import unpacked_classes
from mercer.estimators.units import Units


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
