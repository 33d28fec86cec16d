"""Sheets: tables that a person has dropped on the page, until they are fitted.

They are held in memory, few of them, and are gone when the service ends: a table is not a model.
"""

from __future__ import annotations

import datetime
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mercer.core.words import shown
from mercer.serve.limits import Limits, RefusedError, bad
from mercer.serve.messages import Cell
from mercer.tables.data.columns import Column, infer_columns
from mercer.tables.data.frame import DAY, EPOCH, Frame
from mercer.tables.files import FileTable, frame_of, read_file

MOST, BYTES = 8, 128 << 20  # sheets, and what the files that they came from may have together
KINDS = ("numeric", "categorical", "text", "date", "ignored")
SUFFIXES = {b"PK\x03\x04": ".xlsx", b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}
SHOWN = 6  # rows that the page shows


@dataclass(frozen=True)
class Sheet:
    """A table as it was read, and what its columns were taken for."""

    id: str
    name: str  # of the file, for a person to read: never a path
    data: FileTable
    frame: Frame
    columns: list[Column]
    size: int

    @property
    def head(self) -> list[list[str]]:
        """The first rows as text."""
        return [
            [_text(self.data.columns[name][i]) for name in self.data.names]
            for i in range(min(SHOWN, self.frame.n))
        ]

    def row(self, i: int) -> dict[str, str]:
        """Return a row as text, by column."""
        return {name: _text(self.data.columns[name][i]) for name in self.data.names}

    def cells(self, names: list[str]) -> dict[str, list[Cell]]:
        """Return the named columns as a request would hold them."""
        return {
            name: v.tolist() if isinstance(v, np.ndarray) else list(v)
            for name, v in ((name, self.data.columns[name]) for name in names)
        }

    def kinds(self, given: Mapping[str, str], target: str) -> dict[str, str]:
        """Return the kind of every column that is used, and of the target, or refuse one.

        ``given`` are a person's: what they say is checked against the values.
        """
        known = {c.name: c.kind for c in self.columns}
        if target not in known:
            raise bad("choose the column to predict", column=target)
        wanted = {name: given.get(name, kind) for name, kind in known.items()}
        for name, kind in wanted.items():
            if kind not in KINDS:
                raise bad(f"'{shown(kind, 40)}' is no kind of column", column=name)
        if wanted[target] == "ignored":  # as an input; it may be a target all the same
            wanted[target] = {"number": "numeric"}.get(self.frame.kind(target), "categorical")
        used = {name: kind for name, kind in wanted.items() if kind != "ignored"}
        if len(used) < 2:
            raise bad("no column is left to learn from: do not leave out all of them")
        try:
            frame_of(self.data, list(used), used)
        except (ImportError, ValueError) as error:
            raise bad(str(error)) from None
        return used


class Sheets:
    """The newest sheets."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._held: OrderedDict[str, Sheet] = OrderedDict()
        self._of_model: dict[str, Sheet] = {}

    def add(self, sheet: Sheet) -> None:
        """Keep a sheet; the oldest go if there is no room."""
        while self._held and (
            len(self._held) >= MOST or sheet.size + sum(s.size for s in self._held.values()) > BYTES
        ):
            old = self._held.popitem(last=False)[1]
            self._of_model = {k: v for k, v in self._of_model.items() if v is not old}
        self._held[sheet.id] = sheet

    def find(self, name: str) -> Sheet:
        """Return a sheet."""
        if name not in self._held:
            raise RefusedError(404, "unknown", "this table is not held any more: drop it again")
        return self._held[name]

    def every(self) -> list[Sheet]:
        """Return them, newest first."""
        return list(self._held.values())[::-1]

    def fitted(self, model: str, sheet: Sheet) -> None:
        """Remember which table a model is made of."""
        self._of_model[model] = sheet

    def behind(self, model: str) -> Sheet | None:
        """Return the table that a model was made of, if it is held."""
        return self._of_model.get(model)


def read_sheet(body: bytes, name: str, limits: Limits) -> Sheet:
    """Return a file as a sheet: CSV, or what its first bytes say."""
    suffix = next((s for magic, s in SUFFIXES.items() if body.startswith(magic)), ".csv")
    label = shown(Path(name.replace("\\", "/")).name, 60) or "table"
    path = Path()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"table{suffix}"
            path.write_bytes(body)
            data = replace(read_file(str(path)), path=label)
        rows, columns = len(data.places), len(data.names)
        if rows > limits.rows or columns > limits.columns:
            raise RefusedError(
                413,
                "size",
                f"{rows} rows of {columns} columns are more than {limits.rows} rows of "
                f"{limits.columns} columns; see `mercer serve --help`",
            )
        frame = frame_of(data, data.names)
        if frame.reading is not None and not frame.reading.ordinary:  # from here on it is
            notes = [*data.notes, f"read {replace(frame.reading, source=label).words()}"]
            data = FileTable(label, _plain(frame), data.places, notes)
    except (ImportError, ValueError) as error:
        raise bad(str(error).replace(str(path), label)) from None
    return Sheet(secrets.token_hex(8), label, data, frame, infer_columns(frame), len(body))


def _text(value: object) -> str:
    return shown(f"{value:g}" if isinstance(value, float) else str(value), 40)


def _plain(frame: Frame) -> dict[str, list[str]]:
    """Return the columns as texts with decimal points and dates in ISO form."""
    columns = {}
    for name, column in frame.columns.items():
        if frame.kind(name) == "text":
            columns[name] = ["" if v is None else str(v) for v in column]
        elif frame.kind(name) == "number":
            columns[name] = ["" if v != v else repr(v) for v in column.tolist()]
        else:
            moments = ("" if v != v else _moment(v) for v in column.tolist())
            columns[name] = list(moments)
    return columns


def _moment(days: float) -> str:
    moment = EPOCH + datetime.timedelta(seconds=round(days * DAY))
    return moment.date().isoformat() if days == int(days) else moment.isoformat(" ")
