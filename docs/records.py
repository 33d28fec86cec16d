"""The tables of model-files.md: what the state of each estimator consists of, from its record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mercer
from mercer.core.kinds import Record
from mercer.core.record import Fields


def write_tables(path: Path) -> None:
    """Write the tables to ``path``, which model-files.md includes; an equal file is left alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = tables()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def tables() -> str:
    """Return a table for each record in Markdown; estimators of equal records share one."""
    named: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in sorted(mercer.__all__):
        record = getattr(getattr(mercer, name), "_record", None)
        if record is not None:
            named.setdefault(tuple(_rows(record())), []).append(name)
    return "\n".join(_table(names, rows) for rows, names in named.items())


def _rows(record: Record, head: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each entry, those inside an entry after it."""
    for name, kind in record.items():
        inside = kind.entries()
        if not (inside and isinstance(kind, Fields)):  # its own row would say nothing
            yield f"{head}{name}", kind.told()
        yield from _rows(inside, f"{head}{name}.")


def _table(names: list[str], rows: tuple[tuple[str, str], ...]) -> str:
    title = ", ".join(f"`{name}`" for name in names)
    lines = [f"| `{entry}` | {content} |" for entry, content in rows]
    return "\n".join([f"### {title}\n", "| entry | content |", "|---|---|", *lines, ""])
