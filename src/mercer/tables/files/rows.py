"""The rows of text files: header, fields, and the line where each row begins.

The rules: the first line is the header; every row has as many fields as the header; fields may be
quoted with double quotes; blanks around a field do not count; empty lines are skipped. A first
column without a name is the row index of whatever wrote the file: it is left out, and that is said;
so is any other column without a name, if it has no values. Of columns of the same name all but the
first are numbered. The text may be compressed by gzip. A line ``sep=;`` before the header is heard.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple, TextIO

from mercer.core.words import shown
from mercer.tables.files.dialect import announced, begun_with, encoding_of, separator_of

STDIN = "-"
LINE = 1 << 24  # characters of a line, at most: more is not a table
HEAD = 50  # lines that say what separates the fields
_PACK = 1 << 20  # bytes read at a time
_BOOK = "is a spreadsheet, not text: let its name end in .xlsx, or save the sheet as CSV (UTF-8)"
_OLD = (
    "is an old spreadsheet (.xls) or one with a password: save it as .xlsx without a password, or "
    "as CSV (UTF-8)"
)
_JSON = "is JSON, not CSV: convert it, as with pandas.read_json(...).to_csv(..., index=False)"
_PACKED = "is compressed in a way that is not read here: unpack it first, or compress it with gzip"
_FOREIGN = {
    b"PK\x03\x04": _BOOK, b"\xd0\xcf\x11\xe0": _OLD, b"BZh": _PACKED, b"\xfd7zXZ": _PACKED,
    b"\x28\xb5\x2f\xfd": _PACKED, b"PAR1": "is parquet, not CSV: let its name end in .parquet",
    b'{"': _JSON, b"{\n": _JSON, b"[{": _JSON, b"[[": _JSON, b"[\n": _JSON,
}  # by how the file begins  # fmt: skip


def label_of_path(path: str) -> str:
    """Return what a file is called in messages."""
    return "standard input" if path == STDIN else path


def check_text(first: bytes, label: str) -> None:
    """Refuse a file that is not text, by its first bytes."""
    for start, sentence in _FOREIGN.items():
        if first.startswith(start):
            raise ValueError(f"{label} {sentence}")


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[Any]:
    """Yield the bytes of a file, or of standard input, as a buffered source."""
    label = label_of_path(path)
    with contextlib.ExitStack() as stack:
        source: Any = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
        if _begins(source).startswith(b"\x1f\x8b"):
            source = io.BufferedReader(gzip.GzipFile(fileobj=source))
            stack.callback(source.detach)
        try:
            yield source
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(
                f"{label} is damaged: the compressed text cannot be unpacked"
            ) from None


def _begins(source: Any, count: int = 6) -> bytes:
    """Return the first bytes of a source; a pipe loses none by it."""
    return bytes(source.peek(count)[:count]) if hasattr(source, "peek") else b""


@contextlib.contextmanager
def opened(path: str, encoding: str | None = None) -> Iterator[TextIO]:
    """Yield the text of a file, or of standard input; what it cannot be read for is a sentence.

    Of a file all of it says what the encoding is, of a pipe its first bytes.
    """
    label = label_of_path(path)
    if encoding is None and os.path.isfile(path):
        with unpacked(path) as source:
            check_text(_begins(source), label)
            encoding = encoding_of(iter(lambda: source.read(_PACK), b""), label)
    with unpacked(path) as source:
        check_text(_begins(source), label)
        name = encoding or begun_with(_begins(source, 1 << 12)) or "utf-8"
        text = io.TextIOWrapper(source, encoding=name, newline="")
        try:
            yield text
        except UnicodeError as error:
            raise ValueError(not_in(label, name, error)) from None
        finally:
            text.detach()  # standard input stays open: it is not ours


def not_in(label: str, name: str, error: UnicodeError) -> str:
    """Return the sentence for text that is not in its encoding."""
    known = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8"}.get(name, name)
    byte = error.object[error.start] if isinstance(error, UnicodeDecodeError) else None
    where = "" if byte is None else f" (byte {error.start} is {byte:#04x})"  # type: ignore[attr-defined]  # of that class
    return (
        f"{label} is not {known} text{where}: save it again as UTF-8 (in a spreadsheet: "
        '"CSV UTF-8"), or name its encoding with --encoding (encoding=)'
    )


class CsvRows(NamedTuple):
    """A CSV that is being read: its header, and the rows as they are asked for."""

    names: list[str]
    rows: Iterator[tuple[int, list[str]]]  # (first line, fields) of each
    notes: list[str]  # what a reader should know
    delimiter: str
    twice: frozenset[str]  # names that more than one column had


class Misshapen(NamedTuple):
    """A row that does not fit the header."""

    path: str
    names: list[str]  # of the columns
    line: int
    fields: list[str]
    reason: str


class Header(NamedTuple):
    """The columns of a header that have a name."""

    names: list[str]
    kept: list[int]  # where they stand
    blank: list[int]  # columns without a name, which must be empty
    notes: list[str]
    twice: frozenset[str]


def open_rows(
    file: TextIO,
    path: str,
    delimiter: str | None,
    aside: Callable[[Misshapen], None] | None = None,
) -> CsvRows:
    """Read the header of a CSV; what separates the fields is found out if it is None.

    A row that does not fit the header is given to ``aside``, or is an error if that is None.
    """
    lines, skipped = _lines(file, path), 0
    pipe = not file.seekable()
    first = list(islice(lines, 1))
    if first and (said := announced(first[0])) is not None:
        first, skipped = list(islice(lines, 1)), 1
        delimiter = delimiter or said
    if delimiter is None:
        first += islice(lines, 0 if pipe else HEAD)
        delimiter = separator_of(first, path, len(first) > HEAD)
    rows = _rows(chain(first, lines), path, delimiter, 1 + skipped)
    begin, fields = next(((line, row) for line, row in rows if any(row)), (0, []))
    head = header_of(fields, path, begin)
    checked = _checked(rows, path, len(fields), head, begin, aside)
    return CsvRows(head.names, checked, head.notes, delimiter, head.twice)


def header_of(fields: list[str], path: str, line: int = 1) -> Header:
    """Return the names of a header; those that occur twice are numbered, and that is said."""
    names = [name.strip() for name in fields]
    if not any(names):
        raise ValueError(f"{path} is empty: a header with the column names is needed")
    kept = [j for j, name in enumerate(names) if name]
    index = len(names) > 1 and not names[0]
    blank = [j for j in range(int(index), len(names)) if not names[j]]
    notes = [f"the first column of {path} has no name: it was left out as a row index"]
    notes = notes if index else []
    if blank:
        notes.append(f"{path} has {len(blank)} columns without a name and without values")
    used, twice = set(names), {name for name in names if name and names.count(name) > 1}
    found: list[str] = []
    for j in kept:
        name = names[j]
        if name in found:
            number = next(i for i in range(2, len(names) + 3) if f"{name}_{i}" not in used)
            notes.append(f"the name '{shown(name, 40)}' occurs twice in {path}: column {j + 1} is "
                         f"called '{shown(f'{name}_{number}', 40)}'")  # fmt: skip
            name = f"{name}_{number}"
            used.add(name)
        found.append(name)
    return Header(found, kept, blank, notes, frozenset(twice))


def _checked(
    rows: Iterator[tuple[int, list[str]]],
    path: str,
    width: int,
    head: Header,
    begin: int,
    aside: Callable[[Misshapen], None] | None,
) -> Iterator[tuple[int, list[str]]]:
    empty, whole = 0, head.kept == list(range(width))
    for line, row in rows:
        if not row or (width > 1 and row == [""]):
            empty = empty or line
            continue
        if empty and width == 1:  # a row of one missing value, or no row?
            raise ValueError(
                f"{path}, line {empty}: the line is empty, and rows follow after it; where the "
                "value of a single column is missing, write NA"
            )
        reason = ""
        if len(row) != width:
            where = f" (line {begin})" if begin > 1 else ""
            reason = f"{len(row)} fields, but the header has {width}{where}"
        elif found := [j for j in head.blank if row[j].strip()]:
            reason = f"column {found[0] + 1} has no name, and the row has a value in it"
        if not reason:
            yield line, row if whole else [row[j] for j in head.kept]
        elif aside is None:
            raise ValueError(f"{path}, line {line}: {reason}")
        else:
            aside(Misshapen(path, head.names, line, row, reason))


def _lines(file: TextIO, path: str) -> Iterator[str]:
    """Yield the lines; one that never ends is not read to its end."""
    while line := file.readline(LINE):
        if len(line) == LINE:
            raise ValueError(f"{path} has a line of more than {LINE} characters: it is no table")
        yield line


def _rows(
    lines: Iterator[str], path: str, delimiter: str, line: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, fields) of every row."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    begin, skipped = line, line
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + skipped
    except csv.Error as error:
        raise ValueError(f"{path}, line {begin}: not valid CSV ({error})") from None
