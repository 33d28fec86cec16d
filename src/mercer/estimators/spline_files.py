"""Model files of smoothing splines: Gaussian noise, any likelihood, or a period."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Self, cast

import numpy as np

from mercer._native import markov
from mercer.arrays import Array
from mercer.estimators.packing import Resolve, finite, packed, packed_param, unpacked
from mercer.estimators.schema import Shapes, check_arrays, check_fields
from mercer.estimators.spline_likelihood import Curve
from mercer.estimators.spline_rows import SplineRows
from mercer.estimators.spline_state import SplineState
from mercer.estimators.state import Stateful, part_of
from mercer.linalg.markov_states import States
from mercer.losses.base import Loss

_FIELDS: dict[str, tuple[type, ...]] = {
    "params": (dict,),
    "n_features": (int,),
    "feature_names": (list, NoneType),
    "loss": (dict,),
    "order": (int,),
    "lam": (float,),
    "unit": (float,),
    "variance": (float,),
    "logdet": (float,),
    "rss": (float,),
    "log_evidence": (float,),
    "report": (dict,),
}
_ROWS = ("x", "y", "weights")
_SITES = ("points", "target", "total")
_STATES = ("mean", "cov", "root", "back")


class SplineFiles(SplineState, Stateful):
    """The two directions between a fitted spline of any kind and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        if "period" in machine.report_:
            return Stateful._state(self)
        if machine.loss_.offers("quadratic"):
            return super()._state()
        spline = machine.posteriors_[0]
        states: States = spline.states
        arrays: dict[str, Array] = {}
        params = machine.get_params(deep=False)
        names = getattr(machine, "feature_names_in_", None)
        manifest: dict[str, Any] = {
            "params": {k: packed_param(v, f"params.{k}", arrays) for k, v in params.items()},
            "n_features": int(machine.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
            "loss": packed(machine.loss_, "loss", arrays),
            "order": states.order,
            "lam": float(machine.lam_),
            "unit": float(states.unit),
            "variance": float(states.variance),
            "logdet": float(states.logdet),
            "rss": float(states.rss),
            "log_evidence": float(machine.log_evidence_),
            "report": finite(machine.report_),
        }
        arrays |= {f"rows.{name}": getattr(spline.rows, name) for name in _ROWS}
        arrays |= {f"sites.{name}": getattr(spline.rows, name) for name in _SITES}
        arrays |= {f"states.{name}": getattr(states, name) for name in _STATES}
        _check(manifest, arrays, set(params))  # what is written can be read
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        if "draws" in manifest:
            whole = super(SplineState, cls)._from_state  # past that of curves without a period
            return whole(manifest, arrays, resolve)
        if "loss" not in manifest:
            return super()._from_state(manifest, arrays, resolve)
        make = cast(Any, cls)
        _check(manifest, arrays, set(make._get_param_names()))
        machine = make(**{k: unpacked(v, arrays, resolve) for k, v in manifest["params"].items()})
        machine.n_features_in_ = manifest["n_features"]
        if manifest["feature_names"] is not None:
            machine.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
        unit = manifest["unit"]
        given = {name: arrays[f"rows.{name}"] for name in _ROWS}
        sites = {name: arrays[f"sites.{name}"] for name in _SITES}
        rows = SplineRows(**given, **sites, within=0.0, y_shift=0.0, y_scale=1.0, unit=unit)
        states = States(
            rows.points,
            unit,
            manifest["variance"],
            logdet=manifest["logdet"],
            rss=manifest["rss"],
            **{name: arrays[f"states.{name}"] for name in _STATES},
        )
        loss = part_of(Loss, manifest["loss"], arrays, resolve)
        report = dict(manifest["report"])
        curve = Curve(rows, states, loss, manifest["lam"], manifest["log_evidence"], report)
        machine._conclude_curve(curve)
        machine.report_ = report
        str(machine.summary())
        return cast(Self, machine)

    def _check_state(self) -> None:
        """See :meth:`Stateful._check_state`; of a periodic spline, whose lam is in its report."""
        machine = cast(Any, self)
        lam = machine.report_["lam"]
        machine.lam_ = np.inf if lam == "infinite" else float(lam)
        machine.edf_ = float(machine.report_["degrees_of_freedom"])
        super()._check_state()


def _check(manifest: Mapping[str, Any], arrays: Mapping[str, Array], names: set[str]) -> None:
    """Refuse a state with a field, an array, a shape or a number that cannot be."""
    check_fields(manifest, _FIELDS, names)
    m = manifest["order"]
    if manifest["n_features"] != 1 or not 1 <= m <= markov.HIGHEST:
        raise ValueError("a spline has one column and an order from 1 to 6")
    if not (manifest["lam"] > 0.0 and manifest["unit"] > 0.0 and manifest["variance"] >= 0.0):
        raise ValueError("lam, unit and variance must be positive")
    sizes = [arrays[name].shape for name in ("rows.x", "states.mean") if name in arrays]
    if len(sizes) != 2 or not all(shape and shape[0] >= 1 for shape in sizes):
        raise ValueError("there are no rows or no states")
    N, n = sizes[0][0], sizes[1][0]
    shapes: Shapes = {f"rows.{name}": (N,) for name in _ROWS}
    shapes |= {f"sites.{name}": (n,) for name in _SITES}
    shapes |= {"states.mean": (n, m), "states.cov": (n, m * (m + 1) // 2)}
    shapes |= {"states.root": (m, m), "states.back": (n - 1, markov.room(m))}
    check_arrays(manifest, arrays, shapes)
    if np.any(arrays["rows.weights"] < 0.0) or not np.any(arrays["rows.weights"] > 0.0):
        raise ValueError("the weights are negative, or all zero")
    if np.any(np.diff(arrays["sites.points"]) < 0.0) or np.any(arrays["sites.total"] < 0.0):
        raise ValueError("the points are not in order, or a precision is negative")
