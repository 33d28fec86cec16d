"""What the service promises about its disk: every acknowledged batch is learned exactly once.

Servers are killed at random moments under load, writes fail, the power goes, pages are damaged. The
state that is found afterwards is, to the last bit, that of a run in which nothing happened.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.serve.disk import after_power_loss, compiled, operations
from tests.serve.service import Client

from mercer.serve.limits import Limits
from mercer.serve.messages import Creation, RowsSent
from mercer.serve.models import origin
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import State
from mercer.serve.models.shelf import Shelf
from mercer.serve.rows.read import of_table

LIMITS = Limits()
ABOUT = {"learner": "logistic", "target": "y", "options": {"budget": 25, "drift": "auto"}}
ROOT = Path(__file__).parents[2]


def body(i: int, n: int = 8) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "u", "v").tolist()
    y[:2] = ["u", "v"]
    return {"X": X.tolist(), "y": y}


class Forge:
    """The process of ``forked.py``, and the server that it has started last."""

    def __init__(self, folder: Path, every: int = 7, **environment: str):
        self.folder = folder
        command = [sys.executable, "-m", "tests.serve.forked", str(folder), str(every)]
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | environment
        with open(folder.parent / "said", "ab") as said:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
                env=os.environ | settings,
            )
        self.pid = self.port = 0

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("start\n")
        self.process.stdin.flush()
        self.pid = int(self._line())
        line = self._line()
        assert "http://" in line, line + (self.folder.parent / "said").read_text()
        self.port = int(line.rpartition(":")[2])
        self._line()  # where the token is

    def end(self, number: int) -> None:
        os.kill(self.pid, number)
        assert self._line() == "gone"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def client(self) -> Client:
        return Client(self.port, (self.folder / "token").read_text().strip())

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(60)


@contextmanager
def forge(folder: Path, every: int = 7, **environment: str) -> Iterator[Forge]:
    made = Forge(folder, every, **environment)
    try:
        yield made
    finally:
        made.close()


def clean(order: list[int], n: int = 8) -> list[State]:
    """Return the states of a run without incidents: before the first batch, and after each."""
    about = msgspec.convert(ABOUT, Creation)
    states = [origin.begun(about)]
    for i in order:
        sent = msgspec.convert(body(i, n), RowsSent)
        now = states[-1]
        states.append(now.learned(now.batch(of_table(sent, now.inputs, now.target, LIMITS))))
    return states


def opened(folder: Path, look: Callable[[Keeper], Any], name: str = "m") -> Any:
    """Recover the models in a folder, look at one, and let go of it."""

    async def inside() -> Any:
        shelf = Shelf(folder, LIMITS, 3)
        shelf.open()
        try:
            assert not shelf.damaged, shelf.damaged
            return look(shelf.models[name]) if name in shelf.models else None
        finally:
            for keeper in shelf.models.values():
                keeper._store.close()
            shelf.executor.shutdown()
            shelf._lock.close()

    return asyncio.run(inside())


def learn(client: Client, i: int, acknowledged: dict[int, int]) -> int:
    """Send batch i once; keep the version that it was acknowledged with. Return the status."""
    answer = client.learn("m", body(i), f"key-{i}")
    if answer.status == 200:
        assert acknowledged.setdefault(i, answer.json["version"]) == answer.json["version"]
    return answer.status


def check(folder: Path, acknowledged: dict[int, int], total: int) -> None:
    """The log has each acknowledged batch once, and its state is that of a clean run."""

    def look(keeper: Keeper) -> tuple[dict[str, int], bytes, int]:
        versions = {key: seen.version for key, seen in keeper._keys.items()}
        return versions, keeper.state.kept(), keeper.version

    versions, kept, version = opened(folder, look)
    assert len(set(versions.values())) == len(versions) == version
    for i, known in acknowledged.items():
        assert versions[f"key-{i}"] == known
    order = [
        int(key.removeprefix("key-")) for key, _ in sorted(versions.items(), key=lambda p: p[1])
    ]
    assert len(order) >= total
    assert clean(order)[-1].kept() == kept


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_random_moments_under_load(tmp_path: Path) -> None:
    """Sixty kills while three clients learn, and another predicts and rolls nothing back."""
    rng = random.Random(4)
    acknowledged: dict[int, int] = {}
    folder, kills, threads = tmp_path / "models", 60, 3
    with forge(folder) as server:
        server.start()
        with server.client() as client:
            assert client.send("PUT", "/models/m", ABOUT).status == 201
        due = iter(range(100_000))
        waiting = [next(due) for _ in range(threads)]
        stop, guard = threading.Event(), threading.Lock()
        failures: list[BaseException] = []

        def load(k: int) -> None:
            while not stop.is_set():
                try:
                    with server.client() as client:
                        while not stop.is_set():
                            assert learn(client, waiting[k], acknowledged) in (200, 429, 503)
                            if waiting[k] in acknowledged:
                                with guard:
                                    waiting[k] = next(due)
                            assert client.predict("m", {"X": [[0.1, 0.2]]}).status in (200, 409)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)  # killed: again, with the same key
                except BaseException as error:
                    failures.append(error)
                    raise

        workers = [threading.Thread(target=load, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for _ in range(kills):
            time.sleep(rng.uniform(0.0, 0.5))
            server.end(signal.SIGKILL)
            server.start()
        time.sleep(0.5)
        stop.set()
        for worker in workers:
            worker.join(120)
        assert not failures
        server.end(signal.SIGTERM)
    assert len(acknowledged) > 3 * kills
    check(folder, acknowledged, len(acknowledged))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("every", [5, 37, 64, 150])
def test_writes_that_fail(tmp_path: Path, every: int) -> None:
    """Every so many writes the disk is full: nothing is lost, and predictions go on."""
    folder, acknowledged = tmp_path / "models", {}
    with forge(folder) as server:  # the model is made on a sound disk
        server.start()
        with server.client() as client:
            assert client.send("PUT", "/models/m", ABOUT).status == 201
            assert learn(client, 0, acknowledged) == 200
        server.end(signal.SIGTERM)
    library, count = compiled(tmp_path), 60
    disk = {"LD_PRELOAD": str(library), "MERCER_DISK_ROOT": str(folder / "model-")}
    statuses = set()
    with forge(folder, **disk, MERCER_DISK_FAIL=str(every)) as server:
        server.start()
        with server.client() as client:
            for i in range(1, count):
                for _ in range(6):
                    statuses.add(learn(client, i, acknowledged))
                    assert client.predict("m", {"X": [[0.1, 0.2]]}).status == 200
                    if i in acknowledged:
                        break
        server.end(signal.SIGTERM)
    assert statuses <= {200, 503, 507}
    assert statuses & {503, 507}
    assert every < 60 or len(acknowledged) > count // 2, len(acknowledged)
    check(folder, acknowledged, len(acknowledged))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_power_that_goes(tmp_path: Path) -> None:
    """What was not synced is lost, in part or out of order; what was acknowledged is not."""
    folder, library = tmp_path / "models", compiled(tmp_path)
    journal, acknowledged, moments, count = tmp_path / "journal", {}, {}, 60
    disk = {"LD_PRELOAD": str(library), "MERCER_DISK_ROOT": str(folder)}
    with forge(folder, **disk, MERCER_DISK_JOURNAL=str(journal)) as server:
        server.start()
        with server.client() as client:
            assert client.send("PUT", "/models/m", ABOUT).status == 201
            made = journal.stat().st_size
            for i in range(count):
                assert learn(client, i, acknowledged) == 200
                moments[i] = journal.stat().st_size
        server.end(signal.SIGTERM)
    done, rng, states = (
        operations(journal.read_bytes()),
        random.Random(5),
        clean(list(range(count))),
    )
    least = next(k for k, operation in enumerate(done) if operation.end >= made)
    for _ in range(80):
        cut = rng.randrange(least, len(done) + 1)
        image = tmp_path / "image"
        after_power_loss(done[:cut], str(folder), image, rng)

        def look(keeper: Keeper) -> tuple[int, bytes]:
            return keeper.version, keeper.state.kept()

        version, kept = opened(image, look)
        end = done[cut - 1].end
        assert version >= sum(moment <= end for moment in moments.values())
        assert kept == states[version].kept()
        shutil.rmtree(image)


def test_a_damaged_page_in_either_copy(tmp_path: Path) -> None:
    """The last page of a file, or any, becomes noise while the service is down."""
    folder, count = tmp_path / "models", 16
    states = clean(list(range(count)))

    async def write() -> None:
        shelf = Shelf(folder, LIMITS, 3)
        shelf.open()
        about = msgspec.convert(ABOUT, Creation)
        keeper = await shelf.create("m", origin.begun(about), about)
        for i in range(count):
            state = keeper.state
            sent = msgspec.convert(body(i), RowsSent)
            batch = state.batch(of_table(sent, state.inputs, state.target, LIMITS))
            await keeper.learn(batch, f"key-{i}")
            if i == 10:
                keeper._since.batches = 1000  # a checkpoint with the next
        shutil.copytree(folder, tmp_path / "killed")  # as a killed process leaves it
        await shelf.stop()
        shelf._lock.close()

    asyncio.run(write())
    rng = random.Random(6)
    names = ["first.db", "first.db-wal", "second.db", "second.db-wal"]
    for trial in range(16):
        image = tmp_path / "image"
        shutil.copytree(tmp_path / "killed", image)
        model = next(image.glob("model-*"))
        path = model / names[trial % 4]
        size = path.stat().st_size
        assert size > 0
        with open(path, "r+b") as file:
            last = (size - 1) // 4096 * 4096
            at = last if trial < 8 else rng.randrange(0, size, 4096)
            if trial in (4, 6):
                file.truncate(size - 1000)
            else:
                file.seek(at)
                file.write(rng.randbytes(min(4096, size - at)))
        version, kept, keys = opened(image, lambda k: (k.version, k.state.kept(), len(k._keys)))
        assert (version, keys) == (count, count), (trial, path.name)
        assert kept == states[count].kept()
        shutil.rmtree(image)
