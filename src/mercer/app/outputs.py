"""Writing tables, and never over what is being read."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mercer.app.errors import AppError, require
from mercer.arrays import Array
from mercer.persist import check_target, replacing


def write_table(path: str, columns: Mapping[str, Array | list[Any]]) -> None:
    """Write columns, completely or not at all; NaN and None become empty fields.

    CSV holds the shortest decimal that reads back as the same number; parquet by its suffix.
    """
    if path.lower().endswith((".parquet", ".pq")):
        polars = require("polars", "writing parquet")
        frame = polars.DataFrame(dict(columns)).fill_nan(None)
        with replacing(path) as temporary:
            frame.write_parquet(temporary)
        return
    rows = zip(*(c if isinstance(c, list) else c.tolist() for c in columns.values()), strict=True)
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[_cell(v) for v in row] for row in rows])


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else repr(value)


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str] = ()) -> None:
    """Refuse, before any work, what cannot be written later.

    An output that is one of the inputs, twice the same output, a folder that is not there.
    """
    seen = {os.path.realpath(path): path for path in inputs}
    for path in outputs:
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in seen:
            raise AppError(f"{path} would overwrite {seen[real]}: choose another name")
        seen[real] = path
        check_target(path)
