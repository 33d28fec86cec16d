"""Fits of tables: one process at a time, its progress, and the model that it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from mercer.serve.jobs.fitting import FitTask
from mercer.serve.limits import Limits, RefusedError, check_name
from mercer.serve.messages import JobState
from mercer.serve.models import origin
from mercer.serve.models.shelf import Shelf

Status = Literal["waiting", "running", "done", "failed", "stopped"]
MODULE = "mercer.serve.jobs.fitting"
ANNOUNCED = ("announced", "expected")  # said once, before a fit begins, and kept to its end
PATIENCE = 30.0  # seconds beyond twice the budget, after which a fit is ended
log = logging.getLogger("mercer.serve")


@dataclass(eq=False)
class Running:
    """A job and its process."""

    id: str
    model: str
    folder: Path
    budget: float
    status: Status = "waiting"
    progress: dict[str, Any] = field(default_factory=dict)
    message: str | None = None
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    asked: bool = False  # to stop

    @property
    def over(self) -> bool:
        """Whether it has come to an end."""
        return self.status in ("done", "failed", "stopped")

    def told(self) -> JobState:
        """Return what there is to say of it."""
        seconds = (self.ended or time.monotonic()) - self.begun
        return JobState(
            id=self.id,
            model=self.model,
            status=self.status,
            progress=dict(self.progress),
            seconds=round(seconds, 3),
            message=self.message,
        )

    def tell(self) -> None:
        """Wake those who watch."""
        self.changed.set()
        self.changed = asyncio.Event()


class Bench:
    """All jobs of a service; they do not survive it, the models that they made do."""

    def __init__(self, shelf: Shelf, limits: Limits) -> None:
        self.shelf, self.limits = shelf, limits
        self.jobs: dict[str, Running] = {}
        self._turn = asyncio.Semaphore(1)

    def clear(self) -> None:
        """Remove what jobs of an earlier process left."""
        for folder in self.shelf.folder.glob("job-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def find(self, job: str) -> Running:
        """Return a job."""
        if job not in self.jobs:
            raise RefusedError(404, "unknown", "there is no such job")
        return self.jobs[job]

    def begin(self, model: str, task: FitTask) -> Running:
        """Start a fit, or let it wait for the one before."""
        check_name(model)
        busy = any(job.model == model and not job.over for job in self.jobs.values())
        if model in self.shelf.models or busy:
            raise RefusedError(
                409, "exists", "there is a model, or a job for one, of this name already"
            )
        while len(self.jobs) >= self.limits.jobs:
            old = next((job for job in self.jobs.values() if job.over), None)
            if old is None:
                raise RefusedError(429, "busy", "too many fits are waiting", retry=task.time_budget)
            self.drop(old)
        name = secrets.token_hex(8)
        folder = self.shelf.folder / f"job-{name}"
        try:
            folder.mkdir(mode=0o700)
            (folder / "task").write_bytes(msgspec.msgpack.encode(task))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RefusedError(507, "full", f"the table could not be written: {error}") from None
        job = Running(name, model, folder, task.time_budget)
        self.jobs[name] = job
        job.task = asyncio.get_running_loop().create_task(self._run(job))
        return job

    def drop(self, job: Running) -> None:
        """Forget a job that is over, and its files."""
        del self.jobs[job.id]
        shutil.rmtree(job.folder, ignore_errors=True)

    def interrupt(self, job: Running) -> None:
        """Ask a job for the best that it has so far."""
        job.asked = True
        if job.process is not None and job.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                job.process.send_signal(signal.SIGINT)
        elif job.status == "waiting" and job.task is not None:
            job.task.cancel()

    async def watch(self, job: Running) -> AsyncIterator[JobState]:
        """Yield the job whenever it has changed, to its end."""
        yield job.told()
        while not job.over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.changed.wait(), 15.0)
            yield job.told()

    async def stop(self) -> None:
        """End all jobs."""
        for job in self.jobs.values():
            if job.process is not None and job.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    job.process.kill()
            if job.task is not None:
                job.task.cancel()
        tasks = [job.task for job in self.jobs.values() if job.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Running) -> None:
        try:
            async with self._turn:
                job.status, job.begun = "running", time.monotonic()
                job.tell()
                await self._fit(job)
                await self._take(job)
        except asyncio.CancelledError:
            job.status, job.message = "stopped", "stopped before it began, or with the service"
        except RefusedError as refusal:
            job.status, job.message = "failed", refusal.message
        except Exception as error:
            log.exception("a fit failed")
            job.status, job.message = "failed", f"{type(error).__name__}: {error}"
        finally:
            job.ended = time.monotonic()
            job.tell()

    async def _fit(self, job: Running) -> None:
        pipe = asyncio.subprocess.PIPE
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        job.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, str(job.folder), stdout=pipe,
            stdin=asyncio.subprocess.DEVNULL, start_new_session=True, env=environment,
        )  # fmt: skip
        try:
            await asyncio.wait_for(self._listen(job), 2.0 * job.budget + PATIENCE)
        except TimeoutError:
            raise RefusedError(500, "late", "the fit took too long and was ended") from None
        finally:
            if job.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    job.process.kill()
            await job.process.wait()

    async def _listen(self, job: Running) -> None:
        process = job.process
        assert process is not None
        assert process.stdout is not None
        while line := await process.stdout.readline():
            try:
                event = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                continue  # something that a library prints
            kind = event.pop("event", None)
            if kind == "failed":
                job.message = str(event.get("message", ""))
            elif kind == "progress":
                told = {k: job.progress[k] for k in ANNOUNCED if k in job.progress}
                job.progress = told | event
                job.tell()
        await process.wait()

    async def _take(self, job: Running) -> None:
        """Put the model of a fit that has ended on the shelf."""
        made = job.folder / "model.mercer"
        if job.process is None or job.process.returncode or not made.exists():
            stopped = job.asked
            job.status = "stopped" if stopped else "failed"
            job.message = job.message or "the process of the fit ended without a model"
            return
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(None, made.read_bytes)
        state = await loop.run_in_executor(None, origin.uploaded, body)
        await self.shelf.create(job.model, state, None)
        job.status = "done"
        job.message = "stopped early: the best machine so far" if job.asked else None
