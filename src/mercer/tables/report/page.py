"""A page: chapters of text, cards, tables, SVG pictures; no scripts, all text literal."""

from __future__ import annotations

import base64
import hashlib
import io
import warnings
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from mercer.persist import replacing
from mercer.plots.style import GREY, INK, Display, optional


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
    made: str = ""  # when and how


def html(page: Page) -> str:
    """Return the page as one HTML document that loads nothing and runs nothing."""
    jinja2 = optional("jinja2", "the report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files("mercer.tables.report")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    return str(
        template.render(
            page=page, style=style, style_digest=f"'sha256-{digest}'", version=version("mercer")
        )
    )


def write_report(path: str, text: str) -> None:
    """Write the text of a report to ``path``, completely or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: readable, and any script has its letters
    "svg.hashsalt": "mercer",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def picture(*displays: Display, width: float = 6.4, height: float = 4.2) -> str:
    """Return the displays, side by side, as a ``data:`` address of an SVG; sizes in inches."""
    mpl, text = optional("matplotlib", "the report"), io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # only the measuring font lacks such letters; the reader's browser has its own
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figures = optional("matplotlib.figure", "the report")
        figure = figures.Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(1, len(displays), squeeze=False)[0]
        for ax, display in zip(panels, displays, strict=True):
            display.plot(ax)
        # without a ground of its own it is at home on a dark page, too
        plain: Any = {"transparent": True, "metadata": {"Date": None, "Creator": None}}
        figure.savefig(text, format="svg", **plain)
    svg = text.getvalue()
    code = base64.b64encode(svg[svg.index("<svg") :].encode()).decode()
    return f"data:image/svg+xml;base64,{code}"
