"""Who is signed in: cookies of browsers that have shown the token."""

from __future__ import annotations

import hashlib
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.types import Scope

SIGN_IN = "/signin"
COOKIE = "mercer"
LASTS = 12 * 3600.0  # seconds
MOST = 100  # browsers at a time; the oldest has to sign in again
TRIES, PAUSE = 5, 60.0  # wrong tokens, and the seconds in which no more than these are looked at
SAFE = ("GET", "HEAD")


class Sessions:
    """Cookies that are known, by their digests; they end with the process.

    Examples
    --------
    >>> sessions = Sessions()
    >>> header = sessions.begin(secure=False)
    >>> scope = {"method": "GET", "headers": [(b"cookie", header.partition(";")[0].encode())]}
    >>> sessions.knows(scope), sessions.knows({"method": "GET", "headers": []})
    (True, False)
    """

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}
        self._failures: list[float] = []

    def begin(self, secure: bool) -> str:
        """Return the header Set-Cookie of a browser that has shown the token."""
        value = secrets.token_urlsafe(32)
        while len(self._until) >= MOST:
            del self._until[next(iter(self._until))]
        self._until[_digest(value)] = time.monotonic() + LASTS
        flags = "; Secure" if secure else ""
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LASTS:.0f}{flags}"

    def end(self, scope: Scope) -> str:
        """Forget the cookie of a request, and return the header that removes it."""
        self._until.pop(_digest(_cookie(scope)), None)
        return f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"

    def knows(self, scope: Scope) -> bool:
        """Whether a request comes from a page of this service in a browser that is signed in.

        What changes something must say that it comes from here: other pages cannot.
        """
        until = self._until.get(_digest(_cookie(scope)))
        if until is None or until < time.monotonic():
            return False
        return scope["method"] in SAFE or same_origin(scope)

    def may_try(self) -> bool:
        """Whether another token is looked at: few wrong ones were, of late."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < PAUSE]
        return len(self._failures) < TRIES

    def failed(self) -> None:
        """Count a wrong token."""
        self._failures.append(time.monotonic())


def same_origin(scope: Scope) -> bool:
    """Whether the header Origin names the host that the request was sent to."""
    headers = dict(scope["headers"])
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
    return bool(origin.netloc) and origin.netloc == headers.get(b"host", b"").decode("latin-1")


def _cookie(scope: Scope) -> str:
    jar: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                jar.load(value.decode("latin-1"))
            except CookieError:
                return ""
    return jar[COOKIE].value if COOKIE in jar else ""


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("latin-1", "replace")).digest()
