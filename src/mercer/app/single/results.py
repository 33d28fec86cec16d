"""A fit as plain values, and on the terminal."""

from __future__ import annotations

from typing import Any

from mercer.app import terminal as console
from mercer.app.single.fitted import Fitted
from mercer.app.single.remarks import remarks

QUALITY_NAMES = ["R2", "RMSE", "in 90 % interval", "mean log density"]


def as_plain(fitted: Fitted) -> dict[str, Any]:
    """Return what was learned as plain values."""
    model = fitted.model
    return {
        "estimator": type(model).__name__,
        "target": fitted.target,
        "features": fitted.names,
        "rows": len(fitted.y),
        "kernel": repr(model.kernel_),
        "loss": repr(model.loss_),
        "log_evidence": model.log_evidence_,
        "leave_one_out": fitted.loo_quality(),
        "remarks": remarks(fitted),
    }


def show(fitted: Fitted) -> None:
    """Print the summary, the leave-one-out figures and the remarks."""
    console.print_summary(fitted.model.summary().rows())
    figures = fitted.loo_quality()
    console.print_table(
        "Leave-one-out quality: every row from all others",
        ["rows", *QUALITY_NAMES],
        [quality_cells(figures)],
    )
    for remark in remarks(fitted):
        console.say(f"note: {remark}")


def quality_cells(figures: dict[str, float]) -> list[str]:
    """Return the figures of :func:`mercer.app.single.quality.quality` as text."""
    return [
        f"{figures['rows']:.0f}",
        f"{figures['r2']:.3f}",
        f"{figures['rmse']:.4g}",
        f"{100 * figures['coverage90']:.1f} %",
        f"{figures['log_density']:.3f}",
    ]
