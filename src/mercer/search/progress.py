"""Progress: what those who wait for a search are told, with the time that is left."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

from mercer.core.memory import spoken

Progress: TypeAlias = Callable[[dict[str, Any]], None]
GROWTH = 2.5  # power of the rows with which the time of an evaluation grows, between K and factor
LONG = 2.0  # seconds from which the time left is shown


class Teller:
    """Adds to each event the seconds of an evaluation on all rows, and those of the search left.

    Both are from the evaluations so far; "left" is there once it is known how many are
    ``expected`` on all rows. They come one after the other: in parallel they take less.
    """

    def __init__(self, tell: Progress, rows: int) -> None:
        self.tell, self.rows, self.expected = tell, rows, 0
        self.last = perf_counter()
        self.took: defaultdict[int, list[float]] = defaultdict(list)

    def __call__(self, event: dict[str, Any], rows: int) -> None:
        """Tell an event of a search on so many rows."""
        now = perf_counter()
        self.took[rows].append(now - self.last)
        self.last, most = now, max(self.took)
        seconds = median(self.took[most]) * (self.rows / most) ** GROWTH
        told = event | {"seconds": seconds}
        if self.expected:
            done = len(self.took.get(self.rows, []))
            told["left"] = max(self.expected - done, 1) * seconds
        self.tell(told)


def to_stderr(event: dict[str, Any]) -> None:
    """Write an event over the line of the last one."""
    line = "{stage}: {evaluations} evaluations, best {best:.4f}".format(**event)
    if event.get("left", 0.0) >= LONG:
        line += f", {event['seconds']:.1f} s each, about {spoken(event['left'])} left"
    sys.stderr.write(f"\r{line:<79}")
    sys.stderr.flush()
