"""Tables as they were read from files: text, parquet, spreadsheets; the parts of a long one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.words import did_you_mean, quoted, shown
from mercer.tables.data.reading import Reading
from mercer.tables.files.binary import (
    is_book,
    is_parquet,
    parquet_parts,
    read_book,
    read_parquet,
)
from mercer.tables.files.dialect import FileOptions
from mercer.tables.files.numbers import MISSING, Marks, Number, marks_of, parse_plain, read_number
from mercer.tables.files.quick import read_quick
from mercer.tables.files.rows import (
    STDIN,
    CsvRows,
    Misshapen,
    label_of_path,
    open_rows,
    opened,
)


@dataclass(frozen=True)
class Places(Sequence[str]):
    """Where the rows of a table stand, such as "line 7"."""

    numbers: Index | Sequence[int]  # (n,)
    what: str = "line"

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return Places(self.numbers[i], self.what)
        return f"{self.what} {self.numbers[i]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none


@dataclass(frozen=True)
class FileTable:
    """A table as it was read: every column as text, or as numbers where the file has them."""

    path: str  # where it came from, for messages
    columns: Mapping[str, Sequence[str] | Array]  # by name, each of length n
    places: Sequence[str]  # (n,) where each row stands, "line 7" or "row 7"
    notes: Sequence[str] = ()  # what was done in reading it
    reading: Reading = field(default_factory=lambda: Reading(""))  # what the file was taken for
    asked: FileOptions = field(default_factory=FileOptions)  # what a person said of it
    twice: frozenset[str] = frozenset()  # names of more than one column

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return list(self.columns)

    def check(self, names: Sequence[str], what: str) -> None:
        """Refuse names that the table does not have; ``what`` they are is part of the sentence."""
        lost = [name for name in names if name not in self.columns]
        if len(lost) == 1:
            hint = did_you_mean(lost[0], self.names) or f"its columns are {quoted(self.names)}"
            raise ValueError(f"{self.path} has no column '{shown(lost[0])}' ({what}); {hint}")
        if lost:
            raise ValueError(f"{self.path} lacks {len(lost)} columns ({what}): {quoted(lost)}")

    def check_once(self, name: str, what: str) -> None:
        """Refuse a name that the table has not, or more than once."""
        self.check([name], what)
        if name in self.twice:
            raise ValueError(
                f"{self.path} has more than one column '{shown(name)}', and it is {what}: rename "
                "the other"
            )

    def number(self, text: str) -> Number | None:
        """Return the number that a text of this table is, None if it is none."""
        return read_number(text, self.reading.decimal, self.asked.group)

    def numbers(self, names: Sequence[str]) -> Array:
        """Return the named columns as float64 (n, len(names)); NaN where a value is missing."""
        out = np.empty((len(self.places), len(names)))
        for j, name in enumerate(names):
            out[:, j] = self.values(name)[0]
        return out

    def values(self, name: str) -> tuple[Array, set[str], str]:
        """Return a column as numbers (n,), what sets thousands off, the percent or money sign."""
        column, groups, signs = self.columns[name], set[str](), list[str]()
        if isinstance(column, np.ndarray):
            numbers = column
        elif (plain := parse_plain(column, self.reading.decimal)) is not None:
            numbers = plain
        else:
            known = {text: self.number(text) for text in set(column)}
            lost = next((i for i, text in enumerate(column) if known[text] is None), None)
            if lost is not None:
                self._refuse(name, lost, column[lost].strip())
            every = [n for n in known.values() if n is not None and n.value == n.value]
            groups = {n.group for n in every if n.group}
            signs = sorted({n.sign for n in every})
            numbers = np.array([known[text].value for text in column])  # type: ignore[union-attr]  # none is None
        if signs and signs != [signs[0]] and not (signs == ["", "%"] and self._percent == 1.0):
            odd = " and ".join(f"'{s}'" if s else "no sign" for s in signs)
            raise ValueError(
                f"{self.path}: column '{shown(name)}' has numbers with {odd}: write all of them "
                "alike"
            )
        sign = "".join(signs)
        numbers = numbers / self._percent if sign == "%" else numbers
        for i in np.flatnonzero(np.isinf(numbers))[:1]:
            raise ValueError(
                f"{self.path}, {self.places[i]}: column '{shown(name)}' holds a number that is not "
                "finite"
            )
        return numbers, groups, sign

    @property
    def _percent(self) -> float:
        return 100.0 if self.reading.percent == "share" else 1.0

    def _refuse(self, name: str, i: int, text: str) -> None:
        hint = ""
        marks = marks_of([text])
        other = marks.comma if self.reading.decimal == "." else marks.point
        if other:
            mark = "comma" if self.reading.decimal == "," else "point"
            hint = f" (the table has decimal {mark}s; --decimal says otherwise)"
        raise ValueError(
            f"{self.path}, {self.places[i]}: column '{shown(name)}' holds '{shown(text, 40)}', "
            f"not a number{hint}; mend it, or choose the columns with --features"
        )

    def complete(self, values: Array, names: Sequence[str], remedy: str | None) -> Array:
        """Return which rows of ``values`` (n, d) have no missing value, a boolean mask (n,).

        With a ``remedy`` (an option of the command) missing values are refused and it is named.
        """
        absent = np.isnan(values)
        if remedy is not None and absent.any():
            i, j = np.argwhere(absent)[0]
            count = int(absent.any(axis=1).sum())
            raise ValueError(
                f"{self.path}, {self.places[i]}: column '{shown(names[j])}' has no value "
                f"({count} of {len(values)} rows lack one); fill in the missing values, or pass "
                f"{remedy}"
            )
        return np.asarray(~absent.any(axis=1))


def read_file(
    path: str, asked: FileOptions | None = None, memory: Reading | None = None
) -> FileTable:
    """Read a table: parquet and .xlsx by their suffixes, anything else as text.

    ``memory`` is what the table of a model was taken for: it decides where this one leaves open.
    """
    asked, label = asked or FileOptions(), label_of_path(path)
    if is_parquet(path):
        columns, rows = read_parquet(path)
        table = FileTable(path, columns, Places(range(1, rows + 1), "row"),
                          reading=_reading(path, asked, "parquet"), asked=asked)  # fmt: skip
    elif is_book(path):
        columns, lines, head, sheet = read_book(path, asked.sheet)
        reading = _reading(path, asked, "xlsx", sheet=sheet)
        places = Places(lines, "row")
        table = FileTable(path, columns, places, head.notes, reading, asked, head.twice)
    elif path != STDIN and (quick := read_quick(path, asked.delimiter, asked.encoding)):
        found = dict(zip(quick.head.names, quick.columns, strict=True))
        reading = _reading(label, asked, encoding=quick.encoding, delimiter=quick.delimiter)
        head, places = quick.head, Places(quick.lines)
        table = FileTable(label, found, places, head.notes, reading, asked, head.twice)
        table = _without(table, quick.lost)
    else:
        with opened(path, asked.encoding) as file:
            text = open_rows(file, label, asked.delimiter)
            given = list(text.rows)
            full = [(line, row) for line, row in given if _says(row)]
            table = _of_rows(label, text, full, asked, file.encoding)
            table = _without(table, len(given) - len(full))
    if not len(table.places):
        raise ValueError(f"{label} has a header but no rows")
    return with_decimal(table, memory)


def _without(table: FileTable, rows: int) -> FileTable:
    """Return the table with a note of the rows without any value that were left out."""
    if not rows:
        return table
    note = f"{rows} rows of {table.path} without any value were left out"
    return replace(table, notes=[*table.notes, note])


def _says(row: list[str]) -> bool:
    """Whether a row is more than separators, which spreadsheets write for empty rows."""
    return len(row) == 1 or any(row)


def _reading(source: str, asked: FileOptions, form: str = "text", **found: Any) -> Reading:
    return Reading(source, form, percent=asked.percent or "share", **found)


def _of_rows(
    label: str, text: CsvRows, rows: list[tuple[int, list[str]]], asked: FileOptions, encoding: str
) -> FileTable:
    cells = zip(*(row for _, row in rows), strict=True)
    columns = [list(c) for c in cells] or [[] for _ in text.names]
    reading = _reading(label, asked, encoding=encoding.lower(), delimiter=text.delimiter)
    places = Places([line for line, _ in rows])
    named = dict(zip(text.names, columns, strict=True))
    return FileTable(label, named, places, text.notes, reading, asked, text.twice)


def batches(
    paths: Sequence[str],
    asked: FileOptions | None,
    size: int,
    memory: Reading | None = None,
    aside: Callable[[Misshapen], None] | None = None,
) -> Iterator[FileTable]:
    """Yield tables of ``size`` rows; the last one of each file may be shorter, or have none.

    Text is read no further than the batch needs, so that a pipe is learned from while it fills;
    its first batch says what the decimal mark is. A row of text that does not fit the header is
    given to ``aside``, or is an error if that is None.
    """
    asked = asked or FileOptions()
    for path in paths:
        if is_parquet(path):
            done, reading = 0, _reading(path, asked, "parquet")
            for columns, count in parquet_parts(path, size):
                places = Places(range(done + 1, done + count + 1), "row")
                yield FileTable(path, columns, places, reading=reading, asked=asked)
                done += count
            continue
        if is_book(path):
            yield from _cut(read_file(path, asked, memory), size)
            continue
        with opened(path, asked.encoding) as file:
            text = open_rows(file, label_of_path(path), asked.delimiter, aside)
            first: FileTable | None = None
            while found := list(islice(text.rows, size)):
                part = _of_rows(label_of_path(path), text, found, asked, file.encoding)
                if first is None:
                    first = part = with_decimal(part, memory)
                    if not part.reading.ordinary:
                        part = replace(part, notes=[*part.notes, f"read {part.reading.words()}"])
                else:  # notes are said once
                    part = replace(part, reading=first.reading, notes=[])
                yield part


def _cut(table: FileTable, size: int) -> Iterator[FileTable]:
    for start in range(0, len(table.places), size):
        rows = slice(start, start + size)
        columns = {name: column[rows] for name, column in table.columns.items()}
        notes = [] if start else table.notes
        yield replace(table, columns=columns, places=table.places[rows], notes=notes)


LOOK = 500  # rows that say which mark is the decimal one
CLEAR = 3  # times as many columns must say so, where some say the other


def with_decimal(table: FileTable, memory: Reading | None) -> FileTable:
    """Return the table with its decimal mark: as asked for, as its numbers say, as remembered."""
    if table.asked.decimal is not None:
        return replace(table, reading=replace(table.reading, decimal=table.asked.decimal))
    if table.reading.form == "parquet":
        return table
    step = max(1, len(table.places) // LOOK)
    marks = {
        name: marks_of(column[::step])
        for name, column in table.columns.items()
        if not isinstance(column, np.ndarray)
    }
    decimal, notes = _decimal(table, marks, memory)
    reading = replace(table.reading, decimal=decimal)
    return replace(table, reading=reading, notes=[*table.notes, *notes])


def _decimal(
    table: FileTable, marks: dict[str, Marks], memory: Reading | None
) -> tuple[str, list[str]]:
    points = [n for n, m in marks.items() if m.point and not m.comma]
    commas = [n for n, m in marks.items() if m.comma and not m.point]
    if points or commas:
        few, many = sorted([points, commas], key=len)
        decimal = "." if many is points else ","
        if not few:
            return decimal, []
        a, b = (marks[n].point if n in points else marks[n].comma for n in (many[0], few[0]))
        both = f"column '{shown(many[0], 40)}' has {a}, and column '{shown(few[0], 40)}' has {b}"
        if len(many) < CLEAR * len(few):
            raise ValueError(
                f"{table.path}: {both}: say which mark is the decimal one, with --decimal . or "
                "--decimal , (decimal=)"
            )
        return decimal, [f"{both}: the latter is no number with the decimal mark of the table"]
    for name, m in marks.items():
        if m.point and m.comma:
            raise ValueError(
                f"{table.path}: column '{shown(name, 40)}' has {m.point} and {m.comma}: mend it, "
                "or say which mark is the decimal one, with --decimal . or --decimal , (decimal=)"
            )
    unclear = next((m.unclear for m in marks.values() if m.unclear), "")
    separated = table.reading.delimiter if table.reading.form == "text" else ","
    if memory is not None and unclear:
        return memory.decimal, []
    if unclear and (separated == "\t" or (separated != "," and "." in unclear)):
        name = next(n for n, m in marks.items() if m.unclear)
        raise ValueError(
            f"{table.path}: column '{shown(name, 40)}' has {unclear}, which may be a fraction or "
            "thousands: say which mark is the decimal one, with --decimal . or --decimal , "
            "(decimal=)"
        )
    return ("," if unclear and "," in unclear and separated == ";" else "."), []


def is_missing(text: str) -> bool:
    """Whether a text stands for no value."""
    return text.strip().lower() in MISSING
