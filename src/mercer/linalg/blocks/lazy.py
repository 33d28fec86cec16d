"""Blocks of Dask's arrays and data frames: their chunks and partitions, computed when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.core.errors import no_number
from mercer.linalg.blocks.sources import (
    LEAVE_OUT,
    ROWS,
    BlockReader,
    ColumnChoice,
    Raw,
    Source,
    Values,
    require,
    starts_of,
)


def is_lazy(X: Any) -> bool:
    """Say whether X is an array, a data frame or a series of Dask."""
    return type(X).__module__.partition(".")[0].startswith("dask") and hasattr(X, "__dask_graph__")


@dataclass(frozen=True)
class LazyReader(BlockReader):
    """One chunk or partition of the tables of Dask."""

    tables: tuple[Any, ...]  # X, y and w; None where there is none
    choice: ColumnChoice | None  # of the columns of a data frame

    def _rows(self) -> Raw:
        parts = (part_of(table, self.number) for table in self.tables)
        rows = [None if A is None else A.compute(scheduler="synchronous") for A in parts]
        return self.raw(*rows)

    def raw(self, X: Any, y: Any, w: Any) -> Raw:
        """Return the rows of parts that were computed."""
        y, w = (None if A is None else _values(A) for A in (y, w))
        if self.choice is None:
            return Raw(X, y, w)
        raw = self.choice.of({name: _values(X[name]) for name in self.choice.all})
        return Raw(raw.X, raw.y if y is None else y, raw.w if w is None else w)

    def bare(self) -> LazyReader:
        """Return what makes a block of computed parts, without what computes them."""
        return replace(self, tables=())


class LazySource(Source):
    """Tables of Dask: inputs, targets and weights in the same parts.

    Attributes
    ----------
    tables : X, y and w; None where there is none.
    """

    tables: tuple[Any, ...]

    def identity(self) -> dict[str, Any]:
        described = [None if table is None else repr(table) for table in self.tables]
        return {"kind": type(self).__name__, "blocks": len(self), "tables": described}

    def _read(self, starts: Sequence[int | None], choice: ColumnChoice | None = None) -> None:
        self.readers = [
            LazyReader(number, start, self.names, self.tables, choice)
            for number, start in enumerate(starts)
        ]


class LazyArrays(LazySource):
    """Arrays of Dask.

    A block is a chunk of rows. Where the sizes are known, chunks of more than ``size`` rows are cut
    into equal parts, and neighbours joined as long as they have no more together.

    Parameters
    ----------
    X : dask.array (n, d).
    y, w : arrays or series of Dask with as many rows, arrays of NumPy, or None.
    """

    def __init__(self, X: Any, y: Any = None, w: Any = None, size: int = ROWS) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns, and has {X.ndim} dimension(s)")
        counts = X.chunks[0]
        known = not any(np.isnan(c) for c in counts)
        if known:
            counts = even(counts, size)
            self.rows = sum(counts)
        X = X.rechunk({0: counts, 1: -1} if known else {1: -1})
        others = [_beside(A, what, counts) for A, what in ((y, "y"), (w, "sample_weight"))]
        self.tables, self.width = (X, *others), X.shape[1]
        self._read(list(starts_of(counts)) if known else [None] * len(counts))


class LazyFrame(LazySource):
    """A data frame of Dask; a block is a partition.

    Parameters
    ----------
    frame : dask.dataframe.
    inputs : columns by name; None: all that are nothing else.
    target, weight : columns by name, or series of Dask with the same partitions.
    """

    def __init__(
        self,
        frame: Any,
        inputs: Sequence[str] | None = None,
        target: Any = None,
        weight: Any = None,
    ) -> None:
        self.columns = [str(name) for name in frame.columns]
        y, target = (target, None) if _is_data(target) else (None, target)
        w, weight = (weight, None) if _is_data(weight) else (None, weight)
        choice = ColumnChoice.among(self.columns, inputs, target, weight, "the data frame")
        for name, dtype in frame.dtypes.items():
            if name in choice.all and name != choice.target and not _numeric(dtype):
                what = "dates" if getattr(dtype, "kind", "O") == "M" else "text"
                raise no_number(what, f"column {name!r}", 0, str(dtype), LEAVE_OUT)
        self.names, self.width = choice.inputs, len(choice.inputs)
        for A, what in ((y, "y"), (w, "sample_weight")):
            _check_partitions(A, what, frame)
        self.tables = (frame[choice.all], y, w)
        self._read([None] * frame.npartitions, choice)


def part_of(table: Any, number: int) -> Any:
    """Return one part of a table of Dask, as a table."""
    if table is None:
        return None
    return table.blocks[number] if hasattr(table, "blocks") else table.partitions[number]


def even(counts: Sequence[int], size: int) -> tuple[int, ...]:
    """Return how many rows blocks have: large chunks are cut evenly, small neighbours joined.

    Examples
    --------
    >>> even([10, 3, 3, 1, 8], 4)
    (3, 3, 4, 3, 4, 4, 4)
    """
    blocks: list[int] = []
    for count in counts:
        parts = max(-(-count // size), 1)
        for i in range(parts):
            rows = count * (i + 1) // parts - count * i // parts
            if blocks and blocks[-1] + rows <= size:
                blocks[-1] += rows
            else:
                blocks.append(rows)
    return tuple(blocks)


def _beside(A: Any, what: str, counts: Sequence[Any]) -> Any:
    """Return y or w in the chunks of X."""
    if A is None:
        return None
    known = not any(np.isnan(c) for c in counts)
    if not is_lazy(A):
        if not known:
            raise ValueError(
                f"the chunks of X have unknown sizes: give {what} as an array of Dask with the "
                "same chunks, or call X.compute_chunk_sizes() first"
            )
        A = np.asarray(A)
        _check_length(len(A), what, counts)
        return require("dask.array", "an array of Dask").from_array(
            A, chunks=(counts, *A.shape[1:])
        )
    if hasattr(A, "to_dask_array"):
        A = A.to_dask_array()
    if known and not any(np.isnan(c) for c in A.chunks[0]):
        _check_length(A.shape[0], what, counts)
        A = A.rechunk({0: tuple(counts), **({1: -1} if A.ndim == 2 else {})})
    if A.numblocks[0] != len(counts):
        raise ValueError(
            f"X has {len(counts)} chunks of rows and {what} has {A.numblocks[0]}: give both the "
            "same, e.g. by compute_chunk_sizes() and rechunk"
        )
    return A.rechunk({1: -1}) if A.ndim == 2 else A


def _check_length(rows: int, what: str, counts: Sequence[int]) -> None:
    if rows != sum(counts):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {sum(counts)} rows "
            f"and {what} has {rows}"
        )


def _is_data(A: Any) -> bool:
    """Say whether these are targets or weights themselves, and not the names of columns."""
    return is_lazy(A) or hasattr(A, "dtype") or hasattr(A, "dtypes")


def _check_partitions(A: Any, what: str, frame: Any) -> None:
    """Refuse y or w that do not come in the partitions of a data frame."""
    if A is None:
        return
    known = getattr(A, "known_divisions", False) and frame.known_divisions
    if not is_lazy(A) or (known and A.divisions != frame.divisions):
        raise ValueError(
            f"the partitions of X are not those of {what}: give {what} as the name of a column, or "
            "as a series of Dask with the same partitions"
        )
    parts = A.npartitions if hasattr(A, "divisions") else A.numblocks[0]
    if parts != frame.npartitions:
        raise ValueError(
            f"X has {frame.npartitions} partitions and {what} has {parts}: give both the same"
        )


def _values(series: Any) -> Values:
    if isinstance(series, np.ndarray):
        return series
    if hasattr(series, "columns"):  # a data frame of several targets
        return np.column_stack([_values(series[name]) for name in series.columns])
    if _numeric(series.dtype) and not isinstance(series.dtype, np.dtype):  # may have gaps
        if series.isna().any():
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(series.to_numpy())
    if getattr(series.dtype, "kind", "O") == "O":
        return np.asarray(series.to_numpy(dtype=object))
    return np.asarray(series.to_numpy())


def _numeric(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "biufc"
