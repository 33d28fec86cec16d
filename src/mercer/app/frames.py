"""From a table as it was read to a frame: text becomes numbers, dates and truth values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.app.csvfile import MISSING, parse_number
from mercer.app.errors import AppError, shown
from mercer.app.tables import Table
from mercer.tables.frame import Frame, days

KINDS = {"numeric": "number", "date": "date", "categorical": "text", "text": "text"}


def frame_of(data: Table, names: Sequence[str], kinds: Mapping[str, str] | None = None) -> Frame:
    """Return the named columns; ``kinds`` (by name, as a model has them) leave no choice.

    Without kinds a column of text is numbers if all of it is, else dates in ISO form if all of it
    is, else text. Numbers with a few other texts among them are refused: which is the mistake?
    """
    columns: dict[str, Any] = {}
    dates = set()
    for name in names:
        wanted = None if kinds is None else KINDS[kinds[name]]
        columns[name], date = _column(data, name, wanted)
        if date:
            dates.add(name)
    return Frame(columns, frozenset(dates), len(data.places))


def _column(data: Table, name: str, wanted: str | None) -> tuple[Any, bool]:
    given = data.columns[name]
    if isinstance(given, np.ndarray):
        if wanted == "text":
            return _objects([None if v != v else _word(f"{v:g}") for v in given]), False
        if wanted == "date":
            raise AppError(f"{data.path}: column '{shown(name)}' holds numbers, not dates")
        return data.numbers([name])[:, 0], False
    texts = [None if t.strip().lower() in MISSING else t.strip() for t in given]
    if wanted == "number" or (wanted is None and _numeric(data, name, texts)):
        return data.numbers([name])[:, 0], False
    found = None if wanted == "text" else _dates(texts)
    if found is not None:
        return found, True
    if wanted == "date":
        raise AppError(
            f"{data.path}: column '{shown(name)}' holds something that is not a date such as "
            "2026-01-31"
        )
    return _objects([None if t is None else _word(t) for t in texts]), False


def _numeric(data: Table, name: str, texts: list[str | None]) -> bool:
    """Whether the column is numbers; refuse one that mostly is."""
    known = [t for t in texts if t is not None]
    count = sum(parse_number(t) is not None for t in known)
    if not known or count == len(known):
        return True
    if 2 * count >= len(known):
        data.numbers([name])  # says which line holds what
    return False


def _dates(texts: list[str | None]) -> Any:
    """Return days since 1970 (n,), NaN where missing; None if some text is no date."""
    out = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if text is None:
            continue
        try:
            out[i] = days(datetime.datetime.fromisoformat(text))
        except ValueError:
            return None
    return out


def _word(text: str) -> str:
    return text.lower() if text.lower() in ("true", "false") else text


def _objects(values: list[Any]) -> Any:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
