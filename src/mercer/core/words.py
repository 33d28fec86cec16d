"""Text for readers: one line, without control codes, numbers with four digits."""

from __future__ import annotations

from typing import Any


def shown(text: str, width: int = 60) -> str:
    r"""Return ``text`` fit for one line: control characters spelled out, long text cut.

    Examples
    --------
    >>> shown("two" + chr(10) + "lines")
    'two\\nlines'
    """
    plain = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def shape(value: Any) -> str:
    """Return a value for readers: four significant digits for numbers.

    Examples
    --------
    >>> shape(1234.5678), shape(0.00012345), shape("as it is")
    ('1235', '0.0001234', 'as it is')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
