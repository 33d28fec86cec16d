"""Deadline: long work asks between its steps whether its time is up, and ends there.

Whoever begins the work states the moment, for the thread that does it and for as long as the block
runs; the loops of inference, searches and averages ask. Nothing else is known here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class OutOfTime(KeyboardInterrupt):
    """The moment has passed by which the work was to end; nothing of it is wanted."""


@dataclass
class Deadline:
    """A moment of :func:`time.monotonic`, and whether anyone has met it."""

    moment: float
    passed: bool = False


#: The deadline of the work that runs; where there is none, nothing needs to be asked.
CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def until(moment: float) -> Iterator[Deadline]:
    """Let the work of the block end at ``moment``, or at an earlier one that is stated already.

    Examples
    --------
    >>> try:
    ...     with until(time.monotonic() - 1.0) as deadline:
    ...         check_time()
    ... except OutOfTime:
    ...     deadline.passed
    True
    """
    outer = CURRENT.get()
    inner = Deadline(moment if outer is None else min(moment, outer.moment))
    token = CURRENT.set(inner)
    try:
        yield inner
    finally:
        CURRENT.reset(token)


def out_of_time() -> bool:
    """Whether the work that runs has met its deadline."""
    deadline = CURRENT.get()
    return deadline is not None and deadline.passed


def check_time() -> None:
    """Raise :class:`OutOfTime` if there is a deadline and it has passed."""
    deadline = CURRENT.get()
    if deadline is not None and time.monotonic() > deadline.moment:
        deadline.passed = True
        raise OutOfTime("the time for this is up")
