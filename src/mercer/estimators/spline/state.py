"""State of a smoothing spline for model files: predictions are the same to the last bit.

Gaussian noise, any other likelihood, or a period: the last is a posterior like others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.schema import Resolve, finite, packed, packed_frame, unpacked_frame
from mercer.estimators.shared.state import Stateful, part_of
from mercer.estimators.spline.likelihood import FittedCurve
from mercer.estimators.spline.schema import ROWS, SITES, STATES, check_spline_state
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.linalg.spline.states import States
from mercer.losses.base import Loss


class SplineState(Stateful):
    """The two directions between a fitted spline and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        if "period" in machine.report_:
            return super()._state()
        spline = machine.posteriors_[0]
        states: States = spline.states
        arrays: dict[str, Array] = {}
        manifest = packed_frame(machine, arrays) | {
            "order": states.order,
            "lam": float(machine.lam_),
            "variance": float(states.variance),
            "logdet": float(states.logdet),
            "rss": float(states.rss),
            "log_evidence": float(machine.log_evidence_),
            "report": finite(machine.report_),
        }
        arrays |= {f"rows.{name}": getattr(spline.rows, name) for name in ROWS}
        arrays |= {f"states.{name}": getattr(states, name) for name in STATES}
        if machine.loss_.offers("quadratic"):
            manifest |= {"edf": float(machine.edf_), "noise": float(spline.noise_variance)}
        else:
            manifest |= {"loss": packed(machine.loss_, "loss", arrays), "unit": float(states.unit)}
            arrays |= {f"sites.{name}": getattr(spline.rows, name) for name in SITES}
        check_spline_state(manifest, arrays, set(manifest["params"]))  # what is written can be read
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        if "draws" in manifest:
            return super()._from_state(manifest, arrays, resolve)
        check_spline_state(manifest, arrays, set(cast(Any, cls)._get_param_names()))
        machine = unpacked_frame(cls, manifest, arrays, resolve)
        report = dict(manifest["report"])
        given = {name: arrays[f"rows.{name}"] for name in ROWS}
        if "loss" in manifest:
            sites = {name: arrays[f"sites.{name}"] for name in SITES}
            unit = manifest["unit"]
            rows = SplineRows(**given, **sites, within=0.0, y_shift=0.0, y_scale=1.0, unit=unit)
            loss = part_of(Loss, manifest["loss"], arrays, resolve)
            states, lam = _states(rows, manifest, arrays), manifest["lam"]
            curve = FittedCurve(rows, states, loss, lam, manifest["log_evidence"], report)
            machine._conclude_curve(curve)
        else:
            rows = merge_rows(**given)
            if len(rows.points) != len(arrays["states.mean"]):
                raise ValueError("there are not as many states as distinct inputs")
            machine.lam_, machine.edf_ = manifest["lam"], manifest["edf"]
            machine.log_evidence_ = manifest["log_evidence"]
            machine._restore(rows, _states(rows, manifest, arrays), manifest["noise"])
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


def _states(rows: SplineRows, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> States:
    """The states at the distinct inputs, in the unit of the rows."""
    stored = {name: arrays[f"states.{name}"] for name in STATES}
    logdet, rss = manifest["logdet"], manifest["rss"]
    return States(rows.points, rows.unit, manifest["variance"], logdet=logdet, rss=rss, **stored)
