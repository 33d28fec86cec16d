"""One model that is served: an immutable state to predict with, and one writer that learns.

Batches wait in a queue of bounded length. The writer takes those that wait, learns them on copies,
commits them to the log together, and only then shows the new state and answers. If the log cannot
be written, nothing has changed: the log is opened again, which says what it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from mercer.serve.limits import Limits, RefusedError, bad
from mercer.serve.messages import BatchScore, Learned, ModelState, Scores, Versions
from mercer.serve.models.figures import NOTHING, Figured
from mercer.serve.models.learner import LoggedBatch, State
from mercer.serve.models.store import KEYS, DamagedError, Record, SavedState, Store, unwritten

GROUP = 32  # batches that are committed together, at most
SHOWN = 1000  # versions whose figures are at hand
EVERY, BYTES, SECONDS = 200, 8 << 20, 5.0  # from checkpoint to checkpoint: batches, log, learning
log = logging.getLogger("mercer.serve")
_BATCH = msgspec.msgpack.Decoder(LoggedBatch)


class Seen(NamedTuple):
    """A batch that is in the log."""

    version: int
    content: bytes
    rows: int


Keys = OrderedDict[str, Seen]
Entry = tuple[Record, Figured]
History = deque[Entry]


@dataclass
class Waiting:
    """A batch, or a version to go back to, that waits for the writer."""

    key: str
    content: bytes
    size: int
    future: asyncio.Future[Learned]
    batch: LoggedBatch | None = None
    version: int = 0


class Keeper:
    """A model that is served. Its methods are called in the event loop's thread."""

    def __init__(
        self, name: str, store: Store, executor: Executor, limits: Limits, state: State
    ) -> None:
        self.name, self.limits = name, limits
        self.state, self.version = state, 0  # what predictions are made with
        self.trouble: str | None = None
        self.pace = 0.001  # seconds that the prediction of a row takes, about
        self.learned_rows = self.refused = self.predicted = 0  # since the start
        self._first = state  # before any batch or checkpoint
        self._store, self._executor = store, executor
        self._queue: deque[Waiting] = deque()
        self._pending: dict[str, Waiting] = {}
        self._keys: Keys = OrderedDict()
        self._history: History = deque(maxlen=SHOWN)
        self._checkpoints: list[int] = []
        self._since = _Since()
        self._pace = 0.05  # seconds a batch takes, about
        self._wake, self._stopping = asyncio.Event(), False
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ requests
    def learn(self, batch: LoggedBatch, key: str) -> asyncio.Future[Learned]:
        """Queue a batch; the future is done when it is on disk, or refused."""
        packed = batch.X + b"\0" + batch.y + repr((batch.inputs, batch.words)).encode()
        content = hashlib.sha256(packed).digest()[:16]
        return self._queued(key, content, len(packed), batch=batch)

    def rollback(self, version: int, key: str) -> asyncio.Future[Learned]:
        """Queue the way back to a version."""
        return self._queued(key, f"rollback {version}".encode(), 0, version=version)

    def _queued(self, key: str, content: bytes, size: int, **what: Any) -> asyncio.Future[Learned]:
        loop = asyncio.get_running_loop()
        earlier = self._pending.get(key)
        seen = self._keys.get(key)
        known = earlier.content if earlier else seen.content if seen else content
        if known != content:
            raise RefusedError(422, "key", "this Idempotency-Key was used for another batch")
        if earlier is not None:
            return earlier.future
        if seen is not None:
            done: asyncio.Future[Learned] = loop.create_future()
            done.set_result(self._repeated(seen))
            return done
        if self._stopping:
            raise RefusedError(503, "stopping", "the service is stopping", retry=5)
        if len(self._queue) >= self.limits.waiting:
            wait = self._pace * len(self._queue)
            raise RefusedError(
                429, "busy", f"{len(self._queue)} batches of this model are waiting", retry=wait
            )
        waiting = Waiting(key, content, size, loop.create_future(), **what)
        self._queue.append(waiting)
        self._pending[key] = waiting
        self._wake.set()
        return waiting.future

    @property
    def waiting(self) -> int:
        """How many batches wait to be learned."""
        return len(self._pending)

    def describe(self) -> ModelState:
        """Return what the model is and how far it has come."""
        state = self.state
        return ModelState(
            name=self.name,
            estimator=None if state.model is None else type(state.machine).__name__,
            learns=state.learns,
            version=self.version,
            inputs=state.inputs,
            words=state.words,
            target=state.target,
            classes=state.classes,
            rows=state.sums.rows,
            points=None if state.model is None else state.points,
            scores=state.sums.scores(state.quantity),
            waiting=self.waiting,
            oldest=self.oldest,
            trouble=self.trouble,
            notes=state.notes,
        )

    @property
    def oldest(self) -> int:
        """The oldest version to go back to."""
        pruned = len(self._checkpoints) >= self._store.keep
        return self._checkpoints[0] if self._checkpoints and (pruned or not self._begins) else 0

    @property
    def _begins(self) -> bool:
        """Whether the log begins with version 1, and the learner can be made from nothing."""
        first = self._history[0][0].version if self._history else 1
        return self._first.model is None and first == 1

    def versions(self) -> Versions:
        """Return to which versions the model can be rolled back."""
        return Versions(
            model=self.name,
            oldest=self.oldest,
            newest=self.version,
            checkpoints=list(self._checkpoints),
        )

    def history(self, since: int, most: int) -> list[BatchScore]:
        """Return the figures of the last batches after version ``since``, oldest first."""
        quantity = self.state.quantity
        found = [pair for pair in self._history if pair[0].version > since]
        return [
            BatchScore(
                version=record.version,
                at=record.at,
                what="rollback" if record.what == "rollback" else "batch",
                batch=told.batch.scores(quantity),
                total=told.total.scores(quantity),
                change=told.change,
            )
            for record, told in found[-most:]
        ]

    # ------------------------------------------------------------------ life
    def recover(self) -> None:
        """Open the log, and learn what follows its newest checkpoint (before start, or a writer).

        What others read is replaced at once, never changed bit by bit.
        """
        content = self._store.open()
        state = self._replayed(content.newest, content.records)
        keys: Keys = OrderedDict()
        history: History = deque(maxlen=SHOWN)
        for record in content.history:
            _remember(keys, history, record, msgspec.json.decode(record.told, type=Figured))
        self._keys, self._history = keys, history
        self._checkpoints = content.checkpoints
        size = sum(len(record.body or b"") for record in content.records)
        self._since = _Since(len(content.records), size)
        self.state, self.version = state, content.version
        self.trouble = None

    def start(self) -> None:
        """Start the writer."""
        self._task = asyncio.get_running_loop().create_task(self._write())

    async def stop(self) -> None:
        """Learn what waits, write a checkpoint and close the log."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await asyncio.get_running_loop().run_in_executor(self._executor, self._end)

    def _end(self) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):
            if self._since.batches and self.trouble is None:
                self._store.append([], SavedState(self.version, self.state.kept()))
        self._store.close()

    def _replayed(self, newest: SavedState | None, records: list[Record]) -> State:
        state = self._first if newest is None else self._first.restored(newest.body)
        for record in records:
            state = state.learned(_BATCH.decode(record.body or b""))
        return state

    # ------------------------------------------------------------------ the writer
    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue or not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                group = self._group()
                begun = time.monotonic()
                done = await loop.run_in_executor(self._executor, self._work, group)
                self._pace = 0.7 * self._pace + 0.3 * (time.monotonic() - begun) / len(group)
                done()
                for waiting in group:
                    self._pending.pop(waiting.key, None)

    def _group(self) -> list[Waiting]:
        """Take what is done in one go: batches that wait, or one way back."""
        group = [self._queue.popleft()]
        while self._queue and len(group) < GROUP and group[-1].batch and self._queue[0].batch:
            group.append(self._queue.popleft())
        return group

    def _work(self, group: list[Waiting]) -> Callable[[], None]:
        """Do a group in the writer's thread; return what shows it to the others."""
        try:
            if self.trouble is not None:  # the log says what it holds
                self.recover()
            return self._learn(group) if group[0].batch is not None else self._go_back(group[0])
        except RefusedError as error:
            refusal = error
        except (OSError, sqlite3.Error, MemoryError, DamagedError) as error:
            log.error("%s: the log could not be written: %s", self.name, error)
            self.trouble = f"the log could not be written: {error}"
            refusal = unwritten(error)
        except Exception as error:
            log.exception("%s: a batch could not be learned", self.name)
            self.trouble = f"{type(error).__name__}: {error}"
            refusal = RefusedError(500, "internal", f"not learned: {self.trouble}")
        return lambda: self._settle(group, [refusal] * len(group))

    def _learn(self, group: list[Waiting]) -> Callable[[], None]:
        state, begun = self.state, time.monotonic()
        made: list[Entry] = []
        answers: list[Learned | RefusedError] = []
        for waiting in group:
            assert waiting.batch is not None
            seen = self._keys.get(waiting.key)
            if seen is not None:  # found when the log was opened again
                answers.append(self._repeated(seen))
                continue
            try:
                after = state.learned(waiting.batch)
            except RefusedError as refusal:
                answers.append(refusal)
                continue
            told = Figured(after.sums - state.sums, after.sums, after.change)
            state = after
            body = msgspec.msgpack.encode(waiting.batch)
            made.append(self._entry(self.version + len(made) + 1, "batch", waiting, told, body))
            scores = told.batch.scores(state.quantity)
            answers.append(self._repeated(made[-1][0], told.batch.rows, scores))
        if made:
            due = self._due(made, time.monotonic() - begun)
            self._commit(made, state if due else None)

        def done() -> None:
            self._publish(made, state)
            self._settle(group, answers)

        return done

    def _go_back(self, waiting: Waiting) -> Callable[[], None]:
        """Make the state of an older version the newest; all versions stay in the log."""
        seen, wanted = self._keys.get(waiting.key), waiting.version
        if seen is not None:
            known = self._repeated(seen)
            return lambda: self._settle([waiting], [known])
        if not self.oldest <= wanted <= self.version:
            raise bad(
                f"there is no version {wanted} to go back to: from {self.oldest} to {self.version}"
            )
        state = self._first
        if wanted or 0 in self._checkpoints:
            state = self._replayed(*self._store.until(wanted))
        told = Figured(NOTHING, state.sums)
        made = [self._entry(self.version + 1, "rollback", waiting, told, None)]
        self._commit(made, state)
        answer = self._repeated(made[0][0], 0, state.sums.scores(state.quantity))

        def done() -> None:
            self._publish(made, state)
            self._settle([waiting], [answer])

        return done

    def _entry(
        self, version: int, what: str, waiting: Waiting, told: Figured, body: bytes | None
    ) -> Entry:
        figures = msgspec.json.encode(told)
        key, content = waiting.key, waiting.content
        return Record(version, what, key, content, time.time(), figures, body), told

    def _repeated(
        self, entry: Seen | Record, rows: int | None = None, scores: Scores | None = None
    ) -> Learned:
        """Return the answer for a batch in the log; without scores it was there before."""
        count = entry.rows if isinstance(entry, Seen) else rows or 0
        return Learned(
            model=self.name,
            version=entry.version,
            rows=count,
            repeated=scores is None,
            scores=scores,
        )

    def _commit(self, made: list[Entry], kept: State | None) -> None:
        """Commit; with a checkpoint of the state after them, if one is given."""
        checkpoint = None if kept is None else SavedState(made[-1][0].version, kept.kept())
        self._store.append([record for record, _ in made], checkpoint)
        if checkpoint is not None:
            self._since, self._checkpoints = _Since(), self._store.checkpoints()

    def _publish(self, made: list[Entry], state: State) -> None:
        for record, told in made:
            _remember(self._keys, self._history, record, told)
        self.state, self.version = state, self.version + len(made)

    def _due(self, made: list[Entry], seconds: float) -> bool:
        """Count what was learned; return whether it is time for a checkpoint."""
        since = self._since
        since.batches += len(made)
        since.bytes += sum(len(record.body or b"") for record, _ in made)
        since.seconds += seconds
        return since.batches >= EVERY or since.bytes >= BYTES or since.seconds >= SECONDS

    def _settle(self, group: list[Waiting], answers: Sequence[Learned | RefusedError]) -> None:
        """Reply those who asked; whoever has gone away is passed over."""
        for waiting, answer in zip(group, answers, strict=True):
            if waiting.future.done():
                continue
            if isinstance(answer, RefusedError):
                self.refused += 1
                waiting.future.set_exception(answer)
                waiting.future.exception()  # looked at, should nobody ask any more
            else:
                self.learned_rows += 0 if answer.repeated else answer.rows
                waiting.future.set_result(answer)


@dataclass
class _Since:
    """What the log holds since the last checkpoint."""

    batches: int = 0
    bytes: int = 0
    seconds: float = field(default=0.0)


def _remember(keys: Keys, history: History, record: Record, told: Figured) -> None:
    keys[record.key] = Seen(record.version, record.content, told.batch.rows)
    while len(keys) > KEYS:
        keys.popitem(last=False)
    history.append((record._replace(body=None), told))
