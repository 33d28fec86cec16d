"""``mercer fit``: a table becomes a model file."""

from __future__ import annotations

import numpy as np

import mercer
from mercer.app import console
from mercer.app.errors import AppError, quoted, require
from mercer.app.fitted import Progress, fit_table
from mercer.app.outputs import check_outputs
from mercer.app.progress import progress
from mercer.app.results import as_plain, show
from mercer.app.table_fit import fit_frame, inputs_of
from mercer.app.table_results import plain_of, show_model
from mercer.app.tables import Table, read_table
from mercer.arrays import Array
from mercer.kernels.convert import as_kernel, kernel_names
from mercer.tables import TableModel


def run(
    *,
    table: str,
    target: str,
    output: str,
    report: str | None,
    features: list[str] | None,
    weights: str | None,
    kernel: str | None,
    kind: str | None,
    candidates: list[str] | None,
    time_budget: float,
    check: int | None,
    drop_missing: bool,
    delimiter: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options.

    A kernel asks for one Gaussian process, with no other candidates.
    """
    check_outputs([output, report], [table])
    check_kernel(kernel)
    check_printing(report)
    data = read_table(table, delimiter)
    if kernel is None:
        with progress(quiet or as_json) as advance:
            model = fit_frame(
                data, target, features, drop_missing, advance,
                weights=weights, kind=kind, candidates=candidates, time_budget=time_budget,
                seed=seed,
            )  # fmt: skip
            if check is not None:
                model.notes_.append(checked(model, check, advance))
        finish(model, output, report, quiet, as_json)
        return
    names, X, y, counts = columns_of(data, target, features, weights, drop_missing)
    with progress(quiet or as_json) as advance:
        fitted = fit_table(names, X, y, counts, target, table, kernel, seed, advance)
    dropped = len(data.places) - len(y)
    if dropped:
        fitted.notes.append(f"{dropped} rows with missing values were left out")
    if report is not None:
        from mercer.app.report import render, write_report

        text = render(fitted)  # everything is made before anything is written
        mercer.save(fitted.model, output)
        write_report(report, text)
    else:
        mercer.save(fitted.model, output)
    if as_json:
        console.print_json(as_plain(fitted) | {"model": output, "report": report})
    elif not quiet:
        show(fitted)
        console.say(f"model written to {output}" + (f", report to {report}" if report else ""))


def finish(model: TableModel, output: str, report: str | None, quiet: bool, as_json: bool) -> None:
    """Write model and report, and say what was found."""
    if report is not None:
        from mercer.app.report import render_table, write_report

        with progress(quiet or as_json) as advance:
            text = render_table(model, advance)  # all is made before anything is written
        mercer.save(model, output)
        write_report(report, text)
    else:
        mercer.save(model, output)
    if as_json:
        console.print_json(plain_of(model) | {"model": output, "report": report})
    elif not quiet:
        show_model(model)
        console.say(f"model written to {output}" + (f", report to {report}" if report else ""))


def checked(model: TableModel, folds: int, advance: Progress) -> str:
    """Return a sentence of what cross-validation says of the chosen machine."""
    found = model.check(folds=folds, progress=advance)
    what = "RMSE" if model.kind_ == "regression" else "error"
    return (
        f"checked by {found.by}, everything fitted anew in each: log density {found.score:.4g}, "
        f"{what} {found.error:.4g}, calibration error {found.calibration:.4g}"
    )


def check_kernel(name: str | None) -> None:
    """Refuse a name that is no kernel of columns; a matrix of kernel values is no table."""
    known = [n for n in kernel_names() if not as_kernel(n).pairwise]
    if name is not None and name not in known:
        raise AppError(f"there is no kernel {quoted([name])}; choose one of {', '.join(known)}")


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
    names = inputs_of(data, target, features, weight)
    every = [*names, target] + ([weight] if weight is not None else [])
    values = data.numbers(every)
    keep = data.complete(values, every, None if drop_missing else "--drop-missing")
    if not keep.any():
        raise AppError(f"{data.path}: every row has a missing value")
    values, d = values[keep], len(names)
    X, y = np.ascontiguousarray(values[:, :d]), np.ascontiguousarray(values[:, d])
    return names, X, y, None if weight is None else np.ascontiguousarray(values[:, d + 1])
