"""Large text files, read at once by polars; only what is plainly regular, so that both ways agree.

Quotes, separators and line ends are counted first: a file with as many fields in every row as in
the header, and quotes around whole fields alone, is read here; all others row by row, with a
sentence for the line that is wrong.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Index
from mercer.core.memory import available_bytes
from mercer.tables.files.dialect import announced, encoding_of, separator_of
from mercer.tables.files.numbers import TextColumn
from mercer.tables.files.rows import (
    HEAD,
    Header,
    check_text,
    header_of,
    label_of_path,
    not_in,
    unpacked,
)

LARGE = 1 << 18  # bytes from which it pays
ROOM = 0.25  # of the memory that is available, for the text: what becomes of it takes more
_PART = 1 << 24


class QuickText(NamedTuple):
    """A file as columns of text; the rows and the lines where they begin."""

    head: Header
    columns: list[TextColumn]
    lines: Index
    encoding: str
    delimiter: str
    lost: int  # rows without any value


def read_bytes(path: str) -> bytes:
    """Return the unpacked text of a file; refuse more than the memory can take."""
    most, parts, size = int(ROOM * available_bytes()), list[bytes](), 0
    with unpacked(path) as source:
        while part := source.read(_PART):
            size += len(part)
            if size > most:
                raise ValueError(
                    f"{label_of_path(path)} unpacks to more than {most / 1e9:.1f} GB of text, more "
                    "than the memory can take: fit it in blocks (--engine local), or a part of it"
                )
            parts.append(part)
    return b"".join(parts)


def read_quick(
    path: str, delimiter: str | None = None, encoding: str | None = None, least: int = LARGE
) -> QuickText | None:
    """Return the table of a text file, or None: it is small or not regular, read it by rows."""
    if importlib.util.find_spec("polars") is None:
        return None
    label, data = label_of_path(path), read_bytes(path)
    check_text(data[:6], label)
    if len(data) < least:
        return None
    views = memoryview(data)
    parts = (bytes(views[i : i + _PART]) for i in range(0, len(data), _PART))
    encoding = encoding or encoding_of(parts, label)
    if encoding != "utf-8":
        try:
            data = data.decode(encoding).encode()
        except UnicodeError as error:
            raise ValueError(not_in(label, encoding, error)) from None
    start, line = 0, 1
    lines = data[: 1 << 20].decode("utf-8", "replace").splitlines(keepends=True)
    if lines and (said := announced(lines[0])) is not None:
        start, line, delimiter = data.index(b"\n") + 1, 2, delimiter or said
        lines = lines[1:]
    if not lines or not lines[0].strip() or b"\r" in data.replace(b"\r\n", b"\n"):
        return None
    if delimiter is None:
        delimiter = separator_of(lines[: HEAD + 1], label, len(lines) > HEAD + 1)
    if not delimiter.isascii():
        return None
    found = _regular(data, start, delimiter)
    if found is None:
        return None
    begins, places, full = found
    first = next(csv.reader(io.StringIO(data[start : begins[1]].decode()), delimiter=delimiter))
    head = header_of(first, label, line)
    texts = _columns(data, int(begins[1]), delimiter, len(first), len(places) - 1)
    if texts is None or any((texts[j].str.strip_chars() != "").any() for j in head.blank):
        return None
    columns = [TextColumn(texts[j].filter(full[1:]) if not full.all() else texts[j])
               for j in head.kept]  # fmt: skip
    lost = int((~full[1:]).sum())
    return QuickText(head, columns, (places[1:] + line)[full[1:]], encoding, delimiter, lost)


def _regular(data: bytes, start: int, delimiter: str) -> tuple[Index, Index, Any] | None:
    """Return where each row begins, its line, and whether it has a value; None: not regular."""
    text = np.frombuffer(data, dtype=np.uint8)[start:]
    ends, marks = text == 10, text == ord(delimiter)
    line = np.flatnonzero(ends)
    quotes = text == 34
    if quotes.any():
        inside = np.cumsum(quotes, dtype=np.uint8) & 1  # after this byte
        if inside[-1] or not _quoted(text, quotes, inside, ord(delimiter)):
            return None
        ends, marks = ends & (inside == 0), marks & (inside == 0)
    stops = np.flatnonzero(ends)
    if not len(stops) or stops[-1] != len(text) - 1:
        stops = np.append(stops, len(text))
    begins = np.concatenate([[0], stops[:-1] + 1])
    counts = np.searchsorted(np.flatnonzero(marks), np.stack([begins, stops]))
    fields = counts[1] - counts[0]
    blank = stops - begins - fields
    blank = blank - (text[np.maximum(stops - 1, 0)] == 13)  # of the line end
    if len(begins) < 2 or np.any(fields != fields[0]) or fields[0] == 0:
        return None  # a single column has lines of its own rules
    return begins + start, np.searchsorted(line, begins), blank > 0


def _quoted(text: Any, quotes: Any, inside: Any, mark: int) -> bool:
    """Whether quotes stand around whole fields alone, or twice for one."""
    where = np.flatnonzero(quotes)
    opening = where[inside[where] == 1]
    closing = where[inside[where] == 0]
    before = text[np.maximum(opening - 1, 0)]
    fine = (opening == 0) | np.isin(before, [mark, 10, 34])
    last = len(text) - 1
    after = text[np.minimum(closing + 1, last)]
    return bool(fine.all() and ((closing == last) | np.isin(after, [mark, 10, 13, 34])).all())


def _columns(data: bytes, start: int, delimiter: str, width: int, rows: int) -> Any:
    import polars

    try:
        frame = polars.read_csv(
            io.BytesIO(memoryview(data)[start:]),
            separator=delimiter,
            has_header=False,
            infer_schema=False,
            quote_char='"',
            new_columns=[f"{j}" for j in range(width)],
        )
    except polars.exceptions.PolarsError:
        return None
    if frame.height != rows or frame.width != width:
        return None
    return [column.fill_null("") for column in frame.iter_columns()]
