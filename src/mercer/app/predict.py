"""``mercer predict`` and ``propose``: a model file and a table become predictions, or a choice."""

from __future__ import annotations

import glob
import os
import warnings
from typing import Any

import numpy as np

import mercer
from mercer.app import terminal as console
from mercer.app.files.outputs import check_table_output, to_stdout, written
from mercer.app.stream.rows import read_inputs
from mercer.app.terminal import AppError, progress, require, shown
from mercer.core.arrays import Array
from mercer.core.words import shape
from mercer.tables import TableModel
from mercer.tables.files import (
    STDIN,
    FileOptions,
    FileTable,
    Reading,
    batches,
    frame_of,
    is_book,
    is_parquet,
    parquet_rows,
    read_file,
)

Columns = dict[str, Any]


def predictions(fitted: Any, X: Array, keep: Array, coverage: float) -> Columns:
    """Return the columns for X (n, d), one value each row, missing where ``keep`` is False.

    A model with intervals has prediction, std, low and high, and where the variance is infinite
    spread, half the central 68 % interval; a classifier the class as prediction,
    and p_<class> or, without probabilities, its score; any other the prediction alone.
    """
    labels = [str(label) for label in getattr(fitted, "classes_", [])]
    names = ["prediction"]
    if hasattr(fitted, "levels_"):
        names = [f"quantile_{level:g}" for level in fitted.levels_]
    elif hasattr(fitted, "predict_interval"):
        names += ["std", "low", "high", *(["spread"] if infinite(fitted) else [])]
    elif hasattr(fitted, "predict_proba"):
        names += [f"p_{label}" for label in labels]
    elif hasattr(fitted, "decision_function"):
        names += [f"score_{label}" for label in labels] if len(labels) > 2 else ["score"]
    known: list[Any] = [np.empty(0)] * len(names)
    if keep.any():
        with warnings.catch_warnings():
            _names_are_known()
            warnings.filterwarnings("ignore", message="the noise found")  # said once, at the end
            known = _known(fitted, X[keep], coverage)
    return {name: _spread(values, keep) for name, values in zip(names, known, strict=True)}


def _names_are_known() -> None:
    """The columns were put in the model's order by name before, which scikit-learn cannot know."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")


def _known(fitted: Any, X: Array, coverage: float) -> list[Any]:
    if hasattr(fitted, "levels_"):
        return [*np.reshape(fitted.predict(X), (len(X), -1)).T]
    if hasattr(fitted, "predict_interval"):
        found = list(fitted.predict_with_interval(X, coverage=coverage))
        if np.ndim(found[0]) != 1:
            raise AppError("this model predicts several targets at once: use it from Python")
        return [*found, fitted.predict_spread(X)] if infinite(fitted) else found
    found = [fitted.predict(X)]
    if hasattr(fitted, "predict_proba"):
        found += [*fitted.predict_proba(X).T]
    elif hasattr(fitted, "decision_function"):
        found += [*np.atleast_2d(fitted.decision_function(X).T)]
    return found


def infinite(fitted: Any) -> str:
    """Say that observations have an infinite variance, if they have."""
    machine = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
    return str((getattr(machine, "report_", None) or {}).get("variance", ""))


def _spread(values: Array, keep: Array) -> Any:
    """Return the values (k,) at the k rows where ``keep`` is True; NaN or None elsewhere."""
    if np.asarray(values).dtype.kind == "f":
        column: Any = np.full(len(keep), np.nan)
        column[keep] = values
        return column
    given = iter(np.asarray(values).tolist())
    return [next(given) if kept else None for kept in keep]


ROWS = 10_000  # predicted and written at a time
SHOWN = 6  # columns of a proposed row that are printed


def run(
    *,
    model: str,
    tables: tuple[str, ...],
    output: str,
    coverage: float,
    features: list[str] | None,
    keep: list[str] | None,
    allow_missing: bool,
    asked: FileOptions,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options."""
    paths = expanded(tables)
    outputs = outputs_for(paths, output)
    for path in outputs:
        check_table_output(path, [model, *paths])
    aside = to_stdout(output)
    if aside and as_json:
        raise AppError("the predictions and --json cannot both go to standard output")
    require("rich", "printing")
    fitted = mercer.load(model)
    done = empty = 0
    with progress(quiet or as_json) as advance:
        sizes = [rows_of(path) for path in paths]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        advance({"stage": "predicting"})
        for path, name in zip(paths, outputs, strict=True):
            begun = done
            with written(name) as write:
                for part in batches([path], asked, ROWS, memory_of(fitted)):
                    machine, X, known, read = _inputs(fitted, part, features, allow_missing)
                    if done == begun and not (quiet or as_json):
                        show_reading(read, memory_of(fitted), aside)
                    found = predictions(machine, X, known, coverage)
                    write(_kept(part, keep or [], list(found)) | found)
                    done, empty = done + len(known), empty + int((~known).sum())
                    bar = {} if total is None else {"step": done, "steps": max(done, total)}
                    advance({"stage": f"{done} rows predicted", **bar})
                if done == begun:
                    raise AppError(f"{path} has a header but no rows")
    many = {"files": outputs} if in_folder(paths, output) else {}
    if as_json:
        console.print_json({"output": output, "rows": done, "empty": empty} | many)
    elif not quiet:
        left = f" ({empty} left empty: values are missing)" if empty else ""
        where = "standard output" if aside else output
        where += f", {len(outputs)} files" if many else ""
        console.say(f"{done} predictions written to {where}{left}", stderr=aside)
        said = infinite(getattr(fitted, "machine_", fitted))
        if said:
            console.say(f"note: {said} (column spread)", stderr=aside)


