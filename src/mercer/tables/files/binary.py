"""Parquet files and spreadsheets (.xlsx), by polars: columns of numbers, or of text."""

from __future__ import annotations

import contextlib
import importlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from mercer.core.memory import available_bytes
from mercer.core.words import did_you_mean, shown
from mercer.tables.files.rows import header_of

EXTRA = {"polars": "data", "fastexcel": "xlsx"}
ROOM = 0.2  # of the memory that is available, for the unpacked parts of a spreadsheet
TIMES = 200  # what a spreadsheet may unpack to, times its size
SMALL = 1 << 26  # bytes that are never too many
_PART = 1 << 20
_CELL = 32  # bytes that the reader takes for each cell between the first and the last one
_COLUMN = re.compile(rb"\sr\s*=\s*[\"']([A-Za-z]{1,3})\d")
_ROW = re.compile(rb"\sr\s*=\s*[\"'][A-Za-z]{0,3}(\d{1,9})")
_LONGEST = 64  # bytes of such a place, which may be cut by the end of a piece


def needed(module: str, purpose: str) -> ModuleType:
    """Import an optional module, or say in a sentence which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != module:
            raise
        raise ImportError(
            f"{purpose} needs {module}, which is not installed: "
            f'pip install "mercer[{EXTRA[module]}]"'
        ) from None


def is_parquet(path: str) -> bool:
    """Whether a file is parquet, by its suffix."""
    return path.lower().endswith((".parquet", ".pq"))


def is_book(path: str) -> bool:
    """Whether a file is a spreadsheet, by its suffix."""
    return path.lower().endswith((".xlsx", ".xlsm"))


def read_parquet(path: str) -> tuple[dict[str, Any], int]:
    """Return the columns by name (numbers, or text where they are not) and the number of rows."""
    with _reading(path) as polars:
        frame = polars.read_parquet(path, glob=False)
    return _columns(frame), frame.height


def parquet_rows(path: str) -> int:
    """Return the number of rows, which stands at the end of the file."""
    with _reading(path) as polars:
        return int(polars.scan_parquet(path, glob=False).select(polars.len()).collect().item())


def parquet_parts(path: str, size: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield (columns, number of rows) of ``size`` rows at a time; no more are in memory."""
    for start in range(0, parquet_rows(path), size):
        with _reading(path) as polars:
            frame = polars.scan_parquet(path, glob=False).slice(start, size).collect()
        yield _columns(frame), frame.height


@contextlib.contextmanager
def _reading(path: str) -> Iterator[Any]:
    """Yield polars; what it says of a file that is not a parquet file becomes a sentence."""
    polars = needed("polars", "reading parquet")
    with open(path, "rb"):
        pass  # a missing or locked file gets the system's own error
    try:
        yield polars
    except polars.exceptions.PolarsError as error:
        raise ValueError(f"{path} is not a parquet file: {shown(str(error), 120)}") from None


def _columns(frame: Any, words: bool = False) -> dict[str, Any]:
    """Return the columns: numbers, or texts; truth values are ``words`` or 1 and 0."""
    polars = importlib.import_module("polars")
    columns: dict[str, Any] = {}
    for series in frame.iter_columns():
        flags = series.dtype == polars.Boolean
        if series.dtype.is_numeric() or (flags and not words):
            numbers = series.cast(polars.Float64).fill_null(float("nan"))
            columns[series.name] = numbers.to_numpy()
        else:
            columns[series.name] = [
                "" if v is None else str(v).lower() if flags else str(v) for v in series.to_list()
            ]
    return columns


