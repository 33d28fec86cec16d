"""Writing tables, and never over what is being read."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from mercer.app.files.formats import is_parquet
from mercer.app.terminal import AppError, require
from mercer.core.arrays import Array
from mercer.persist import check_target, replacing

Columns = Mapping[str, Array | list[Any]]


@contextlib.contextmanager
def written(path: str) -> Iterator[Callable[[Columns], None]]:
    """Yield a function that writes the rows of columns after those before, all or nothing.

    NaN and None become empty fields. CSV holds the shortest decimal that reads back as the same
    number, and no more rows in memory than it is given at a time; parquet, by its suffix, is
    written at the end from all of them. If the body fails, what stood at ``path`` stays.
    """
    if is_parquet(path):
        polars = require("polars", "writing parquet")
        parts: list[Columns] = []
        yield parts.append
        frame = polars.DataFrame(_joined(parts)).fill_nan(None)
        with replacing(path) as temporary:
            frame.write_parquet(temporary)
        return
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")

        def write(columns: Columns) -> None:
            if not file.tell():
                writer.writerow(columns)
            lists = (c if isinstance(c, list) else c.tolist() for c in columns.values())
            for row in zip(*lists, strict=True):
                known = ("" if v is None or v != v else v for v in row)
                writer.writerow([v if isinstance(v, str) else repr(v) for v in known])

        yield write


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
        real = os.path.realpath(path)
        if real in seen:
            raise AppError(f"{path} would overwrite {seen[real]}: choose another name")
        seen[real] = path
        check_target(path)
