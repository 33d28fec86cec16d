"""Dates as people write them: 2026-12-31, 31.12.2026, 12/31/26 2:30 PM; the order over a column."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.tables.data.frame import days

_DATE = re.compile(
    r"(\d{1,4})([./-])(\d{1,2})\2(\d{4}|\d{1,2})"
    r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*([AaPp][Mm])?)?"
)
_DIGITS = {(4, 1), (4, 2), (1, 4), (2, 4), (1, 2), (2, 2)}  # of the first number and the last
TURN = 69  # a year of two digits is 1969 to 2068, as in POSIX


class Written(NamedTuple):
    """A date as it stands: its three numbers in order, what separates them, seconds of the day."""

    first: int
    second: int
    third: int
    mark: str
    seconds: int

    @property
    def iso(self) -> bool:
        """Whether the year comes first."""
        return self.first > 999


def written(text: str) -> Written | None:
    """Return the parts of a date, None if a text is none."""
    found = _DATE.fullmatch(text)
    if found is None or (len(found[1]), len(found[4])) not in _DIGITS:
        return None
    hour, minute, second = (int(found[i] or 0) for i in (5, 6, 7))
    if found[8]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (found[8].lower() == "pm")
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = 3600 * hour + 60 * minute + second
    return Written(int(found[1]), int(found[3]), int(found[4]), found[2], seconds)


def parts_of(texts: Sequence[str | None]) -> dict[str, Written] | None:
    """Return the parts of each different text; None if one of them is no date."""
    found: dict[str, Written] = {}
    for text in dict.fromkeys(texts):
        if text is not None:
            parts = written(text)
            if parts is None:
                return None
            found[text] = parts
    return found


def order_of(parts: Sequence[Written]) -> str:
    """Return "day-first", "month-first", "" if both are possible, or "none" if neither is.

    Points are written with the day first alone; dates with the year first say nothing.

    Examples
    --------
    >>> [order_of([written(t)]) for t in ("31/12/2026", "12/31/2026", "3/4/2026", "3.4.2026")]
    ['day-first', 'month-first', '', 'day-first']
    """
    told = [p for p in parts if not p.iso]
    day = all(1 <= p.first <= 31 and 1 <= p.second <= 12 for p in told)
    month = all(1 <= p.second <= 31 and 1 <= p.first <= 12 for p in told)
    if not told or not (day or month):
        return "" if not told else "none"
    if day and month:
        return "day-first" if all(p.mark == "." for p in told) else ""
    return "day-first" if day else "month-first"


def as_days(texts: Sequence[str | None], parts: dict[str, Written], order: str) -> Array | None:
    """Return days since 1970 (n,), NaN where missing; None if one is no day of the calendar."""
    known = {}
    for text, p in parts.items():
        if p.iso:
            year, month, day = p.first, p.second, p.third
        else:
            day, month = (p.first, p.second) if order != "month-first" else (p.second, p.first)
            year = p.third
            if year < 100:
                year += 1900 if year >= TURN else 2000
        try:
            known[text] = days(datetime.date(year, month, day)) + p.seconds / 86400.0
        except ValueError:
            return None
    return np.array([np.nan if text is None else known[text] for text in texts])


def iso_days(texts: Sequence[str | None]) -> Array | None:
    """Return days since 1970 (n,) of dates in ISO form, NaN where missing; None if one is none."""
    out = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if text is None:
            continue
        try:
            out[i] = days(datetime.datetime.fromisoformat(text))
        except ValueError:
            return None
    return out
