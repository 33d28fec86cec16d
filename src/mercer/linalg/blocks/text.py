"""Blocks of CSV files: parts that end where a line does, found by reading each file once."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.core.errors import no_number
from mercer.linalg.blocks.sources import (
    LEAVE_OUT,
    ROWS,
    BlockReader,
    ColumnChoice,
    FileSource,
    Raw,
    Stamp,
    Values,
    require,
    starts_of,
)

CHUNK = 1 << 24  # bytes that are searched for ends of lines at a time
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "na", "n/a"]
NEWLINE, QUOTE, RETURN = 10, 34, 13


class CsvForm(NamedTuple):
    """How a CSV file is written, and its columns."""

    columns: tuple[str, ...]  # in the order of the file; one without a name is a row index
    delimiter: str
    decimal: str


class Lines(NamedTuple):
    """A part of a file that begins and ends with a line."""

    file: Stamp
    begin: int  # bytes
    end: int
    rows: int


@dataclass(frozen=True)
class CsvReader(BlockReader):
    """The rows of one part of a CSV file."""

    choice: ColumnChoice
    form: CsvForm
    lines: Lines
    text: bool  # whether the target is text; else it is a number

    def _rows(self) -> Raw:
        arrow = require("pyarrow", "reading CSV in parts")
        data = _bytes(self.lines)
        kinds = {name: arrow.float64() for name in self.choice.all}
        target = self.choice.target if isinstance(self.choice.target, str) else None
        if target is not None:  # whole numbers stay whole: they may be classes
            kinds[target] = arrow.string() if self.text else None
        try:
            table = _parsed(data, self.form, kinds)
            if target is not None and not self.text and not _is_numeric(table[target].type):
                kinds[target] = arrow.float64()
                table = _parsed(data, self.form, kinds)
        except arrow.ArrowInvalid as error:
            self._explain(data, kinds)
            raise ValueError(
                f"{self.lines.file.path}, block {self.number}: {str(error).partition(chr(10))[0]}"
            ) from None
        return self.choice.of({name: _numpy(table[name]) for name in self.choice.all})

    def _explain(self, data: bytes, kinds: dict[str, Any]) -> None:
        """Raise the error that names the first entry which is no number, if that is the reason."""
        arrow = require("pyarrow", "reading CSV in parts")
        try:
            texts = _parsed(data, self.form, dict.fromkeys(kinds, arrow.string()))
        except arrow.ArrowInvalid:
            return
        for name, kind in kinds.items():
            for i, entry in enumerate(texts[name].to_pylist() if kind == arrow.float64() else ()):
                if entry is not None and not _is_number(entry, self.form.decimal):
                    row = i + (self.start or 0)
                    raise no_number("text", f"column {name!r}", row, entry, LEAVE_OUT)


class CsvSource(FileSource):
    """CSV files with the same header, as one table; a block has ``size`` rows.

    The text is UTF-8, with the names of the columns in its first line; fields may be quoted, and
    may then hold ends of lines. Empty lines are skipped. A first column without a name is the row
    index of whatever wrote the file, and is left out.

    Parameters
    ----------
    paths : the files, in the order of their rows.
    inputs, target, weight : columns by name; inputs are all others unless they are named.
    delimiter : between fields; None: a tab for ``.tsv``, else a comma.
    decimal : the point of a decimal number.
    """

    def __init__(
        self,
        paths: Sequence[str],
        inputs: Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        size: int = ROWS,
        delimiter: str | None = None,
        decimal: str = ".",
    ) -> None:
        arrow = require("pyarrow", "reading CSV in parts")
        self.stamps: Sequence[Stamp] = [Stamp.of(os.path.abspath(path)) for path in paths]
        first = self.stamps[0]
        form = _form(first, delimiter, decimal)
        self.columns = [name for name in form.columns if name]
        choice = ColumnChoice.among(self.columns, inputs, target, weight, first.path)
        parts: list[Lines] = []
        for stamp in self.stamps:
            if _form(stamp, delimiter, decimal).columns != form.columns:
                raise ValueError(f"{stamp.path} has other columns than {first.path}")
            parts += _parts(stamp, size)
        self.names, self.width = choice.inputs, len(choice.inputs)
        self.rows = sum(part.rows for part in parts)
        text = False
        if parts and isinstance(choice.target, str):  # what the first block holds, all have to
            with suppress(arrow.ArrowInvalid):  # the first pass says what is wrong, and where
                table = _parsed(_bytes(parts[0]), form, {choice.target: None})
                text = not _is_numeric(table[choice.target].type)
        starts = starts_of(part.rows for part in parts)
        self.readers = [
            CsvReader(number, start, choice.inputs, choice, form, part, text)
            for number, (start, part) in enumerate(zip(starts, parts, strict=True))
        ]


def _form(file: Stamp, delimiter: str | None, decimal: str) -> CsvForm:
    """Return how a file is written, from its first line."""
    if file.path.lower().endswith((".gz", ".zip", ".bz2", ".xz", ".zst")):
        raise ValueError(f"{file.path} is compressed, so that it has no parts: unpack it first")
    delimiter = delimiter or ("\t" if file.path.lower().endswith(".tsv") else ",")
    with open(file.path, "rb") as opened:
        head = opened.readline(1 << 20)
    try:
        line = head.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file.path} is not UTF-8 text: save it again as UTF-8") from None
    names = [n.strip() for n in next(csv.reader([line.strip()], delimiter=delimiter), [])]
    if not names:
        raise ValueError(f"{file.path} is empty: a header with the names of the columns is needed")
    for other in ";\t|":
        if len(names) == 1 and other in names[0]:
            raise ValueError(f"{file.path} is separated by {other!r}: give it as delimiter")
    twice = next(
        (name for i, name in enumerate(names) if name in names[:i] or (not name and i)), None
    )
    if twice is not None:
        what = f"names the column {twice!r} twice" if twice else "has a column without a name"
        raise ValueError(f"the header of {file.path} {what}: give every column a name of its own")
    return CsvForm(tuple(names), delimiter, decimal)


def _parts(file: Stamp, size: int) -> list[Lines]:
    """Return the parts of a file, ``size`` rows each; the header belongs to none."""
    cuts, rows = [], []  # bytes at which a part ends, and how many rows it has
    header = last = -1
    begun, offset, quoted, before = 0, 0, False, 0
    with open(file.path, "rb") as opened:
        while chunk := opened.read(CHUNK):
            data = np.frombuffer(chunk, np.uint8)
            ends = np.flatnonzero(data == NEWLINE)
            if quoted or QUOTE in chunk:  # an end of a line within quotes is none
                inside = (np.cumsum(data == QUOTE) + quoted) & 1
                quoted = bool(inside[-1])
                ends = ends[inside[ends] == 0]
            ends = ends + offset
            filled = np.diff(ends, prepend=last) > 1 + _returns(data, ends - offset, before)
            before = int(data[-1])
            last = int(ends[-1]) if len(ends) else last
            ends = ends[filled]
            if header < 0 and len(ends):
                header, ends = int(ends[0]) + 1, ends[1:]
                cuts.append(header)
            for end in ends[size - begun - 1 :: size] if len(ends) >= size - begun else ():
                cuts.append(int(end) + 1)
                rows.append(size)
            begun = (begun + len(ends)) % size
            offset += len(chunk)
    if header < 0:
        return []
    if last + 1 < offset:  # the last line has no end
        begun += 1
    if begun:
        cuts.append(offset)
        rows.append(begun)
    return [Lines(file, a, b, n) for a, b, n in zip(cuts, cuts[1:], rows, strict=False)]


def _returns(data: Values, ends: Values, before: int) -> Values:
    """Return 1 for ends of lines that are two bytes, as they are in files of Windows.

    ``before`` is the byte that comes before the first one.
    """
    return np.equal(np.where(ends > 0, data[ends - 1], before), RETURN).astype(np.intp)


def _bytes(lines: Lines) -> bytes:
    lines.file.check()
    with open(lines.file.path, "rb") as opened:
        opened.seek(lines.begin)
        data = opened.read(lines.end - lines.begin)
    lines.file.check()
    return data


def _parsed(data: bytes, form: CsvForm, kinds: dict[str, Any]) -> Any:
    """Return columns of rows of text as a table of Arrow; a kind that is None is found out."""
    text = require("pyarrow.csv", "reading CSV in parts")
    names = [name or " " for name in form.columns]
    return text.read_csv(
        io.BytesIO(data),
        read_options=text.ReadOptions(column_names=names, use_threads=False, block_size=1 << 30),
        parse_options=text.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        convert_options=text.ConvertOptions(
            column_types={name: kind for name, kind in kinds.items() if kind is not None},
            include_columns=list(kinds),
            null_values=MISSING,
            strings_can_be_null=True,
            decimal_point=form.decimal,
        ),
    )


def _is_numeric(kind: Any) -> bool:
    types = require("pyarrow", "reading CSV in parts").types
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    return any(test(kind) for test in numbers)


def _numpy(column: Any) -> Values:
    values: Values = column.to_numpy()
    return values


def _is_number(entry: str, decimal: str) -> bool:
    try:
        float(entry.strip().replace(decimal, "."))
    except ValueError:
        return False
    return True
