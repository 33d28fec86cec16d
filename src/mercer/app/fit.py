"""``mercer fit``: a table becomes a model file."""

from __future__ import annotations

import numpy as np

import mercer
from mercer.app import console
from mercer.app.errors import AppError, quoted, require, shown
from mercer.app.fitted import fit_table
from mercer.app.outputs import check_outputs
from mercer.app.progress import progress
from mercer.app.results import as_plain, show
from mercer.app.tables import Table, read_table
from mercer.arrays import Array
from mercer.kernels.convert import as_kernel, kernel_names


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
    check_outputs([output, report], [table])
    check_kernel(kernel)
    check_printing(report)
    data = read_table(table, delimiter)
    names, X, y, weights = columns_of(data, target, features, weight, drop_missing)
    with progress(quiet or as_json) as advance:
        fitted = fit_table(names, X, y, weights, target, table, kernel, seed, advance)
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
