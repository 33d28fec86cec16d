"""Labels of a stream as text: what counts as one, and as the same one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mercer.app.csvfile import MISSING

_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


def text_of(value: object) -> str:
    """Return a label as text; 1.0 is 1, since a column with gaps is often written so.

    Examples
    --------
    >>> text_of(1.0), text_of(" 1.0"), text_of("1.50"), text_of("a ")
    ('1', '1', '1.50', 'a')
    """
    text = (f"{value:.17g}" if isinstance(value, float) else str(value)).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def label_of(value: object) -> str | None:
    """Return the label in a cell of a table, None if it is empty or a word for missing."""
    text = text_of(value)
    return None if text.lower() in MISSING else text


def values_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the class of each text: whole numbers if all of them are, else the texts.

    Examples
    --------
    >>> values_of(["0", "1"]), values_of(["0", "x"])
    ({'0': 0, '1': 1}, {'0': '0', 'x': 'x'})
    """
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        return {text: text for text in texts}
    same = [str(number) for number in whole] == list(texts)
    return dict(zip(texts, whole if same else texts, strict=True))
