"""Clock: how much of the time budget is left, and searches that stop when their share is spent.

A line on stderr while a table is being fitted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Progress = Callable[[dict[str, Any]], None]


class Clock:
    """A budget of seconds, begun now.

    Attributes
    ----------
    budget : seconds in all.
    spent_out : whether the last watched search was stopped by the clock, not by a person.
    """

    def __init__(self, budget: float, progress: Progress | None = None) -> None:
        self.budget = budget
        self.progress = progress
        self.began = time.monotonic()
        self.spent_out = False
        self.evaluations = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """Seconds left, at least zero."""
        return max(0.0, self.budget - self.elapsed)

    def tell(self, **event: Any) -> None:
        """Report an event, if anyone listens."""
        if self.progress is not None:
            self.progress(event)

    def watch(self, seconds: float, reserve: float = 0.0, **event: Any) -> Progress:
        """Return a progress function that ends a search in time.

        A search keeps its best point at an interrupt; this is how it is told to stop. ``reserve``
        evaluations, at the pace so far, are to fit into the seconds after it: what follows a
        search cannot be interrupted.
        """
        began = time.monotonic()
        self.spent_out, self.evaluations = False, 0

        def advance(found: dict[str, Any]) -> None:
            self.evaluations += 1
            self.tell(**{**event, **found, "stage": event.get("stage", found.get("stage"))})
            spent = time.monotonic() - began
            if spent * (1.0 + reserve / self.evaluations) > seconds:
                self.spent_out = True
                raise KeyboardInterrupt

        return advance


def reporter(progress: bool | Progress) -> Progress | None:
    """Return the function that is told of each step, or None."""
    if callable(progress):
        return progress
    return _to_stderr if progress else None


def _to_stderr(event: dict[str, Any]) -> None:
    count = f", {event['evaluations']} evaluations" if "evaluations" in event else ""
    sys.stderr.write(f"\r\033[K{event.get('stage', '')}{count}")
    sys.stderr.flush()
