"""What a person says about a file, and what is found out about the rest: separator, encoding."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.core.words import shown
from mercer.tables.data.reading import ORDERS, PERCENT, SEPARATORS

THOUSANDS = ("none", "point", "comma", "space", "apostrophe")
_MARKS = {"none": "", "point": ".", "comma": ",", "space": " ", "apostrophe": "'"}


@dataclass(frozen=True)
class FileOptions:
    """What a person says about a file; None is found out."""

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: str | None = None
    percent: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        among: Any = {"decimal": (".", ","), "thousands": THOUSANDS, "dates": ORDERS,
                      "percent": PERCENT}  # fmt: skip
        for name, known in among.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}: {value!r}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"delimiter must be one character, not {self.delimiter!r}")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ValueError(
                    f"there is no encoding {self.encoding!r}; utf-8, cp1252, utf-16 are some"
                ) from None

    @property
    def group(self) -> str | None:
        """The only separator of thousands, "" for none, None for any."""
        return None if self.thousands is None else _MARKS[self.thousands]


_STARTS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_DOUBLE = re.compile(rb"[\xc2\xc3][\x80-\xbf]")  # UTF-8, of letters that the single bytes have too
_NONE = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that cp1252 does not have
LOOK = 4096  # bytes whose zeros tell UTF-16 without a mark


def begun_with(first: bytes) -> str | None:
    """Return the encoding that the first bytes of a text announce, None if they do not.

    Examples
    --------
    >>> begun_with("a,b".encode("utf-16")), begun_with("a,b".encode("utf-16-le")), begun_with(b"a")
    ('utf-16', 'utf-16-le', None)
    """
    for mark, name in _STARTS:
        if first.startswith(mark):
            return name
    even, odd = first[:LOOK:2].count(0), first[1:LOOK:2].count(0)
    half = len(first[:LOOK]) // 2
    if half and odd > 0.4 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if half and even > 0.4 * half and odd < 0.1 * half else None


def encoding_of(parts: Iterable[bytes], label: str) -> str:
    """Return the encoding of a text, of which the parts are given one after the other.

    UTF-8 and UTF-16 by their marks; else UTF-8 if all of it is; else cp1252, the bytes of western
    Europe. A text that is neither, or both, is refused.

    Examples
    --------
    >>> encoding_of(["Köln".encode()], "t"), encoding_of(["Köln".encode("cp1252")], "t")
    ('utf-8', 'cp1252')
    """
    decoder, wrong, both, lost, end = codecs.getincrementaldecoder("utf-8")(), False, False, -1, b""
    for i, part in enumerate(parts):
        if i == 0 and (known := begun_with(part)) is not None:
            return known
        if b"\0" in part:
            raise ValueError(f"{label} holds zero bytes: it is not text, or name it with encoding")
        if part.isascii() and not end:
            continue
        if not wrong:
            try:
                decoder.decode(part)
            except UnicodeDecodeError:
                wrong = True
        both = both or _DOUBLE.search(end + part) is not None
        found = _NONE.search(part)
        lost = part[found.start()] if found and lost < 0 else lost
        end = part[-1:] if part[-1:] >= b"\x80" else b""
    if not wrong:
        try:
            decoder.decode(b"", final=True)
            return "utf-8"
        except UnicodeDecodeError:
            wrong = True
    if both:
        raise ValueError(
            f"{label} is UTF-8 in some places and not in others, as text that was pasted together "
            "is: save it again as UTF-8, or name what it mostly is with --encoding (encoding=)"
        )
    if lost >= 0:
        raise ValueError(
            f"{label} is not UTF-8 text, nor cp1252 (byte {lost:#04x}): save it again as UTF-8 (in "
            'a spreadsheet: "CSV UTF-8"), or name it with --encoding (encoding=)'
        )
    return "cp1252"


_SEP = re.compile(r'"?sep=(.)"?')  # the first line that some spreadsheets write


def announced(line: str) -> str | None:
    """Return the separator that a line ``sep=;`` announces."""
    found = _SEP.fullmatch(line.strip("\r\n"))
    return None if found is None else found[1]


def separator_of(lines: Sequence[str], label: str, more: bool) -> str:
    """Return what separates the fields, by the first lines; ``more`` lines may follow.

    A separator divides all of them into the same number of fields, at least two.
    """
    header = next((line for line in lines if line.strip()), "")
    counts = {}
    for mark in SEPARATORS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=mark, skipinitialspace=True) if row]
        except csv.Error:  # said later, with its line
            rows = [header.split(mark)]
        widths = [len(row) for row in (rows[:-1] if more and len(rows) > 1 else rows)]
        if widths and widths[0] > 1:
            counts[mark] = widths
    even = [mark for mark, widths in counts.items() if len(set(widths)) == 1]
    if len(even) > 1:
        each = " or ".join(f"{SEPARATORS[m]} ({counts[m][0]} columns)" for m in even)
        raise ValueError(
            f"{label} may be separated by {each}: its header is '{shown(header.strip(), 60)}'; say "
            "which with --delimiter (delimiter=)"
        )
    if even:
        return even[0]
    return max(counts, key=lambda mark: counts[mark][0]) if counts else ","
