"""The report: one HTML file without scripts, every text from the table escaped."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from mercer.app.console import shape
from mercer.app.errors import require, shown
from mercer.app.figures import figures_of
from mercer.app.fitted import Fitted
from mercer.app.remarks import remarks
from mercer.app.results import quality_cells
from mercer.persist import replacing


def write_report(path: str, text: str) -> None:
    """Write the text of a report to ``path``, completely or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def render(fitted: Fitted, held_out: dict[str, dict[str, float]] | None = None) -> str:
    """Return the report as HTML; ``held_out`` holds figures of several methods by name."""
    jinja2 = require("jinja2", "the report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files("mercer.app")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    figures = fitted.loo_quality()
    sections: dict[str, list[tuple[str, str]]] = {}
    for section, label, value in fitted.model.summary().rows():
        sections.setdefault(shown(section), []).append((shown(label, 200), _words(value)))
    return str(
        template.render(
            style=style,
            style_digest=f"'sha256-{digest}'",
            target=shown(fitted.target, 80),
            source=shown(fitted.source, 120),
            rows=len(fitted.y),
            inputs=len(fitted.names),
            figures=figures,
            remarks=[shown(r, 600) for r in remarks(fitted)],
            pictures=figures_of(fitted),
            held_out={k: quality_cells(v) for k, v in (held_out or {}).items()},
            sections=sections,
            units=_units(fitted),
            version=version("mercer"),
        )
    )


def _words(value: Any) -> str:
    return shown(shape(value), 4000)


def _units(fitted: Fitted) -> list[tuple[str, str, str]]:
    """Return (column, subtracted, divided by) of what was standardised; empty if nothing was."""
    units = fitted.model.report_.get("standardize") or {}
    if not units.get("on"):
        return []
    columns = zip(fitted.names, units["x_shift"], units["x_scale"], strict=True)
    target = (fitted.target, units["y_shift"][0], units["y_scale"][0])
    return [(shown(name, 60), shape(a), shape(b)) for name, a, b in [*columns, target]]
