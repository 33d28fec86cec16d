"""``mercer stream``: batches from files or a pipe are learned one after the other.

How a stream begins: afresh, from a learner that exists, or where a checkpoint stopped.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from mercer.app.files.outputs import check_outputs
from mercer.app.stream.learner import KINDS, Learner, Position, StoredStream, make, read
from mercer.app.stream.rows import STDIN, batches, text_of
from mercer.app.stream.session import Interrupts, Session, printer
from mercer.app.terminal import AppError, progress, quoted, require


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
                raise click.UsageError(f"--{name} is not an option of the learner {kind}")
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
        raise AppError(
            f"{path} is not a checkpoint of a stream: pass --from {path} to go on with it"
        )
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


def run(
    *,
    files: tuple[str, ...],
    target: str,
    features: list[str] | None,
    learner: str | None,
    classes: list[str] | None,
    budget: int | None,
    forget: float | None,
    drift: Any,
    kernel: str | None,
    batch: int,
    checkpoint: str | None,
    every: int,
    resume: bool,
    start: str | None,
    drop_missing: bool,
    delimiter: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    paths = files or (STDIN,)
    if paths.count(STDIN) > 1:
        raise click.UsageError("standard input can be read once only")
    if STDIN in paths and sys.stdin.isatty():
        raise click.UsageError("give files, or a pipe: mercer stream ... < rows.csv")
    check_outputs([checkpoint], [path for path in paths if path != STDIN])
    options = {"budget": budget, "forget": forget, "drift": drift, "kernel": kernel}
    wanted = Wanted(learner, classes, {k: v for k, v in options.items() if v is not None})
    session = begin(
        wanted, target, features, Position(batch, drop_missing), checkpoint, resume, start
    )
    source = batches(paths, delimiter, batch)
    tell = printer(quiet, as_json)
    # on a terminal the lines themselves are the progress
    with Interrupts() as interrupts, progress(quiet or sys.stdout.isatty()) as advance:
        if session.saved:
            tell({"event": "resume", "rows": session.position.rows, "model": checkpoint})
        try:
            for table in source:
                with interrupts.held():
                    event = session.step(table)
                    if session.position.batches % every == 0:
                        session.save()
                    if event is not None:
                        tell(event)
                        advance({"stage": f"batch {event['batch']}, {event['rows']} rows"})
            session.end()
            session.save()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted: {_kept(session, interrupts)}") from None
        except AppError as error:
            if not session.position.batches:
                raise
            raise AppError(f"{error}; {_kept(session, interrupts)}") from error
        except BaseException:
            _kept(session, interrupts)
            raise
    tell(_end(session))


def _kept(session: Session, interrupts: Interrupts) -> str:
    """Save what was learned, unless it may be half a batch, and say what the checkpoint holds."""
    if session.checkpoint is None:
        return "nothing was written"
    if interrupts.sound:
        with contextlib.suppress(KeyboardInterrupt):  # the file is then as it was before
            session.save()
    if not session.saved:
        return "nothing was written"
    return (
        f"{session.checkpoint} holds the first {session.saved} batches: go on from there with "
        "--resume"
    )


def _end(session: Session) -> dict[str, Any]:
    position, learner = session.position, session.learner
    return {
        "event": "end",
        "batches": position.batches,
        "rows": position.rows,
        "left_out": position.read - position.rows,
        "classes": learner.machine.classes_.tolist(),
        **position.figures.means(),
        "points": learner.points,
        "model": session.checkpoint,
        "notes": learner.remarks(),
    }
