"""Interrupts that come between two batches, not within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt, while work is held only when it is done.

    A second signal does not wait. ``sound`` is then False: what was held may be half done.
    """

    def __init__(self) -> None:
        self.sound = True
        self._held = False
        self._received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # others have no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if not self._held or self._received > 1:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Do the work of one batch; a first interrupt waits for its end."""
        self._held, self.sound = True, False
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            self.sound = True  # the work itself failed, and left everything as it was
            raise
        finally:
            self._held = False
        self.sound = True
        if self._received:
            raise KeyboardInterrupt
