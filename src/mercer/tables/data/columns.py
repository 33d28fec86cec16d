"""Columns: what kind each one is, and the rule by which it becomes numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mercer.tables.data.frame import Frame

_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}\b.*|\d{1,2}[ .-]+[^\W\d]{3,9}[ ,.-]+\d{2,4}")
_NUMBER = re.compile(r"[^\w,.]*[+-]?[^\w,.]*\d[\d.,' \u00a0\u2019]*[^\w,.]*")


def hint(texts: Iterable[str]) -> str:
    """Return what to do if all texts look like dates or like numbers; else nothing.

    Examples
    --------
    >>> hint(["31.12.2025", "1.1.2026"])
    'they look like dates, which are written 2026-01-31'
    >>> hint(["1,5", "$20,125.70", "12 %"])
    'they look like numbers, which are written with a decimal point alone: 1234.5'
    >>> hint(["1,5", "north"])
    ''
    """
    every = [text.strip() for text in texts]
    if not every:
        return ""
    if all(_DATE.fullmatch(text) for text in every):
        return "they look like dates, which are written 2026-01-31"
    if all(_NUMBER.fullmatch(text) for text in every):
        return "they look like numbers, which are written with a decimal point alone: 1234.5"
    return ""


GROUP = "left out together; a machine may give each value an effect, of which new ones are unsure"
FEW = 50  # different texts at most, for categories of single words
WORDS = 3.0  # words per entry, on average, from which a column is text
_ID = re.compile(
    r"(.*[_ .-])?(id|idx|index|uuid|guid|key|row|rownum|unnamed:? ?\d*)", re.IGNORECASE
)


def names_rows(name: str) -> bool:
    """Whether a column of that name tells rows, or what they are about, from each other.

    Examples
    --------
    >>> names_rows("patient_id"), names_rows("paid")
    (True, False)
    """
    return _ID.fullmatch(name) is not None


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its kind and what is done to it, in a sentence.

    ``kind`` is "numeric", "categorical", "text", "date", "group" or "ignored". Of numbers and dates
    (days since 1970) there are the lowest, the middle (the median) and the highest value that were
    seen, of categories the ``levels``, most frequent first.
    """

    name: str
    kind: str
    rule: str
    low: float | None = None
    middle: float | None = None
    high: float | None = None
    levels: list[str] = field(default_factory=list)

    @property
    def used(self) -> bool:
        """Whether the machine sees it."""
        return self.kind != "ignored"


def infer_columns(
    frame: Frame, names: Sequence[str] | None = None, chosen: bool = False
) -> list[Column]:
    """Return the kind and the rule of each of the named columns (default: all).

    ``chosen`` says that a person named them: then only constant columns are left out.

    Examples
    --------
    >>> from mercer.tables import as_frame
    >>> frame = as_frame({"id": [3, 1, 2], "town": ["Ulm", "Bonn", "Ulm"], "size": [1.5, None, 2]})
    >>> [(c.name, c.kind) for c in infer_columns(frame)]
    [('id', 'ignored'), ('town', 'categorical'), ('size', 'numeric')]
    """
    every = frame.names if names is None else names
    return [_with_values(_column(frame, name, chosen), frame) for name in every]


def _with_values(column: Column, frame: Frame) -> Column:
    """Return the column with the values that were seen in it."""
    known = frame.columns[column.name][~frame.missing(column.name)]
    if column.kind in ("numeric", "date"):
        low, middle, high = (float(v) for v in np.quantile(known, [0.0, 0.5, 1.0]))
        return replace(column, low=low, middle=middle, high=high)
    if column.kind == "categorical":
        counts = Counter(known.tolist())
        return replace(column, levels=sorted(counts, key=lambda text: (-counts[text], text)))
    return column


def _column(frame: Frame, name: str, chosen: bool) -> Column:
    values, absent = frame.columns[name], frame.missing(name)
    kind, lost = frame.kind(name), int(absent.sum())
    known = values[~absent] if lost else values
    if not len(known):
        return Column(name, "ignored", "left out: it has no values")
    if not lost and bool(np.all(known == known[0])):
        return Column(name, "ignored", "left out: every row has the same value")
    gaps = f"; {lost} missing: the median, and an indicator" if lost else ""
    if kind == "number":
        whole = bool(np.all(known == np.floor(known)))
        if not chosen and whole and _ID.fullmatch(name) and len(set(known.tolist())) == frame.n:
            return Column(name, "ignored", "left out: it numbers the rows")
        return Column(name, "numeric", f"standardised{gaps}")
    if kind == "date":
        rule = "the day, and its place in the year, the week and the day where they vary"
        return Column(name, "date", f"{rule}{gaps}")
    return _text(name, Counter(known.tolist()), lost, chosen)


def _text(name: str, counts: Counter[str], lost: int, chosen: bool) -> Column:
    different, rows = len(counts), counts.total()
    words, advice = sum(n * len(v.split()) for v, n in counts.items()) / rows, hint(counts)
    advice = f"; {advice}" if advice else ""
    if words >= WORDS and different > min(FEW, rows // 4):
        rule = "words weighted by tf-idf, then their main directions"
        rule += f"; {lost} missing: no words" if lost else ""
        return Column(name, "text", rule + advice)
    if different > max(FEW, 0.5 * rows) and not chosen:
        rule = f"left out: {different} different texts in {rows} rows name rows, not groups"
        return Column(name, "ignored", rule + advice)
    if different == rows and rows > 10 and not chosen:
        return Column(name, "ignored", "left out: every row has a text of its own" + advice)
    rule = f"an indicator of each value, {different} in all; rare and new ones have none"
    rule += f"; {lost} missing: a value of their own" if lost else ""
    return Column(name, "categorical", rule + advice)
