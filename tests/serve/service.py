"""A real server process for tests, and a client of a few lines. Only 127.0.0.1 is contacted."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 180.0  # seconds for a start on a machine that has much to do


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """``mercer serve`` in a process of its own, on a port that the system chooses."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mercer", "serve", f"--models={folder}", "--port=0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}),
        )
        self.port = self._port()
        self.token = (folder / "token").read_text().strip()

    def _port(self) -> int:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        if "http://" not in line:
            self.process.kill()
            raise AssertionError(f"no start: {line!r} {self.process.stderr.read().decode()}")
        self.process.stdout.readline()
        return int(line.rpartition(":")[2])

    def client(self) -> Client:
        return Client(self.port, self.token)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> str:
        """Ask for a graceful stop; return what was said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=PATIENCE)
        return said.decode()


class Client:
    """One connection that is kept, and made again when it was lost."""

    def __init__(self, port: int, token: str):
        self.port, self.token = port, token
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        key: str | None = None,
        **headers: str,
    ) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {self.token}", "content-type": kind}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["idempotency-key"] = key
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            self._connection.request(method, path, data, sent)
            response = self._connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def learn(self, name: str, body: Any, key: str, **given: Any) -> Reply:
        return self.send("POST", f"/models/{name}/learn", body, key=key, **given)

    def predict(self, name: str, body: Any, **given: Any) -> Reply:
        return self.send("POST", f"/models/{name}/predict", body, **given)

    def wait(self, path: str, until: Any, seconds: float = PATIENCE) -> Any:
        """Ask again until the answer is as expected."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self.get(path).json
            if until(answer):
                return answer
            time.sleep(0.1)
        raise AssertionError(f"{path}: {answer}")
