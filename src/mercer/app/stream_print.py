"""What a stream says while it is learned: a line for each batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from mercer.app.console import finite
from mercer.app.errors import shown

Event = dict[str, Any]
COLUMNS = {
    "batch": 7, "rows": 10, "error": 10, "so far": 10, "log loss": 10, "so far ": 10, "points": 9
}  # fmt: skip
HEADER = "".join(f"{name.strip():>{width}}" for name, width in COLUMNS.items())


def printer(quiet: bool, as_json: bool) -> Callable[[Event], None]:
    """Return what prints an event: nothing, a line of JSON, or text."""
    if quiet:
        return lambda event: None
    return _json if as_json else Text()


def _json(event: Event) -> None:
    """One line of JSON, at once: whoever reads may be waiting for it."""
    sys.stdout.write(json.dumps(finite(event), ensure_ascii=False) + "\n")
    sys.stdout.flush()


class Text:
    """Lines for a reader, under a header."""

    def __init__(self) -> None:
        self._headed = False
        self._noted: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Print one event, and each note when it comes for the first time."""
        match event["event"]:
            case "resume":
                text = f"going on after {event['rows']} rows that {event['model']} has learned"
            case "batch":
                if not self._headed:
                    sys.stdout.write(HEADER + "\n")
                self._headed, text = True, _line(event)
            case _:
                text = _closing(event)
        notes = [note for note in event.get("notes", []) if note not in self._noted]
        self._noted.update(notes)
        for each in [text, *(f"note: {note}" for note in notes)]:
            sys.stdout.write(shown(each, 2000) + "\n")
        sys.stdout.flush()


def _closing(event: Event) -> str:
    left = f", {event['left_out']} left out for missing values" if event["left_out"] else ""
    text = f"{event['rows']} rows in {event['batches']} batches{left}"
    if event["error"] is not None:
        text += f"; error before learning {event['error']:.4f}"
    if event["log_loss"] is not None:
        text += f", log loss {event['log_loss']:.4f}"
    return text + (f"; model written to {event['model']}" if event["model"] else "")


def _line(event: Event) -> str:
    """One batch under the header."""
    means = (event[k] for k in ("error", "mean_error", "log_loss", "mean_log_loss"))
    numbers = ["-" if mean is None else f"{mean:.4f}" for mean in means]
    cells = [str(event["batch"]), str(event["rows"]), *numbers, str(event["points"])]
    return "".join(f"{c:>{width}}" for c, width in zip(cells, COLUMNS.values(), strict=True))
