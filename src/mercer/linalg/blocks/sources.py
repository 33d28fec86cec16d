"""Tables that are read block by block: what a source of blocks is, and what it refuses.

A source is a sequence of readers, one for each block, and knows the columns. A reader is small and
can be pickled; it reads its rows each time it is called. Boundaries of blocks follow from the table
alone, never from who reads it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.core.errors import no_number, not_finite
from mercer.core.words import did_you_mean
from mercer.linalg.blocks.engine import Read, RowBlock

ROWS = 1 << 16  # of a block, unless the table itself has other boundaries
EXACT = 2**53  # integers up to here are doubles
LEAVE_OUT = "choose the columns without it"
_KINDS = {"M": "dates", "m": "time spans", "S": "bytes", "c": "complex numbers", "V": "records"}

Values: TypeAlias = NDArray[Any]


def require(package: str, purpose: str) -> Any:
    """Return an optional package, or say how to install it."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {name}, which is not installed: "
            'pip install "mercer[dask]"'
        ) from None


class Stamp(NamedTuple):
    """A file as it was when it was first looked at."""

    path: str
    size: int  # bytes
    changed: int  # nanoseconds, of its last change

    @classmethod
    def of(cls, path: str) -> Stamp:
        """Return the stamp of a file as it is now."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is no longer the one that it was."""
        try:
            now = Stamp.of(self.path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.path} was there when the fit began and is not found now; put it back, and "
                "see that every machine which reads it finds it under this name"
            ) from None
        if now != self:
            how = f"had {self.size} bytes and has {now.size}"
            if now.size == self.size:
                how = "was written to since the fit began"
            raise ValueError(f"{self.path} {how}: fit again once nobody writes to it")


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns of a table are inputs, targets and weights, by name."""

    inputs: tuple[str, ...]
    target: str | tuple[str, ...] | None = None  # several: y has a column for each
    weight: str | None = None

    @classmethod
    def among(
        cls,
        columns: Sequence[str],
        inputs: Sequence[str] | None,
        target: Any,
        weight: str | None,
        table: str,
    ) -> ColumnChoice:
        """Return the choice; inputs that are not named are all columns that are nothing else.

        Examples
        --------
        >>> ColumnChoice.among(["a", "b", "y"], None, "y", None, "big.parquet")
        ColumnChoice(inputs=('a', 'b'), target='y', weight=None)
        """
        several = target is None or isinstance(target, str)
        targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        taken = {*targets, *(() if weight is None else (weight,))}
        found = tuple(c for c in columns if c not in taken) if inputs is None else tuple(inputs)
        for name in (*found, *targets, *(() if weight is None else (weight,))):
            if name not in columns:
                known = ", ".join(map(repr, columns[:20]))
                hint = did_you_mean(str(name), columns) or f"its columns are {known}"
                raise ValueError(f"{table} has no column {name!r}; {hint}")
        for name in found:
            if columns.count(name) > 1:
                raise ValueError(f"{table} has two columns {name!r}: give each a name of its own")
            if name in taken or found.count(name) > 1:
                raise ValueError(f"the column {name!r} is named twice: once is enough")
        if not found:
            raise ValueError(f"{table} has no column left to learn from")
        return cls(found, target if several else targets, weight)

    @property
    def all(self) -> list[str]:
        """The names of all columns that are read, inputs first."""
        others = [self.target] if isinstance(self.target, str) else list(self.target or ())
        return [*self.inputs, *others, *([] if self.weight is None else [self.weight])]

    def of(self, columns: dict[str, Values]) -> Raw:
        """Return the columns as inputs, targets and weights."""
        target = self.target
        y = columns[target] if isinstance(target, str) else None
        if isinstance(target, tuple):
            y = np.column_stack([columns[name] for name in target])
        w = None if self.weight is None else columns[self.weight]
        return Raw([columns[name] for name in self.inputs], y, w)


class Raw(NamedTuple):
    """Rows as they were found, before anything is asked of them."""

    X: Any  # columns (b,), or a matrix (b, d)
    y: Any
    w: Any


@dataclass(frozen=True)
class BlockReader(ABC):
    """Reads one block, and refuses what is no number; a child says where the rows are."""

    number: int  # of the block
    start: int | None  # the row of the table at which it begins; None: unknown
    names: tuple[str, ...] | None  # of the inputs

    @abstractmethod
    def _rows(self) -> Raw:
        """Return the rows as they are found."""

    def __call__(self) -> RowBlock:
        return self.checked(self._rows())

    def checked(self, raw: Raw) -> RowBlock:
        """Return rows as a block; refuse what is no number, by block and row."""
        X, y, w = raw
        points = self._points(X)
        weights = np.ones(len(points)) if w is None else self._weights(w)
        if y is not None:
            y = self._targets(np.asarray(y))
        for what, other in (("y", y), ("sample_weight", weights)):
            if other is not None and len(other) != len(points):
                raise ValueError(
                    f"block {self.number} of X has {len(points)} rows, and that of {what} has "
                    f"{len(other)}: give them as many"
                )
        return RowBlock(self.number, points, y, weights)

    def _row(self, i: int) -> str:
        """Return where row i of the block is, in words."""
        if self.start is None:
            return f"row {i} of block {self.number}"
        return f"row {self.start + i} (block {self.number})"

    def _column(self, j: int) -> str:
        return f"column {j if self.names is None else repr(self.names[j])!s}"

    def _points(self, X: Any) -> Array:
        """Return the inputs as doubles (b, d), all of them finite numbers."""
        if isinstance(X, np.ndarray):
            if X.ndim != 2:
                raise ValueError(f"X must have rows and columns, and has {X.ndim} dimension(s)")
            if X.dtype.kind not in "biuf" or (X.dtype.kind in "iu" and X.dtype.itemsize == 8):
                X = list(X.T)
        if isinstance(X, np.ndarray):
            points = np.ascontiguousarray(X, dtype=np.float64)
        else:
            points = np.empty((len(X[0]) if len(X) else 0, len(X)))
            for j, column in enumerate(X):
                points[:, j] = self._doubles(np.asarray(column), self._column(j))
        bad = ~np.isfinite(points)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            where = f"{self._column(j)}, {self._row(i)}"
            raise not_finite("X", points[i, j], where, int(bad.sum()))
        return points

    def _doubles(self, column: Values, where: str) -> Array:
        kind = column.dtype.kind
        if kind in "bf":
            return column.astype(np.float64, copy=False)
        if kind in _KINDS:
            raise self._no_number(_KINDS[kind], where, 0, str(column[0]) if len(column) else None)
        if kind in "iu":
            if len(column) and max(int(column.max()), -int(column.min())) > EXACT:
                raise ValueError(
                    f"{where} of X has integers beyond 2^53, which are no floating-point numbers; "
                    "subtract the smallest one, or encode the column (an identifier is no number)"
                )
            return column.astype(np.float64)
        for i, value in enumerate(column.tolist()):
            if not isinstance(value, (int, float, np.number)) and value is not None:
                what = "text" if isinstance(value, str) else "objects"
                raise self._no_number(what, where, i, value)
        return column.astype(np.float64)

    def _no_number(self, what: str, where: str, i: int, value: Any) -> Exception:
        return no_number(what, where, i + (self.start or 0), value, LEAVE_OUT)

    def _targets(self, y: Values) -> Values:
        """Return the targets as they are; refuse those that are missing."""
        if y.dtype.kind == "O" and all(isinstance(v, str) for v in y.flat):
            return y.astype(str)
        if y.dtype.kind == "O":
            missing = np.array([v is None or v != v for v in y.flat]).reshape(y.shape)
        else:
            missing = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(0, bool)
        if missing.any():
            where = np.argwhere(missing)[0]
            value = y[tuple(where)]
            value = value if isinstance(value, float) else np.nan
            raise not_finite("y", value, self._row(int(where[0])), int(missing.sum()))
        return y

    def _weights(self, w: Any) -> Array:
        weights = self._doubles(np.asarray(w), "the weight")
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"sample_weight must be finite and not negative, and is {weights[i]:g} in "
                f"{self._row(i)}"
            )
        return weights


class Source(Sequence[Read], ABC):
    """A table in blocks: a sequence of readers, with the names of its columns.

    Attributes
    ----------
    names : the inputs by name; None where they have none.
    columns : all columns by name; None where they have none.
    width : how many inputs there are.
    rows : how many there are; None where only a pass can tell.
    readers : one for each block.
    """

    names: tuple[str, ...] | None = None
    columns: list[str] | None = None
    width: int
    rows: int | None = None
    readers: Sequence[Read]

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what tells this table from another one, as plain values."""

    def check(self) -> None:
        """Refuse a table that is no longer the one that it was."""

    def __len__(self) -> int:
        return len(self.readers)

    @overload
    def __getitem__(self, index: int) -> Read: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Read]: ...
    def __getitem__(self, index: int | slice) -> Read | Sequence[Read]:
        return self.readers[index]


class FileSource(Source):
    """A table in files, none of which may change while it is read."""

    stamps: Sequence[Stamp]

    def check(self) -> None:
        for stamp in self.stamps:
            stamp.check()

    def identity(self) -> dict[str, Any]:
        files = [[os.path.basename(s.path), s.size, s.changed] for s in self.stamps]
        return {"kind": type(self).__name__, "files": files, "blocks": len(self)}


def starts_of(counts: Iterable[int]) -> Iterator[int]:
    """Yield the row at which each block begins, from how many rows each has."""
    total = 0
    for count in counts:
        yield total
        total += count
