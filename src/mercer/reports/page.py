"""A page: chapters of text, cards, tables and pictures; HTML without scripts, all text escaped."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files

from mercer.persist import replacing


@dataclass(frozen=True)
class Card:
    """A figure in large print and what it means."""

    value: str
    words: str


@dataclass(frozen=True)
class Picture:
    """A picture: its source (an address with the data in it), its description and its caption."""

    title: str
    source: str
    alt: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Grid:
    """A table; the first ``words`` columns are text, the others numbers, aligned right."""

    caption: str
    head: list[str]
    rows: list[list[str]]
    words: int = 1
    marked: int | None = None  # the row that stands out


@dataclass(frozen=True)
class Facts:
    """Labels and what belongs to them."""

    title: str
    lines: list[tuple[str, str]]


@dataclass
class Chapter:
    """A part of the page under a heading; what is empty is left out."""

    title: str
    text: list[str] = field(default_factory=list)
    cards: list[Card] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)


@dataclass
class Page:
    """All of it; ``remarks`` are what a reader must not miss."""

    title: str
    subtitle: str
    chapters: list[Chapter]
    remarks: list[str] = field(default_factory=list)


def html(page: Page) -> str:
    """Return the page as one HTML document that loads nothing and runs nothing."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise ImportError(
            'the report needs jinja2, which is not installed: pip install "mercer[report]"'
        ) from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files("mercer.reports")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    return str(
        template.render(
            page=page,
            style=style,
            style_digest=f"'sha256-{digest}'",
            version=version("mercer"),
        )
    )


def write_report(path: str, text: str) -> None:
    """Write the text of a report to ``path``, completely or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
