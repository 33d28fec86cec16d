"""The routes: what each request does, and how it is answered."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import mercer
from mercer.serve.http.metrics import Meter
from mercer.serve.http.together import Together, timed
from mercer.serve.jobs.bench import Bench
from mercer.serve.jobs.fitting import FitTask
from mercer.serve.limits import Limits, RefusedError, check_key, check_name
from mercer.serve.messages import (
    Creation,
    Deleted,
    FitRequest,
    Health,
    History,
    Jobs,
    Models,
    Predicted,
    Reason,
    Rollback,
    Trouble,
)
from mercer.serve.models import origin
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import State
from mercer.serve.models.shelf import Shelf
from mercer.serve.rows.read import ARROW, CSV, JSON, SentColumns, decode, of_table, parsed

FILE = "application/octet-stream"  # a model file
AT_ONCE = 0.002  # seconds that a prediction may take in the event loop's thread
QUEUED = 64  # larger predictions that wait for a thread
_CREATION = msgspec.json.Decoder(Creation)
_ROLLBACK = msgspec.json.Decoder(Rollback)
_FIT = msgspec.json.Decoder(FitRequest)
_ENCODE = msgspec.json.Encoder().encode
HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
Handler = Callable[[Request], Awaitable[Response]]


def answered(message: Any, status: int = 200) -> Response:
    """Return an answer of JSON."""
    return Response(_ENCODE(message), status, HEADERS, JSON)


def refused(refusal: RefusedError) -> Response:
    """Return the answer to a request that is not done."""
    problem = Reason(
        code=refusal.code, message=refusal.message, row=refusal.row, column=refusal.column
    )
    response = answered(Trouble(error=problem), refusal.status)
    if refusal.retry is not None:
        response.headers["retry-after"] = str(refusal.retry)
    return response


class Api:
    """All routes over one shelf of models."""

    def __init__(self, shelf: Shelf, bench: Bench, limits: Limits) -> None:
        self.shelf, self.bench, self.limits = shelf, bench, limits
        self.meter = Meter()
        self.together = Together()
        self.stopping = False
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="reader")
        self._reading = self._buffered = 0

    def routes(self) -> list[Route]:
        """Return the routes; the OpenAPI document lists the same."""
        one = "/models/{name}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self.health),
            ("GET", "/openapi.json", self.document),
            ("GET", "/metrics", self.metrics),
            ("GET", "/models", self.every),
            ("GET", one, self.state),
            ("PUT", one, self.create),
            ("DELETE", one, self.delete),
            ("POST", one + "/predict", self.predict),
            ("POST", one + "/learn", self.learn),
            ("GET", one + "/scores", self.scores),
            ("GET", one + "/versions", self.versions),
            ("POST", one + "/rollback", self.rollback),
            ("GET", one + "/export", self.export),
            ("POST", one + "/fit", self.fit),
            ("GET", "/jobs", self.jobs),
            ("GET", "/jobs/{job}", self.job),
            ("POST", "/jobs/{job}/stop", self.end),
            ("GET", "/jobs/{job}/events", self.events),
            ("GET", "/jobs/{job}/report", self.report),
        ]
        return [
            Route(path, self._counted(path, handler), methods=[method])
            for method, path, handler in table
        ]

    def _counted(self, path: str, handler: Handler) -> Handler:
        """Return the handler with its refusals answered, and its time measured."""

        async def counted(request: Request) -> Response:
            begun = time.perf_counter()
            try:
                response = await handler(request)
            except RefusedError as refusal:
                response = refused(refusal)
            except ClientDisconnect:
                response = refused(RefusedError(400, "gone", "the request ended before its body"))
            self.meter.count(path, response.status_code, time.perf_counter() - begun)
            return response

        return counted

    def end_streams(self) -> None:
        """Say that the service stops, to those who watch a fit first of all."""
        self.stopping = True
        for job in self.bench.jobs.values():
            job.tell()

    # ------------------------------------------------------------------ the service
    async def health(self, request: Request) -> Response:
        """That the service is there."""
        status: Any = "stopping" if self.stopping else "ok"
        return answered(Health(status=status, version=mercer.__version__))

    async def document(self, request: Request) -> Response:
        """The OpenAPI document."""
        from mercer.serve.http.openapi import document

        return answered(document(self.limits))

    async def metrics(self, request: Request) -> Response:
        """Counts and figures in the text format of Prometheus."""
        text = self.meter.text(self.shelf)
        return Response(text, 200, HEADERS, "text/plain; version=0.0.4")

    # ------------------------------------------------------------------ models
    async def every(self, request: Request) -> Response:
        """All models."""
        keepers = sorted(self.shelf.models.values(), key=lambda keeper: keeper.name)
        return answered(Models(models=[keeper.describe() for keeper in keepers]))

    async def state(self, request: Request) -> Response:
        """What a model is, how far it has come, and its prequential scores."""
        return answered(self._model(request).describe())

    async def create(self, request: Request) -> Response:
        """Make an online learner, or load a model file."""
        name = check_name(request.path_params["name"])
        body, kind = await self.body(request)
        if kind == FILE:
            loop = asyncio.get_running_loop()
            state = await loop.run_in_executor(self._readers, origin.uploaded, body)
            keeper = await self.shelf.create(name, state, None)
        elif kind == JSON:
            about: Creation = parsed(body, _CREATION)
            state, first = origin.begun(about), None
            if about.batch is not None:
                columns = of_table(about.batch, about.inputs, about.target, self.limits)
                first, about.batch = state.batch(columns), None
            keeper = await self.shelf.create(name, state, about, first)
        else:
            raise RefusedError(
                415, "media", f"a model is made by {JSON}, or is a model file ({FILE})"
            )
        return answered(keeper.describe(), 201)

    async def delete(self, request: Request) -> Response:
        """Remove a model with all its versions."""
        name = self._model(request).name
        await self.shelf.delete(name)
        return answered(Deleted(deleted=name))

    async def predict(self, request: Request) -> Response:
        """Predict rows with the newest version, or refuse them."""
        keeper = self._model(request)
        body, kind = await self.body(request)
        coverage = _number(request, "coverage", 0.9) if request.scope["query_string"] else 0.9
        if not 0.0 < coverage < 1.0:
            raise RefusedError(422, "refused", "coverage lies between 0 and 1")
        state, version = keeper.state, keeper.version
        columns = decode(body, kind, state.inputs, state.target, self.limits)
        if columns.n == 1 and keeper.pace <= AT_ONCE:
            found = await self.together.predict(keeper, state, state.rows(columns), coverage)
        elif keeper.pace * columns.n <= AT_ONCE and len(body) <= 1 << 16:
            found = _predicted(keeper, state, columns, coverage)
        else:
            found = await self.aside(_predicted, keeper, state, columns, coverage)
        keeper.predicted += columns.n
        wanted = request.headers.get("accept", "")
        if wanted == CSV:
            return Response(csv_of(found), 200, HEADERS | {"x-version": str(version)}, CSV)
        if wanted == ARROW:
            from mercer.serve.rows.arrow import write_stream

            stream = write_stream(found)
            return Response(stream, 200, HEADERS | {"x-version": str(version)}, ARROW)
        return answered(Predicted(model=keeper.name, version=version, columns=found))

    async def learn(self, request: Request) -> Response:
        """Learn a batch: it is on disk when this is answered, and learned once for its key."""
        keeper = self._model(request)
        key = check_key(request.headers.get("idempotency-key"))
        body, kind = await self.body(request)
        state = keeper.state
        columns = decode(body, kind, state.inputs, state.target, self.limits)
        future = keeper.learn(state.batch(columns), key)
        self._buffered += len(body)
        try:
            return answered(await asyncio.shield(future))
        finally:
            self._buffered -= len(body)

    async def scores(self, request: Request) -> Response:
        """The figures of the last batches, each predicted before it was learned."""
        keeper = self._model(request)
        since, most = int(_number(request, "since", 0)), int(_number(request, "most", 100))
        batches = keeper.history(since, max(1, min(most, 1000)))
        return answered(History(model=keeper.name, batches=batches))

    async def versions(self, request: Request) -> Response:
        """To which versions the model can be rolled back."""
        return answered(self._model(request).versions())

    async def rollback(self, request: Request) -> Response:
        """Make an older version the newest; what came after it stays in the log."""
        keeper = self._model(request)
        key = check_key(request.headers.get("idempotency-key"))
        body, _ = await self.body(request)
        wanted: Rollback = parsed(body, _ROLLBACK)
        return answered(await asyncio.shield(keeper.rollback(wanted.version, key)))

    async def export(self, request: Request) -> Response:
        """The newest version as a model file."""
        keeper = self._model(request)
        body = await self.aside(keeper.state.exported)
        return Response(body, 200, HEADERS | {"x-version": str(keeper.version)}, FILE)

    # ------------------------------------------------------------------ jobs
    async def fit(self, request: Request) -> Response:
        """Find the best machine for a table, in a process of its own; it becomes this model."""
        name = check_name(request.path_params["name"])
        body, kind = await self.body(request)
        if kind == JSON:
            wanted: FitRequest = parsed(body, _FIT)
            columns = of_table(wanted.table, None, wanted.target, self.limits)
        else:
            asked = dict(request.query_params)
            budget = _number(request, "time_budget", 60.0)
            seed = int(_number(request, "seed", 0))
            given = {k: v for k, v in asked.items() if k not in ("time_budget", "seed")}
            told = {"table": {}, "time_budget": budget, "seed": seed, **given}
            try:
                wanted = msgspec.convert(told, FitRequest)
            except msgspec.ValidationError as error:
                raise RefusedError(
                    422, "refused", f"the query is not understood: {error}"
                ) from None
            columns = decode(body, kind, None, wanted.target, self.limits)
        if wanted.target not in columns.values:
            raise RefusedError(422, "refused", "the target is not a column", column=wanted.target)
        task = FitTask(
            columns={k: [*_listed(v)] for k, v in columns.values.items()},
            texts=columns.texts,
            target=wanted.target,
            kind=wanted.kind,
            features=wanted.features,
            time_budget=wanted.time_budget,
            seed=wanted.seed,
        )
        return answered(self.bench.begin(name, task).told(), 202)

    async def jobs(self, request: Request) -> Response:
        """The fits, newest first."""
        return answered(Jobs(jobs=[job.told() for job in reversed(self.bench.jobs.values())]))

    async def job(self, request: Request) -> Response:
        """How far a fit has come."""
        return answered(self.bench.find(request.path_params["job"]).told())

    async def end(self, request: Request) -> Response:
        """End a fit with the best machine that it has found so far."""
        job = self.bench.find(request.path_params["job"])
        self.bench.interrupt(job)
        return answered(job.told(), 202)

    async def events(self, request: Request) -> Response:
        """The progress of a fit as server-sent events, to its end."""
        job = self.bench.find(request.path_params["job"])

        async def lines() -> AsyncIterator[bytes]:
            async for told in self.bench.watch(job):
                yield b"data: " + _ENCODE(told) + b"\n\n"
                if self.stopping or await request.is_disconnected():
                    return

        return StreamingResponse(lines(), 200, HEADERS, "text/event-stream")

    async def report(self, request: Request) -> Response:
        """The report of a fit, one page of HTML."""
        job = self.bench.find(request.path_params["job"])
        path = job.folder / "report.html"
        if not path.exists():
            raise RefusedError(404, "unknown", "this fit has no report")
        policy = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
        page = HEADERS | {"content-security-policy": policy}
        text = await self.aside(path.read_bytes)
        return Response(text, 200, page, "text/html; charset=utf-8")

    # ------------------------------------------------------------------ within
    def _model(self, request: Request) -> Keeper:
        return self.shelf.find(request.path_params["name"])

    async def body(self, request: Request) -> tuple[bytes, str]:
        """Return the body and its content type, within the limits."""
        if self._buffered > self.limits.buffered:
            raise RefusedError(429, "busy", "too many requests are being read", retry=1)
        most, kind = self.limits.body, request.headers.get("content-type", "")
        claimed = request.headers.get("content-length", "0")
        parts: list[bytes] = []
        size = int(claimed) if claimed.isdecimal() and len(claimed) < 19 else most + 1
        if size > most:
            raise _too_long(most)
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self._buffered += len(part)
                parts.append(part)
                if size > most:
                    raise _too_long(most)
        finally:
            self._buffered -= size
        return b"".join(parts), kind.partition(";")[0].strip().lower()

    async def aside(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do what takes long in a thread, if not too much is waiting for one."""
        if self._reading >= QUEUED:
            raise RefusedError(429, "busy", f"{self._reading} large requests are waiting", retry=1)
        self._reading += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work, *given)
        finally:
            self._reading -= 1


def _predicted(
    keeper: Keeper, state: State, columns: SentColumns, coverage: float
) -> dict[str, list[Any]]:
    return timed(keeper, state, state.rows(columns), coverage)


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, "size", f"a body has at most {most} bytes")


def _number(request: Request, name: str, default: float) -> float:
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e15:
        raise RefusedError(422, "refused", f"{name} must be a number")
    return value


def _listed(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def csv_of(columns: dict[str, list[Any]]) -> str:
    """Return columns as the text of a CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()
