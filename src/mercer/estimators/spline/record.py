"""The record of a smoothing spline: that of a kernel machine, whose posterior may be a curve."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer._native import markov
from mercer.core.kinds import Numbers, PartOf, Plain, Record
from mercer.core.record import Each, Fields, Maybe, One
from mercer.estimators.shared.record import LEFT_OUT, MachineRecord
from mercer.linalg.spline.rows import SplineRows
from mercer.linalg.spline.states import States
from mercer.losses.base import Loss
from mercer.process.record import POSTERIOR
from mercer.process.spline import SplinePosterior


def _curve(rows: SplineRows, states: dict[str, Any], noise_variance: float) -> SplinePosterior:
    """The knots of the states and their unit are those of the rows."""
    found = States(rows.points, rows.unit, **states)
    m = found.order
    if not 1 <= m <= markov.HIGHEST or not np.any(rows.weights > 0.0):
        raise ValueError("a curve is of an order from 1 to 6, and some row has a weight")
    if found.cov.shape[1] != m * (m + 1) // 2 or found.back.shape[1] != markov.room(m):
        raise ValueError("the states do not have the covariances of their order")
    if np.any(np.diff(rows.points) < 0.0):
        raise ValueError("the points are not in order")
    return SplinePosterior(rows, found, noise_variance)


# N rows as given, n knots, order o
CURVE = Fields(
    _curve,
    {
        "rows": Fields(
            SplineRows,
            {
                "x": Numbers("N"),
                "y": Numbers("N"),
                "weights": Numbers("N", 0.0),
                "points": Numbers("n"),
                "target": Numbers("n"),
                "total": Numbers("n", 0.0),
                "within": Plain(float, 0.0),
                "y_shift": Plain(float),
                "y_scale": Plain(float, 0.0, above=True),
                "unit": Plain(float, 0.0, above=True),
            },
        ),
        "states": Fields(
            dict,
            {
                "variance": Plain(float, 0.0),
                "mean": Numbers("n o"),
                "cov": Numbers("n t"),
                "root": Numbers("o o"),
                "back": Numbers("n-1 r"),
                "logdet": Plain(float),
                "rss": Plain(float),
            },
        ),
        "noise_variance": Plain(float, 0.0),
    },
)


class SplineRecord(MachineRecord):
    """A curve, or a posterior like others if it has a period."""

    @classmethod
    def _record(cls) -> Record:
        computed = ("loo_", "left_out_")  # when they are asked for
        record = {k: kind for k, kind in super()._record().items() if k not in computed}
        forms = One({"Posterior": POSTERIOR, "SplinePosterior": CURVE})
        return {
            **record,
            "lam_": Plain(float, 0.0, above=True, finite=False),
            "edf_": Plain(float, 0.0),
            "posteriors_": Each(forms, "1"),
            "losses_": Each(PartOf(Loss), "1"),
            "_periodic_left_out": Maybe(LEFT_OUT),
        }

    @property
    def _periodic_left_out(self) -> Any:
        """The figures of a curve with a period; others are computed when they are asked for."""
        return cast(Any, self)._left if "period" in cast(Any, self).report_ else None

    @_periodic_left_out.setter
    def _periodic_left_out(self, found: Any) -> None:
        cast(Any, self)._left = found

    def _restored(self) -> None:
        if "period" in cast(Any, self).report_:
            if cast(Any, self)._left is None:
                raise ValueError("a curve with a period has its leave-one-out figures")
            super()._restored()

    def _check_fitted(self) -> None:
        if "period" in cast(Any, self).report_:
            super()._check_fitted()
