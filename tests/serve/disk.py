"""The disk of ``disk.c``: compiled for a test, and what of it survives when the power goes."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("<c3q")


class Operation(NamedTuple):
    kind: str  # Write, Truncate, Sync, Unlink, Rename
    path: str
    at: int
    data: bytes
    end: int  # where its record ends in the journal


def compiled(folder: Path) -> Path:
    """Build the library."""
    library = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "a C compiler is needed, as for mercer itself"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def operations(journal: bytes) -> list[Operation]:
    """Read what was done, in order."""
    found, at = [], 0
    while at + HEAD.size <= len(journal):
        kind, length, a, b = HEAD.unpack_from(journal, at)
        at += HEAD.size
        path = journal[at : at + length].decode()
        at += length
        size = {b"W": b, b"R": a}.get(kind, 0)
        data = journal[at : at + size]
        at += size
        found.append(Operation(kind.decode(), path, a, data, at))
    return found


@dataclass
class Image:
    """A file: what is synced, and what is not."""

    safe: bytearray = field(default_factory=bytearray)
    loose: list[Operation] = field(default_factory=list)

    def apply(self, operation: Operation, most: int | None = None) -> None:
        if operation.kind == "T":
            del self.safe[operation.at :]
            self.safe.extend(bytes(operation.at - len(self.safe)))
            return
        data = operation.data[:most]
        end = operation.at + len(data)
        if len(self.safe) < end:
            self.safe.extend(bytes(end - len(self.safe)))
        self.safe[operation.at : end] = data


def after_power_loss(done: list[Operation], root: str, target: Path, rng: random.Random) -> None:
    """Write the files as they may be found when the power went after these operations.

    Of writes that were not synced any may be missing, whole or in part, and in any order; names
    are in the order in which they were given, as journalling file systems keep them.
    """
    files: dict[str, Image] = {}
    for operation in done:
        path = operation.path
        if operation.kind in "WT":
            files.setdefault(path, Image()).loose.append(operation)
        elif operation.kind == "S" and path in files:
            for each in files[path].loose:
                files[path].apply(each)
            files[path].loose.clear()
        elif operation.kind == "U":
            files.pop(path, None)
        elif operation.kind == "R":
            new = operation.data.decode()
            for name in [n for n in files if n == path or n.startswith(path + "/")]:
                files[new + name[len(path) :]] = files.pop(name)
    for name, image in files.items():
        for each in image.loose:
            fate = rng.random()
            if fate < 0.4:
                image.apply(each)
            elif fate < 0.6:
                image.apply(each, rng.randrange(0, len(each.data) + 1, 512) if each.data else None)
        place = target / Path(name).relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes(image.safe))
