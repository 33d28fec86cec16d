"""Figures of batches that are predicted before they are learned."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mercer.core.arrays import Array
from mercer.serve.messages import Scores


class Sums(msgspec.Struct, frozen=True):
    """Sums over rows that were predicted before they were learned."""

    rows: int = 0  # learned
    known: int = 0  # of them with a label, when there was something to predict with
    right: float = 0.0
    told: int = 0  # rows for which there were probabilities or densities
    log: float = 0.0  # of log P(label), or the log density of a quantity
    squares: float = 0.0  # of errors of a quantity

    def __add__(self, other: Sums) -> Sums:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Sums(*(a + b for a, b in zip(mine, theirs, strict=True)))

    def __sub__(self, other: Sums) -> Sums:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Sums(*(a - b for a, b in zip(mine, theirs, strict=True)))

    def scores(self, quantity: bool) -> Scores:
        """Return the means."""
        mean = self.log / self.told if self.told else None
        if quantity:
            rmse = (self.squares / self.known) ** 0.5 if self.known else None
            return Scores(rows=self.rows, rmse=rmse, log_density=mean)
        accuracy = self.right / self.known if self.known else None
        return Scores(rows=self.rows, accuracy=accuracy, log_loss=None if mean is None else -mean)


NOTHING = Sums()


class Figured(msgspec.Struct, frozen=True):
    """The figures of one version, as they stand in the log."""

    batch: Sums
    total: Sums
    change: float | None = None


def own_figures(machine: Any, old: Any, otherwise: Sums) -> Sums:
    """Return the figures that a machine keeps itself, since ``old``."""
    new = getattr(machine, "prequential_", None)
    if new is None or not hasattr(new, "log_loss_sum"):
        return otherwise
    weight, right, loss = new.weight, new.right, new.log_loss_sum
    if old is not None:
        weight, right, loss = weight - old.weight, right - old.right, loss - old.log_loss_sum
    rows = round(weight)
    return Sums(rows, rows, right, rows, -loss)


def before_classes(machine: Any, X: Array, y: Any) -> Sums:
    """Return the figures of rows that are going to be learned, of a machine that keeps none."""
    parts = ("dual_coef_", "feature_weights_", "intercept_")
    informed = any(np.any(getattr(machine, part, 0.0)) for part in parts)
    has = np.array([label is not None for label in y])
    if hasattr(machine, "prequential_") or not informed or not has.any():
        return Sums()
    X, given = X[has], y[has].tolist()
    right = sum(a == b for a, b in zip(machine.predict(X).tolist(), given, strict=True))
    if not len(getattr(machine, "slope_", ())):
        return Sums(len(X), len(X), right)
    code = {label: i for i, label in enumerate(machine.classes_.tolist())}
    p = machine.predict_proba(X)[np.arange(len(X)), [code[label] for label in given]]
    least = np.finfo(np.float64).tiny  # a class that was ruled out costs 708 nats
    return Sums(len(X), len(X), right, len(X), float(np.log(np.maximum(p, least)).sum()))


def before_quantity(machine: Any, X: Array, y: Array) -> Sums:
    """Return the figures of rows with quantities that are going to be learned."""
    errors = np.asarray(machine.predict(X)) - y
    density = machine.predictive_log_density(X, y) if _has_density(machine) else np.empty(0)
    told = float(np.sum(density))
    return Sums(len(y), len(y), 0.0, np.size(density), told, float(errors @ errors))


def _has_density(machine: Any) -> bool:
    return hasattr(machine, "predictive_log_density")
