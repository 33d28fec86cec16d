"""State of a smoothing spline for model files: predictions are the same to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Self, cast

import numpy as np

from mercer._native import markov
from mercer.arrays import Array
from mercer.estimators.packing import Resolve, finite, packed_param, unpacked
from mercer.estimators.schema import Shapes, check_arrays, check_fields
from mercer.estimators.spline_rows import merge_rows
from mercer.linalg.markov_states import States

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "order": (int,),
    "lam": (float,),
    "edf": (float,),
    "noise": (float,),
    "variance": (float,),
    "logdet": (float,),
    "rss": (float,),
    "log_evidence": (float,),
    "report": (dict,),
}
_ROWS = ("x", "y", "weights")
_STATES = ("mean", "cov", "root", "back")


class SplineState:
    """The two directions between a fitted spline and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        spline = machine.posteriors_[0]
        states: States = spline.states
        arrays: dict[str, Array] = {}
        params = machine.get_params(deep=False)
        names = getattr(machine, "feature_names_in_", None)
        manifest: dict[str, Any] = {
            "params": {k: packed_param(v, f"params.{k}", arrays) for k, v in params.items()},
            "n_features": int(machine.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
            "order": states.order,
            "lam": float(machine.lam_),
            "edf": float(machine.edf_),
            "noise": float(spline.noise_variance),
            "variance": float(states.variance),
            "logdet": float(states.logdet),
            "rss": float(states.rss),
            "log_evidence": float(machine.log_evidence_),
            "report": finite(machine.report_),
        }
        arrays |= {f"rows.{name}": getattr(spline.rows, name) for name in _ROWS}
        arrays |= {f"states.{name}": getattr(states, name) for name in _STATES}
        check_spline_state(manifest, arrays, set(params))  # what is written can be read
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        make = cast(Any, cls)
        check_spline_state(manifest, arrays, set(make._get_param_names()))
        machine = make(**{k: unpacked(v, arrays, resolve) for k, v in manifest["params"].items()})
        machine.n_features_in_ = manifest["n_features"]
        if manifest["feature_names"] is not None:
            machine.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
        rows = merge_rows(*(arrays[f"rows.{name}"] for name in _ROWS))
        if len(rows.points) != len(arrays["states.mean"]):
            raise ValueError("there are not as many states as distinct inputs")
        states = States(
            rows.points,
            rows.unit,
            manifest["variance"],
            logdet=manifest["logdet"],
            rss=manifest["rss"],
            **{name: arrays[f"states.{name}"] for name in _STATES},
        )
        machine.lam_, machine.edf_ = manifest["lam"], manifest["edf"]
        machine.log_evidence_ = manifest["log_evidence"]
        machine._restore(rows, states, manifest["noise"])
        machine.report_ = manifest["report"]
        str(machine.summary())
        return cast(Self, machine)


def check_spline_state(
    manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str]
) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be."""
    check_fields(manifest, _FIELDS, names)
    m = manifest["order"]
    if manifest["n_features"] != 1 or not 1 <= m <= markov.HIGHEST:
        raise ValueError("a spline has one column and an order from 1 to 6")
    if not manifest["lam"] > 0.0 or manifest["noise"] < 0.0 or not manifest["variance"] >= 0.0:
        raise ValueError("lam and variances must be positive")
    sizes = [arrays[name].shape for name in ("rows.x", "states.mean") if name in arrays]
    if len(sizes) != 2 or not all(shape and shape[0] >= 1 for shape in sizes):
        raise ValueError("there are no rows or no states")
    N, n = sizes[0][0], sizes[1][0]
    shapes: Shapes = {f"rows.{name}": (N,) for name in _ROWS}
    shapes |= {"states.mean": (n, m), "states.cov": (n, m * (m + 1) // 2)}
    shapes |= {"states.root": (m, m), "states.back": (n - 1, markov.room(m))}
    check_arrays(manifest, arrays, shapes)
    if np.any(arrays["rows.weights"] < 0.0) or not np.any(arrays["rows.weights"] > 0.0):
        raise ValueError("the weights are negative, or all zero")
