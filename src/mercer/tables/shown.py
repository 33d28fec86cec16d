"""A line on stderr while a table is being fitted."""

from __future__ import annotations

import sys
from typing import Any

from mercer.tables.clock import Progress


def reporter(progress: bool | Progress) -> Progress | None:
    """Return the function that is told of each step, or None."""
    if callable(progress):
        return progress
    return _to_stderr if progress else None


def _to_stderr(event: dict[str, Any]) -> None:
    count = f", {event['evaluations']} evaluations" if "evaluations" in event else ""
    sys.stderr.write(f"\r\033[K{event.get('stage', '')}{count}")
    sys.stderr.flush()
