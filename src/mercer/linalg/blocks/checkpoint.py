"""Fits that are interrupted and continued: what the passes answered is kept in a folder.

A pass is a function of the table and of what was broadcast, and everything between two passes is
deterministic. So a fit that is run again finds in the folder what its first passes answer, arrives
where it was, and goes on with the same bits; no optimiser has to say what its state is.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mercer.core import container
from mercer.core.component import Component
from mercer.core.errors import ModelFileError, outside
from mercer.linalg.blocks.engine import Answer, Engine, Merge, Part, RowBlock, Task

SUFFIX = ".safetensors"
TASK = "task.json"
ABOUT = "a folder with what the passes of one fit answered; `mercer` continues from here"


class Checkpoint:
    """A folder of states of one fit, by name; each is written completely or not at all.

    Parameters
    ----------
    folder : it is made if it is not there.
    task : what tells this fit from others, as plain values: the table, the parameters. The version
        of mercer is added. A folder of another task is refused.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(folder, {"kernel": "rbf"}).save("search", {"theta": np.ones(2), "step": 3})
    ...     Checkpoint(folder, {"kernel": "rbf"}).load("search")
    {'theta': array([1., 1.]), 'step': 3}
    """

    def __init__(self, folder: str | os.PathLike[str], task: Mapping[str, Any]) -> None:
        import mercer

        self.folder = Path(folder)
        task = {"about": ABOUT, "mercer": mercer.__version__, **task}
        # through JSON and back: what is compared is what a file can hold
        self.task = json.loads(json.dumps(container.encode(task, {}), sort_keys=True))
        self._claim()

    def _claim(self) -> None:
        """Write whose folder this is, or refuse one that belongs to somebody else."""
        path = self.folder / TASK
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is a file: give a folder for the checkpoint")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(self.folder.iterdir()):
                raise FileExistsError(
                    f"{self.folder} is not empty, and no checkpoint: give a folder of its own"
                )
            with container.replacing(path) as temporary, open(temporary, "w") as file:
                json.dump(self.task, file, indent=1, sort_keys=True)
            return
        try:
            known = container.parse(path.read_bytes(), "task")
        except ModelFileError as error:
            raise ModelFileError(f"{path} is damaged ({error}): remove {self.folder}") from None
        if known != self.task:
            known = known if isinstance(known, dict) else {}
            other = sorted(k for k in known.keys() | self.task.keys() if k not in known
                           or k not in self.task or known[k] != self.task[k])  # fmt: skip
            raise ValueError(
                f"the checkpoint in {self.folder} is of another fit ({', '.join(other)} differ): "
                "give another folder, or remove this one to begin anew"
            )

    def path(self, name: str) -> Path:
        """Return the file of a state."""
        return self.folder / (name + SUFFIX)

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a state: plain values, and arrays among them."""
        encoded, rows, fortran = container.laid_out(dict(state))
        manifest = json.dumps({"state": encoded, "fortran": fortran}, allow_nan=False)
        with container.replacing(self.path(name)) as temporary:
            container.write(temporary, manifest, rows)

    def load(self, name: str) -> dict[str, Any] | None:
        """Return a state; None if there is none, or if its file is damaged, which is said."""
        path = self.path(name)
        try:
            with open(path, "rb") as file:
                contents = container.verified(file)
                arrays = container.read(contents)
            manifest = container.parse(contents.manifest, "manifest")
            for key in manifest["fortran"]:
                arrays[key] = arrays[key].T
            state: dict[str, Any] = container.decode(manifest["state"], arrays)
        except FileNotFoundError:
            return None
        except ModelFileError as error:
            warnings.warn(
                f"{path} cannot be used: {error}; what was in it is computed again",
                UserWarning,
                stacklevel=outside(),
            )
            return None
        return state

    def drop(self, name: str) -> None:
        """Remove a state, if there is one."""
        with suppress(FileNotFoundError):
            self.path(name).unlink()