def read_book(path: str, sheet: str | None) -> tuple[dict[str, Any], list[int], Any, str]:
    """Return the columns, the row of the sheet where each row stands, the header, the sheet.

    The sheet is the one of that name, or the first one; the first row with a value is the header.
    """
    fastexcel, _ = needed("fastexcel", "reading .xlsx"), needed("polars", "reading .xlsx")
    check_book(path)
    try:
        book = fastexcel.read_excel(path)
        name = _sheet(book.sheet_names, sheet, path)
        loose: Any = {"dtypes": "string", "header_row": None, "skip_rows": 0}
        top = book.load_sheet(name, n_rows=100, **loose).to_polars()
        every = [[("" if v is None else str(v)) for v in row] for row in top.rows()]
        begin = next((i for i, row in enumerate(every) if any(v.strip() for v in row)), None)
        if begin is None:
            raise ValueError(f"{path}: the sheet '{shown(name, 40)}' is empty{_others(book, name)}")
        head = header_of(every[begin], path)
        body = book.load_sheet(
            name, header_row=None, skip_rows=begin + 1, schema_sample_rows=None
        ).to_polars()
    except fastexcel.FastExcelError as error:
        raise ValueError(
            f"{path} is not a spreadsheet that can be read: {shown(str(error), 120)}"
        ) from None
    if not body.height:
        raise ValueError(f"{path}: the sheet '{shown(name, 40)}' has a header but no rows")
    full = [any(v is not None and str(v).strip() for v in row) for row in body.rows()]
    for j in head.blank:
        if j < body.width and body[:, j].is_not_null().any():
            raise ValueError(f"{path}: column {j + 1} of the sheet has no name, and values")
    body = body.filter(full)
    lost = [name for name, j in zip(head.names, head.kept, strict=True) if j >= body.width]
    polars = importlib.import_module("polars")
    picked = {n: body[:, j] for n, j in zip(head.names, head.kept, strict=True) if j < body.width}
    picked |= {n: polars.Series([None] * body.height, dtype=polars.String) for n in lost}
    frame = polars.DataFrame([picked[n].alias(n) for n in head.names])
    return _columns(frame, words=True), [begin + 2 + i for i, f in enumerate(full) if f], head, name


def _sheet(names: list[str], sheet: str | None, path: str) -> str:
    if sheet is None:
        return names[0]
    if sheet not in names:
        hint = did_you_mean(sheet, names) or f"it has {', '.join(shown(n, 40) for n in names[:8])}"
        raise ValueError(f"{path} has no sheet '{shown(sheet, 40)}'; {hint}")
    return sheet


def _others(book: Any, name: str) -> str:
    others = [shown(n, 40) for n in book.sheet_names if n != name]
    return f"; name another with --sheet (sheet=): {', '.join(others[:8])}" if others else ""


def check_book(path: str) -> None:
    """Refuse what is no spreadsheet, has a password, or unpacks to more than the memory takes.

    What the directory of the archive says of sizes may be a lie: all parts are unpacked once,
    and counted. One cell in a far corner makes the reader take memory for all that lie before it.
    """
    with open(path, "rb") as file:
        first = file.read(8)
        size = file.seek(0, 2)
    if first.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(
            f"{path} has a password, or is an old .xls: save it as .xlsx without a password"
        )
    if not first.startswith(b"PK"):
        raise ValueError(f"{path} is no .xlsx: it does not begin like one; is it a renamed CSV?")
    room = int(ROOM * available_bytes())
    most = min(max(TIMES * size, SMALL), room)
    total = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for item in archive.infolist():
                if item.flag_bits & 1:
                    raise ValueError(f"{path} has a password: save it without one")
                item.file_size = most + 1  # read on to the end, whatever the directory says
                rows, columns, tail = 0, 0, b""
                with archive.open(item) as part:
                    part._expected_crc = None  # type: ignore[attr-defined]  # the reader checks it
                    while piece := part.read(_PART):
                        total += len(piece)
                        if total > most:
                            raise ValueError(
                                f"{path} unpacks from {size / 1e6:.1f} MB to more than "
                                f"{most / 1e6:.0f} MB: such a spreadsheet is refused"
                            )
                        rows, columns = _reached(tail + piece, rows, columns)
                        if _CELL * rows * columns > room:
                            raise ValueError(
                                f"{path} has cells as far as row {rows} and column {columns}: a "
                                "sheet of that size does not fit into memory; delete what is far "
                                "from the table, or save the table as CSV"
                            )
                        tail = piece[-_LONGEST:]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"{path} is a damaged .xlsx: {shown(str(error), 80)}") from None


def _reached(text: bytes, rows: int, columns: int) -> tuple[int, int]:
    """Return the last row and column of cells so far, those that a piece of a sheet names too.

    Examples
    --------
    >>> _reached(b'<row r="7"><c r="A7"><v>1</v></c><c r="AB7"/></row>', 3, 1)
    (7, 28)
    """
    for letters in set(_COLUMN.findall(text)):
        place = 0
        for letter in letters.upper():
            place = 26 * place + letter - ord("A") + 1
        columns = max(columns, place)
    return max([rows, *map(int, set(_ROW.findall(text)))]), columns
