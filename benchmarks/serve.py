"""The service under load: single rows are predicted while it learns, one process on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import ONE_THREAD, Row

CONNECTIONS, RATE = 16, 2200  # of the client that predicts, requests a second
BATCH, BATCHES, TEACHERS = 50, 21, 4  # rows, batches a second and connections that learn
D, BUDGET = 8, 300


class Server:
    """``mercer serve`` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "mercer", "serve", "--models", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        self.process.stdout.readline()
        self.token = (folder / "token").read_text().strip()

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def request(self, method: str, path: str, body: Any, key: str = "") -> bytes:
        """The bytes of a request."""
        data = json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        )
        return (head + (f"Idempotency-Key: {key}\r\n" if key else "") + "\r\n").encode() + data

    def stop(self) -> None:
        """Ask for an end, and wait for it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


class Wire(asyncio.Protocol):
    """One connection: requests as bytes, one at a time; it keeps the status of the answers."""

    def __init__(self) -> None:
        self.received, self.answer, self.transport = b"", None, None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, _, body = self.received.partition(b"\r\n\r\n")
        at = head.lower().find(b"content-length:")
        if at >= 0 and len(body) >= int(head[at + 15 :].split(b"\r\n", 1)[0]):
            self.received = b""
            if self.answer is not None and not self.answer.done():
                self.answer.set_result((int(head[9:12]), body))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its answer, not for ever."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await asyncio.wait_for(self.answer, 30)


@contextlib.asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    """Connect, and hang up."""
    transport, made = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
    try:
        yield made
    finally:
        transport.close()


def batch(rng: np.random.Generator) -> dict[str, Any]:
    """A batch of labelled rows."""
    X = rng.normal(size=(BATCH, D))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=BATCH) > 0, "a", "b")
    return {"X": X.round(4).tolist(), "y": y.tolist()}


class Load:
    """Both clients, and what they have seen."""

    def __init__(self, server: Server) -> None:
        self.server, self.rng = server, np.random.default_rng(0)
        self.times: list[float] = []
        self.learned: list[float] = []
        self.odd = self.sent = 0

    async def prepare(self) -> None:
        """Make the model, and give it rows until it has all its points."""
        async with wire(self.server.port) as one:
            await self._begin(one)

    async def _begin(self, one: Wire) -> None:
        about = {"learner": "logistic", "target": "y", "options": {"budget": BUDGET}}
        status, body = await one.ask(self.server.request("PUT", "/models/m", about))
        assert status == 201, body
        for _ in range(20):
            await self.learn(one)
        self.learned.clear()
        status, body = await one.ask(self.server.request("GET", "/models/m", None))
        print("points", json.loads(body)["points"], file=sys.stderr)

    async def learn(self, one: Wire) -> None:
        self.sent += 1
        begun = time.perf_counter()
        request = self.server.request("POST", "/models/m/learn", batch(self.rng), f"k{self.sent}")
        status, _ = await one.ask(request)
        self.learned.append(time.perf_counter() - begun)
        self.odd += status != 200

    async def teach(self, k: int, seconds: float) -> None:
        """Learn at a steady rate over one of the connections."""
        async with wire(self.server.port) as one:
            begun = time.perf_counter()
            for i in range(k, int(seconds * BATCHES), TEACHERS):
                await asyncio.sleep(max(0.0, begun + i / BATCHES - time.perf_counter()))
                if time.perf_counter() > begun + seconds:
                    return  # it could not keep the pace
                await self.learn(one)

    async def predict(self, k: int, seconds: float, rate: float | None) -> None:
        """Predict single rows over one connection: steadily, or as fast as it goes.

        At a steady rate a row that must wait for the one before it counts from when it was due.
        """
        rows = np.random.default_rng(k).normal(size=(50, D)).round(4)
        requests = [
            self.server.request("POST", "/models/m/predict", {"X": [row.tolist()]}) for row in rows
        ]
        async with wire(self.server.port) as one:
            await self._ask(one, k, requests, seconds, rate)

    async def _ask(
        self, one: Wire, k: int, requests: list[bytes], seconds: float, rate: float | None
    ) -> None:
        i, begun = 0, time.perf_counter()
        while (now := time.perf_counter()) < begun + seconds:
            due = now if rate is None else begun + (i + k / CONNECTIONS) * CONNECTIONS / rate
            if due > now:
                await asyncio.sleep(due - now)
            status, _ = await one.ask(requests[i % len(requests)])
            self.times.append(time.perf_counter() - due)
            self.odd += status != 200
            i += 1


async def measured(
    load: Load, seconds: float, rate: float | None, learning: bool
) -> dict[str, Any]:
    """Let the clients work for so long; return the figures."""
    load.times, load.learned, load.odd = [], [], 0
    before, begun = load.server.cpu(), time.perf_counter()
    work = [load.predict(k, seconds, rate) for k in range(CONNECTIONS)]
    memory: list[float] = []

    async def watch() -> None:
        for _ in range(max(4, int(seconds / 5))):
            await asyncio.sleep(seconds / max(4, int(seconds / 5)) * 0.98)
            memory.append(load.server.memory())

    taught = [load.teach(k, seconds) for k in range(TEACHERS if learning else 0)]
    await asyncio.gather(*work, watch(), *taught)
    took = time.perf_counter() - begun
    return {
        "rate": len(load.times) / took,
        "p50": 1e3 * float(np.quantile(load.times, 0.5)),
        "p99": 1e3 * float(np.quantile(load.times, 0.99)),
        "rows": BATCH * len(load.learned) / took,
        "learn_p99": 1e3 * float(np.quantile(load.learned, 0.99)) if load.learned else 0.0,
        "cpu": (load.server.cpu() - before) / took,
        "odd": load.odd,
        "memory": memory,
    }


def serve_rows(seconds: int) -> list[Row]:
    """Measure for so many seconds; 600 say whether the memory is flat."""
    try:
        import uvloop

        run: Any = uvloop.run
    except ImportError:
        run = asyncio.run
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "models")
        try:

            async def all_of_it() -> tuple[dict[str, Any], dict[str, Any]]:
                load = Load(server)
                await load.prepare()
                await measured(load, 3.0, RATE, True)  # warm
                steady = await measured(load, float(seconds), RATE, True)
                return steady, await measured(load, 5.0, None, True)

            steady, most = run(all_of_it())
        finally:
            server.stop()
    quality = {"connections": CONNECTIONS, "points": BUDGET, "columns": D, "not 200": steady["odd"]}
    note = f"{steady['cpu']:.2f} cores busy, p50 {steady['p50']:.2f} ms"
    memory = steady["memory"]
    growth = float(np.mean(memory[-2:]) - np.mean(memory[len(memory) // 4 : len(memory) // 4 + 2]))
    task = f"{seconds} s of single rows and batches of {BATCH}"
    rows = [
        Row(task, "predictions", steady["rate"], "a second", ">= 2000", quality=quality, note=note),
        Row(task, "p99 of a prediction", steady["p99"], "ms", "<= 10"),
        Row(task, "rows learned", steady["rows"], "a second", ">= 1000"),
        Row(task, "memory, end - first quarter", growth, "MiB", "<= 8"),
        Row("as fast as it goes, learning too", "predictions", most["rate"], "a second"),
    ]
    rows[2].note = f"p99 of a batch {steady['learn_p99']:.1f} ms"
    rows[3].note = f"{memory[-1]:.0f} MiB resident"
    rows[4].note = f"p99 {most['p99']:.1f} ms, {most['cpu']:.2f} cores busy"
    return rows
