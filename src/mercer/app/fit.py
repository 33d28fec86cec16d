"""``mercer fit``: a table becomes a model file: candidates, ranking, the best refitted."""

from __future__ import annotations

import datetime
import glob
import os
import shlex
from typing import Any

import numpy as np

import mercer
from mercer.app import terminal as console
from mercer.app.files.outputs import check_outputs
from mercer.app.predict import expanded
from mercer.app.results import plain_of, show_model
from mercer.app.terminal import AppError, progress, quoted, require, shown
from mercer.core.memory import available_bytes
from mercer.core.words import there_is_no
from mercer.kernels.convert import as_kernel, kernel_names
from mercer.tables import TableModel
from mercer.tables.files import FileOptions, FileTable, Reading, frame_of, read_file


def inputs_of(
    data: FileTable,
    target: str,
    features: list[str] | None,
    weights: str | None = None,
    group: str | None = None,
) -> list[str]:
    """Return the names of the inputs, or refuse what the table does not have."""
    data.check_once(target, "the target")
    if weights is not None:
        data.check_once(weights, "the weights")
    if group is not None:
        data.check_once(group, "the groups")
    names = features or [n for n in data.names if n not in (target, weights, group)]
    data.check(names, "an input")
    for name in names:
        if name in (target, weights, group) or names.count(name) > 1:
            raise AppError(
                f"'{shown(name)}' cannot be an input twice, nor target, weight or group too"
            )
    if not names:
        raise AppError(
            f"{data.path} has no column besides {quoted([target])}: nothing to learn from"
        )
    return names


def fit_frame(
    data: FileTable, *, target: str, drop_missing: bool = False, say: bool = False, **options: Any
) -> TableModel:
    """Fit the table; after an interrupt the model is the best so far, and says so.

    ``options`` are those of :func:`mercer.fit`, ``features`` and ``weights`` always among them;
    ``say`` prints what the file was taken for, before the work.
    """
    features, weights = options["features"], options["weights"]
    group, time = options.get("group"), options.get("time")
    names = inputs_of(data, target, features, weights, group)
    if time is not None:
        data.check_once(time, "the time")
    more = [n for n in (weights, group, time) if n is not None and n not in (*names, target)]
    every = [*names, target, *dict.fromkeys(more)]
    frame = frame_of(data, every)
    notes = list(data.notes)
    read = frame.reading or data.reading
    if not read.ordinary:
        notes.append(f"read {read.words()}")
    if say and not read.ordinary:  # before the work, as something was found out
        say_read(read)
    if weights is not None and frame.kind(weights) == "number" and not drop_missing:
        data.complete(data.numbers([weights]), [weights], "--drop-missing")  # says which line
    if drop_missing:
        absent = np.any([frame.missing(name) for name in every], axis=0)
        if absent.all():
            raise AppError(f"{data.path}: every row has a missing value")
        if absent.any():
            frame = frame.take(~absent)
            notes.append(f"{int(absent.sum())} rows with missing values were left out")
    model = mercer.fit(frame, target, **options)
    model.notes_[:0] = notes
    return model


def say_read(read: Reading) -> None:
    """Print what a file was taken for, and what says otherwise."""
    others = f" ({read.options} say otherwise)" if read.options else ""
    console.say(f"read {read.words()}{others}")


