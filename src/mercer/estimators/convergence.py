"""Convergence: a warning, beside the entry in ``report_``, where a solver stopped too early."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from mercer.inference.base import Inference

OUTSIDE = 5  # frames from here to the user's call of fit


def warn_machine(name: str, params: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    """Warn if the steps of a support vector machine ended above its tolerance.

    ``params`` are the machine's, ``report`` is that of :func:`mercer.inference.smo.maximise`.
    """
    if report["converged"]:
        return
    ended = (
        f"{name} ended after {report['iterations']} steps (max_iter={params['max_iter']}) with a "
        f"violation of {report['violation']:.2g}, above tol={params['tol']:g}"
    )
    if "iteration limit" in report["message"]:
        softer = ", or choose a smaller C" if "C" in params else ""
        remedy = (
            "raise max_iter (-1 is no limit), scale the columns (for example with "
            f"StandardScaler){softer}"
        )
    else:
        ended += ", and no step lowers it further (rounding)"
        exact = "" if report["precision"] == "float64" else " or one below 1e-5 (double precision),"
        remedy = f"choose a larger tol,{exact} or scale the columns"
    warnings.warn(f"{ended}: {remedy}", ConvergenceWarning, stacklevel=OUTSIDE)


def joined_discriminations(
    name: str, params: Mapping[str, Any], reports: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One report for several machines of :func:`mercer.inference.med.discriminate`.

    Warns if one of them ended above its duality gap.
    """
    report = {
        "converged": all(r["converged"] for r in reports),
        "iterations": max(r["iterations"] for r in reports),
        "objective": [r["objective"] for r in reports],
        "gap": max(r["gap"] for r in reports),
        "jitter": max(r["jitter"] for r in reports),
    }
    if not report["converged"]:
        warnings.warn(
            f"{name} ended after {report['iterations']} steps (max_iter={params['max_iter']}) with "
            f"a duality gap of {report['gap']:.2g}, above tol={params['tol']:g}: raise max_iter, "
            "choose a larger tol or scale the columns",
            ConvergenceWarning,
            stacklevel=OUTSIDE,
        )
    return report


def warn_inference(inference: Inference, report: Mapping[str, Any]) -> None:
    """Warn if an iterative inference stopped before its tolerance; ``report`` is its solution's."""
    if report.get("converged", True):
        return
    name, given = type(inference).__name__, inference.get_params()
    gap, steps = report.get("gap"), report.get("iterations")
    after = "" if steps is None else f" after {steps} steps"
    reached = "" if gap is None else f" with a duality gap of {gap:.2g}"
    limits = ", ".join(f"{k}={given[k]}" for k in ("tol", "max_iter") if k in given)
    warnings.warn(
        f"{name} inference stopped{after}{reached}, before it reached its tolerance ({limits}): "
        f"give inference={name}(max_iter=...) more steps, a larger tol if this is near enough, or "
        "the kernel a smaller amplitude (a classifier a smaller C)",
        ConvergenceWarning,
        stacklevel=OUTSIDE,
    )
