"""Blocks on a cluster: passes as tasks of Dask, answers merged on the workers in the fixed tree.

Nothing is remembered on the workers between passes. A worker that dies takes along some answers,
which are computed again; what was broadcast is sent again where the last copy of it was lost.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any

from mercer.linalg.blocks.arrays import ArraySource
from mercer.linalg.blocks.engine import (
    Answer,
    Engine,
    Merge,
    Part,
    Read,
    RowBlock,
    Task,
    answered,
    joined,
)
from mercer.linalg.blocks.lazy import LazyReader, LazySource, part_of
from mercer.linalg.blocks.sources import require

POLL = 0.003  # seconds between two looks at what has ended
LOOK = 2.0  # seconds between two looks at a cluster that says nothing


@dataclass(frozen=True)
class Job:
    """What one pass sends to every worker."""

    task: Task
    broadcast: Part
    merge: Merge | None


class LostError(Exception):
    """Something that a pass needs is lost with a worker, and has to be sent again."""


class DaskEngine(Engine):
    """Compute the blocks on the workers of a Dask cluster.

    Parameters
    ----------
    readers : what returns each block (a :class:`~mercer.linalg.blocks.sources.Source`, say). Files
        are read by the workers, which have to find them under the same names.
    client : a ``distributed.Client``, a cluster, the address of a scheduler, or None: the current
        client.
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
        self._address = str(self.client.scheduler.address)
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
        return self._persistently(lambda: self._pass(Job(task, broadcast, merge)))

    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        job = Job(task, broadcast, None)
        ahead = 2 * max(1, sum(self._threads().values()))
        waiting: deque[Any] = deque()
        with self._reached():
            shared = self._scattered(job)
        try:
            for number in range(self.blocks + ahead):
                if number < self.blocks:
                    with self._reached():
                        waiting += self._leaves(shared, [number])
                if number >= ahead:
                    try:
                        answer = self._answer(waiting.popleft(), number - ahead)
                    except LostError:
                        answer = self._persistently(partial(self._alone, job, number - ahead))
                    yield answer.part
        finally:
            for future in waiting:
                future.release()

    def _persistently(self, attempt: Callable[[], Answer]) -> Answer:
        """Return what an attempt returns; try again where it fails for a lost worker."""
        for _ in range(self.retries + 1):
            try:
                with self._reached():
                    return attempt()
            except LostError:
                self._placed = []
        raise ConnectionError(
            f"workers of the Dask cluster at {self._address} were lost in {self.retries + 1} "
            "attempts at one pass: see why they die (often for lack of memory), and fit again"
        )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Let whatever a client says that has lost its scheduler be the one sentence."""
        try:
            yield
        except Exception:
            if self.client.status == "running":
                raise
            raise self._gone() from None

    def _pass(self, job: Job) -> Answer:
        """Return what one pass answers; everything it left on the cluster is released."""
        running: dict[str, Any] = {}
        try:
            shared = self._scattered(job)
            level = self._leaves(shared, range(self.blocks))
            running |= {future.key: future for future in level}
            numbers = {key: number for number, key in enumerate(running)}
            height = 0
            while len(level) > 1:  # level by level, left with right, the odd one as it is
                pairs, height = len(level) // 2, height + 1
                given = (level[: 2 * pairs : 2], level[1::2], [shared] * pairs)
                options = {"key": "mercer-merge", "pure": False, "priority": height}
                level = self.client.map(_node, *given, **options) + level[2 * pairs :]
            top = level.pop()
            running[top.key] = top
            done = 0
            while True:
                for future in self._ended(running.values()):
                    number = numbers.get(future.key)
                    self._check(future, number)
                    if number is not None:
                        done += 1
                        self._done(done)
                    if future.key == top.key:
                        return self._result(future)
                    running.pop(future.key).release()  # it is needed by its merge alone
        finally:
            for future in running.values():
                future.release()

    def _alone(self, job: Job, number: int) -> Answer:
        """Return the answer of one block."""
        return self._answer(self._leaves(self._scattered(job), [number])[0], number)

    def _answer(self, future: Any, number: int) -> Answer:
        """Return the answer to come of one block."""
        self._check(self._ended([future])[0], number)
        return self._result(future)

    def _leaves(self, shared: Any, numbers: Sequence[int]) -> list[Any]:
        """Return the answers to come of some blocks."""
        readers: list[Any] = [self.readers[i] for i in numbers]
        rows: list[list[Any]] = [[None] * len(readers)] * 3  # of tables of Dask: X, y and w
        if isinstance(self.readers, LazySource):
            readers = [reader.bare() for reader in readers]
            rows = self._computed(self.readers, None if len(readers) > 1 else numbers[0])
        elif isinstance(self.readers, ArraySource):
            if not self._placed:
                self._placed = self.client.scatter(list(self.readers), hash=False)
            readers = [self._placed[i] for i in numbers]
        options = {"key": "mercer-block", "pure": False, "retries": self.retries}
        given = (readers, list(numbers), [shared] * len(readers), *rows)
        return list(self.client.map(_leaf, *given, **options))

    def _computed(self, source: LazySource, only: int | None) -> list[list[Any]]:
        """Return the parts of tables of Dask (or one of each), computed when a block needs them."""
        tables = source.tables if only is None else [part_of(t, only) for t in source.tables]
        nothing = [None] * (self.blocks if only is None else 1)
        # of lower priority than a block whose rows are there: few of them wait
        return [
            nothing if table is None else _futures(self.client.persist(table, priority=-1))
            for table in tables
        ]

    def _scattered(self, job: Job) -> Any:
        """Return the job on all workers."""
        deadline = monotonic() + self.patience
        while not self._threads():
            if monotonic() > deadline:
                raise self._nobody()
            sleep(0.1)
        return self.client.scatter([job], broadcast=True, hash=False)[0]

    def _ended(self, running: Collection[Any]) -> list[Any]:
        """Return those that have ended, one at least; do not wait for a cluster that is gone."""
        looked = alive = monotonic()
        while True:
            begun = monotonic()
            ended = [future for future in running if future.status != "pending"]
            if ended:
                return ended
            sleep(POLL + 10 * (monotonic() - begun))  # many of them take a while to be looked at
            if begun - looked > LOOK:
                if self._threads():
                    alive = monotonic()
                elif begun - alive > self.patience:
                    raise self._nobody()
                looked = monotonic()

    def _threads(self) -> dict[str, int]:
        """Return how many threads each worker has, as the scheduler says."""
        deadline = monotonic() + self.patience
        while self.client.status == "connecting" and monotonic() < deadline:
            sleep(0.1)
        if self.client.status != "running":
            raise self._gone()
        try:
            found: dict[str, int] = self.client.sync(
                self.client.scheduler.ncores, callback_timeout=self.patience
            )
        except (OSError, TimeoutError, CancelledError):
            raise self._gone() from None
        return found

    def _result(self, future: Any) -> Answer:
        try:
            answer: Answer = future.result(timeout=self.patience)
        except (OSError, TimeoutError, CancelledError):
            self._threads()  # an error of its own, if the scheduler is gone
            raise LostError from None
        return answer

    def _check(self, future: Any, number: int | None) -> None:
        """Raise what a task raised, or what became of the cluster."""
        if future.status == "finished":
            return
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
    if isinstance(given, str) or hasattr(given, "scheduler_address"):
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


def _futures(table: Any) -> list[Any]:
    """Return the parts to come of a table of Dask, in the order of their places in its keys."""
    found = require("distributed", "an engine of Dask").futures_of(table)
    return sorted(found, key=lambda future: future.key[1:])


def _leaf(reader: Any, number: int, job: Job, *rows: Any) -> Answer:
    """Return the answer of one block; ``rows`` are those of tables of Dask."""
    if isinstance(reader, LazyReader):
        reader = partial(_block, reader, rows)
    return answered(reader, number, job.task, job.broadcast)


def _block(reader: LazyReader, rows: tuple[Any, ...]) -> RowBlock:
    return reader.checked(reader.raw(*rows))


def _node(left: Answer, right: Answer, job: Job) -> Answer:
    """Return two answers as one; both stay as they are, should they be asked for again."""
    assert job.merge is not None
    return joined(job.merge, Answer(left.rows, copy.deepcopy(left.part)), right)
