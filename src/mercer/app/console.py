"""Printing to the terminal. Text from tables is literal: never markup, never control codes."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mercer.app.errors import require, shown

Progress = Callable[[dict[str, Any]], None]


def console(stderr: bool = False) -> Any:
    """Return a rich console that takes every text as it is."""
    rich = require("rich.console", "printing")
    return rich.Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def heading(text: str) -> None:
    """Print a line that begins a section."""
    from rich.text import Text

    console().print(Text(shown(text, 200), style="bold"))


def say(text: str) -> None:
    """Print an ordinary line, without wrapping it."""
    console().print(shown(text, 2000), soft_wrap=True)


def print_table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under column names; columns after the first are aligned right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(shown(title, 200), style="bold"), title_justify="left", box=box.SIMPLE_HEAD
    )
    for i, name in enumerate(names):
        justify: Any = "right" if i and len(names) > 2 else "left"
        table.add_column(Text(name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell, 200)) for cell in row))
    console().print(table)


def print_summary(rows: Sequence[tuple[str, str, Any]]) -> None:
    """Print the rows of ``estimator.summary()``: one table per section."""
    sections = dict.fromkeys(section for section, _, _ in rows)
    for section in sections:
        body = [(label, shape(value)) for name, label, value in rows if name == section]
        print_table(section, ["", ""], body)


def print_json(data: Any) -> None:
    """Print plain values as strict JSON; what is not a finite number becomes null."""
    sys.stdout.write(json.dumps(finite(data), indent=2, ensure_ascii=False) + "\n")


def finite(data: Any) -> Any:
    """Return ``data`` with NaN and infinities replaced by None, arrays by lists."""
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(k): finite(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(v) for v in data]
    return data if data is None or isinstance(data, (bool, int, str)) else str(data)


def shape(value: Any) -> str:
    """Return a value for readers: four significant digits for numbers.

    Examples
    --------
    >>> shape(1234.5678), shape(0.00012345), shape("as it is")
    ('1235', '0.0001234', 'as it is')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Yield a callback for ``Optimize(progress=...)`` that moves a bar on stderr."""
    err = console(stderr=True)
    if quiet or not err.is_terminal:
        yield lambda event: None
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}", markup=False)
    with Bar(
        SpinnerColumn(), words, BarColumn(), TimeElapsedColumn(), console=err, transient=True
    ) as bar:
        task = bar.add_task("reading", total=None)

        def update(event: dict[str, Any]) -> None:
            text = f"{event['stage']}: {event['evaluations']} evaluations, best {event['best']:.2f}"
            bar.update(task, description=text)

        yield update
