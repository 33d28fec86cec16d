"""A bar on stderr for work that takes longer than a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from mercer.app.console import console
from mercer.app.fitted import Progress

PATIENCE = 1.0  # seconds


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Yield a callback that moves a bar on stderr, of events with "stage", "step" and "steps".

    The bar appears after a second: what is done by then needs none.
    """
    err = console(stderr=True)
    if quiet or not err.is_terminal:
        yield lambda event: None
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
        text = str(event["stage"])
        if "evaluations" in event:
            text += f": {event['evaluations']} evaluations, best {event['best']:.2f}"
        bar.update(task, description=text, total=event.get("steps"), completed=event.get("step"))

    try:
        yield update
    finally:
        timer.cancel()
        timer.join()  # a bar that begins just now is there to be ended
        bar.stop()
