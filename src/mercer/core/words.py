"""Text for readers: one line, without control codes, numbers with four digits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
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
    """Return a value for readers: four significant digits for numbers, large ones in full.

    Examples
    --------
    >>> shape(1234.5678), shape(0.00012345), shape(13940.2), shape("as it is")
    ('1235', '0.0001234', '13,940', 'as it is')
    """
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question after the nearest known word, whatever its case; nothing if none is near.

    Examples
    --------
    >>> did_you_mean("Prise", ["price", "area"]), did_you_mean("zzz", ["price", "area"])
    ("did you mean 'price'?", '')
    """
    by_lower = {other.lower(): other for other in reversed(list(known))}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean '{shown(by_lower[close[0]], 40)}'?" if close else ""


def there_is_no(what: str, word: Any, known: Iterable[str]) -> str:
    """Return the sentences for a name that nothing has: the nearest one, and all of them.

    Examples
    --------
    >>> there_is_no("kernel", "rbff", ["linear", "rbf"])
    "there is no kernel 'rbff'; did you mean 'rbf'? Known are: linear, rbf."
    """
    every = list(known)
    hint = did_you_mean(word, every) if isinstance(word, str) else ""
    rest = f"; {hint}" if hint else "."
    return f"there is no {what} {word!r}{rest} Known are: {', '.join(every) or 'none'}."


def quoted(names: Iterable[str], limit: int = 8) -> str:
    """Return the names in quotes, separated by commas, the end of a long list left out."""
    every = [f"'{shown(name, 40)}'" for name in names]
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def rejoined(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names, with those put together that were split at a comma of a known one.

    Examples
    --------
    >>> rejoined(["linear", "Gaussian process", "rough"], ["linear", "Gaussian process, rough"])
    ['linear', 'Gaussian process, rough']
    """
    every = set(known)
    found: list[str] = []
    for name in names:
        whole = f"{found[-1]}, {name}" if found else name
        if name not in every and whole in every:
            found[-1] = whole
        else:
            found.append(name)
    return found
