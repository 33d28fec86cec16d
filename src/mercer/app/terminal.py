"""The terminal: results, errors in a sentence, a bar; text is literal, never markup or codes."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from mercer.core.words import quoted, shape, shown

__all__ = ["AppError", "quoted", "require", "shown"]

EXTRAS = {
    "click": "cli", "rich": "cli", "matplotlib": "report", "jinja2": "report", "onnx": "onnx",
    "polars": "data", "fastexcel": "xlsx", "distributed": "dask", "pyarrow": "dask",
    "starlette": "serve", "uvicorn": "serve", "httptools": "serve", "msgspec": "serve",
}  # fmt: skip
Progress = Callable[[dict[str, Any]], None]  # told of every step, with "stage" and figures


class AppError(Exception):
    """A mistake that the user can mend; its text is one sentence for the terminal."""


def require(module: str, purpose: str) -> ModuleType:
    """Import an optional module, or say in a sentence which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise AppError(
            f"{purpose} needs {package}, which is not installed: "
            f'pip install "mercer[{EXTRAS[package]}]"'
        ) from None


def console(stderr: bool = False) -> Any:
    """Return a rich console that takes every text as it is."""
    rich = require("rich.console", "printing")
    return rich.Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: str, stderr: bool = False) -> None:
    """Print an ordinary line, without wrapping it."""
    console(stderr).print(shown(text, 2000), soft_wrap=True)


def say_block(title: str, text: str) -> None:
    """Print a title and lines that are not wrapped: a table wider than the terminal stays one."""
    console().print(_text(title, "bold"))
    for line in text.splitlines():
        say(line)
    console().print()


LINES = 20  # of a table on the terminal


def print_table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under column names; columns after the first are aligned right.

    Of a long table the first rows are printed.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(names):
        table.add_column(_text(name), justify="right" if i else "left", overflow="fold")
    for row in rows[:LINES]:
        table.add_row(*map(_text, row))
    console().print(_text(title, "bold"), table)
    if len(rows) > LINES:
        console().print(f"and {len(rows) - LINES} more; --json lists all of them\n")


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


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print plain values as strict JSON, at once; what is not a finite number becomes null."""
    from mercer.core.kinds import finite  # not for --help: it brings NumPy

    def plain(value: Any) -> Any:
        return finite(value.tolist()) if hasattr(value, "tolist") else str(value)

    text = json.dumps(finite(data), indent=indent, ensure_ascii=False, default=plain)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # whoever reads may be waiting for it


PATIENCE = 1.0  # seconds


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Yield a callback that moves a bar on stderr, of events with "stage", "step" and "steps".

    The bar appears after a second: what is done by then needs none. How long it will take, if that
    is "long", stays above it, and is said where there is no bar.
    """
    err = console(stderr=True)

    def expected(event: dict[str, Any]) -> None:
        if event.get("long") and not quiet:
            err.print(_text(str(event["stage"])), soft_wrap=True)

    if quiet or not err.is_terminal:
        yield expected
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}", markup=False)
    bar = Bar(SpinnerColumn(), words, BarColumn(), TimeElapsedColumn(), console=err, transient=True)
    task = bar.add_task("working", total=None)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()

    def update(event: dict[str, Any]) -> None:
        expected(event)
        text = str(event["stage"])
        if "evaluations" in event:
            text += f": {event['evaluations']} evaluations, best {event['best']:.2f}"
        elif event.get("left") is not None:
            text += f": {event['left']:.0f} s left"
        bar.update(task, description=text, total=event.get("steps"), completed=event.get("step"))

    try:
        yield update
    finally:
        timer.cancel()
        timer.join()  # a bar that begins just now is there to be ended
        bar.stop()
