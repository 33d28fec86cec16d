"""Batches of a stream: from files one after the other, or from standard input as it comes."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TextIO

from mercer.app.csvfile import open_rows, utf8
from mercer.app.parquetfile import parquet_parts
from mercer.app.tables import Table

STDIN = "-"


def batches(paths: Sequence[str], delimiter: str, size: int) -> Iterator[Table]:
    """Yield tables of ``size`` rows; the last one of each file may be shorter.

    A CSV is read no further than the batch needs, so that a pipe is learned from while it fills.
    A file may have a header and no rows: nothing came that hour.
    """
    for path in paths:
        if path.lower().endswith((".parquet", ".pq")):
            yield from _parts(path, size)
            continue
        with _opened(path) as file, utf8(_name(path)):
            yield from _batches(file, _name(path), delimiter, size)


def _batches(file: TextIO, name: str, delimiter: str, size: int) -> Iterator[Table]:
    names, rows = open_rows(file, name, delimiter)
    while found := list(islice(rows, size)):
        columns = zip(*(fields for _, fields in found), strict=True)
        places = [f"line {line}" for line, _ in found]
        yield Table(name, {n: list(c) for n, c in zip(names, columns, strict=True)}, places)


def _parts(path: str, size: int) -> Iterator[Table]:
    done = 0
    for columns, count in parquet_parts(path, size):
        yield Table(path, columns, [f"row {done + i + 1}" for i in range(count)])
        done += count


@contextlib.contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    if path != STDIN:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield file
        return
    file = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield file
    finally:
        file.detach()  # standard input stays open: it is not ours


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path
