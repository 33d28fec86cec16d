"""Blocks of this process: arrays that are here, or what reads them, by one thread or several."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mercer.core.arrays import Array
from mercer.linalg.blocks.arrays import ArraySource
from mercer.linalg.blocks.engine import Answer, Engine, Merge, Part, Read, Task, answered, merged
from mercer.linalg.blocks.sources import ROWS

AHEAD = 2  # blocks that a worker may be ahead of the one that is merged next


class LocalEngine(Engine):
    """Compute the blocks here, one after the other or by ``workers`` threads.

    Parameters
    ----------
    readers : what returns each block (a :class:`~mercer.linalg.blocks.sources.Source`, say); it is
        called anew in every pass, so that no more than a few blocks are in memory at a time.
    workers : threads, each with one BLAS thread.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> engine = LocalEngine.of_arrays(X, None, None, size=4)
    >>> engine.map_sum(lambda block, _: {"total": block.X.sum()}, {}), engine.rows
    ({'total': np.float64(45.0)}, 10)
    """

    def __init__(self, readers: Sequence[Read], workers: int = 1) -> None:
        self.readers, self.workers = readers, workers

    @classmethod
    def of_arrays(
        cls, X: Array, y: Any, w: Array | None, size: int = ROWS, workers: int = 1
    ) -> LocalEngine:
        """Return the engine of arrays that are in memory (or mapped to it), ``size`` rows each."""
        return cls(ArraySource(X, y, w, size), workers)

    @property
    def blocks(self) -> int:
        return len(self.readers)

    def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        return merged(self._counted(task, broadcast), merge)

    def _counted(self, task: Task, broadcast: Part) -> Iterator[Answer]:
        for i, answer in enumerate(self._answers(task, broadcast)):
            yield answer
            self._done(i + 1)

    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        return (answer.part for answer in self._answers(task, broadcast))

    def _answers(self, task: Task, broadcast: Part) -> Iterator[Answer]:
        """Yield the answers in the order of the blocks."""
        if self.workers == 1:
            for number, read in enumerate(self.readers):
                yield answered(read, number, task, broadcast)
            return
        waiting: deque[Future[Answer]] = deque()
        pool = ThreadPoolExecutor(self.workers)
        try:
            for number, read in enumerate(self.readers):
                if len(waiting) >= AHEAD * self.workers:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(answered, read, number, task, broadcast))
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error or Ctrl-C does not wait for blocks that nobody needs
            pool.shutdown(wait=False, cancel_futures=True)
