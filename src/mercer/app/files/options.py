"""The options of commands that read a file: what it is to be taken for. Only click is imported."""

from __future__ import annotations

from typing import Any

import click
from click import option


def _one_character(_: Any, parameter: Any, value: str | None) -> str | None:
    if value is None:
        return None
    value = "\t" if value == "\\t" else value
    if len(value) != 1 or value in '"\r\n':
        raise click.BadParameter("give one character, or \\t for tabs")
    return value


DIALECT = (
    option(
        "--delimiter", callback=_one_character, metavar="CHARACTER",
        help="What separates the fields of a CSV; \\t for tabs.",
    ),
    option("--decimal", type=click.Choice([".", ","]), help="The decimal mark."),
    option(
        "--thousands", type=click.Choice(["none", "point", "comma", "space", "apostrophe"]),
        help="What may set thousands off.",
    ),
    option("--encoding", metavar="NAME", help="Of a CSV: utf-8, cp1252, utf-16, ..."),
    option(
        "--dates", type=click.Choice(["day-first", "month-first"]), help="Of dates as 3/4/2026."
    ),
    option(
        "--percent", type=click.Choice(["share", "number"]),
        help="12 % as 0.12 (share, the default) or as 12.",
    ),
    option("--sheet", metavar="NAME", help="Of a .xlsx. Default: the first."),
)  # fmt: skip
ASKED = ("delimiter", "decimal", "thousands", "encoding", "dates", "percent", "sheet")