class Checkpointed(Engine):
    """An engine that writes down what each pass answers, and does not make a pass twice.

    Parameters
    ----------
    engine : who computes.
    folder, task : see :class:`Checkpoint`; the task should tell one table from another, e.g. by
        :func:`contents_of`.
    """

    def __init__(
        self, engine: Engine, folder: str | os.PathLike[str], task: Mapping[str, Any]
    ) -> None:
        self.engine, self.checkpoint = engine, Checkpoint(folder, task)
        self.rows = engine.rows
        self.replayed = 0  # passes that were not made again

    @property
    def blocks(self) -> int:
        return self.engine.blocks

    def close(self) -> None:
        super().close()
        self.engine.close()

    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        return self.engine.each(task, broadcast)

    def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        name, key = f"pass-{self.passes:06d}", digest([task, broadcast, merge])
        stored = self.checkpoint.load(name)
        if stored is not None:
            if stored["key"] != key:
                raise ValueError(
                    f"pass {self.passes} of the checkpoint in {self.checkpoint.folder} was made "
                    "from other numbers than now, e.g. on a machine of another kind: give another "
                    "folder, or remove this one to begin anew"
                )
            self.replayed += 1
            return Answer(stored["rows"], stored["part"])
        self.engine.watch = self.watch
        rows, part = self.engine._merged(task, broadcast, merge)
        part = plain(part)
        self.checkpoint.save(name, {"key": key, "rows": rows, "part": part})
        return Answer(rows, part)

    def stage(self, name: str, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return what ``make`` returns, arrays and plain values, once made for all times.

        Its passes are forgotten when it ends: one state is kept in place of them.
        """
        stored = self.checkpoint.load(f"stage-{name}")
        if stored is None:
            begun = self.passes
            state = plain(dict(make()))
            stored = {"state": state, "passes": self.passes, "rows": self.rows}
            self.checkpoint.save(f"stage-{name}", stored)
            for number in range(begun, self.passes):
                self.checkpoint.drop(f"pass-{number:06d}")
        self.passes, self.rows = stored["passes"], stored["rows"]
        return dict(stored["state"])


def plain(value: Any) -> Any:
    """Return values as they come back from a file: numbers of Python, arrays without gaps.

    So the first fit goes on with the same things as one that is continued.
    """
    if isinstance(value, np.ndarray):
        return np.array(value, order="F" if value.flags.f_contiguous > value.flags.c_contiguous
                        else "C", copy=None)  # fmt: skip
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def digest(value: Any) -> str:
    """Return the SHA-256 of the numbers, texts and names of functions in a value.

    Objects other than parts and dataclasses count by their class alone: what they hold may depend
    on what was asked of them.

    Examples
    --------
    >>> digest({"a": 1.0}) == digest({"a": 1.0}), digest({"a": 1.0}) == digest({"a": 1.5})
    (True, False)
    """
    total = hashlib.sha256()
    for piece in _pieces(value):
        total.update(piece)
    return total.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield what a value is made of, as bytes."""
    kind = type(value)
    yield f"<{kind.__module__}.{kind.__qualname__}>".encode()
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        text = value.dtype.kind in "OT"
        yield repr(value.tolist()).encode() if text else np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            yield str(name).encode()
            yield from _pieces(value[name])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _pieces(each)
    elif isinstance(value, partial):
        yield from _pieces([value.func, value.args, value.keywords])
    elif isinstance(value, Component):
        yield from _pieces(value.to_dict())
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _pieces({field.name: getattr(value, field.name) for field in fields(value)})
    elif value is None or isinstance(value, (bool, int, float, complex, str, np.generic)):
        yield repr(value).encode()
    else:
        yield getattr(value, "__qualname__", "").encode()


def contents_of(engine: Engine) -> str:
    """Return the digest of all rows of a table, by one pass: equal for equal tables in blocks."""
    found: str = engine.map_merge(contents, {}, joined_contents)["contents"]
    return found


def contents(block: RowBlock, _: Part) -> Part:
    """Answer with the digest of the rows of a block."""
    return {"contents": digest([block.X, block.y, block.w])}


def joined_contents(left: Part, right: Part) -> Part:
    """Return the digest of two digests."""
    return {"contents": digest([left["contents"], right["contents"]])}
