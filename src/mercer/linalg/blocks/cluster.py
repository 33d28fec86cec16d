"""Blocks on a cluster: passes as tasks of Dask, answers merged on the workers in the fixed tree.

Nothing is remembered on the workers between passes. A worker that dies takes along some answers,
which are computed again; what was broadcast is sent again where the last copy of it was lost.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from mercer.linalg.blocks.arrays import ArrayReader
from mercer.linalg.blocks.engine import Answer, Engine, Merge, Part, Read, Task, answered, joined
from mercer.linalg.blocks.lazy import LazyReader
from mercer.linalg.blocks.sources import Raw, require

POLL = 1.0  # seconds between two looks at a cluster that says nothing


@dataclass(frozen=True)
class Job:
    """What one pass sends to every worker."""

    task: Task
    broadcast: Part
    merge: Merge | None


@dataclass(frozen=True)
class Fetched:
    """Rows that Dask has computed, with what checks them."""

    reader: LazyReader
    raw: Raw

    def __call__(self) -> Any:
        return self.reader.checked(self.raw)


class LostError(Exception):
    """Something that a pass needs is lost with a worker, and has to be sent again."""


class DaskEngine(Engine):
    """Compute the blocks on the workers of a Dask cluster.

    Parameters
    ----------
    readers : what returns each block (a :class:`~mercer.linalg.blocks.sources.Source`, say). Files
        are read by the workers, which have to find them under the same names.
    client : a ``distributed.Client``, the address of a scheduler, or None: the current client.
    retries : how often a block that fails, or a pass whose broadcast is lost, is tried again.
    patience : seconds to wait for a scheduler or a worker before that is an error.

    Notes
    -----
    The tree is that of :class:`~mercer.linalg.blocks.engine.Tree`, made of explicit tasks, so that
    the bits do not depend on the cluster. A merge comes before the next block: few answers wait.
    """

    def __init__(
        self,
        readers: Sequence[Read],
        client: Any = None,
        retries: int = 2,
        patience: float = 60.0,
    ) -> None:
        self.readers, self.retries, self.patience = readers, retries, patience
        self.client, self._own = client_of(client, patience)
        self._placed: list[Any] = []  # blocks of arrays that were sent to the workers

    @property
    def blocks(self) -> int:
        return len(self.readers)

    def close(self) -> None:
        """Let go of what the workers hold, and of the client if it was made here."""
        self._placed = []
        if self._own:
            self.client.close()

    def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        for _ in range(self.retries):
            try:
                return self._once(task, broadcast, merge)
            except LostError:
                self._placed = []
        try:
            return self._once(task, broadcast, merge)
        except LostError:
            raise ConnectionError(
                f"workers of the Dask cluster at {self._address} were lost in {self.retries + 1} "
                "attempts at one pass: see why they die (often for lack of memory), and fit again"
            ) from None

    def _once(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        """Return what one pass answers; everything it left on the cluster is released."""
        ended: SimpleQueue[Any] = SimpleQueue()
        futures: dict[str, Any] = {}

        def follow(made: list[Any]) -> list[Any]:
            for future in made:
                futures[future.key] = future
                future.add_done_callback(ended.put)
            return made

        try:
            job = self._scattered(Job(task, broadcast, merge))
            level = follow(self._leaves(job, range(self.blocks)))
            numbers = {future.key: i for i, future in enumerate(level)}
            depth = 1
            while len(level) > 1:  # level by level, left with right, the odd one as it is
                pairs = list(zip(level[::2], level[1::2], strict=False))
                lefts, rights = map(list, zip(*pairs, strict=True))
                options = {"key": "mercer-merge", "pure": False, "priority": depth}
                nodes = self.client.map(_node, lefts, rights, [job] * len(pairs), **options)
                level = follow(nodes) + level[2 * len(pairs) :]
                depth += 1
            top, done = level[0].key, 0
            del level
            while True:
                future = self._next(ended)
                if future.status != "finished":
                    self._fail(future, numbers.get(future.key))
                if future.key in numbers:
                    done += 1
                    self._done(done)
                if future.key == top:
                    answer: Answer = self._result(future)
                    return answer
                futures.pop(future.key).release()  # it is needed by the next node alone
        finally:
            for future in futures.values():
                future.release()

    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        ahead = 2 * max(1, sum(self._threads().values()))
        job = self._scattered(Job(task, broadcast, None))
        waiting: deque[Any] = deque()
        try:
            for number in range(self.blocks):
                waiting += self._leaves(job, [number])
                if len(waiting) > ahead:
                    yield self._one(waiting.popleft(), number - ahead).part
            while waiting:
                yield self._one(waiting.popleft(), self.blocks - len(waiting) - 1).part
        finally:
            for future in waiting:
                future.release()

    def _one(self, future: Any, number: int) -> Answer:
        """Return the answer of one block."""
        ended: SimpleQueue[Any] = SimpleQueue()
        future.add_done_callback(ended.put)
        if self._next(ended).status != "finished":
            self._fail(future, number)
        answer: Answer = self._result(future)
        return answer

    def _leaves(self, job: Any, numbers: Sequence[int]) -> list[Any]:
        """Return the answers to come of some blocks."""
        readers = [self.readers[i] for i in numbers]
        given: list[Any] = readers
        raws: list[Any] = [None] * len(readers)
        if any(isinstance(reader, LazyReader) for reader in readers):
            given = [reader.bare() for reader in readers if isinstance(reader, LazyReader)]
            lazy = [reader.rows for reader in readers if isinstance(reader, LazyReader)]
            raws = self.client.compute(lazy, priority=-1)  # none before it is needed
        elif any(isinstance(reader, ArrayReader) for reader in readers):
            if not self._placed:
                self._placed = self.client.scatter(list(self.readers), hash=False)
            given = [self._placed[i] for i in numbers]
        return list(
            self.client.map(
                _leaf,
                given,
                raws,
                list(numbers),
                [job] * len(given),
                key="mercer-block",
                pure=False,
                retries=self.retries,
            )
        )

    def _scattered(self, job: Job) -> Any:
        """Return the job on all workers."""
        deadline = monotonic() + self.patience
        while not self._threads():
            if monotonic() > deadline:
                raise self._nobody()
        return self.client.scatter([job], broadcast=True, hash=False)[0]

    def _next(self, ended: SimpleQueue[Any]) -> Any:
        """Return the next future that is done; do not wait for a cluster that is gone."""
        alive = monotonic()
        while True:
            try:
                return ended.get(timeout=POLL)
            except Empty:
                if self._threads():
                    alive = monotonic()
                elif monotonic() - alive > self.patience:
                    raise self._nobody() from None

    def _threads(self) -> dict[str, int]:
        """Return how many threads each worker has, as the scheduler says."""
        if self.client.status != "running":
            raise self._gone()
        try:
            found: dict[str, int] = self.client.sync(
                self.client.scheduler.ncores, callback_timeout=self.patience
            )
        except (OSError, TimeoutError, CancelledError):
            raise self._gone() from None
        return found

    def _result(self, future: Any) -> Any:
        try:
            return future.result(timeout=self.patience)
        except (OSError, TimeoutError, CancelledError):
            self._threads()  # an error of its own, if the scheduler is gone
            raise LostError from None

    def _fail(self, future: Any, number: int | None) -> None:
        """Raise what a task raised, or what became of the cluster."""
        if future.status != "error":
            self._threads()
            raise LostError
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            where = "a merge of blocks" if number is None else f"block {number}"
            raise MemoryError(
                f"{where} was given to several workers of the Dask cluster, and each of them died: "
                "probably it does not fit into their memory; make the blocks smaller, or the "
                "workers larger"
            ) from None
        raise error.with_traceback(None) from None

    @property
    def _address(self) -> str:
        scheduler = self.client.scheduler
        return "?" if scheduler is None else str(scheduler.address)

    def _gone(self) -> ConnectionError:
        return ConnectionError(
            f"the scheduler of the Dask cluster at {self._address} does not answer: start it again "
            "and fit again (a fit with a checkpoint continues where it was)"
        )

    def _nobody(self) -> ConnectionError:
        return ConnectionError(
            f"the Dask cluster at {self._address} has had no worker for {self.patience:g} seconds: "
            "start some"
        )


def client_of(given: Any, patience: float = 60.0) -> tuple[Any, bool]:
    """Return a client of Dask, and whether it was made here."""
    distributed = require("distributed", "an engine of Dask")
    if isinstance(given, str):
        try:
            return distributed.Client(given, timeout=patience, set_as_default=False), True
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(f"there is no Dask scheduler at {given}: {error}") from None
    if given is None:
        try:
            given = distributed.default_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client: make one, e.g. by distributed.Client(), or give the "
                "address of a scheduler"
            ) from None
    if given.asynchronous:
        raise TypeError("the Dask client is asynchronous: give one made without asynchronous=True")
    return given, False


def _leaf(reader: Read, raw: Raw | None, number: int, job: Job) -> Answer:
    """Return the answer of one block."""
    if isinstance(reader, LazyReader):
        assert raw is not None
        reader = Fetched(reader, raw)
    return answered(reader, number, job.task, job.broadcast)


def _node(left: Answer, right: Answer, job: Job) -> Answer:
    """Return two answers as one; both stay as they are, should they be asked for again."""
    assert job.merge is not None
    return joined(job.merge, Answer(left.rows, copy.deepcopy(left.part)), right)
