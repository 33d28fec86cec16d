"""Blocks of arrays: those in memory, and those of NumPy's files, which are mapped to it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.linalg.blocks.sources import ROWS, BlockReader, FileSource, Raw, Source, Stamp, Values


@dataclass(frozen=True)
class ArrayReader(BlockReader):
    """Some rows of arrays: views of them, so that a pickled reader takes along no others."""

    X: Values
    y: Any
    w: Any

    def _rows(self) -> Raw:
        return Raw(self.X, self.y, self.w)


class ArraySource(Source):
    """Arrays in memory, ``size`` rows a block.

    Parameters
    ----------
    X : (n, d).
    y : (n,), (n, m) or None.
    w : (n,) weights of the rows, or None.

    Examples
    --------
    >>> import numpy as np
    >>> source = ArraySource(np.eye(5), np.arange(5), None, size=2)
    >>> len(source), source.rows, source[2]().y
    (3, 5, array([4]))
    """

    def __init__(self, X: Any, y: Any = None, w: Any = None, size: int = ROWS) -> None:
        self.X = np.asarray(X)
        self.y, self.w = (None if A is None else np.asarray(A) for A in (y, w))
        if self.X.ndim != 2:
            raise ValueError(f"X must have rows and columns, and has {self.X.ndim} dimension(s)")
        self.rows, self.width = self.X.shape
        cuts = [slice(i, i + size) for i in range(0, self.rows, size)]
        self.readers = [
            ArrayReader(
                number,
                rows.start,
                None,
                self.X[rows],
                None if self.y is None else self.y[rows],
                None if self.w is None else self.w[rows],
            )
            for number, rows in enumerate(cuts)
        ]

    def identity(self) -> dict[str, Any]:
        given = {"X": self.X, "y": self.y, "w": self.w}
        digests = {name: _digest(A) for name, A in given.items() if A is not None}
        return {"kind": type(self).__name__, "blocks": len(self), **digests}


def _digest(A: Values) -> str:
    """Return the digest of an array's shape, type and numbers."""
    total = hashlib.sha256(f"{A.dtype.str}{A.shape}".encode())
    if A.dtype.kind == "O":
        total.update(repr(A.tolist()).encode())
    else:
        for i in range(0, len(A), ROWS):  # a copy of all of them may not fit
            total.update(np.ascontiguousarray(A[i : i + ROWS]).view(np.uint8).data)
    return total.hexdigest()


@dataclass(frozen=True)
class NpyReader(BlockReader):
    """Some rows of NumPy's files; each is mapped while they are copied, and then let go."""

    stop: int
    files: tuple[Stamp | None, ...]  # of X, y and w

    def _rows(self) -> Raw:
        X, y, w = (None if stamp is None else self._cut(stamp) for stamp in self.files)
        return Raw(X, y, w)

    def _cut(self, stamp: Stamp) -> Values:
        stamp.check()
        mapped = np.lib.format.open_memmap(stamp.path, mode="r")
        rows = np.array(mapped[self.start : self.stop])
        stamp.check()
        return rows


class NpySource(FileSource):
    """Arrays in files of ``numpy.save``, ``size`` rows a block; they are never read as a whole.

    Parameters
    ----------
    X, y, w : paths of the inputs (n, d), the targets (n,) or (n, m), and the weights (n,).
    """

    def __init__(
        self,
        X: str | os.PathLike[str],
        y: str | os.PathLike[str] | None = None,
        w: str | os.PathLike[str] | None = None,
        size: int = ROWS,
    ) -> None:
        paths = [None if p is None else os.path.abspath(os.fspath(p)) for p in (X, y, w)]
        files = tuple(None if p is None else Stamp.of(p) for p in paths)
        self.stamps: Sequence[Stamp] = [stamp for stamp in files if stamp is not None]
        shapes = [_shape(stamp) for stamp in self.stamps]
        lengths = [shape[0] for shape in shapes]
        if len(set(lengths)) > 1:
            said = " and ".join(f"{s.path} {n}" for s, n in zip(self.stamps, lengths, strict=True))
            raise ValueError(f"the arrays have different numbers of rows: {said}")
        if len(shapes[0]) != 2:
            raise ValueError(
                f"{paths[0]} must have rows and columns, and has the shape {shapes[0]}"
            )
        self.rows, self.width = shapes[0]
        self.readers = [
            NpyReader(number, i, None, min(i + size, self.rows), files)
            for number, i in enumerate(range(0, self.rows, size))
        ]


def _shape(stamp: Stamp) -> tuple[int, ...]:
    try:
        mapped = np.lib.format.open_memmap(stamp.path, mode="r")
    except ValueError as error:
        raise ValueError(f"{stamp.path} is no file of numpy.save with numbers: {error}") from None
    if mapped.ndim == 0:
        raise ValueError(f"{stamp.path} holds no array with rows; write one with numpy.save")
    return tuple(mapped.shape)
