"""Telling those who wait how far a sampler is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

Tell = Callable[[str, int, int], None]  # stage, steps done, steps in all
SECONDS = 0.2  # between two lines


def teller(progress: bool | Callable[[dict[str, Any]], None]) -> Tell:
    """Return what tells a stage and its steps: to nobody, to standard error, or to a function.

    A function is given {"stage", "done", "total"}, at most five times a second.

    Examples
    --------
    >>> heard = []
    >>> teller(heard.append)("sampling", 3, 10)
    >>> heard
    [{'stage': 'sampling', 'done': 3, 'total': 10}]
    """
    if progress is False:
        return lambda stage, done, total: None
    last = -SECONDS

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last < SECONDS:
            return
        last = monotonic()
        if callable(progress):
            progress({"stage": stage, "done": done, "total": total})
        else:
            sys.stderr.write(f"\r{f'{stage}: {done} of {total}':<79}")
            sys.stderr.flush()

    return tell
