"""The rows of a batch: inputs, labels as text, and where each stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.app.errors import AppError, quoted, shown
from mercer.app.stream_columns import read_inputs
from mercer.app.stream_texts import label_of
from mercer.app.tables import Table
from mercer.arrays import Array


@dataclass(frozen=True)
class Rows:
    """b rows of a stream.

    Attributes
    ----------
    X : (b, d) inputs, NaN where a number is missing; objects if some are words.
    labels : b texts, None where there is none.
    places : b places such as "data.csv, line 7".
    """

    X: Any
    labels: list[str | None]
    places: list[str]

    def keep(self, mask: Array) -> Rows:
        """Return the rows where the mask (b,) is True."""
        kept = np.flatnonzero(mask)
        return Rows(self.X[kept], [self.labels[i] for i in kept], [self.places[i] for i in kept])

    def content(self) -> bytes:
        """Return all values, such that other rows have others."""
        words = self.X.dtype == object
        values = repr(self.X.tolist()).encode() if words else self.X.tobytes()
        return b"\0".join([values, *((label or "").encode() for label in self.labels)])

    @property
    def place(self) -> str:
        """Where the batch stands, for messages."""
        first, last = self.places[0], self.places[-1].rpartition(" ")[2]
        return first if len(self.places) == 1 else f"{first} to {last}"


@dataclass(frozen=True)
class Reader:
    """Which columns are read of each table, and what a gap means."""

    target: str
    names: list[str]
    words: list[str]  # those of the names whose columns are words
    partly: bool  # rows without a label are learned from
    drop: bool  # rows with a gap that is not allowed are left out

    def read(self, table: Table) -> tuple[Rows, Array]:
        """Return all rows, and a mask (b,) of those to learn from; refuse the others."""
        table.check([self.target], "the target")
        table.check(self.names, "an input")
        X, gaps = read_inputs(table, self.names, self.words)
        keep = table.complete(gaps, self.names, None if self.drop else "--drop-missing")
        labels = [label_of(value) for value in table.columns[self.target]]
        if not self.partly:
            absent = np.array([label is None for label in labels])
            if absent.any() and not self.drop:
                raise AppError(
                    f"{table.path}, {table.places[int(absent.argmax())]}: column "
                    f"'{shown(self.target)}' has no label; pass --drop-missing to leave such rows "
                    "out, or --learner lapmed to learn from them too"
                )
            keep = keep & ~absent
        return Rows(X, labels, [f"{table.path}, {place}" for place in table.places]), keep


def input_names(table: Table, target: str, features: Sequence[str] | None) -> list[str]:
    """Return the input columns: those given, or all but the target in the first table."""
    table.check([target], "the target")
    names = list(features or [name for name in table.names if name != target])
    table.check(names, "an input")
    if not names:
        raise AppError(f"{table.path} has no column besides {quoted([target])}")
    if target in names or len(set(names)) < len(names):
        raise AppError("an input cannot be named twice, nor be the target too")
    return names
