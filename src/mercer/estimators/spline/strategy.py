"""What every way to fit a smoothing spline takes, and what it ends in.

Gaussian noise, any other likelihood, or a period: :mod:`gaussian`, :mod:`likelihood`,
:mod:`periodic`, each a strategy with one method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.units import Units, told_units
from mercer.inference.base import Report
from mercer.kernels.base import Kernel
from mercer.losses.base import Loss
from mercer.process.process import Process


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
    left_out: Any = None

    def report(self, order: int) -> dict[str, Any]:
        """What was done to the numbers, as plain values."""
        name, ended = self.inference
        return {
            "rows": dict(zip(("used", "distinct", "weight"), self.counts, strict=True)),
            "standardize": {"on": self.loss.offers("quadratic")} | told_units(self.units),
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
