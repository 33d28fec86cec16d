"""``mercer fit``: a table becomes a model file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mercer
from mercer.app import console
from mercer.app.errors import AppError, quoted, require, shown
from mercer.app.quality import quality
from mercer.app.tables import Table, read_table, refuse_overwriting
from mercer.arrays import Array
from mercer.search import Optimize


@dataclass
class Fitted:
    """A fitted regressor with the table it was fitted to."""

    model: Any
    X: Array  # (n, d)
    y: Array  # (n,)
    names: list[str]
    target: str
    source: str
    notes: list[str] = field(default_factory=list)

    def loo_quality(self) -> dict[str, float]:
        """Leave-one-out figures, every row counted by its weight."""
        loo = self.model.loo_
        return quality(self.y, loo.mean, loo.std, loo.log_density, loo.weights)


def run(
    *,
    table: str,
    target: str,
    output: str,
    report: str | None,
    features: list[str] | None,
    weight: str | None,
    kernel: str | None,
    drop_missing: bool,
    delimiter: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options."""
    refuse_overwriting([output, report], [table])
    check_printing(report)
    data = read_table(table, delimiter)
    names, X, y, weights = columns_of(data, target, features, weight, drop_missing)
    with console.progress(quiet or as_json) as progress:
        fitted = fit_table(names, X, y, weights, target, table, kernel, seed, progress)
    dropped = len(data.places) - len(y)
    if dropped:
        fitted.notes.append(f"{dropped} rows with missing values were left out")
    mercer.save(fitted.model, output)
    if report is not None:
        from mercer.app.report import write_report

        write_report(report, fitted)
    if as_json:
        console.print_json(as_plain(fitted) | {"model": output, "report": report})
    elif not quiet:
        show(fitted)
        console.say(f"model written to {output}" + (f", report to {report}" if report else ""))


def check_printing(report: str | None) -> None:
    """Fail before the work, not after it, if an extra is missing."""
    require("rich", "printing")
    if report is not None:
        require("jinja2", "the report")
        require("matplotlib", "the report")


def columns_of(
    data: Table, target: str, features: list[str] | None, weight: str | None, drop_missing: bool
) -> tuple[list[str], Array, Array, Array | None]:
    """Return (input names, X, y, weights or None), rows with missing values refused or dropped."""
    data.check([target], "the target")
    if weight is not None:
        data.check([weight], "the weights")
    names = features or [n for n in data.names if n not in (target, weight)]
    data.check(names, "an input")
    for name in names:
        if name in (target, weight) or names.count(name) > 1:
            raise AppError(f"'{shown(name)}' cannot be an input twice, nor target or weight too")
    if not names:
        raise AppError(
            f"{data.path} has no column besides {quoted([target])}: nothing to learn from"
        )
    every = [*names, target] + ([weight] if weight is not None else [])
    values = data.numbers(every)
    keep = data.complete(values, every, None if drop_missing else "--drop-missing")
    if not keep.any():
        raise AppError(f"{data.path}: every row has a missing value")
    values, d = values[keep], len(names)
    X, y = np.ascontiguousarray(values[:, :d]), np.ascontiguousarray(values[:, d])
    return names, X, y, None if weight is None else np.ascontiguousarray(values[:, d + 1])


def fit_table(
    names: list[str],
    X: Array,
    y: Array,
    weights: Array | None,
    target: str,
    source: str,
    kernel: str | None = None,
    seed: int = 0,
    progress: console.Progress | None = None,
) -> Fitted:
    """Fit the default regressor; an interrupt is an interrupt, also inside the search."""
    search = Optimize(progress=progress or False)
    model = mercer.GPRegressor(kernel, search=search, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=weights)
    if interrupted(model.report_):
        raise KeyboardInterrupt
    model.set_params(search="evidence")  # the same search; a progress bar is not part of a model
    model.feature_names_in_ = np.array(names, dtype=object)
    model.report_["table"] = {"target": target, "rows": len(y)}
    notes = list(dict.fromkeys(str(w.message) for w in caught))
    return Fitted(model, X, y, names, target, source, notes)


def interrupted(report: Any) -> bool:
    """Whether any search in the (nested) report was interrupted."""
    if not isinstance(report, dict):
        return False
    return report.get("interrupted") is True or any(interrupted(v) for v in report.values())


def as_plain(fitted: Fitted) -> dict[str, Any]:
    """Return what was learned as plain values."""
    from mercer.app.remarks import remarks

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
    from mercer.app.remarks import remarks

    console.print_summary(fitted.model.summary().rows())
    figures = fitted.loo_quality()
    console.print_table(
        "leave-one-out quality",
        ["rows", "R2", "RMSE", "90 % intervals cover", "mean log density"],
        [quality_cells(figures)],
    )
    for remark in remarks(fitted):
        console.say(f"note: {remark}")


def quality_cells(figures: dict[str, float]) -> list[str]:
    """Return the figures of :func:`mercer.app.quality.quality` as text."""
    return [
        f"{figures['rows']:.0f}",
        f"{figures['r2']:.3f}",
        f"{figures['rmse']:.4g}",
        f"{100 * figures['coverage90']:.1f} %",
        f"{figures['log_density']:.3f}",
    ]
