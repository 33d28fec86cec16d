"""Rows of a request: JSON, CSV or Arrow become columns, and columns the arrays of a learner.

Whatever is wrong with a row is said with its number, counted from 1, before anything is changed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from mercer.app.stream.rows import FEW, label_of
from mercer.app.terminal import quoted
from mercer.core.arrays import Array
from mercer.core.words import did_you_mean, shown
from mercer.serve.limits import Limits, RefusedError, bad
from mercer.serve.messages import Cell, RowsSent
from mercer.tables.files import open_rows, parse_number

JSON, CSV = "application/json", "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
_TABLE = msgspec.json.Decoder(RowsSent)


@dataclass(frozen=True)
class SentColumns:
    """SentColumns by name, each of n values; ``texts`` if they are the fields of a CSV."""

    values: dict[str, Any]  # each a sequence of cells, or an array of numbers
    n: int
    texts: bool = False

    def check(self, names: Sequence[str], besides: Sequence[str] = ()) -> None:
        """Refuse columns that are missing, and those that are neither ``names`` nor ``besides``."""
        for name in names:
            if name not in self.values:
                hint = did_you_mean(name, self.values) or f"there are {quoted(self.values)}"
                raise bad(f"the column '{shown(name)}' is missing; {hint}", column=name)
        for name in self.values:
            if name not in names and name not in besides:
                raise bad(
                    f"the column '{shown(name)}' is not known: the model has {quoted(names)}",
                    column=name,
                )


def decode(
    body: bytes, kind: str, inputs: Sequence[str] | None, target: str | None, limits: Limits
) -> SentColumns:
    """Return the columns of a body of one of three content types."""
    if kind == JSON:
        return of_table(parsed(body, _TABLE), inputs, target, limits)
    if kind == CSV:
        return _csv(body, limits)
    if kind == ARROW:
        from mercer.serve.rows.arrow import read_stream

        return SentColumns(*read_stream(body, limits))
    raise RefusedError(
        415, "media", f"the content type must be {JSON}, {CSV} or {ARROW}, not '{shown(kind)}'"
    )


def parsed(body: bytes, decoder: Any) -> Any:
    """Return the message in a body of JSON."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, "json", f"the body is not what is expected: {error}") from None


def of_table(
    table: RowsSent, inputs: Sequence[str] | None, target: str | None, limits: Limits
) -> SentColumns:
    """Return the columns of a message."""
    forms = [form for form in (table.rows, table.columns, table.X) if form is not None]
    if len(forms) != 1 or (table.y is not None and table.X is None):
        raise RefusedError(400, "json", "give one of rows, columns and X (with y, to learn from)")
    if table.rows is not None:
        return _by_row(table.rows, limits)
    if table.columns is not None:
        lengths = {name: len(column) for name, column in table.columns.items()}
        n = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != n:
                raise bad(
                    f"the column '{shown(name)}' has {length} values and the first {n}", column=name
                )
        _check_size(n, len(lengths), limits)
        return SentColumns(dict(table.columns), n)
    return _unnamed(table.X or [], table.y, inputs, target, limits)


def _check_size(n: int, d: int, limits: Limits) -> None:
    if not n or not d:
        raise bad("there is no row in the body")
    if n > limits.rows or d > limits.columns:
        most = f"{limits.rows} rows of {limits.columns} columns"
        raise RefusedError(
            413, "size", f"{n} rows of {d} columns are more than {most} in one request"
        )


def _by_row(rows: list[dict[str, Cell]], limits: Limits) -> SentColumns:
    names = list(rows[0]) if rows else []
    _check_size(len(rows), len(names), limits)
    known = rows[0].keys()
    for i, row in enumerate(rows):
        if row.keys() != known:
            name = min(row.keys() ^ known)
            raise bad(
                f"row {i + 1} has not the same columns as row 1: '{shown(name)}' is in one of them",
                row=i + 1,
                column=name,
            )
    return SentColumns({name: [row[name] for row in rows] for name in names}, len(rows))


def _unnamed(
    X: list[list[Cell]],
    y: list[Cell] | None,
    inputs: Sequence[str] | None,
    target: str | None,
    limits: Limits,
) -> SentColumns:
    d = len(X[0]) if X else 0
    _check_size(len(X), d, limits)
    names = list(inputs) if inputs is not None else [f"x{j}" for j in range(d)]
    for i, row in enumerate(X):
        if len(row) != len(names):
            raise bad(f"row {i + 1} has {len(row)} values, and the model {len(names)}", row=i + 1)
    columns: dict[str, Any] = dict(zip(names, zip(*X, strict=True), strict=True))
    if y is not None:
        if len(y) != len(X):
            raise bad(f"X has {len(X)} rows and y {len(y)}")
        columns[target or "y"] = y
    return SentColumns(columns, len(X))


