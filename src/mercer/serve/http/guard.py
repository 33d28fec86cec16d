"""What stands before the routes: the token, and a protocol that does not wait for ever."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mercer.serve.http.api import HEADERS, refused
from mercer.serve.http.session import SIGN_IN, Sessions
from mercer.serve.limits import Limits, RefusedError

OPEN = ("/health", SIGN_IN)
STATIC = "/page/static/"
log = logging.getLogger("mercer.serve")


class Guard:
    """Asks for the token, or for a browser that has shown it, and answers what nobody else did."""

    def __init__(self, app: ASGIApp, token: str, sessions: Sessions) -> None:
        self.app, self._sessions = app, sessions
        self._digest = hashlib.sha256(token.encode()).digest()

    def knows(self, scope: Scope) -> bool:
        """Whether a request carries the token; the comparison takes the same time for all."""
        for name, value in scope["headers"]:
            if name == b"authorization":
                word, _, given = value.partition(b" ")
                digest = hashlib.sha256(given.strip()).digest()
                return word.lower() == b"bearer" and hmac.compare_digest(digest, self._digest)
        return self._sessions.knows(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        if path not in OPEN and not path.startswith(STATIC) and not self.knows(scope):
            await _not_known(scope)(scope, receive, send)
            return
        begun = False

        async def sent(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception:
            log.exception("a request failed")
            if begun:
                return
            failure = RefusedError(500, "internal", "the service failed at this; its log says why")
            await refused(failure)(scope, receive, send)


def _not_known(scope: Scope) -> Response:
    """Return the answer to who has not shown the token: a person is asked for it."""
    wanted = dict(scope["headers"]).get(b"accept", b"")
    if scope["method"] == "GET" and b"text/html" in wanted:
        return RedirectResponse(SIGN_IN, 303, HEADERS)
    response = refused(
        RefusedError(
            401, "token", "send the header Authorization: Bearer TOKEN, see the token file"
        )
    )
    response.headers["www-authenticate"] = "Bearer"
    return response


def guarded(limits: Limits) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with limits on the size of headers and the time of arrival."""

    class GuardedProtocol(HttpToolsProtocol):
        _heading = 0  # bytes of a header that is not complete
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._heading >= 0:
                self._heading += len(data)
            super().data_received(data)
            if self._heading > limits.header and not self.transport.is_closing():
                self.send_400_response("the header is too long")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._heading = max(self._heading, 0)
            self._wait()

        def on_headers_complete(self) -> None:
            size = len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
            if size > limits.header:
                self._heading = size
                return  # refused by data_received; no request is made of it
            self._heading = -1  # what follows is a body
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if self._heading < 0:
                super().on_body(body)

        def on_message_complete(self) -> None:
            if self._heading < 0:
                super().on_message_complete()
            self._heading = 0
            self._hurry()

        def connection_lost(self, exc: Exception | None) -> None:
            self._hurry()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._hurry()
            self._patience = self.loop.call_later(limits.patience, self._enough)

        def _hurry(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _enough(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

    return GuardedProtocol
