"""Blocks of this process: arrays that are here, or what reads them, by one thread or several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mercer.core.arrays import Array
from mercer.linalg.blocks.engine import Answer, Engine, Merge, Part, RowBlock, Task, merged

ROWS = 1 << 16  # of a block: boundaries never depend on the number of workers
AHEAD = 2  # blocks that a worker may be ahead of the one that is merged next


class LocalEngine(Engine):
    """Compute the blocks here, one after the other or by ``workers`` threads.

    Parameters
    ----------
    readers : what returns each block; it is called anew in every pass, so that no more than a few
        blocks are in memory at a time.
    workers : threads, each with one BLAS thread.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> engine = LocalEngine.of_arrays(X, None, None, size=4)
    >>> engine.map_sum(lambda block, _: {"total": block.X.sum()}, {}), engine.rows
    ({'total': np.float64(45.0)}, 10)
    """

    def __init__(self, readers: Sequence[Callable[[], RowBlock]], workers: int = 1) -> None:
        self.readers, self.workers = readers, workers

    @classmethod
    def of_arrays(
        cls, X: Array, y: Any, w: Array | None, size: int = ROWS, workers: int = 1
    ) -> LocalEngine:
        """Return the engine of arrays that are in memory (or mapped to it), ``size`` rows each."""
        starts = range(0, len(X), size)
        readers = [partial(_cut, X, y, w, number, i, i + size) for number, i in enumerate(starts)]
        return cls(readers, workers)

    @property
    def blocks(self) -> int:
        return len(self.readers)

    def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        return merged(self._answers(task, broadcast), merge)

    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        return (answer.part for answer in self._answers(task, broadcast))

    def _answers(self, task: Task, broadcast: Part) -> Iterator[Answer]:
        """Yield the answers in the order of the blocks."""

        def one(read: Callable[[], RowBlock]) -> Answer:
            block = read()
            return Answer(len(block.X), task(block, broadcast))

        # sums of BLAS depend on its threads, and the bits of the result may not
        with threadpool_limits(1):
            if self.workers == 1:
                yield from map(one, self.readers)
                return
            waiting: deque[Future[Answer]] = deque()
            with ThreadPoolExecutor(self.workers) as pool:
                try:
                    for read in self.readers:
                        if len(waiting) >= AHEAD * self.workers:
                            yield waiting.popleft().result()
                        waiting.append(pool.submit(one, read))
                    while waiting:
                        yield waiting.popleft().result()
                finally:
                    for future in waiting:
                        future.cancel()


def _cut(X: Array, y: Any, w: Array | None, number: int, start: int, stop: int) -> RowBlock:
    """Return some rows of arrays as a block; what is mapped is read here."""
    rows = slice(start, stop)
    points = np.asarray(X[rows], dtype=np.float64)
    weights = np.ones(len(points)) if w is None else np.asarray(w[rows], dtype=np.float64)
    return RowBlock(number, points, None if y is None else np.asarray(y[rows]), weights)
