"""Schema of the state of a smoothing spline, checked before any part of it is built.

The sizes are N rows, n distinct inputs and the order m. Gaussian noise has its variance and the
degrees of freedom; another likelihood has its loss and the sites of the Gaussian approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.estimators.shared.schema import Shapes, check_arrays, check_fields

Fields = dict[str, tuple[type, ...]]
_COMMON: Fields = {
    "params": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "order": (int,),
    "lam": (float,),
    "variance": (float,),
    "logdet": (float,),
    "rss": (float,),
    "log_evidence": (float,),
    "report": (dict,),
}
_GAUSSIAN: Fields = {"edf": (float,), "noise": (float,)}
_LIKELIHOOD: Fields = {"loss": (dict,), "unit": (float,)}
ROWS = ("x", "y", "weights")
SITES = ("points", "target", "total")
STATES = ("mean", "cov", "root", "back")


def check_spline_state(
    manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str]
) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be."""
    likelihood = "loss" in manifest
    check_fields(manifest, _COMMON | (_LIKELIHOOD if likelihood else _GAUSSIAN), names)
    m = manifest["order"]
    if manifest["n_features"] != 1 or not 1 <= m <= markov.HIGHEST:
        raise ValueError("a spline has one column and an order from 1 to 6")
    if not (manifest["lam"] > 0.0 and manifest["variance"] >= 0.0):
        raise ValueError("lam and the variance must be positive")
    if not (manifest["unit"] > 0.0 if likelihood else manifest["noise"] >= 0.0):
        raise ValueError("the unit, or the variance of the noise, must be positive")
    sizes = [arrays[name].shape for name in ("rows.x", "states.mean") if name in arrays]
    if len(sizes) != 2 or not all(shape and shape[0] >= 1 for shape in sizes):
        raise ValueError("there are no rows or no states")
    N, n = sizes[0][0], sizes[1][0]
    shapes: Shapes = {f"rows.{name}": (N,) for name in ROWS}
    shapes |= {"states.mean": (n, m), "states.cov": (n, m * (m + 1) // 2)}
    shapes |= {"states.root": (m, m), "states.back": (n - 1, markov.room(m))}
    if likelihood:
        shapes |= {f"sites.{name}": (n,) for name in SITES}
    check_arrays(manifest, arrays, shapes)
    if np.any(arrays["rows.weights"] < 0.0) or not np.any(arrays["rows.weights"] > 0.0):
        raise ValueError("the weights are negative, or all zero")
    if likelihood and (
        np.any(np.diff(arrays["sites.points"]) < 0.0) or np.any(arrays["sites.total"] < 0.0)
    ):
        raise ValueError("the points are not in order, or a precision is negative")
