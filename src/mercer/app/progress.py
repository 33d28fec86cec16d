"""A bar on stderr while hyperparameters are searched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mercer.app.console import console
from mercer.app.fitted import Progress


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
        task = bar.add_task("fitting", total=None)

        def update(event: dict[str, Any]) -> None:
            text = str(event["stage"])
            if "evaluations" in event:
                text += f": {event['evaluations']} evaluations, best {event['best']:.2f}"
            bar.update(
                task, description=text, total=event.get("steps"), completed=event.get("step")
            )

        yield update
