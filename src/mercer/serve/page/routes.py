"""The routes of the page: HTML for people, over the same models and jobs as the interface."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import mercer
from mercer.core.words import shown
from mercer.serve.http.api import HEADERS, Api, answered, refused
from mercer.serve.http.session import SIGN_IN, Sessions, same_origin
from mercer.serve.jobs.fitting import FitTask
from mercer.serve.limits import RefusedError, bad, check_name
from mercer.serve.models.keeper import Keeper
from mercer.serve.page.sheets import KINDS, Sheets, read_sheet
from mercer.serve.page.views import (
    Batches,
    live,
    predicted_rows,
    proposed_rows,
    ranking,
    surprising,
)
from mercer.serve.page.what_if import answer, inputs_of
from mercer.serve.rows.read import CSV, decode
from mercer.tables import TableModel

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
PAGE = HEADERS | {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # without any, a form would not say where it comes from
    "x-frame-options": "DENY",
}
TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
FORM = 1 << 20  # bytes of a form
Handler = Callable[[Request], Awaitable[Response]]


class WhatIf(msgspec.Struct, forbid_unknown_fields=True):
    """A row that a person has set, and the input that was moved last."""

    values: dict[str, str]
    moved: str | None = None


_WHAT_IF = msgspec.json.Decoder(WhatIf)


class Pages:
    """All pages of one service."""

    def __init__(self, api: Api, token: str, sessions: Sessions) -> None:
        self.api, self.sessions = api, sessions
        self.sheets = Sheets(api.limits)
        self._token = token
        folder = files("mercer.serve.page")
        self._static = {name: (folder / "static" / name).read_bytes() for name in TYPES}

        def source(name: str) -> str:
            return (folder / "templates" / name).read_text(encoding="utf-8")

        self._html = Environment(
            loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._html.filters["shown"] = shown
        self._html.globals["version"] = mercer.__version__

    def routes(self) -> list[Route]:
        """Return the routes; those of the interface come first."""
        model = "/page/models/{name}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/", self.home),
            ("GET", SIGN_IN, self.ask),
            ("POST", SIGN_IN, self.sign_in),
            ("POST", "/signout", self.sign_out),
            ("GET", "/page/static/{file}", self.static),
            ("POST", "/page/tables", self.upload),
            ("GET", "/page/tables/{sheet}", self.sheet),
            ("POST", "/page/tables/{sheet}", self.fit),
            ("GET", "/page/jobs/{job}", self.job),
            ("POST", "/page/jobs/{job}/stop", self.stop),
            ("GET", model, self.model),
            ("POST", model + "/delete", self.delete),
            ("POST", model + "/what-if", self.what_if),
            ("POST", model + "/rows", self.rows),
            ("POST", model + "/propose", self.propose),
            ("GET", model + "/live", self.live),
        ]
        return [Route(path, self._answered(handler), methods=[m]) for m, path, handler in table]

    def _answered(self, handler: Handler) -> Handler:
        """Return the handler with its refusals shown as a page, or as JSON to a script."""

        async def safely(request: Request) -> Response:
            try:
                return await handler(request)
            except RefusedError as refusal:
                if "text/html" not in request.headers.get("accept", ""):
                    return refused(refusal)
                return self._page("refused.html", refusal.status, refusal=refusal)

        return safely

    def _page(self, template: str, status: int = 200, **given: Any) -> Response:
        text = self._html.get_template(template).render(**given)
        return Response(text, status, PAGE, "text/html; charset=utf-8")

    # ------------------------------------------------------------------ signing in
    async def ask(self, request: Request) -> Response:
        """Ask for the token."""
        return self._page("signin.html", wrong="")

    async def sign_in(self, request: Request) -> Response:
        """Give a cookie to a browser that shows the token."""
        form = await self._form(request)
        if not same_origin(request.scope):
            raise RefusedError(403, "origin", "sign in on the page itself")
        if not self.sessions.may_try():
            words = "too many wrong tokens: wait a minute"
            return self._page("signin.html", 429, wrong=words)
        given = form.get("token", "").strip()
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            self.sessions.failed()
            return self._page("signin.html", 401, wrong="this is not the token")
        answer = RedirectResponse("/", 303, HEADERS)
        answer.headers["set-cookie"] = self.sessions.begin(request.url.scheme == "https")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Forget the browser."""
        answer = RedirectResponse(SIGN_IN, 303, HEADERS)
        answer.headers["set-cookie"] = self.sessions.end(request.scope)
        return answer

    async def static(self, request: Request) -> Response:
        """The style sheet, the script, the icon."""
        name = request.path_params["file"]
        if name not in self._static:
            raise RefusedError(404, "unknown", "there is nothing here")
        return Response(self._static[name], 200, HEADERS, f"{TYPES[name]}; charset=utf-8")

    # ------------------------------------------------------------------ tables and fits
    async def home(self, request: Request) -> Response:
        """Models, fits, tables, and where to drop one."""
        keepers = sorted(self.api.shelf.models.values(), key=lambda keeper: keeper.name)
        models = [keeper.describe() for keeper in keepers]
        jobs = [job.told() for job in reversed(self.api.bench.jobs.values())]
        limits = self.api.limits
        return self._page(
            "home.html", models=models, jobs=jobs, sheets=self.sheets.every(), limits=limits
        )

    async def upload(self, request: Request) -> Response:
        """Read a table, and say where it is shown."""
        body, _ = await self.api.body(request)
        name = request.headers.get("x-file-name", "table")
        sheet = await self.api.aside(read_sheet, body, name, self.api.limits)
        self.sheets.add(sheet)
        return answered({"url": f"/page/tables/{sheet.id}"}, 201)

    async def sheet(self, request: Request) -> Response:
        """What the columns were taken for, to be corrected; the target to be chosen."""
        sheet = self.sheets.find(request.path_params["sheet"])
        return self._page("sheet.html", sheet=sheet, kinds=KINDS, target="", name="", wrong="")

    async def fit(self, request: Request) -> Response:
        """Begin the search for the best machine."""
        sheet = self.sheets.find(request.path_params["sheet"])
        form = await self._form(request)
        target, name = form.get("target", ""), form.get("name", "").strip()
        try:
            check_name(name)
            given = {c.name: form.get(f"kind-{i}", c.kind) for i, c in enumerate(sheet.columns)}
            kinds = sheet.kinds(given, target)
            budget = _seconds(form.get("budget", "60"))
            task = FitTask(
                columns=sheet.cells(list(kinds)),
                texts=True,
                target=target,
                kind=form.get("kind") or None,
                features=[column for column in kinds if column != target],
                time_budget=budget,
                seed=0,
                kinds=kinds,
            )
            job = self.api.bench.begin(name, task)
        except RefusedError as refusal:
            told = {"sheet": sheet, "kinds": KINDS, "target": target, "name": name}
            return self._page("sheet.html", refusal.status, wrong=refusal.message, **told)
        self.sheets.fitted(name, sheet)
        return RedirectResponse(f"/page/jobs/{job.id}", 303, HEADERS)

    async def job(self, request: Request) -> Response:
        """A fit while it goes on."""
        job = self.api.bench.find(request.path_params["job"])
        return self._page("job.html", job=job.told(), budget=job.budget)

    async def stop(self, request: Request) -> Response:
        """End a fit with the best that it has found."""
        job = self.api.bench.find(request.path_params["job"])
        self.api.bench.interrupt(job)
        return RedirectResponse(f"/page/jobs/{job.id}", 303, HEADERS)

    # ------------------------------------------------------------------ models
    def _keeper(self, request: Request) -> Keeper:
        return self.api.shelf.find(request.path_params["name"])

    async def model(self, request: Request) -> Response:
        """A model: what it is, what if, new rows; the stream or the ranking behind it."""
        keeper = self._keeper(request)
        state, told = keeper.state, keeper.describe()
        table = state.model if isinstance(state.model, TableModel) else None
        jobs = self.api.bench.jobs.values()
        report = next(
            (
                job.id
                for job in jobs
                if job.model == keeper.name and (job.folder / "report.html").exists()
            ),
            None,
        )
        behind = self.sheets.behind(keeper.name)
        return self._page(
            "model.html",
            model=told,
            inputs=inputs_of(state) if state.model is not None else [],
            ranking=[] if table is None else ranking(table),
            chosen="" if table is None else table.chosen_.sentence,
            notes=told.notes if table is None else table.notes_,
            rows=[] if table is None else surprising(table, behind),
            quantity=state.quantity,
            report=report,
            address=quote(keeper.name),
            proposes=hasattr(state.machine, "propose") if state.model is not None else False,
            live=live(keeper) if told.learns else None,
        )

    async def delete(self, request: Request) -> Response:
        """Remove a model, if its name was written once more."""
        name = self._keeper(request).name
        if (await self._form(request)).get("again", "").strip() != name:
            raise bad("write the name of the model to remove it")
        await self.api.shelf.delete(name)
        return RedirectResponse("/", 303, HEADERS)

    async def what_if(self, request: Request) -> Response:
        """The prediction for one row."""
        keeper = self._keeper(request)
        body, _ = await self.api.body(request)
        try:
            asked = _WHAT_IF.decode(body)
        except msgspec.DecodeError as error:
            raise RefusedError(400, "json", f"the body is not what is expected: {error}") from None
        return answered(await self.api.aside(answer, keeper.state, asked.values, asked.moved))

    async def rows(self, request: Request) -> Response:
        """Predictions for pasted rows."""
        keeper = self._keeper(request)
        body, _ = await self.api.body(request)
        state = keeper.state
        columns = decode(body, CSV, state.inputs, state.target, self.api.limits)
        found = await self.api.aside(predicted_rows, state, columns)
        keeper.predicted += columns.n
        return answered(found)

    async def propose(self, request: Request) -> Response:
        """Which of the pasted rows to observe next."""
        keeper = self._keeper(request)
        body, _ = await self.api.body(request)
        state = keeper.state
        columns = decode(body, CSV, state.inputs, state.target, self.api.limits)
        return answered(await self.api.aside(proposed_rows, state, columns))

    async def live(self, request: Request) -> Response:
        """The scores of a stream so far."""
        found: Batches = live(self._keeper(request))
        return answered(found)

    async def _form(self, request: Request) -> dict[str, str]:
        body, kind = await self.api.body(request)
        if kind != "application/x-www-form-urlencoded" or len(body) > FORM:
            raise RefusedError(415, "media", "a form was expected")
        try:
            fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=3000)
        except ValueError:
            raise RefusedError(400, "form", "the form is not understood") from None
        return {name: values[-1] for name, values in fields.items()}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= 3600.0:
        raise bad("the time lies between 1 and 3600 seconds")
    return seconds
