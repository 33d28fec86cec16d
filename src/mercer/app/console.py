"""Printing to the terminal. Text from tables is literal: never markup, never control codes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from mercer.app.errors import require, shown
from mercer.wording import shape


def console(stderr: bool = False) -> Any:
    """Return a rich console that takes every text as it is."""
    rich = require("rich.console", "printing")
    return rich.Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print an ordinary line, without wrapping it."""
    console().print(shown(text, 2000), soft_wrap=True)


def say_block(title: str, text: str) -> None:
    """Print a title and lines that are not wrapped: a table wider than the terminal stays one."""
    console().print(_text(title, "bold"))
    for line in text.splitlines():
        say(line)
    console().print()


def print_table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under column names; columns after the first are aligned right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(names):
        table.add_column(_text(name), justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    console().print(_text(title, "bold"), table)


def print_pairs(title: str, rows: Sequence[tuple[str, Any]]) -> None:
    """Print labels and what belongs to them."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(max_width=34, overflow="fold", style="cyan")
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(_text(label), _text(shape(value)))
    console().print(_text(title, "bold"), table, "")


def print_summary(rows: Sequence[tuple[str, str, Any]]) -> None:
    """Print the rows of ``estimator.summary()``, section by section."""
    for section in dict.fromkeys(section for section, _, _ in rows):
        print_pairs(section, [(label, value) for name, label, value in rows if name == section])


def _text(text: str, style: str = "") -> Any:
    from rich.text import Text

    return Text(shown(text, 2000), style=style)


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
