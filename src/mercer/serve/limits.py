"""What a request may ask for: names, keys, sizes; and how it is refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mercer.core.words import shown

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
KEY = r"[\x21-\x7e]{1,128}"
_NAME, _KEY = re.compile(NAME), re.compile(KEY)


@dataclass(frozen=True)
class Limits:
    """What one service takes; the command line has an option for the first four."""

    body: int = 16 << 20  # bytes of a request
    rows: int = 100_000  # of a request
    columns: int = 1000
    models: int = 100
    header: int = 32 << 10  # bytes of a request's line and headers
    patience: float = 30.0  # seconds for a request to arrive
    connections: int = 500
    waiting: int = 64  # batches of one model that wait to be learned
    buffered: int = 256 << 20  # bytes of all requests that are being read or wait
    jobs: int = 4  # fits of tables that are kept, one of which runs


class RefusedError(Exception):
    """A request that is not done, and changes nothing: status, a code and a sentence.

    ``row`` counts from 1; ``retry`` is the seconds after which to come again.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        row: int | None = None,
        column: str | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, shown(message, 500)
        self.row, self.column = row, None if column is None else shown(column, 200)
        self.retry = None if retry is None else max(1, math.ceil(retry))


def bad(message: str, *, row: int | None = None, column: str | None = None) -> RefusedError:
    """Return the refusal of contents that are not as they should be."""
    return RefusedError(422, "refused", message, row=row, column=column)


def check_name(name: str) -> str:
    """Return the name of a model; it is never part of a path all the same.

    Examples
    --------
    >>> check_name("sensor-7")
    'sensor-7'
    >>> check_name("../x")
    Traceback (most recent call last):
        ...
    mercer.serve.limits.RefusedError: a model is named by 1 to 64 letters, digits, '.', ...
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(
            422,
            "name",
            "a model is named by 1 to 64 letters, digits, '.', '_' and '-', the first of them a "
            f"letter or digit, not by '{shown(name, 40)}'",
        )
    return name


def check_key(key: str | None) -> str:
    """Return the idempotency key of a batch."""
    if key is None or not _KEY.fullmatch(key):
        raise RefusedError(
            400,
            "key",
            "learning needs the header Idempotency-Key: 1 to 128 visible characters, another for "
            "each batch; the same batch sent again with the same key is learned once",
        )
    return key
