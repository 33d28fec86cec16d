"""Hints: what texts look like that were probably meant to be dates or numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
