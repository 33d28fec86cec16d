"""Report and summary of a smoothing spline."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.shared.summary import Summary
from mercer.estimators.spline.gaussian import SplineSmoothing
from mercer.estimators.spline.likelihood import FittedCurve
from mercer.linalg.spline.rows import SplineRows


def describe(
    rows: SplineRows, m: int, chosen: SplineSmoothing, lam: float, degrees: float
) -> dict[str, Any]:
    """What was done to the numbers, as plain values."""
    return {
        "standardize": {
            "on": True,
            "x_shift": [0.0],
            "x_scale": [1.0],
            "y_shift": [rows.y_shift],
            "y_scale": [rows.y_scale],
        },
        "rows": {
            "used": int(np.count_nonzero(rows.weights)),
            "distinct": len(rows.points),
            "weight": rows.count,
        },
        "search": chosen.report,
        "inference": {"name": "Exact", "jitter": 0.0},
        "gram": "markov",
        "order": m,
        "lam": lam if np.isfinite(lam) else "infinite",
        "polynomial": not np.isfinite(lam),
        "mean_gap": rows.unit,
        "degrees_of_freedom": degrees,
    }


def describe_curve(curve: FittedCurve) -> dict[str, Any]:
    """What was done to the numbers of a curve with another loss, as plain values."""
    rows, lam = curve.rows, curve.lam
    return {
        **curve.report,
        "standardize": {"on": False, "x_shift": [0.0], "x_scale": [1.0]}
        | {"y_shift": [0.0], "y_scale": [1.0]},
        "rows": {
            "used": int(np.count_nonzero(rows.weights)),
            "distinct": len(np.unique(rows.points)),
            "weight": float(rows.weights.sum()),
        },
        "gram": "markov",
        "order": curve.states.order,
        "lam": lam if np.isfinite(lam) else "infinite",
        "polynomial": not np.isfinite(lam),
        "mean_gap": rows.unit,
        "degrees_of_freedom": curve.edf,
    }


def summarise_spline(machine: Any, common: Summary) -> Summary:
    """Add what is peculiar to a spline to the summary of a regressor."""
    m, lam = machine.report_["order"], machine.lam_
    text = f"{lam:.6g}"
    if not np.isfinite(lam):
        text = f"infinite: a polynomial of degree {m - 1} is best"
    rows = [
        ("Model", "order of the penalty", str(m)),
        ("Model", "smoothing parameter lam", text),
    ]
    if "period" in machine.report_:
        rows.append(("Model", "period", f"{machine.report_['period']:.6g}"))
        known = list(common.entries)
    else:
        known = [_restated(*row, machine.loss_.offers("quadratic")) for row in common.entries]
    if machine.report_["inference"].get("curvature") == "expected":
        known.append(("Numerics", "spread", "by the expected curvature: the loss is not convex"))
    at = next(i for i, row in enumerate(known) if row[0] == "Model")
    return Summary(common.title, (*known[:at], *rows, *known[at:]))


def _restated(section: str, label: str, value: str, gaussian: bool) -> tuple[str, str, str]:
    """Say of a spline what differs: x is as given, and the variance is that of white noise."""
    if label == "standardised" and gaussian:
        value = "yes: the target, inside the machine; undone in all that is reported"
    elif label.startswith("variance ("):
        ratio = "noise / lam" if gaussian else "1 / lam"
        label = f"variance ({ratio}: of the white noise whose integral the curve is)"
    return section, label, value
