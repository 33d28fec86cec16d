"""The record of a smoothing spline: Gaussian noise, any other likelihood, or a period.

The last is a posterior like others; of the other two the curve is its rows and its states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.core.kinds import Fields, Numbers, One, Plain, PlainReport, Record
from mercer.core.record import COLUMNS
from mercer.estimators.shared.record import MachineRecord
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.linalg.spline.states import States
from mercer.process.spline import SplinePosterior

# N rows as given; n knots; m the order
_GIVEN = {"x": Numbers("N"), "y": Numbers("N"), "weights": Numbers("N", 0.0)}
_STATES = {
    "variance": Plain(float, 0.0),
    "mean": Numbers("n m"),
    "cov": Numbers("n t"),
    "root": Numbers("m m"),
    "back": Numbers("n-1 r"),
    "logdet": Plain(float),
    "rss": Plain(float),
}


def _gaussian(rows: dict[str, Array], states: dict[str, Any], noise: float) -> SplinePosterior:
    """The rows are merged again; the knots and their unit are those of the rows."""
    merged = merge_rows(**rows)
    return SplinePosterior(merged, _states(merged, states), noise)


def _curve(rows: dict[str, Any], states: dict[str, Any]) -> SplinePosterior:
    """What is smoothed are sites of another likelihood, in the units of the link."""
    sites = SplineRows(**rows, within=0.0, y_shift=0.0, y_scale=1.0)
    if np.any(np.diff(sites.points) < 0.0):
        raise ValueError("the points are not in order")
    return SplinePosterior(sites, _states(sites, states), 1.0)


def _states(rows: SplineRows, stored: dict[str, Any]) -> States:
    states = States(rows.points, rows.unit, **stored)
    n, m = states.mean.shape
    if n != len(rows.points) or not 1 <= m <= markov.HIGHEST:
        raise ValueError("there are not as many states as distinct inputs, or of no known order")
    if states.cov.shape[1] != m * (m + 1) // 2 or states.back.shape[1] != markov.room(m):
        raise ValueError("the states do not have the covariances of their order")
    if not np.any(rows.weights > 0.0):
        raise ValueError("no row has any weight")
    return states


def _parts(form: Record) -> Callable[[Any], dict[str, Any]]:
    def parts(spline: SplinePosterior) -> dict[str, Any]:
        found = {"rows": spline.rows, "states": spline.states, "noise": spline.noise_variance}
        return {name: found[name] for name in form}

    return parts


_GAUSSIAN: Record = {
    "rows": Fields(dict, _GIVEN),
    "states": Fields(dict, _STATES),
    "noise": Plain(float, 0.0),
}
_SITES = {"points": Numbers("n"), "target": Numbers("n"), "total": Numbers("n", 0.0)}
_LIKELIHOOD: Record = {
    "rows": Fields(dict, {**_GIVEN, **_SITES, "unit": Plain(float, 0.0, above=True)}),
    "states": Fields(dict, _STATES),
}


class SplineRecord(MachineRecord):
    """What a model file holds of a spline, in one of its three forms."""

    @classmethod
    def _record(cls) -> Record:
        return {
            **COLUMNS,
            "lam_": Plain(float, 0.0, above=True, finite=False),
            "edf_": Plain(float),
            "log_evidence_": Plain(float, finite=False),
            "report_": PlainReport(),
            "_form": One(
                {
                    "gaussian": Fields(_gaussian, _GAUSSIAN, parts=_parts(_GAUSSIAN)),
                    "likelihood": Fields(dict, {}),
                    "periodic": Fields(dict, {}),
                }
            ),
        }