def _csv(body: bytes, limits: Limits) -> SentColumns:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(400, "csv", f"the body is not UTF-8 text (byte {error.start})") from None
    fields: list[list[str]] = []
    try:
        head = open_rows(io.StringIO(text, newline=""), "the body", ",")
        if head.twice:
            raise ValueError(f"the name '{shown(min(head.twice))}' occurs twice in the body")
        for _, row in head.rows:
            fields.append(row)
            if len(fields) > limits.rows:
                break  # more than are taken: the check says so
    except ValueError as error:
        raise RefusedError(400, "csv", str(error)) from None
    _check_size(len(fields), len(head.names), limits)
    columns = zip(*fields, strict=True)
    return SentColumns(dict(zip(head.names, columns, strict=True)), len(fields), texts=True)


# ---------------------------------------------------------------------- arrays of a learner
def word_columns(columns: SentColumns, names: Sequence[str]) -> list[str]:
    """Return those of the columns that are words; the others are numbers.

    In JSON a column of texts; in a CSV one of which most fields are not numbers.
    """
    found = []
    for name in names:
        texts = [value for value in columns.values[name] if isinstance(value, str)]
        if columns.texts:
            known = [text for text in texts if label_of(text) is not None]
            words = 2 * sum(parse_number(text) is None for text in known) > len(known)
        else:
            words = 2 * len(texts) > columns.n
        different = len(set(texts)) if words else 0
        if different > max(FEW, columns.n // 2):
            raise bad(
                f"the column '{shown(name)}' has {different} different texts in {columns.n} rows, "
                "which name rows, not groups; choose the inputs",
                column=name,
            )
        if words:
            found.append(name)
    return found


def matrix(columns: SentColumns, names: Sequence[str], words: Sequence[str]) -> Any:
    """Return the inputs (n, d): float64, or objects if some of them are words."""
    if not words and not columns.texts:
        given = [columns.values[name] for name in names]
        if not any(isinstance(column, np.ndarray) for column in given):
            cells = list(chain.from_iterable(zip(*given, strict=True)))
            if set(map(type, cells)) <= {int, float}:
                X = np.array(cells, dtype=np.float64).reshape(columns.n, len(names))
                if np.isfinite(X).all():
                    return X  # else column by column, for the sentence
    out: Any = np.empty((columns.n, len(names)), dtype=object if words else np.float64)
    for j, name in enumerate(names):
        column = columns.values[name]
        if name not in words:
            out[:, j] = numbers(column, name, columns.texts)
            continue
        for i, value in enumerate(column):
            if value is not None and not isinstance(value, str):
                raise bad(
                    f"row {i + 1}: '{shown(name)}' is a column of words, and this is {value!r}",
                    row=i + 1,
                    column=name,
                )
            out[i, j] = label_of(value or "") or ""
    return out


def numbers(column: Any, name: str, texts: bool) -> Array:
    """Return the finite numbers of a column (n,)."""
    if isinstance(column, np.ndarray):
        return _finite(np.asarray(column, dtype=np.float64), name)
    if texts:
        given: list[Any] = [parse_number(str(value)) for value in column]
    else:
        given = list(column)
    kinds = set(map(type, given))
    if not kinds <= {int, float}:
        row = next(i for i, value in enumerate(given) if type(value) not in (int, float))
        value = column[row]
        told = "no value" if value is None else f"no number: {value!r}"
        raise bad(f"row {row + 1}: '{shown(name)}' has {shown(told, 60)}", row=row + 1, column=name)
    return _finite(np.array(given, dtype=np.float64), name)


def _finite(found: Array, name: str) -> Array:
    fine = np.isfinite(found)
    if not fine.all():
        row = int(fine.argmin()) + 1
        told = "no value" if np.isnan(found[row - 1]) else "a number that is not finite"
        raise bad(f"row {row}: '{shown(name)}' has {told}", row=row, column=name)
    return found


def labels(columns: SentColumns, target: str, partly: bool) -> list[str | None]:
    """Return the labels as text; None for an unlabelled row, where ``partly`` allows one."""
    from mercer.app.stream.rows import text_of

    found = []
    for i, value in enumerate(columns.values[target]):
        text = None if value is None or value != value else text_of(value)
        if columns.texts and text is not None:
            text = label_of(text)
        if text is None and not partly:
            raise bad(f"row {i + 1}: '{shown(target)}' has no label", row=i + 1, column=target)
        if text is not None and len(text) > 200:
            raise bad(f"row {i + 1}: a label of {len(text)} characters", row=i + 1, column=target)
        found.append(text)
    return found
