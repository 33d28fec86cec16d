"""Blocks of parquet files: row groups, large ones cut evenly, small ones joined."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

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

BATCH = 1 << 14  # rows that are decoded at a time where a group is cut


class Piece(NamedTuple):
    """Some rows of a row group."""

    file: Stamp
    group: int
    start: int
    stop: int
    whole: bool


@dataclass(frozen=True)
class ParquetReader(BlockReader):
    """The rows of one piece of a row group, or of several."""

    choice: ColumnChoice
    pieces: tuple[Piece, ...]

    def _rows(self) -> Raw:
        arrow = require("pyarrow", "reading parquet")
        table = arrow.concat_tables([_read(piece, self.choice.all) for piece in self.pieces])
        return self.choice.of({name: _values(table[name]) for name in self.choice.all})


class ParquetSource(FileSource):
    """One parquet file or several, as one table.

    A block is a row group. One of more than ``size`` rows is cut into equal parts of at most that
    many; neighbours, also of two files, are joined as long as they have no more together.

    Parameters
    ----------
    paths : the files, in the order of their rows.
    inputs, target, weight : columns by name; inputs are all others unless they are named.
    """

    def __init__(
        self,
        paths: Sequence[str],
        inputs: Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        size: int = ROWS,
    ) -> None:
        require("pyarrow.parquet", "reading parquet")
        self.stamps: Sequence[Stamp] = [Stamp.of(os.path.abspath(path)) for path in paths]
        self.columns = _columns(self.stamps[0])
        choice = ColumnChoice.among(self.columns, inputs, target, weight, self.stamps[0].path)
        for stamp in self.stamps:
            _check_types(stamp, choice)
        blocks = list(_joined(_pieces(self.stamps, size), size))
        counts = [sum(p.stop - p.start for p in block) for block in blocks]
        self.names, self.width = choice.inputs, len(choice.inputs)
        self.rows = sum(counts)
        self.readers = [
            ParquetReader(number, start, choice.inputs, choice, tuple(block))
            for number, (start, block) in enumerate(zip(starts_of(counts), blocks, strict=True))
        ]


@lru_cache(maxsize=64)  # by its stamp: another file, another entry
def _metadata(file: Stamp) -> Any:
    """Return what stands at the end of a file: its row groups and columns."""
    parquet = require("pyarrow.parquet", "reading parquet")
    arrow = require("pyarrow", "reading parquet")
    try:
        return parquet.read_metadata(file.path)
    except arrow.ArrowInvalid as error:
        raise ValueError(f"{file.path} is not a parquet file: {error}") from None


def _columns(file: Stamp) -> list[str]:
    """Return the columns of a file; the row index of pandas is none."""
    schema = _metadata(file).schema.to_arrow_schema()
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _pieces(files: Sequence[Stamp], size: int) -> Iterator[Piece]:
    """Yield the row groups of all files in their order, large ones in equal parts."""
    for file in files:
        metadata = _metadata(file)
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            parts = -(-rows // size)
            for i in range(parts):
                yield Piece(file, group, rows * i // parts, rows * (i + 1) // parts, parts == 1)


def _joined(pieces: Iterator[Piece], size: int) -> Iterator[list[Piece]]:
    """Yield the pieces of each block."""
    block: list[Piece] = []
    total = 0
    for piece in pieces:
        rows = piece.stop - piece.start
        if block and total + rows > size:
            yield block
            block, total = [], 0
        block.append(piece)
        total += rows
    if block:
        yield block


def _read(piece: Piece, columns: list[str]) -> Any:
    """Return the rows of one piece as a table of Arrow."""
    arrow = require("pyarrow", "reading parquet")
    parquet = require("pyarrow.parquet", "reading parquet")
    piece.file.check()
    with parquet.ParquetFile(piece.file.path, metadata=_metadata(piece.file)) as file:
        if piece.whole:
            table = file.read_row_group(piece.group, columns=columns, use_threads=False)
        else:  # pages before the piece are decoded and let go: memory stays that of one batch
            rows, found = 0, []
            for batch in file.iter_batches(
                BATCH, row_groups=[piece.group], columns=columns, use_threads=False
            ):
                begin, end = max(piece.start - rows, 0), min(piece.stop - rows, batch.num_rows)
                if begin < end:
                    found.append(batch.slice(begin, end - begin))
                rows += batch.num_rows
                if rows >= piece.stop:
                    break
            table = arrow.Table.from_batches(found)
    piece.file.check()
    return table.select(columns)


def _values(column: Any) -> Values:
    """Return a column of Arrow as an array; missing numbers are NaN, missing texts None."""
    arrow = require("pyarrow", "reading parquet")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_string_view(column.type):
        column = column.cast(arrow.string())
    if arrow.types.is_decimal(column.type) or arrow.types.is_null(column.type):
        column = column.cast(arrow.float64())
    values: Values = column.to_numpy()
    return values


def _check_types(file: Stamp, choice: ColumnChoice) -> None:
    """Refuse, before any row is read, columns that are lost in this file or hold no numbers."""
    types = require("pyarrow", "reading parquet").types
    schema = _metadata(file).schema.to_arrow_schema()
    ColumnChoice.among(_columns(file), choice.inputs, choice.target, choice.weight, file.path)
    for name in choice.all:
        kind = schema.field(name).type
        number = types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)
        if number or types.is_decimal(kind) or types.is_null(kind) or name == choice.target:
            continue
        value = _first(file, name)
        text = isinstance(value, str) or types.is_dictionary(kind) or types.is_string(kind)
        what = "dates" if types.is_temporal(kind) else "text" if text else "objects"
        raise no_number(what, f"column {name!r}", 0, value, LEAVE_OUT)


def _first(file: Stamp, name: str) -> Any:
    """Return the first value of a column, to be shown."""
    parquet = require("pyarrow.parquet", "reading parquet")
    with parquet.ParquetFile(file.path) as opened:
        for batch in opened.iter_batches(1, columns=[name]):
            return batch.column(0)[0].as_py()
    return None
