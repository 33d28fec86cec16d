"""Writing tables, and never over what is being read; - is standard output, as CSV."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TextIO

import numpy as np

from mercer.app.terminal import AppError, require
from mercer.core.arrays import Array
from mercer.persist import check_target, replacing
from mercer.tables.files import is_parquet

Columns = Mapping[str, Array | list[Any]]


@contextlib.contextmanager
def written(path: str) -> Iterator[Callable[[Columns], None]]:
    """Yield a function that writes the rows of columns after those before, all or nothing.

    NaN and None become empty fields. CSV holds the shortest decimal that reads back as the same
    number, and no more rows in memory than it is given at a time; parquet, by its suffix, is
    written at the end from all of them. If the body fails, what stood at ``path`` stays; what went
    to standard output or to a pipe is gone.
    """
    if is_parquet(path):
        polars = require("polars", "writing parquet")
        parts: list[Columns] = []
        yield parts.append
        frame = polars.DataFrame(_joined(parts)).fill_nan(None)
        with replacing(path) as temporary:
            frame.write_parquet(temporary)
        return
    with _text(path) as file:
        tab = "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","
        writer = csv.writer(file, delimiter=tab, lineterminator="\n")
        names: list[str] = []

        def write(columns: Columns) -> None:
            if not names:
                names.extend(columns)
                writer.writerow(names)
            lists = (c if isinstance(c, list) else c.tolist() for c in columns.values())
            for row in zip(*lists, strict=True):
                known = ("" if v is None or v != v else v for v in row)
                writer.writerow([v if isinstance(v, str) else repr(v) for v in known])

        yield write


@contextlib.contextmanager
def _text(path: str) -> Iterator[TextIO]:
    """Yield a text file to write: standard output, a pipe or device, or one that is replaced."""
    utf8: Any = {"encoding": "utf-8", "newline": ""}
    if to_stdout(path):
        file = io.TextIOWrapper(sys.stdout.buffer, **utf8)
        try:
            yield file
        finally:
            file.detach()  # standard output stays open: it is not ours
    elif _is_pipe(path):
        with open(path, "w", **utf8) as file:
            yield file
    else:
        opened = gzip.open if path.lower().endswith(".gz") else open
        with replacing(path) as temporary, opened(temporary, "wt", **utf8) as file:
            yield file


def to_stdout(path: str | None) -> bool:
    """Whether a name stands for standard output."""
    return path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def _is_pipe(path: str) -> bool:
    """Whether a path is there, and neither a file that can be replaced nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


_OTHERS = {
    "a spreadsheet": (".xlsx", ".xls", ".ods", ".numbers"),
    "JSON": (".json", ".jsonl", ".ndjson"),
    "a compressed file other than .gz": (".zip", ".bz2", ".xz", ".zst"),
    "that format": (".feather", ".arrow", ".h5", ".hdf5", ".pkl", ".pickle", ".db", ".sqlite",
                    ".sav", ".dta", ".html", ".pdf"),
}  # fmt: skip


def check_table_output(path: str, inputs: Sequence[str]) -> None:
    """Refuse, before any work, a table that cannot be written there, or not under that name."""
    for what, endings in _OTHERS.items():
        if path.lower().endswith(endings):
            raise AppError(
                f"{path}: {what} cannot be written; let the name end in .csv, .tsv, .csv.gz or "
                ".parquet (spreadsheets open .csv)"
            )
    if not (to_stdout(path) or _is_pipe(path)):
        check_outputs([path], inputs)


def _joined(parts: Sequence[Columns]) -> dict[str, Any]:
    """Return the columns of all parts, one after the other."""
    found: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        each = [part[name] for part in parts]
        if any(isinstance(c, list) for c in each):  # labels; a part without any has NaN
            lists = (c if isinstance(c, list) else [None] * len(c) for c in each)
            found[name] = list(chain.from_iterable(lists))
        else:
            found[name] = np.concatenate(each)
    return found


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str] = ()) -> None:
    """Refuse, before any work, outputs that are inputs or twice the same, and lost folders."""
    seen = {os.path.realpath(path): path for path in inputs}
    for path in outputs:
        if path is None:
            continue
        if to_stdout(path):
            raise AppError(f"{path}: only predictions go to standard output; give a file name")
        real = os.path.realpath(path)
        if real in seen:
            raise AppError(f"{path} would overwrite {seen[real]}: choose another name")
        seen[real] = path
        check_target(path)
