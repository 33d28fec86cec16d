"""The log of one model on disk: two copies, each a SQLite database, and how they recover.

A batch is committed (WAL, synchronous=FULL) to both copies before it is acknowledged. When they are
opened, a copy that is behind is brought up to the other, and one that is damaged is made anew from
whatever either of them has: every record carries a digest of its own, since a database says nothing
about bits that changed inside a value, nor about the end of a write-ahead log that is lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mercer.serve.limits import RefusedError

SCHEMA = """
CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL, digest BLOB);
CREATE TABLE log (version INTEGER PRIMARY KEY, what TEXT NOT NULL, key TEXT NOT NULL,
    content BLOB NOT NULL, at REAL NOT NULL, told BLOB NOT NULL, body BLOB, digest BLOB);
CREATE TABLE checkpoint (version INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB);
"""
COPIES = ("first.db", "second.db")
KEYS = 10_000  # versions whose keys are remembered
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NEW, GONE = ".new", ".gone"  # a folder that is being made, or removed


class DamagedError(Exception):
    """Neither copy has all that is needed."""


class Record(NamedTuple):
    """One version of a model: a batch that was learned, or the version that was gone back to."""

    version: int
    what: str  # "batch" or "rollback"
    key: str
    content: bytes  # digest of what the client sent
    at: float
    told: bytes  # figures, JSON
    body: bytes | None  # the batch; None when it is older than all checkpoints

    def digest(self) -> bytes:
        """Return what is stored beside it; pruning removes the body, hence both on their own."""
        head = repr((self.version, self.what, self.key, self.content.hex(), self.at)).encode()
        return _digest(head, self.told) + (b"" if self.body is None else _digest(self.body))


class SavedState(NamedTuple):
    """The state of a model at one version."""

    version: int
    body: bytes


@dataclass(frozen=True)
class Content:
    """What a store has; ``records`` are those after the newest checkpoint, bodies included."""

    about: bytes
    newest: SavedState | None
    records: list[Record]
    history: list[Record]  # the last ones, without bodies
    checkpoints: list[int]

    @property
    def version(self) -> int:
        """The newest version."""
        last = self.history[-1].version if self.history else 0
        return max(last, self.newest.version if self.newest else 0)


def _digest(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()[:16]


# ---------------------------------------------------------------------- one copy
def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        for line in ("journal_mode=WAL", "synchronous=FULL", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {line}").fetchall()
        connection.execute("PRAGMA cell_size_check=ON")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _insert(
    connection: sqlite3.Connection, records: Iterable[Record], checkpoints: Iterable[SavedState]
) -> None:
    connection.executemany(
        "INSERT INTO log VALUES (?,?,?,?,?,?,?,?)", ((*r, r.digest()) for r in records)
    )
    connection.executemany(
        "INSERT OR REPLACE INTO checkpoint VALUES (?,?,?)",
        ((*c, _digest(c.body)) for c in checkpoints),
    )


def _prune(connection: sqlite3.Connection, keep: int) -> None:
    """Keep so many checkpoints, bodies of batches after the oldest, and keys of the last ones."""
    rows = connection.execute("SELECT version FROM checkpoint ORDER BY version DESC").fetchall()
    if len(rows) > keep:
        oldest = rows[keep - 1][0]
        connection.execute("DELETE FROM checkpoint WHERE version < ?", (oldest,))
        connection.execute(
            "UPDATE log SET body = NULL, digest = substr(digest, 1, 16) "
            "WHERE version <= ? AND body IS NOT NULL",
            (oldest,),
        )
    connection.execute(
        "DELETE FROM log WHERE version <= (SELECT max(version) FROM log) - ?", (KEYS,)
    )


def _build(path: Path, about: bytes, records: list[Record], kept: list[SavedState]) -> None:
    """Write a whole copy: beside its place first, so that it is there entirely or not at all."""
    new = path.with_suffix(".building")
    _remove(new)
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        with _transaction(connection):
            connection.execute("INSERT INTO about VALUES (1, ?, ?)", (about, _digest(about)))
            _insert(connection, records, kept)
    finally:
        connection.close()
    _remove(path)
    os.replace(new, path)
    sync_folder(path.parent)


def _remove(path: Path) -> None:
    for suffix in ("-wal", "-shm", "-journal", ""):  # the log first: it must not meet a new base
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether a copy cannot be read because of what is in it, rather than because of the disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the first: there is no such table
    return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _Found(NamedTuple):
    """What can be read of one copy."""

    sound: bool
    last: int
    about: bytes | None
    records: dict[int, Record]
    checkpoints: dict[int, bytes]
    error: sqlite3.Error | None = None  # of the disk: there may be more than was read


def _look(connection: sqlite3.Connection) -> _Found:
    """Read all of a copy that is intact; damaged records are passed over."""
    records: dict[int, Record] = {}
    kept: dict[int, bytes] = {}
    about, sound, failed = None, False, None
    try:
        sound = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
        for row in _each(connection, "about", "one"):
            about = row[1] if _digest(row[1]) == row[2] else None
        for row in _each(connection, "log", "version"):
            record = Record(*row[:7])
            if record.digest() == row[7]:
                records[record.version] = record
            else:
                sound = False
        for version, body, digest in _each(connection, "checkpoint", "version"):
            if _digest(body) == digest:
                kept[version] = body
            else:
                sound = False
    except (TypeError, AttributeError):
        sound = False
    except sqlite3.DatabaseError as error:
        sound, failed = False, None if _is_damage(error) else error
    last = max([0, *records, *kept])
    return _Found(sound and about is not None, last, about, records, kept, failed)


def _each(connection: sqlite3.Connection, table: str, key: str) -> Iterator[Any]:
    """Yield the rows of a table; where a page is damaged, those that can still be found."""
    try:
        yield from connection.execute(f"SELECT * FROM {table} ORDER BY {key}")  # noqa: S608  # constants
        return
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    for order in ("ASC", "DESC"):  # from both ends, up to the damage
        with contextlib.suppress(sqlite3.DatabaseError):
            yield from connection.execute(f"SELECT * FROM {table} ORDER BY {key} {order}")  # noqa: S608


# ---------------------------------------------------------------------- both of them
class Store:
    """The two copies of one model's log, in a folder of their own."""

    def __init__(self, folder: Path, keep: int = 5) -> None:
        self.folder, self.keep = folder, keep
        self._open: list[sqlite3.Connection] = []

    @classmethod
    def create(cls, folder: Path, about: bytes, first: SavedState | None, keep: int = 5) -> Store:
        """Make a store; it is there entirely or not at all."""
        making = folder.with_name(folder.name + NEW)
        making.mkdir(mode=0o700)
        try:
            for name in COPIES:
                _build(making / name, about, [], [] if first is None else [first])
            os.rename(making, folder)
        except BaseException:
            remove(making)
            raise
        sync_folder(folder.parent)
        return cls(folder, keep)

    def open(self) -> Content:
        """Bring both copies into agreement, and return what they have."""
        self.close()
        paths = [self.folder / name for name in COPIES]
        for path in paths:
            _remove(path.with_suffix(".building"))
        try:
            found = [self._tried(path) for path in paths]
            if not (all(each.sound for each in found) and found[0].last == found[1].last):
                self._mend(paths, found)
            return self._content()
        except BaseException:
            self.close()
            raise

    def _tried(self, path: Path) -> _Found:
        """Open a copy, or find that it cannot be."""
        nothing = _Found(False, 0, None, {}, {})
        try:
            self._open.append(_connected(path) if path.exists() else sqlite3.connect(":memory:"))
        except sqlite3.DatabaseError as error:
            self._open.append(sqlite3.connect(":memory:"))
            return nothing._replace(error=None if _is_damage(error) else error)
        return _look(self._open[-1]) if path.exists() else nothing

    def _mend(self, paths: list[Path], found: list[_Found]) -> None:
        """Bring a copy that is behind up to the other; make one that is damaged anew."""
        errors = [each.error for each in found if each.error is not None]
        if errors and not any(each.sound for each in found):
            raise errors[0]  # what cannot be read now must not be taken for lost
        about = next((each.about for each in found if each.about is not None), None)
        if about is None:
            raise DamagedError("neither copy of its log says what the model is")
        best = max([each for each in found if each.sound] or found, key=lambda each: each.last)
        records, kept = dict(best.records), dict(best.checkpoints)
        for other in found:  # what the better copy lost: its end, or damaged places
            for version, record in other.records.items():
                mine = records.get(version)
                if mine is None or (mine.body is None and record.body is not None):
                    records[version] = record
            kept = other.checkpoints | kept
        last = max([0, *records, *kept])
        whole = [records[version] for version in sorted(records) if version > last - KEYS]
        points = [SavedState(version, kept[version]) for version in sorted(kept)]
        for k, (path, each) in enumerate(zip(paths, found, strict=True)):
            if each.sound and each.last < last:
                with _transaction(self._open[k]):
                    missing = [record for record in whole if record.version > each.last]
                    _insert(self._open[k], missing, [p for p in points if p.version > each.last])
            elif not each.sound:
                self._open[k].close()
                _build(path, about, whole, points)
                self._open[k] = _connected(path)

    def _content(self) -> Content:
        connection = self._open[0]
        about = connection.execute("SELECT body FROM about").fetchone()[0]
        versions = [row[0] for row in connection.execute("SELECT version FROM checkpoint")]
        newest = self._checkpoint(max(versions)) if versions else None
        records = self._after(0 if newest is None else newest.version, None)
        rows = connection.execute(
            "SELECT version, what, key, content, at, told, NULL FROM log ORDER BY version"
        )
        return Content(about, newest, records, [Record(*row) for row in rows], sorted(versions))

    def _checkpoint(self, version: int) -> SavedState:
        row = self._open[0].execute("SELECT * FROM checkpoint WHERE version = ?", (version,))
        return SavedState(*row.fetchone()[:2])

    def _after(self, version: int, last: int | None) -> list[Record]:
        """Return the batches after a checkpoint, up to ``last``; refuse a gap among them."""
        rows = self._open[0].execute(
            "SELECT * FROM log WHERE version > ? AND version <= ? ORDER BY version",
            (version, (1 << 62) if last is None else last),
        )
        records = [Record(*row[:7]) for row in rows]
        for expected, record in enumerate(records, start=version + 1):
            if record.version != expected or record.what != "batch" or record.body is None:
                raise DamagedError(f"both copies of its log have lost version {expected}")
        return records

    def append(self, records: list[Record], checkpoint: SavedState | None) -> None:
        """Commit to both copies; after an error the store must be opened again."""
        if len(self._open) != 2:
            raise OSError("the log is not open")
        for connection in self._open:
            with _transaction(connection):
                _insert(connection, records, [] if checkpoint is None else [checkpoint])
                if checkpoint is not None:
                    _prune(connection, self.keep)

    def until(self, version: int) -> tuple[SavedState | None, list[Record]]:
        """Return the newest checkpoint up to a version, and the batches from there to it."""
        row = self._open[0].execute(
            "SELECT max(version) FROM checkpoint WHERE version <= ?", (version,)
        )
        before = row.fetchone()[0]
        start = None if before is None else self._checkpoint(before)
        records = self._after(0 if start is None else start.version, version)
        if (records[-1].version if records else before or 0) != version:
            raise DamagedError(f"version {version} is not in the log")
        return start, records

    def checkpoints(self) -> list[int]:
        """Return the versions of which there is a checkpoint."""
        rows = self._open[0].execute("SELECT version FROM checkpoint ORDER BY version")
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close both copies."""
        for connection in self._open:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._open = []


def remove(folder: Path) -> None:
    """Remove a folder of databases: it is out of the way at once, then emptied."""
    gone = folder if folder.name.endswith((NEW, GONE)) else folder.with_name(folder.name + GONE)
    if gone != folder:
        os.rename(folder, gone)
        sync_folder(folder.parent)
    for entry in list(gone.iterdir()) if gone.exists() else ():
        entry.unlink()
    with contextlib.suppress(FileNotFoundError):
        gone.rmdir()


def unwritten(error: BaseException) -> RefusedError:
    """Return what a client is told when the log could not be written."""
    full = getattr(error, "errno", None) in _FULL or "full" in str(error)
    status, code = (507, "full") if full else (503, "log")
    return RefusedError(
        status,
        code,
        f"the batch could not be written ({error}): it is not acknowledged; send it again with the "
        "same Idempotency-Key",
        retry=1,
    )
