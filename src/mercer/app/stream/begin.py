"""How a stream begins: afresh, from a learner that exists, or where a checkpoint stopped."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from mercer.app.stream.checkpoint import Position, StoredStream, read
from mercer.app.stream.learner import KINDS, Learner, make
from mercer.app.stream.rows import text_of
from mercer.app.stream.session import Session
from mercer.app.terminal import AppError, quoted


@dataclass(frozen=True)
class Wanted:
    """The options that say which learner: None where one was not given."""

    learner: str | None
    classes: list[str] | None
    given: dict[str, Any]  # budget, forget, drift, kernel

    def fresh(self) -> Learner:
        """Return the learner before its first batch."""
        kind = self.learner or "logistic"
        for name in self.given:
            if name not in KINDS[kind]:
                raise click.UsageError(f"--{name} is no option of the learner {kind}")
        if "kernel" in self.given:
            from mercer.app.fit import check_kernel  # it brings much that a stream does not need

            check_kernel(self.given["kernel"])
        classes = None if self.classes is None else [text_of(label) for label in self.classes]
        if classes is not None and len(set(classes)) < max(2, len(classes)):
            raise click.UsageError("--classes needs at least two labels, each of them once")
        return Learner(make(kind, self.given), classes)

    def refuse_all(self) -> None:
        """Refuse any of them: the learner exists."""
        named = [n for n in ("learner", "classes") if getattr(self, n) is not None]
        for name in [*named, *self.given]:
            raise click.UsageError(f"--{name} cannot be combined with --from: the learner has it")


def begin(
    wanted: Wanted,
    target: str,
    features: list[str] | None,
    position: Position,
    checkpoint: str | None,
    resume: bool,
    start: str | None,
) -> Session:
    """Return the session before its first batch of this run."""
    if start is not None:
        wanted.refuse_all()
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint: the file to go on from")
    exists = checkpoint is not None and os.path.exists(checkpoint)
    if checkpoint is not None and exists and resume:
        stored = read(checkpoint)
        found = _resumed(stored, checkpoint, wanted, target, features, position, start)
        kept = (stored.learner, target, stored.names, stored.words)
        return Session(*kept, found, checkpoint, saved=found.batches)
    if exists and not (start and os.path.samefile(str(checkpoint), start)):
        raise AppError(
            f"{checkpoint} exists: pass --resume to go on from it, or remove it to begin afresh"
        )
    if start is None:
        return Session(wanted.fresh(), target, features, None, position, checkpoint)
    stored = read(start)
    names = features or stored.names
    count = _inputs(stored)
    if names is None or len(names) != count or stored.names not in (None, names):
        told = quoted(stored.names) if stored.names else f"{count} columns without names"
        raise AppError(f"{start} has the inputs {told}: pass the same in --features a,b,...")
    return Session(stored.learner, target, names, stored.words, position, checkpoint)


def _inputs(stored: StoredStream) -> int:
    return int(stored.learner.model.n_features_in_)


def _resumed(
    stored: StoredStream,
    path: str,
    wanted: Wanted,
    target: str,
    features: list[str] | None,
    position: Position,
    start: str | None,
) -> Position:
    """Return where the checkpoint stopped, if the options are those that it was made with."""
    found = stored.position
    if found is None:
        raise AppError(f"{path} is no checkpoint of a stream: pass --from {path} to go on with it")
    different = {
        "target": stored.target != target,
        "features": features is not None and features != stored.names,
        "batch": found.size != position.size,
        "drop-missing": found.drop != position.drop,
    }
    if start is None:  # else the learner was not made by these options
        fresh = wanted.fresh()
        own = sorted(text_of(label) for label in stored.learner.machine.classes_.tolist())
        different |= {
            "learner": type(fresh.machine) is not type(stored.learner.machine),
            "classes": fresh.classes is not None and sorted(fresh.classes) != own,
        }
        if not different["learner"]:
            before = stored.learner.machine.get_params(deep=False)
            now = fresh.machine.get_params(deep=False)
            for option, name in {"budget": "budget", "forget": "rho", "drift": "drift"}.items():
                different[option] = before.get(name) != now.get(name)
            different["kernel"] = before["kernel"] != now["kernel"]
    for option, differs in different.items():
        if differs:
            raise AppError(
                f"{path} was made with another --{option}: a stream goes on with the options that "
                f"it began with (pass --from {path} to begin another with its learner)"
            )
    return found
