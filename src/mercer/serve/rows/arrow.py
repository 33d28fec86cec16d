"""Arrow streams of strangers: looked at before they are read, and validated after.

A compressed stream may claim to be of any size, and a column of nulls of any length without a byte
of its own, so that the metadata of every message (a flatbuffer) is read first. See
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.app.terminal import AppError, require, shown
from mercer.serve.limits import Limits, RefusedError, bad

_NESTED = "the body is not an Arrow stream of plain columns"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages; 1 is the schema


def read_stream(body: bytes, limits: Limits) -> tuple[dict[str, Any], int]:
    """Return columns and rows of an Arrow IPC stream: numbers as arrays, anything else listed."""
    try:
        pyarrow = require("pyarrow", "reading Arrow")
    except AppError as error:
        raise RefusedError(415, "media", str(error)) from None
    try:
        rows = sum(_lengths(body))
    except (struct.error, ValueError, IndexError, RecursionError):
        raise RefusedError(400, "arrow", _NESTED) from None
    if rows > limits.rows:
        raise RefusedError(413, "size", f"{rows} rows are more than {limits.rows} in one request")
    try:
        from pyarrow import ipc

        with ipc.open_stream(pyarrow.BufferReader(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if len(set(table.column_names)) < table.num_columns or not all(table.column_names):
            raise RefusedError(400, "arrow", "two columns have the same name, or one has none")
        if table.num_columns > limits.columns:
            raise RefusedError(413, "size", f"more than {limits.columns} columns")
        columns = {name: _column(pyarrow, table[name], name) for name in table.column_names}
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise RefusedError(400, "arrow", f"{_NESTED}: {shown(str(error), 100)}") from None
    if not table.num_rows or not columns:
        raise bad("there is no row in the body")
    return columns, int(table.num_rows)


def _column(pyarrow: Any, column: Any, name: str) -> Any:
    kind = column.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        if not column.null_count:
            return column.to_numpy()
    elif not (
        pyarrow.types.is_boolean(kind)
        or pyarrow.types.is_string(kind)
        or pyarrow.types.is_large_string(kind)
        or pyarrow.types.is_null(kind)
    ):
        raise bad(f"the column '{shown(name)}' is of the kind {kind}: numbers or texts are read")
    return column.to_pylist()


def _lengths(body: bytes) -> Iterator[int]:
    """Yield the rows that each batch of a stream claims; refuse compression and dictionaries."""
    at = 0
    while at + 8 <= len(body):
        marker, size = struct.unpack_from("<Ii", body, at)
        if marker != 0xFFFFFFFF:
            raise ValueError("not the beginning of a message")
        if not size:
            return
        message = memoryview(body)[at + 8 : at + 8 + size]
        if size < 0 or len(message) != size:
            raise ValueError("a message that is cut short")
        root = struct.unpack_from("<I", message, 0)[0]
        kind = message[_field(message, root, 1)]
        header = _field(message, root, 2)
        if kind == _DICTIONARY:
            raise RefusedError(400, "arrow", "the columns are dictionaries: send plain texts")
        if kind == _BATCH:
            batch = header + struct.unpack_from("<I", message, header)[0]
            if _field(message, batch, 3, optional=True):
                raise RefusedError(400, "arrow", "the stream is compressed: send it uncompressed")
            length = _field(message, batch, 0, optional=True)
            rows = struct.unpack_from("<q", message, length)[0] if length else 0
            if rows < 0:
                raise ValueError("a negative number of rows")
            yield rows
        where = _field(message, root, 3, optional=True)
        follows = struct.unpack_from("<q", message, where)[0] if where else 0
        if follows < 0:
            raise ValueError("a negative length")
        at += 8 + size + follows


def _field(message: memoryview, table: int, number: int, optional: bool = False) -> int:
    """Return where a field of a flatbuffer's table lies; 0 if it is not there."""
    entries = table - struct.unpack_from("<i", message, table)[0]
    if entries < 0 or table < 0:
        raise ValueError("an offset out of range")
    size = struct.unpack_from("<H", message, entries)[0]
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", message, entries + slot)[0] if slot < size else 0
    if not offset and not optional:
        raise ValueError("a message without a part that it needs")
    return table + offset if offset else 0


def write_stream(columns: dict[str, Any]) -> bytes:
    """Return columns as an Arrow IPC stream."""
    pyarrow = require("pyarrow", "writing Arrow")
    arrays = {
        name: pyarrow.array(np.asarray(v) if isinstance(v[0], float) else list(v))
        for name, v in columns.items()
    }
    table = pyarrow.table(arrays)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
