"""Reading: what a file was taken for when it was read, which is shown, and what predict needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mercer.core.kinds import Plain
from mercer.core.record import Each, Fields, Later, Maybe
from mercer.core.words import shown

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ORDERS = ("day-first", "month-first")
PERCENT = ("share", "number")  # 12 % is 0.12, or 12
_DATES = {"day-first": "31/12/2026", "month-first": "12/31/2026"}
_ENCODINGS = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8 with a byte order mark"}


@dataclass(frozen=True)
class Reading:
    """What a file was taken for.

    Attributes
    ----------
    source : the file.
    form : "text", "parquet" or "xlsx".
    encoding, delimiter, decimal : of text; ``decimal`` is "." or ",".
    dates : "day-first" or "month-first", "" where no date is written so.
    percent : "share": 12 % is 0.12; "number": it is 12.
    sheet : of a spreadsheet.
    thousands : the characters that set thousands off.
    grouped, shares, money : the columns with separators of thousands, percent signs, currencies.
    months : the columns with dates whose months stand there by name.

    Examples
    --------
    >>> Reading("t.csv", delimiter=";", decimal=",", shares=("discount",)).words()
    "t.csv: UTF-8, separated by semicolons, decimal comma, 12 % is 0.12 (column 'discount')"
    """

    source: str
    form: str = "text"
    encoding: str = "utf-8"
    delimiter: str = ","
    decimal: str = "."
    dates: str = ""
    percent: str = "share"
    sheet: str = ""
    thousands: str = ""
    grouped: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    money: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    months: tuple[str, ...] = ()

    def taken(self) -> list[tuple[str, str]]:
        """Return what was taken, in words, and the option that says otherwise ("" for none)."""
        text = self.form == "text"
        found = []
        if text:
            separator = SEPARATORS.get(self.delimiter, f"'{self.delimiter}'")
            encoding = _ENCODINGS.get(self.encoding, self.encoding)
            found = [(encoding, "encoding"), (f"separated by {separator}", "delimiter")]
        elif self.form == "xlsx":
            found = [(f"the sheet '{shown(self.sheet, 40)}'", "sheet")]
        if text or self.decimal == ",":
            found.append((f"decimal {'comma' if self.decimal == ',' else 'point'}", "decimal"))
        if self.grouped:
            every = ", ".join(f"1{mark}234" for mark in self.thousands)
            found.append((f"{every} is 1234 ({_columns(self.grouped)})", "thousands"))
        if self.dates:
            order = self.dates.replace("-", " ")
            found.append((f"dates {order}, as {_DATES[self.dates]}", "dates"))
        if self.months:
            found.append(
                (f"months by name, 3 Jan 2024 is 2024-01-03 ({_columns(self.months)})", "")
            )
        if self.shares:
            value = "0.12" if self.percent == "share" else "12"
            found.append((f"12 % is {value} ({_columns(self.shares)})", "percent"))
        if self.money:
            found.append((f"currency signs left out ({_columns(self.money)})", ""))
        return found

    @property
    def options(self) -> str:
        """The options that say otherwise, for the end of a sentence."""
        names = [f"--{option}" for _, option in self.taken() if option]
        return ", ".join(names)

    def words(self) -> str:
        """Return what was taken, as one sentence."""
        found = ", ".join(what for what, _ in self.taken())
        return f"{self.source}: {found}" if found else f"{self.source}: {self.form}"

    @property
    def ordinary(self) -> bool:
        """Whether nothing had to be found out: UTF-8, commas, decimal points, ISO dates."""
        plain = Reading(self.source, self.form, percent=self.percent, sheet=self.sheet)
        return [w for w, _ in self.taken()] == [w for w, _ in plain.taken()]


def _columns(names: Iterable[str], limit: int = 4) -> str:
    every = [f"'{shown(name, 30)}'" for name in names]
    rest = f" and {len(every) - limit} more" if len(every) > limit else ""
    return f"column{'s' if len(every) > 1 else ''} {', '.join(every[:limit])}{rest}"


_TEXT = Plain(str)
READ = Later(
    Maybe(
        Fields(
            Reading,
            {
                **dict.fromkeys(("source", "form", "encoding", "delimiter"), _TEXT),
                **dict.fromkeys(("dates", "sheet", "thousands"), _TEXT),
                "decimal": Plain(str, among=(".", ",")),
                "percent": Plain(str, among=PERCENT),
                **dict.fromkeys(("grouped", "shares", "money", "notes"), Each(_TEXT, make=tuple)),
                "months": Later(Each(_TEXT, make=tuple), ()),
            },
        )
    )
)  # in a model file; those before it have none
