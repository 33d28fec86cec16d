"""The process of one job: ``python -m mercer.serve.jobs.fitting FOLDER`` fits the table in FOLDER.

Every stage is a line of JSON on standard output. An interrupt keeps the best machine so far, as
``mercer fit`` does. A process of its own, since a search would take the processor from predictions.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec

import mercer
from mercer.app.terminal import AppError
from mercer.core.kinds import finite
from mercer.serve.messages import Cell
from mercer.serve.models.learner import plain
from mercer.tables.files import FileTable, frame_of

PAUSE = 0.1  # seconds from one line of progress to the next, at least


class FitTask(msgspec.Struct):
    """What a job is to do, with its table."""

    columns: dict[str, list[Cell]]
    texts: bool  # fields of a CSV
    target: str
    kind: str | None
    features: list[str] | None
    time_budget: float
    seed: int
    kinds: dict[str, str] | None = None  # of the columns, where a person has corrected them


def say(event: dict[str, Any]) -> None:
    """Write one line."""
    known = (str, int, float, bool, type(None))
    kept = {k: v for k, v in event.items() if isinstance(v, known)}
    sys.stdout.buffer.write(msgspec.json.encode(finite(kept)) + b"\n")
    sys.stdout.flush()


class Progress:
    """Tells of the stages of a search, a few times a second."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        now = time.monotonic()
        if "expected" in event:  # how long it will take
            say({"event": "progress", **event, "announced": event["stage"]})
        elif now - self._last >= PAUSE:
            self._last = now
            say({"event": "progress", **event})


def run(folder: Path) -> int:
    """Fit the table, write the model and, where it can be made, the report."""
    task = msgspec.msgpack.decode((folder / "task").read_bytes(), type=FitTask)
    names = list(task.columns)
    table: Any = {name: plain(column) for name, column in task.columns.items()}
    options: dict[str, Any] = {
        "features": task.features, "kind": task.kind, "time_budget": task.time_budget,
        "seed": task.seed,
    }  # fmt: skip
    try:
        if task.texts:
            n = len(task.columns[names[0]])
            places = [f"row {i + 1}" for i in range(n)]
            texts: dict[str, Any] = {**task.columns}
            table = frame_of(FileTable("the table", texts, places), names, task.kinds)
        model = mercer.fit(table, task.target, progress=Progress(), **options)
        mercer.save(model, folder / "model.mercer")
    except KeyboardInterrupt:
        say({"event": "failed", "message": "stopped before any machine was fitted"})
        return 1
    except (AppError, ValueError, TypeError, ArithmeticError, MemoryError, OSError) as error:
        say({"event": "failed", "message": str(error)})
        return 1
    with contextlib.suppress(KeyboardInterrupt):
        try:
            say({"event": "progress", "stage": "writing the report"})
            model.report(folder / "report.html")
        except (ImportError, ValueError, ArithmeticError, OSError) as error:
            say({"event": "note", "message": f"no report: {error}"})
    say({"event": "done", "stopped": bool(model.interrupted_)})
    return 0


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(5)
    warnings.simplefilter("ignore")  # what matters is in the notes of the model
    sys.exit(run(Path(sys.argv[1])))
