"""Numbers as spreadsheets write them, and which mark of a table is the decimal one.

A number may have a sign, or stand in parentheses if it is negative; separators of thousands, in
groups of three, a currency sign or a percent sign. The decimal mark is one of the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Array

MISSING = frozenset(
    ["", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "#div/0!", "#value!", "#ref!",
     "#name?", "#num!", "#null!"]
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MONEY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|Fr\.)"
_BLANKS = " \u00a0\u202f\u2009"
_WHOLE = re.compile(
    rf"(?P<open>\()?(?P<sign>[+\-\u2212])?(?P<before>{_MONEY})?[{_BLANKS}]*(?P<minus>[+\-\u2212])?"
    rf"(?P<body>[0-9.,'\u2019{_BLANKS}]*[0-9.,](?:[eE][+-]?[0-9]+)?)"
    rf"[{_BLANKS}]*(?P<after>{_MONEY}|%)?(?P<close>\))?"
)
_GROUPS = {mark: re.compile(rf"[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+")
           for mark in (",", ".", "'", "\u2019", *_BLANKS)}  # fmt: skip


def parse_number(text: str) -> float | None:
    """Return the number (NaN where missing) of plain text, None if it is not one.

    Examples
    --------
    >>> parse_number(" 1.5e3"), parse_number("NA"), parse_number("1,5")
    (1500.0, nan, None)
    """
    plain = text.strip()
    if _NUMBER.fullmatch(plain):
        return float(plain)
    return float("nan") if plain.lower() in MISSING else None


class Number(NamedTuple):
    """A number as it was written: its value, what set thousands off, its percent or money sign."""

    value: float
    group: str = ""
    sign: str = ""


def read_number(text: str, decimal: str = ".", thousands: str | None = None) -> Number | None:
    """Return the number that a text is, None if it is none; a missing value is NaN.

    ``thousands`` is the only separator that is taken, "" for none; None takes any of them.

    Examples
    --------
    >>> read_number("1.234,5 €", ",")
    Number(value=1234.5, group='.', sign='€')
    >>> read_number("(12)").value, read_number("12 %"), read_number("1,5")
    (-12.0, Number(value=12.0, group='', sign='%'), None)
    """
    plain = text.strip()
    if _NUMBER.fullmatch(plain) and (decimal == "." or "." not in plain):
        return Number(float(plain))
    if plain.lower() in MISSING:
        return Number(float("nan"))
    found = _WHOLE.fullmatch(plain)
    if found is None or (found["open"] is None) != (found["close"] is None):
        return None
    signs = [s for s in (found["sign"], found["minus"]) if s] + ["-"] * (found["open"] is not None)
    money = [s for s in (found["before"], found["after"]) if s]
    if len(signs) > 1 or len(money) > 1:
        return None
    whole, dot, rest = found["body"].partition(decimal)
    group = next((mark for mark in _GROUPS if mark != decimal and mark in whole), "")
    if group:
        if (thousands is not None and group != thousands) or not _GROUPS[group].fullmatch(whole):
            return None
        whole = whole.replace(group, "")
    body = f"{whole}.{rest}" if dot else whole
    if not _NUMBER.fullmatch(body):
        return None
    value = float(body)
    return Number(-value if signs and signs[0] in "-\u2212" else value, group, "".join(money))


class TextColumn(Sequence[str]):
    """A column of text that a quick reader holds; it is a list of texts to everybody else."""

    def __init__(self, series: Any) -> None:
        self.series = series

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, i: Any) -> Any:
        return self.series[i] if isinstance(i, (int, np.integer)) else self.series[i].to_list()

    def __iter__(self) -> Any:
        return iter(self.series.to_list())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none


def parse_plain(texts: Sequence[str], decimal: str = ".") -> Array | None:
    """Return the numbers (n,) of texts that all are plain ones, at once; None: look closer.

    Plain is a number with a sign, digits, the decimal mark and an exponent. Of a list, gaps need
    a closer look, too.

    Examples
    --------
    >>> parse_plain(["1.5", " 2e3 "]), parse_plain(["1_0"]), parse_plain(["1,5", "2"], ",")
    (array([1.5e+00, 2.0e+03]), None, array([1.5, 2. ]))
    """
    if isinstance(texts, TextColumn):
        return _plain_series(texts.series, decimal)
    every = "".join(texts)
    if "_" in every or not every.isascii() or (decimal == "," and "." in every):
        return None
    if decimal == ",":
        texts = [text.replace(",", ".") for text in texts]
    try:
        numbers = np.array(list(map(float, texts)))
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _plain_series(series: Any, decimal: str) -> Array | None:
    import polars

    text = series.str.strip_chars()
    if decimal == ",":
        if text.str.contains(".", literal=True).any():
            return None
        text = text.str.replace(",", ".", literal=True)
    numbers = text.cast(polars.Float64, strict=False)
    fine = numbers.is_finite().fill_null(False)
    if not fine.all():
        if not text.filter(~fine).str.to_lowercase().is_in(list(MISSING)).all():
            return None
        numbers = polars.select(polars.when(fine).then(numbers).otherwise(float("nan"))).to_series()
    return np.asarray(numbers.to_numpy(), dtype=np.float64)


_EITHER = re.compile(rf"[({_BLANKS}+\-\u2212]*(?:{_MONEY})?[{_BLANKS}+\-]*([0-9.,]*[0-9][0-9.,]*)"
                     rf"(?:[eE][+-]?[0-9]+)?[{_BLANKS}]*(?:{_MONEY}|%)?\)?")  # fmt: skip
MOSTLY = 0.9  # of the texts of a column that says which mark is the decimal one


class Marks(NamedTuple):
    """How the numbers of a column are written: an example that shows which mark is decimal."""

    point: str = ""  # as 1.5 or 1,234.5
    comma: str = ""  # as 1,5 or 1.234,5
    unclear: str = ""  # as 1,234, or 1.234


def marks_of(texts: Iterable[str]) -> Marks:
    """Return what the texts of a column say about the decimal mark.

    Examples
    --------
    >>> marks_of(["1.234,50", "12"]), marks_of(["1,234"]), marks_of(["31.12.2026"])
    (Marks(point='', comma='1.234,50', unclear=''), Marks(point='', comma='', unclear='1,234'), \
Marks(point='', comma='', unclear=''))
    """
    known = [t.strip() for t in texts if t.strip().lower() not in MISSING]
    found = [m for m in map(_EITHER.fullmatch, known) if m]
    if len(found) < MOSTLY * len(known) or not known:
        return Marks()
    examples: dict[str, str] = {}
    odd = 0
    for match in found:
        verdict = _mark(match[1])
        odd += verdict == "none"
        if verdict and verdict != "none":
            examples.setdefault(verdict, match[0])
    return Marks() if odd > (1.0 - MOSTLY) * len(known) else Marks(**examples)


def _mark(body: str) -> str:
    """Return "point", "comma", "unclear" or, of whole numbers, ""; "none" if it is no number."""
    points, commas = body.count("."), body.count(",")
    if not points and not commas:
        return ""
    if points and commas:
        last = "point" if body.rfind(".") > body.rfind(",") else "comma"
        whole = body[: max(body.rfind("."), body.rfind(","))]
        inner = "," if last == "point" else "."
        once = (points if last == "point" else commas) == 1
        return last if once and _GROUPS[inner].fullmatch(whole) else "none"
    mark, other = (".", "comma") if points else (",", "point")
    own = "point" if points else "comma"
    if points + commas > 1:
        return other if _GROUPS[mark].fullmatch(body) else "none"
    whole, _, rest = body.partition(mark)
    return "unclear" if len(rest) == 3 and re.fullmatch("[1-9][0-9]{0,2}", whole) else own
