"""Dates as people write them: 2026-12-31, 31.12.2026, 12/31/26 2:30 PM, 31 Dec 2026; the order."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.tables.data.frame import days

_CLOCK = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*([AaPp][Mm])?)?"
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{4}|\d{1,2})" + _CLOCK)
_DAY, _NAME = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er)?", r"(?P<month>[^\W\d]{3,9})\.?"
_NAMED = [
    re.compile(form + _CLOCK, re.IGNORECASE)
    for form in (
        rf"{_DAY}\.?[ ./-]*{_NAME}[ ,./-]*(?P<year>\d{{4}}|\d{{2}})",  # 31-Dec-26, 31. Dez. 2026
        rf"{_NAME} *{_DAY}[ ,]+(?P<year>\d{{4}})",  # Dec 31, 2026
        rf"(?P<year>\d{{4}})[ ./-]*{_NAME}[ ./-]*{_DAY}",  # 2026-Dec-31
    )
]
_MONTHS = (  # English, German and French, without accents; no word is a month of two
    "jan january januar janner janv janvier",
    "feb february februar fev fevr fevrier",
    "mar march marz mrz mars",
    "apr april avr avril",
    "may mai",
    "jun june juni juin",
    "jul july juli juil juillet",
    "aug august aout",
    "sep sept september septembre",
    "oct october okt oktober octobre",
    "nov november novembre",
    "dec december dez dezember decembre",
)
MONTHS = {word: number for number, words in enumerate(_MONTHS, 1) for word in words.split()}
_DIGITS = {(4, 1), (4, 2), (1, 4), (2, 4), (1, 2), (2, 2)}  # of the first number and the last
TURN = 69  # a year of two digits is 1969 to 2068, as in POSIX


class Written(NamedTuple):
    """A date as it stands: its three numbers in order, what separates them, seconds of the day.

    One with the name of a month is year, month and day, and no mark.
    """

    first: int
    second: int
    third: int
    mark: str
    seconds: int

    @property
    def iso(self) -> bool:
        """Whether the year comes first."""
        return self.first > 999

    @property
    def named(self) -> bool:
        """Whether the month stood there by its name."""
        return not self.mark


def written(text: str) -> Written | None:
    """Return the parts of a date, None if a text is none.

    Examples
    --------
    >>> written("3/4/2026 2:30 PM")
    Written(first=3, second=4, third=2026, mark='/', seconds=52200)
    >>> written("Jan 3, 2024") == written("3. Januar 2024") == written("03-janv-24")
    True
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return _named(text)
    seconds = _seconds(*found.groups()[4:])
    if seconds is None or (len(found[1]), len(found[4])) not in _DIGITS:
        return None
    return Written(int(found[1]), int(found[3]), int(found[4]), found[2], seconds)


def _named(text: str) -> Written | None:
    for form in _NAMED:
        found = form.fullmatch(text)
        if found is None:
            continue
        letters = unicodedata.normalize("NFKD", found["month"].lower())
        month = MONTHS.get("".join(c for c in letters if not unicodedata.combining(c)))
        seconds = _seconds(*found.groups()[3:])
        year = int(found["year"])
        if month is not None and seconds is not None and (len(found["year"]) == 2 or year > 999):
            return Written(_year(year), month, int(found["day"]), "", seconds)
    return None


def _seconds(*clock: str | None) -> int | None:
    """Return the seconds of the day of hour, minute, second and AM or PM; None of no such time."""
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if half := clock[3]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half.lower() == "pm")
    return None if hour > 23 or minute > 59 or second > 59 else 3600 * hour + 60 * minute + second


def _year(number: int) -> int:
    return number if number > 99 else number + (1900 if number >= TURN else 2000)


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
            year = _year(p.third)
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
