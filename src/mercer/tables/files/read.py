"""read_table: a file as a table for ``mercer.fit``, and what it was taken for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.tables.data.frame import Frame, joined, objects
from mercer.tables.data.reading import Reading
from mercer.tables.files.dates import Written, as_days, iso_days, order_of, parts_of
from mercer.tables.files.dialect import FileOptions
from mercer.tables.files.numbers import parse_plain
from mercer.tables.files.table import FileTable, is_missing, read_file

KINDS = {"numeric": "number", "date": "date"} | dict.fromkeys(
    ("categorical", "text", "group"), "text"
)


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    dates: str | None = None,
    percent: str | None = None,
    sheet: str | None = None,
) -> Frame:
    r"""Return the table of a file as it left a spreadsheet: CSV of any dialect, .xlsx, parquet.

    Separator, decimal mark, encoding and the order of dates are found out from all of the file;
    what was taken is in ``frame.reading``, and what is open is asked for with a ValueError.

    Parameters
    ----------
    path : the file: ``.parquet``, ``.xlsx`` (needs ``mercer[xlsx]``), or text, gzipped or not.
    delimiter : between the fields of text.
    decimal : "." or ",", the decimal mark of the whole table.
    thousands : "none", "point", "comma", "space" or "apostrophe": what may set thousands off.
    encoding : of text, as Python calls it: "utf-8", "cp1252", "utf-16", ...
    dates : "day-first" or "month-first", of dates such as 3/4/2026.
    percent : "share" (12 % is 0.12, the default) or "number" (it is 12).
    sheet : the name of a sheet; default: the first one.

    Returns
    -------
    Frame
        a table for :func:`mercer.fit`: numbers, dates and texts by column. ``frame.reading`` says
        what was taken, and the model remembers it.

    Examples
    --------
    >>> import tempfile, mercer
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="cp1252") as file:
    ...     _ = file.write("Größe;Preis\n1,5;1.200,00 €\n2,5;950,50 €\n")
    ...     file.flush()
    ...     table = mercer.read_table(file.name)
    >>> table.columns["Preis"], table.reading.encoding, table.reading.decimal
    (array([1200. ,  950.5]), 'cp1252', ',')
    """
    asked = FileOptions(delimiter, decimal, thousands, encoding, dates, percent, sheet)
    data = read_file(os.fspath(path), asked)
    return frame_of(data, data.names)


@dataclass(frozen=True)
class _Open:
    """Dates whose order is not settled yet."""

    texts: list[str | None]
    parts: dict[str, Written]
    order: str


def frame_of(
    data: FileTable,
    names: Sequence[str],
    kinds: Mapping[str, str] | None = None,
    memory: Reading | None = None,
) -> Frame:
    """Return the named columns; ``kinds`` (by name, as a model has them) leave no choice.

    Without kinds a column of text is numbers if all of it is, else dates if all of it is, else
    text. Numbers with a few other texts among them are refused: which is the mistake? ``memory`` is
    what the table of the model was taken for: it settles what this one leaves open.
    """
    wanted = dict.fromkeys(names) if kinds is None else {n: KINDS[kinds[n]] for n in names}
    told: dict[str, list[str]] = {"grouped": [], "shares": [], "money": [], "thousands": []}
    every = {n: _column(data, n, wanted[n], told) for n in names}
    dated = {n: c for n, c in every.items() if isinstance(c, _Open)}
    order = _order(data, dated, memory)
    found = {n: _settled(data, n, c, order) if isinstance(c, _Open) else c
             for n, c in every.items()}  # fmt: skip
    notes = list(data.notes)
    bare = [] if memory is None else [n for n in memory.shares if n in names]
    bare = [n for n in bare if n not in told["shares"] and not np.isnan(found[n][0]).all()]
    if bare:
        notes.append(
            f"{data.path}: column '{shown(bare[0], 40)}' had percent signs in training and has "
            "none here: its numbers are taken as they are"
        )
    grouped, shares, money = (tuple(told[k]) for k in ("grouped", "shares", "money"))
    reading = replace(
        data.reading,
        dates=order,
        notes=tuple(notes),
        grouped=grouped,
        shares=shares,
        money=money,
        months=tuple(n for n, c in dated.items() if any(p.named for p in c.parts.values())),
        thousands="".join(sorted(set(told["thousands"]))),
    )
    return replace(joined(found, len(data.places)), reading=reading)


def _column(data: FileTable, name: str, wanted: str | None, told: dict[str, list[str]]) -> Any:
    given = data.columns[name]
    if isinstance(given, np.ndarray):
        if wanted == "text":
            return objects([None if v != v else _plain(v) for v in given.tolist()]), False
        if wanted == "date":
            raise ValueError(f"{data.path}: column '{shown(name)}' holds numbers, not dates")
        return data.numbers([name])[:, 0], False
    plain = parse_plain(given, data.reading.decimal) if wanted in (None, "number") else None
    if plain is not None:
        return plain, False
    if wanted == "number" or (wanted is None and _numeric(data, name)):
        numbers, groups, sign = data.values(name)
        told["grouped"] += [name] if groups else []
        told["thousands"] += sorted(groups)
        told["shares"] += [name] if "%" in sign else []
        told["money"] += [name] if sign and "%" not in sign else []
        return numbers, False
    texts = [None if is_missing(t) else t.strip() for t in given]
    if wanted != "text":
        known = iso_days(texts)
        if known is not None:
            return known, True
        parts = parts_of(texts)
        order = "none" if parts is None else order_of(list(parts.values()))
        if parts is not None and order != "none":
            return _Open(texts, parts, order)
        if parts is not None:
            raise ValueError(
                f"{data.path}: column '{shown(name)}' has dates with the day first and others with "
                "the month first, or days that no month has: write them as 2026-12-31"
            )
    if wanted == "date":
        raise ValueError(
            f"{data.path}: column '{shown(name)}' holds something that is not a date such as "
            "2026-12-31, 31.12.2026 or 31 Dec 2026"
        )
    return objects([None if t is None else _word(t) for t in texts]), False


def _order(data: FileTable, columns: dict[str, _Open], memory: Reading | None) -> str:
    """Return the order of the dates of a table: as asked, as a column shows, as remembered."""
    told = {n: c.order for n, c in columns.items() if c.order}
    if data.asked.dates is not None:
        return data.asked.dates if columns else ""
    if len(set(told.values())) > 1:
        a, b = (
            next(n for n, o in told.items() if o == order) for order in sorted(set(told.values()))
        )
        raise ValueError(
            f"{data.path}: the dates of column '{shown(a)}' have the day first, those of "
            f"'{shown(b)}' the month: write one of them as 2026-12-31"
        )
    if told:
        return next(iter(told.values()))
    years = all(p.iso for c in columns.values() for p in c.parts.values())
    if not columns or years:
        return ""
    if memory is not None and memory.dates:
        return memory.dates
    name, found = next(iter(columns.items()))
    example = next(t for t, p in found.parts.items() if not p.iso)
    raise ValueError(
        f"{data.path}: column '{shown(name)}' has dates such as {shown(example, 30)}, and no row "
        "shows whether the day or the month is first: say --dates day-first or --dates month-first "
        "(dates=)"
    )


def _settled(data: FileTable, name: str, column: _Open, order: str) -> tuple[Array, bool]:
    found = as_days(column.texts, column.parts, order)
    if found is None:
        first = "month" if order == "month-first" else "day"
        how = f" with the {first} first; --dates says otherwise"
        if all(p.iso for p in column.parts.values()):  # nothing to choose
            how = ", such as the 31st of February"
        raise ValueError(f"{data.path}: column '{shown(name)}' has dates that are none{how}")
    return found, True


def _numeric(data: FileTable, name: str) -> bool:
    """Whether the column is numbers; refuse one that mostly is."""
    count = total = 0
    memo: dict[Any, bool | None] = {}
    for text in data.columns[name]:
        if text not in memo:
            memo[text] = None if is_missing(text) else data.number(text) is not None
        if memo[text] is not None:
            total, count = total + 1, count + bool(memo[text])
    if count == total:
        return True
    if 2 * count >= total:
        data.values(name)  # says which line holds what
    return False


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)


def _word(text: str) -> str:
    return text.lower() if text.lower() in ("true", "false") else text
