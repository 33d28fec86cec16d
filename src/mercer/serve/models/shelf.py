"""The folder of models: each in a folder of its own, named by a number, never by a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

try:
    import fcntl
except ImportError:  # a system without such locks: one service a folder is the user's care
    fcntl = None  # type: ignore[assignment]

from mercer.app.terminal import AppError
from mercer.serve.limits import Limits, RefusedError, check_name
from mercer.serve.messages import Creation
from mercer.serve.models import origin
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import LoggedBatch, State
from mercer.serve.models.store import GONE, NEW, DamagedError, SavedState, Store, remove

WRITERS = 2  # threads that learn; each model is learned by one at a time
log = logging.getLogger("mercer.serve")


class About(msgspec.Struct):
    """What a model is, as the first thing in its log."""

    name: str
    created: float
    learner: Creation | None = None  # None: uploaded, or fitted to a table
    target: str | None = None

    def state(self) -> State:
        """Return the state before the first batch or checkpoint."""
        if self.learner is not None:
            return origin.begun(self.learner)
        return State(None, None, None, [], self.target)


class Shelf:
    """All models of a service. A lock keeps other services out of the folder."""

    def __init__(self, folder: Path, limits: Limits, keep: int = 5) -> None:
        self.folder, self.limits, self.keep = folder, limits, keep
        self.models: dict[str, Keeper] = {}
        self.damaged: dict[str, str] = {}  # folders that cannot be read, and why
        self.executor = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._making: set[str] = set()
        self._ids: dict[str, Path] = {}
        self._lock: Any = None

    def open(self) -> None:
        """Lock the folder and recover every model in it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = open(self.folder / "lock", "w")  # noqa: SIM115  # held until the process ends
        try:
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AppError(f"{self.folder} is in use by another `mercer serve`") from None
        for folder in sorted(self.folder.iterdir()):
            if not folder.is_dir() or not folder.name.startswith("model-"):
                continue
            if folder.name.endswith((NEW, GONE)):
                remove(folder)
                continue
            try:
                self._recover(folder)
            except (
                DamagedError,
                sqlite3.Error,
                OSError,
                RefusedError,
                msgspec.MsgspecError,
            ) as error:
                log.error("%s cannot be served: %s", folder.name, error)
                self.damaged[folder.name] = str(error)

    def _recover(self, folder: Path) -> None:
        store = Store(folder, self.keep)
        about = msgspec.json.decode(store.open().about, type=About)
        if about.name in self.models:
            raise DamagedError(f"there is another model called {about.name}")
        keeper = Keeper(about.name, store, self.executor, self.limits, about.state())
        keeper.recover()
        self.models[about.name] = keeper
        self._ids[about.name] = folder

    def start(self) -> None:
        """Start the writers."""
        for keeper in self.models.values():
            keeper.start()

    async def stop(self) -> None:
        """Learn what waits, and close everything."""
        await asyncio.gather(*(keeper.stop() for keeper in self.models.values()))
        self.executor.shutdown()
        with contextlib.suppress(OSError):
            self._lock.close()

    def find(self, name: str) -> Keeper:
        """Return a model."""
        keeper = self.models.get(name)
        if keeper is None:
            raise RefusedError(404, "unknown", "there is no model of this name")
        return keeper

    async def create(
        self, name: str, state: State, about: Creation | None, first: LoggedBatch | None = None
    ) -> Keeper:
        """Put a model on the shelf: a learner, with its first batch or without, or a fitted one."""
        check_name(name)
        if name in self.models or name in self._making:
            raise RefusedError(409, "exists", "there is a model of this name already")
        if len(self.models) + len(self._making) >= self.limits.models:
            raise RefusedError(
                409, "models", f"there are {self.limits.models} models: delete one first"
            )
        self._making.add(name)
        loop = asyncio.get_running_loop()
        try:
            described = About(name=name, created=time.time(), learner=about, target=state.target)
            folder = self.folder / f"model-{secrets.token_hex(8)}"
            args = (folder, described, state, first)
            keeper = await loop.run_in_executor(self.executor, self._made, *args)
            self.models[name], self._ids[name] = keeper, folder
        finally:
            self._making.discard(name)
        keeper.start()
        return keeper

    def _made(self, folder: Path, about: About, state: State, first: LoggedBatch | None) -> Keeper:
        if first is not None:
            state = state.learned(first)
        kept = SavedState(0, state.kept()) if state.model is not None else None
        try:
            store = Store.create(folder, msgspec.json.encode(about), kept, self.keep)
            keeper = Keeper(about.name, store, self.executor, self.limits, about.state())
            keeper.recover()
        except (OSError, sqlite3.Error) as error:
            raise RefusedError(507, "full", f"the model could not be written: {error}") from None
        return keeper

    async def delete(self, name: str) -> None:
        """Remove a model, its log and all its versions."""
        keeper = self.find(name)
        del self.models[name]
        await keeper.stop()
        folder = self._ids.pop(name)
        await asyncio.get_running_loop().run_in_executor(self.executor, remove, folder)

    def disk(self) -> int:
        """Return the bytes that all models take."""
        total = 0
        for path in self.folder.rglob("*"):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total


def private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, where there is none."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
