"""``mercer serve``: the options, the token, the server."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import secrets
import signal
import socket
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mercer.app.terminal import AppError, require
from mercer.core.words import shown
from mercer.serve.limits import Limits

TOKEN = "token"  # noqa: S105  # the name of the file
LEAST = 16  # characters of a token


def read_token(path: Path) -> str:
    """Return the token in a file, which is made at the first start; refuse one that others read."""
    from mercer.serve.models.shelf import private

    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private(path, secrets.token_urlsafe(32) + "\n")
    mode = path.stat().st_mode
    if mode & 0o077:
        raise AppError(f"{path} can be read by others: chmod 600 {path}")
    token = path.read_text(encoding="ascii", errors="replace").strip()
    if len(token) < LEAST or not token.isprintable() or " " in token:
        raise AppError(f"{path} must hold a token of at least {LEAST} characters, without blanks")
    return token


def is_local(host: str) -> bool:
    """Whether an address is reached from this machine only.

    Examples
    --------
    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def made(folder: Path, limits: Limits, token: str, keep: int) -> Any:
    """Return the application over a folder of models."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

    from mercer.serve.http.api import Api, refused
    from mercer.serve.http.guard import Guard
    from mercer.serve.http.session import Sessions
    from mercer.serve.jobs.bench import Bench
    from mercer.serve.limits import RefusedError
    from mercer.serve.models.shelf import Shelf
    from mercer.serve.page.routes import Pages

    shelf = Shelf(folder, limits, keep)
    shelf.open()
    bench = Bench(shelf, limits)
    bench.clear()
    api, sessions = Api(shelf, bench, limits), Sessions()
    pages = Pages(api, token, sessions)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        shelf.start()
        yield
        api.stopping = True
        await bench.stop()
        await shelf.stop()

    async def odd(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = {404: "there is nothing here", 405: "not by this method"}
        return refused(RefusedError(status, "route", words.get(status, "this is not possible")))

    routes: Any = [*api.routes(), *pages.routes()]
    app = Starlette(
        routes=routes, lifespan=life, exception_handlers={HTTPException: odd, Exception: odd}
    )
    app.state.api = api
    return Guard(app, token, sessions)


def run(
    *,
    models: str,
    host: str,
    port: int,
    token_file: str | None,
    max_body: float,
    max_rows: int,
    max_columns: int,
    max_models: int,
    history: int,
) -> None:
    """Do the command; the parameters are its options."""
    for module in ("starlette", "uvicorn", "httptools", "msgspec", "jinja2"):
        require(module, "the service")
    public = not is_local(host)
    if public and token_file is None:
        raise AppError(
            f"{shown(host)} can be reached from elsewhere: name the token that you give to others "
            "with --token-file"
        )
    folder = Path(models)
    path = folder / TOKEN if token_file is None else Path(token_file)
    token = read_token(path)
    limits = Limits(
        body=int(max_body * (1 << 20)), rows=max_rows, columns=max_columns, models=max_models
    )
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    warnings.simplefilter("ignore")  # of batches: what matters is in their notes
    sys.setswitchinterval(0.0001)  # seconds that a prediction and a batch wait for each other

    import uvicorn
    from threadpoolctl import threadpool_limits

    from mercer.serve.http.guard import guarded

    listening = listener(host, port)
    with threadpool_limits(1), listening:  # the same bits on any number of cores
        app = made(folder, limits, token, history)
        config = uvicorn.Config(
            app,
            http=guarded(limits),
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=60,
            backlog=512,
        )
        listening.listen(512)  # whoever reads the next line may come at once
        where = listening.getsockname()
        address = f"[{where[0]}]" if ":" in where[0] else where[0]
        sys.stdout.write(f"mercer serves {folder} at http://{address}:{where[1]}\n")
        sys.stdout.write(f"the token is in {path}\n")
        sys.stdout.flush()
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises it again after its end
            signal.signal(number, lambda *_: None)
        server = uvicorn.Server(config)
        usual, api = server.handle_exit, app.app.state.api

        def ending(number: int, frame: Any) -> None:
            api.end_streams()  # who watches a fit would keep the service from its end
            usual(number, frame)

        server.handle_exit = ending  # type: ignore[method-assign,assignment]  # which uvicorn looks up later
        server.run(sockets=[listening])


def listener(host: str, port: int) -> socket.socket:
    """Return the socket, so that an address in use is said before any model is opened."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        raise AppError(f"cannot listen at {shown(host)}, port {port}: {error}") from None
    return found
