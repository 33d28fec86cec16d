"""Quantities that are never negative: predictions and intervals end at zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.tables.choose.left_out import LeftOutTable

NINETY = 1.6448536269514722  # deviations of a Gaussian that its central 90 % reach


def lower_bound(values: Array) -> float | None:
    """Return zero if none of the targets (n,) is below it and they are not all zero, else None."""
    return 0.0 if values.min() >= 0.0 and values.max() > 0.0 else None


def within(report: Mapping[str, Any], *values: Any) -> tuple[Any, ...]:
    """Return the predictions, none below the bound that the ``report_`` of a fit states."""
    bound = (report.get("target") or {}).get("at_least")
    return values if bound is None else tuple(np.maximum(v, bound) for v in values)


def check_bound(report: Any) -> None:
    """Refuse the ``report_`` of a file that states another bound than :func:`lower_bound` does."""
    if not isinstance(report, Mapping):
        raise ValueError("the file has no report")
    target = report.get("target", {})
    bound = target.get("at_least") if isinstance(target, Mapping) else target
    if bound is not None and not (type(bound) in (int, float) and bound == 0.0):
        raise ValueError("the least value of a target is zero, or not known")


def notes_of_bound(left: LeftOutTable, bound: float | None) -> list[str]:
    """Say that intervals were cut, if those of rows left out reach below the bound."""
    if bound is None or left.mean is None or np.all(left.mean - NINETY * left.std >= bound):
        return []
    return [
        f"no value of the target is below {bound:g}: predictions and the ends of intervals are not "
        "either, whatever the machine says"
    ]
