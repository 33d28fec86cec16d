"""The OpenAPI document, made of the routes and of the messages that they read and write."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

import mercer
from mercer.serve import messages
from mercer.serve.limits import KEY, NAME, Limits
from mercer.serve.rows.read import ARROW, CSV, JSON

FILE = "application/octet-stream"
Schema = dict[str, Any]


class Operation(NamedTuple):
    """What a route reads and writes."""

    title: str
    answer: Any  # a message, or a media type
    status: int = 200
    body: Any = None  # a message; None for none
    also: tuple[str, ...] = ()  # other media types of the body
    answers: tuple[str, ...] = ()  # other media types of the answer
    query: tuple[tuple[str, Schema], ...] = ()
    key: bool = False
    refusals: tuple[int, ...] = ()


_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_TEXT: Schema = {"type": "string"}
_OF_FIT = (("target", _TEXT), ("kind", _TEXT), ("time_budget", _NUMBER), ("seed", _WHOLE))
ONE, JOB = "/models/{name}", "/jobs/{job}"
PAGE, PLAIN, EVENTS = "text/html", "text/plain", "text/event-stream"
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/health"): Operation("Whether the service is there", messages.Health),
    ("get", "/openapi.json"): Operation("This document", JSON),
    ("get", "/metrics"): Operation("Counts and figures for Prometheus", PLAIN),
    ("get", "/models"): Operation("All models", messages.Models),
    ("get", ONE): Operation("What a model is, and its scores", messages.ModelState),
    ("put", ONE): Operation(
        "Make an online learner, or load a model file",
        messages.ModelState,
        201,
        messages.Creation,
        also=(FILE,),
        refusals=(409, 415, 507),
    ),
    ("delete", ONE): Operation("Remove a model with all its versions", messages.Deleted),
    ("post", ONE + "/predict"): Operation(
        "Predict rows with the newest version",
        messages.Predicted,
        body=messages.RowsSent,
        also=(CSV, ARROW),
        answers=(CSV, ARROW),
        query=(("coverage", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),),
        refusals=(409, 415),
    ),
    ("post", ONE + "/learn"): Operation(
        "Learn a batch: it is on disk when this is answered",
        messages.Learned,
        body=messages.RowsSent,
        also=(CSV, ARROW),
        key=True,
        refusals=(409, 415, 503, 507),
    ),
    ("get", ONE + "/scores"): Operation(
        "Each of the last batches, predicted before it was learned",
        messages.History,
        query=(("since", _WHOLE), ("most", _WHOLE)),
    ),
    ("get", ONE + "/versions"): Operation("Versions to roll back to", messages.Versions),
    ("post", ONE + "/rollback"): Operation(
        "Make an older version the newest",
        messages.Learned,
        body=messages.Rollback,
        key=True,
        refusals=(503, 507),
    ),
    ("get", ONE + "/export"): Operation(
        "The newest version as a model file", FILE, refusals=(409,)
    ),
    ("post", ONE + "/fit"): Operation(
        "Find the best machine for a table; it becomes this model",
        messages.JobState,
        202,
        messages.FitRequest,
        also=(CSV, ARROW),
        query=_OF_FIT,
        refusals=(409, 415, 507),
    ),
    ("get", "/jobs"): Operation("The fits, newest first", messages.Jobs),
    ("get", JOB): Operation("How far a fit has come", messages.JobState),
    ("post", JOB + "/stop"): Operation("End a fit with the best so far", messages.JobState, 202),
    ("get", JOB + "/events"): Operation("The progress of a fit, to its end", EVENTS),
    ("get", JOB + "/report"): Operation("The report of a fit", PAGE),
}
_SENTENCES = {
    400: "The request is not understood.",
    401: "The token is missing or another.",
    404: "There is no such model or job.",
    409: "This cannot be done with this model, or its name is taken.",
    413: "The body, its rows or its columns are too many.",
    415: "The content type is not read.",
    422: "What the request holds is refused; nothing has changed.",
    429: "Too much is waiting: come again after Retry-After seconds.",
    503: "The log cannot be written, or the service stops: send it again with the same key.",
    507: "The disk is full: send it again with the same key when it is not.",
}


def document(limits: Limits) -> Schema:
    """Return the document of a service with these limits."""
    every: list[type] = [messages.Trouble]
    for operation in OPERATIONS.values():
        every += [m for m in (operation.answer, operation.body) if isinstance(m, type)]
    unique = list(dict.fromkeys(every))
    schemas, parts = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    reference = dict(zip(unique, schemas, strict=True))
    paths: dict[str, Schema] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _operation(path, operation, reference)
    text = (
        f"Limits: {limits.body} bytes, {limits.rows} rows and {limits.columns} columns a request, "
        f"{limits.models} models, {limits.waiting} batches of a model waiting."
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "mercer serve", "version": mercer.__version__, "description": text},
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(path: str, operation: Operation, reference: dict[Any, Schema]) -> Schema:
    parameters = []
    for name, pattern in (("name", NAME), ("job", "[0-9a-f]{16}")):
        if f"{{{name}}}" in path:
            schema = {"type": "string", "pattern": f"^{pattern}$"}
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name, schema in operation.query:
        parameters.append({"name": name, "in": "query", "schema": schema})
    refusals = {401, 429} | set(operation.refusals)
    if path == "/health":
        refusals = set()
    elif "{" in path:
        refusals |= {404, 422}
    if operation.key:
        schema = {"type": "string", "pattern": f"^{KEY}$"}
        key = {"name": "Idempotency-Key", "in": "header", "required": True, "schema": schema}
        parameters.append(key)
    found: Schema = {"summary": operation.title, "parameters": parameters}
    if path == "/health":
        found["security"] = []
    if operation.body is not None:
        refusals |= {400, 413}
        content: Schema = {JSON: {"schema": reference[operation.body]}}
        content |= {media: {"schema": {}} for media in operation.also}
        found["requestBody"] = {"required": True, "content": content}
    if isinstance(operation.answer, type):
        content = {JSON: {"schema": reference[operation.answer]}}
    else:
        content = {operation.answer: {"schema": {}}}
    content |= {media: {"schema": {}} for media in operation.answers}
    responses: Schema = {str(operation.status): {"description": "Done.", "content": content}}
    trouble = {JSON: {"schema": reference[messages.Trouble]}}
    for status in sorted(refusals):
        responses[str(status)] = {"description": _SENTENCES[status], "content": trouble}
    found["responses"] = responses
    return found