def expanded(tables: tuple[str, ...]) -> list[str]:
    """Return the files that names and patterns ("part-*.parquet") mean, in order."""
    found: list[str] = []
    for name in tables:
        pattern = glob.has_magic(name) and not os.path.exists(name)
        fitting = sorted(glob.glob(name)) if pattern else [name]
        if not fitting:
            raise AppError(f"no file fits {name}")
        found += fitting
    return found


def in_folder(paths: list[str], output: str) -> bool:
    """Whether the predictions are written as one file for each table, into a folder."""
    return len(paths) > 1 or output.endswith(("/", os.sep)) or os.path.isdir(output)


def outputs_for(paths: list[str], output: str) -> list[str]:
    """Return where the predictions of each table go: into a folder under its own name, if many."""
    if not in_folder(paths, output):
        return [output]
    names = [os.path.basename(path) for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if to_stdout(output) or STDIN in paths or twice is not None:
        why = f"two of them are called {twice}" if twice else "each goes to a file of its own"
        raise AppError(f"several tables are predicted into a folder, and {why}: one at a time")
    os.makedirs(output, exist_ok=True)
    return [os.path.join(output, name) for name in names]


def propose(
    *,
    model: str,
    table: str,
    count: int,
    by: str,
    output: str | None,
    features: list[str] | None,
    asked: FileOptions,
    quiet: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Do the command ``mercer propose``; the parameters are its options."""
    if output is not None:
        check_table_output(output, [model, table])
        if to_stdout(output) and as_json:
            raise AppError("the rows and --json cannot both go to standard output")
    require("rich", "printing")
    fitted = mercer.load(model)
    data = read_file(table, asked, memory_of(fitted))
    if not len(data.places):
        raise AppError(f"{table} has a header but no rows")
    machine, X, *_ = _inputs(fitted, data, features, False)
    if isinstance(fitted, TableModel):
        kinds = {c.name: c.kind for c in fitted.columns_ if c.used}
        machine, X = fitted, frame_of(data, list(kinds), kinds, memory_of(fitted))
    elif hasattr(machine, "steps"):
        machine, X = machine.steps[-1][1], machine[:-1].transform(X)
    if not hasattr(machine, "propose"):
        raise AppError(f"{model} holds a {type(machine).__name__}, which proposes no rows")
    with progress(quiet or as_json) as advance, warnings.catch_warnings():
        _names_are_known()
        advance({"stage": f"{count} of {len(data.places)} rows"})
        found = machine.propose(X, count, by, **wanted)
    rows, made = found.indices.tolist(), ["row", "score", "alone"]
    figures = ([row + 1 for row in rows], found.scores.tolist(), found.alone.tolist())
    picked: Columns = dict(zip(made, figures, strict=True))
    given = {
        name: [column[i] for i in rows] for name, column in _kept(data, data.names, made).items()
    }
    if output is not None:
        with written(output) as write:
            write(picked | given)
    if as_json:
        plain = {"by": found.by, **found.report, "rows": _records(picked | given)}
        console.print_json(plain | ({} if output is None else {"output": output}))
    elif not quiet and not (output and to_stdout(output)):
        title = f"{count} of {len(data.places)} rows by {found.by}: {found.report['score']}"
        names = [*made, *list(given)[:SHOWN]]
        body = [
            [value if isinstance(value, str) else shape(value) for value in record.values()]
            for record in _records({name: (picked | given)[name] for name in names})
        ]
        console.print_table(title, names, body)


def _records(columns: Columns) -> list[dict[str, Any]]:
    """Return columns as one dictionary for each row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _kept(data: FileTable, names: list[str], made: list[str]) -> Columns:
    """Return columns of the table as they are, to stand before those that are ``made``."""
    data.check(names, "to keep")
    columns: Columns = {}
    for name in names:
        if name in made or name in columns:
            raise AppError(f"--keep: the output would have two columns '{shown(name)}'")
        column = data.columns[name]
        if not isinstance(column, np.ndarray):
            columns[name] = [text.strip() for text in column]
            continue
        if np.any(np.abs(column) >= 2.0**53):
            raise AppError(
                f"{data.path}: column '{shown(name)}' holds numbers of more digits than are kept; "
                "store them as text"
            )
        whole = np.all(np.isnan(column) | (column == np.floor(column)))
        columns[name] = [None if v != v else int(v) if whole else v for v in column.tolist()]
    return columns


def rows_of(path: str) -> int | None:
    """Return about how many rows a file has, for a bar; None where it is unknown."""
    if not os.path.isfile(path) or path.lower().endswith(".gz") or is_book(path):
        return None
    if is_parquet(path):
        return parquet_rows(path)
    with open(path, "rb") as file:  # about: a field may contain line breaks
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return max(0, lines - 1)


def _inputs(
    fitted: Any, data: FileTable, features: list[str] | None, allow_missing: bool
) -> tuple[Any, Any, Any, Reading]:
    """Return the machine, its inputs (n, d), which of them it can predict (n,), what was read."""
    table = isinstance(fitted, TableModel)
    known = fitted.used_ if table else getattr(fitted, "feature_names_in_", None)
    names = features or data.names if known is None else [str(name) for name in known]
    if table:  # gaps by the model's rules
        if features not in (None, names):
            raise AppError("this model knows its columns by name: leave --features out")
        if fitted.grouped_by_ not in data.names:  # all groups are new
            names = [name for name in names if name != fitted.grouped_by_]
        data.check(names, "an input of the model")
        kinds = {c.name: c.kind for c in fitted.columns_ if c.used}
        frame = frame_of(data, names, kinds, fitted.reading_)
        every = np.ones(len(data.places), dtype=bool)
        return fitted.machine_, fitted.encode(frame), every, frame.reading or data.reading
    names = names if features is None else features
    data.check(names, "an input" if features or known is None else "an input of the model")
    if len(names) != fitted.n_features_in_:
        raise AppError(
            f"the model has {fitted.n_features_in_} inputs, and {len(names)} columns are given: "
            "name them in the model's order with --features a,b,..."
        )
    machine = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
    words = getattr(machine, "report_", {}).get("table", {}).get("words", [])  # of a stream
    X, gaps = read_inputs(data, names, words)
    known = data.complete(gaps, names, None if allow_missing else "--allow-missing")
    return fitted, X, known, data.reading


def memory_of(fitted: Any) -> Reading | None:
    """Return what the table of a model was taken for, None where it does not say."""
    return fitted.reading_ if isinstance(fitted, TableModel) else None


def show_reading(read: Reading, memory: Reading | None, stderr: bool) -> None:
    """Say what a table was taken for, unless it is ordinary and as the one of the model."""
    if not read.ordinary or (memory is not None and not memory.ordinary):
        console.say(f"read {read.words()} ({read.options} say otherwise)", stderr=stderr)
    for note in read.notes:
        console.say(f"note: {note}", stderr=stderr)