def run(
    *,
    table: str,
    output: str,
    report: str | None,
    check: int | None,
    asked: FileOptions,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Do the command; the parameters are its options."""
    large = {name: options.pop(name) for name in ("engine", "scheduler", "checkpoint", "points")}
    check_outputs([output, report], [table])
    check_kernel(options["kernel"])
    why = None if any(large.values()) else too_large(table)
    if why is not None or any(large.values()):
        from mercer.app.files.large import fit_large

        paths = for_blocks(table, check, asked, options)
        told = {"quiet": quiet, "as_json": as_json, "report": report, "why": why, **large}
        made = made_by("fit", table, options | large)
        fit_large(paths, table=table, output=output, made=made, **told, **options)
        return
    check_printing(report)
    data = read_file(table, asked)
    text, stopped = None, False
    with progress(quiet or as_json) as advance:
        model = fit_frame(data, say=not (quiet or as_json), progress=advance, **options)
    try:  # what is fitted is written, whatever becomes of the rest
        if not model.interrupted_:
            with progress(quiet or as_json) as advance:
                if check is not None:
                    add_check(model, check, advance)
                if report is not None:
                    from mercer.tables.report import table_report

                    # all is made before anything is written
                    made = made_by("fit", table, options)
                    text = table_report(model, advance, None, os.path.basename(table), made)
    except KeyboardInterrupt:
        stopped = True
    mercer.save(model, output)
    if report is not None and text is not None:
        from mercer.tables.report import write_report

        write_report(report, text)
    page = report if text is not None else None
    if as_json:
        console.print_json(plain_of(model) | {"model": output, "report": page})
    elif not quiet:
        if model.reading_ is not None and model.reading_.ordinary:
            say_read(model.reading_)
        show_model(model)
        console.say(f"model written to {output}" + (f", report to {page}" if page else ""))
    if model.interrupted_ or stopped:
        of = f"{len(model.rows_)} of {model.given_} rows"
        kept = f"the best machine so far ({model.chosen_.name}, {of}) was written to {output}"
        lost = ", without report" if report is not None and text is None else ""
        raise KeyboardInterrupt(f"interrupted: {kept}{lost}")


GROWS = {
    ".csv": 10,
    ".tsv": 10,
    ".gz": 40,
    ".xlsx": 60,
    ".parquet": 6,
    ".pq": 6,
}  # in memory, times the file
SHARE, LITTLE = 0.7, 1 << 28  # of the memory; bytes that are always there


def too_large(table: str) -> str | None:
    """Say that a file does not fit into memory, and what is done instead; None if it fits."""
    if glob.has_magic(table) and not os.path.exists(table):
        return f"{table} is read in blocks, by one Gaussian process on inducing points"
    if not os.path.isfile(table):
        return None
    need = GROWS.get(os.path.splitext(table.lower())[1], 10) * os.path.getsize(table)
    if need <= LITTLE or need <= SHARE * (there := available_bytes()):
        return None
    return (
        f"{table} would take about {need / 1e9:.1f} GB in memory, and {there / 1e9:.1f} are there: "
        "it is read in blocks, by one Gaussian process on inducing points (--engine local says so)"
    )


def for_blocks(
    table: str, check: int | None, asked: FileOptions, options: dict[str, Any]
) -> list[str]:
    """Return the files of a fit in blocks; refuse options that need the table in memory."""
    for name in ("candidates", "drop_missing", "group", "time"):
        if options.pop(name):
            raise AppError(
                f"--{name.replace('_', '-')} needs the table in memory, and a fit in blocks reads "
                "it in passes: leave it out, or fit a sample of the rows"
            )
    if check is not None:
        raise AppError("--check needs the table in memory: leave it out, and hold some rows out")
    options.pop("time_budget")
    options.pop("single")  # it is one machine
    paths = expanded((table,))
    said = {name for name, value in vars(asked).items() if value is not None} - {"delimiter"}
    if said:
        raise AppError(f"--{min(said)} is for a table in memory, and a fit in blocks reads UTF-8 "
                       "text with decimal points: convert it")  # fmt: skip
    if asked.delimiter not in (None, ",") and not paths[0].lower().endswith(".tsv"):
        raise AppError("blocks of a CSV are separated by commas, of a .tsv by tabs: convert it")
    return paths


def made_by(command: str, table: str | None, options: dict[str, Any]) -> str:
    """Return when and by which command a report was made, with all options that say how."""
    words = ["mercer", command] if table is None else ["mercer", command, table]
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(value) if isinstance(value, list) else f"{value}")
    return f"{datetime.date.today().isoformat()}: {shlex.join(words)}"


def add_check(model: TableModel, folds: int, advance: Any) -> None:
    """Cross-validate the whole pipeline, and note what came out."""
    found = model.cross_validate(folds=folds, progress=advance)
    what = "RMSE" if model.kind_ == "regression" else "error"
    model.notes_.append(
        f"checked by {found.by}, everything fitted anew in each: log density "
        f"{found.score:.4g}, {what} {found.error:.4g}, calibration error "
        f"{found.calibration:.4g}"
    )


def check_kernel(name: str | None) -> None:
    """Refuse a name that is not a kernel of columns; a matrix of kernel values is not a table."""
    if name is None:
        return
    known = [n for n in kernel_names() if not as_kernel(n).pairwise]
    if name not in known:
        raise AppError(there_is_no("kernel", name, known))


def check_printing(report: str | None) -> None:
    """Fail before the work, not after it, if an extra is missing."""
    require("rich", "printing")
    if report is not None:
        require("jinja2", "the report")
        require("matplotlib", "the report")
