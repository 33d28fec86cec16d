"""What every way to fit a smoothing spline takes, and what it ends in.

Gaussian noise, any other likelihood, or a period: :mod:`gaussian`, :mod:`likelihood`,
:mod:`periodic`, each a strategy with one method.

The record of a smoothing spline: that of a kernel machine, whose posterior may be a curve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.core.kinds import Numbers, PartOf, Plain, Record
from mercer.core.record import Each, Fields, Maybe, One
from mercer.estimators.shared.record import LEFT_OUT, MachineRecord
from mercer.estimators.shared.units import Units, describe_units
from mercer.inference.base import Report
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline.rows import SplineRows
from mercer.linalg.spline.states import States
from mercer.losses.base import Loss
from mercer.process.process import Process
from mercer.process.record import POSTERIOR
from mercer.process.spline import SplinePosterior


@dataclass(frozen=True)
class FittedSpline:
    """A fitted curve.

    Attributes
    ----------
    posterior : the curve as a process, in the units of the fit.
    loss, stated_loss : what is observed, in the units of the fit and in the user's.
    units : of the fit.
    kernel : covariance of the process in the user's units.
    basis : the polynomials without a penalty.
    lam : in the user's units; may be infinite.
    edf, log_evidence : effective degrees of freedom; in the user's units.
    search : report of the search, None if lam was given.
    inference, gram : name and report of the inference; the linear algebra.
    counts : rows used, distinct inputs, total weight.
    extra : further entries of the report.
    left_out : figures of left-out rows; None: they are computed when they are asked for.
    """

    posterior: Process
    loss: Loss
    stated_loss: Loss
    units: Units
    kernel: Kernel
    basis: PolynomialBasis
    lam: float
    edf: float
    log_evidence: float
    search: dict[str, Any] | None
    inference: tuple[str, Report]
    gram: str
    counts: tuple[int, int, float]
    extra: dict[str, Any]
    left_out: LeftOut | None = None

    def report(self, order: int) -> dict[str, Any]:
        """What was done to the numbers, as plain values."""
        name, ended = self.inference
        return {
            "rows": dict(zip(("used", "distinct", "weight"), self.counts, strict=True)),
            "standardize": {"on": self.loss.offers("quadratic")} | describe_units(self.units),
            "search": self.search,
            "inference": {"name": name, **ended.plain()},
            "gram": self.gram,
            "degrees_of_freedom": self.edf,
            "order": order,
            "lam": self.lam if np.isfinite(self.lam) else "infinite",
            **self.extra,
        }


@dataclass(frozen=True)
class SplineStrategy(ABC):
    """How a curve is fitted.

    Attributes
    ----------
    order : m, the derivative that is penalised.
    lam : the smoothing parameter in the user's units, or None.
    search : the criterion that finds it.
    """

    order: int
    lam: float | None
    search: str

    @abstractmethod
    def fit(self, x: Array, y: Array, weights: Array) -> FittedSpline:
        """Return the curve through y (N,) at x (N,), each row counted ``weights`` (N,) times."""


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
        record = {name: kind for name, kind in super()._record().items() if name != "left_out_"}
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
