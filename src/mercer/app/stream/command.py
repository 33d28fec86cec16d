"""``mercer stream``: how a stream begins, and its batches learned one after the other."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from typing import Any

import click
import numpy as np

from mercer.app.files.outputs import check_outputs
from mercer.app.stream.learner import KINDS, PARAMETERS, Learner, Position, make, read
from mercer.app.stream.quarantine import Quarantine
from mercer.app.stream.rows import text_of
from mercer.app.stream.session import Interrupts, Session, printer
from mercer.app.terminal import AppError, progress, quoted, require
from mercer.tables.files import STDIN, FileOptions, batches

OPTIONS = ("learner", "classes", *KINDS["logistic"])  # they say which learner


def fresh(wanted: dict[str, Any], batch: int) -> Learner:
    """Return the learner before its first batch; ``wanted`` are those of OPTIONS that are given.

    If neither learner nor classes are named, the first batch says whether it is a quantity.
    """
    kind = wanted.get("learner", "logistic")
    given = {name: value for name, value in wanted.items() if name in KINDS["logistic"]}
    for name in given:
        if name not in KINDS[kind]:
            raise click.UsageError(f"--{name} is not an option of the learner {kind}")
    if "kernel" in given:
        from mercer.app.fit import check_kernel  # it brings much that a stream does not need

        check_kernel(given["kernel"])
    classes = [text_of(label) for label in wanted["classes"]] if "classes" in wanted else None
    if classes is not None and len(set(classes)) < max(2, len(classes)):
        raise click.UsageError("--classes needs at least two labels, each of them once")
    if kind == "regressor" and classes is not None:
        raise click.UsageError("--classes is not an option of the learner regressor")
    open_kind = "learner" not in wanted and classes is None
    other = make("regressor", given, batch) if open_kind else None
    return Learner(make(kind, given, batch), classes, other)


def begin(
    wanted: dict[str, Any],
    target: str,
    features: list[str] | None,
    position: Position,
    checkpoint: str | None,
    resume: bool,
    start: str | None,
) -> Session:
    """Return the session before its first batch of this run."""
    if start is not None:
        for name in wanted:
            raise click.UsageError(f"--{name} cannot be combined with --from: the learner has it")
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint: the file to go on from")
    exists = checkpoint is not None and os.path.exists(checkpoint)
    if checkpoint is not None and exists and resume:
        stored = read(checkpoint)
        if stored.position is None:
            raise AppError(
                f"{checkpoint} is not a checkpoint of a stream: pass --from {checkpoint} to go on "
                "with it"
            )
        different = {
            "target": stored.target != target,
            "features": features is not None and features != stored.names,
            "batch": stored.position.size != position.size,
            "drop-missing": stored.position.drop != position.drop,
        }
        if start is None:  # else the learner was not made by these options
            different |= _differences(stored.learner, fresh(wanted, position.size))
        for option, differs in different.items():
            if differs:
                raise AppError(
                    f"{checkpoint} was made with another --{option}: a stream goes on with the "
                    f"options that it began with (pass --from {checkpoint} to begin another with "
                    "its learner)"
                )
        kept = (stored.learner, target, stored.names, stored.words, stored.position)
        return Session(*kept, checkpoint, saved=stored.position.batches)
    if exists and not (start and os.path.samefile(str(checkpoint), start)):
        raise AppError(
            f"{checkpoint} exists: pass --resume to go on from it, or remove it to begin afresh"
        )
    if start is None:
        return Session(fresh(wanted, position.size), target, features, None, position, checkpoint)
    stored = read(start)
    names = features or stored.names
    count = int(stored.learner.model.n_features_in_)
    if names is None or len(names) != count or stored.names not in (None, names):
        told = quoted(stored.names) if stored.names else f"{count} columns without names"
        raise AppError(f"{start} has the inputs {told}: pass the same in --features a,b,...")
    return Session(stored.learner, target, names, stored.words, position, checkpoint)


def _differences(old: Learner, new: Learner) -> dict[str, bool]:
    """Return by option whether the learner of a checkpoint is not the one that is asked for."""
    if old.quantity and new.other is not None:
        new = replace(new, model=new.other)
    known = getattr(old.machine, "classes_", np.empty(0))
    own = sorted(text_of(label) for label in known.tolist())
    different = {
        "learner": type(new.machine) is not type(old.machine),
        "classes": new.classes is not None and sorted(new.classes) != own,
    }
    if not different["learner"]:
        before, now = (each.machine.get_params(deep=False) for each in (old, new))
        for option in KINDS["logistic"]:
            name = PARAMETERS.get(option, option)
            different[option] = before.get(name) != now.get(name)
    return different


def run(
    *,
    files: tuple[str, ...],
    target: str,
    features: list[str] | None,
    batch: int,
    checkpoint: str | None,
    every: int,
    resume: bool,
    start: str | None,
    drop_missing: bool,
    quarantine: str | None,
    asked: FileOptions,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    paths = files or (STDIN,)
    if paths.count(STDIN) > 1:
        raise click.UsageError("standard input can be read once only")
    if STDIN in paths and sys.stdin.isatty():
        raise click.UsageError("give files, or a pipe: mercer stream ... < rows.csv")
    check_outputs([checkpoint, quarantine], [path for path in paths if path != STDIN])
    wanted = {name: options[name] for name in OPTIONS if options[name] is not None}
    position = Position(batch, drop_missing)
    session = begin(wanted, target, features, position, checkpoint, resume, start)
    if quarantine is not None:
        session.quarantine = Quarantine(quarantine, more=bool(session.saved))
    aside = None if quarantine is None else session.put_aside
    source = batches(paths, asked, batch, aside=aside)
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
        except (AppError, ValueError) as error:
            if not session.position.batches:
                raise
            raise AppError(f"{error}; {_kept(session, interrupts)}") from error
        except BaseException:
            _kept(session, interrupts)
            raise
    position, learner = session.position, session.learner
    tell(
        {
            "event": "end",
            "batches": position.batches,
            "rows": position.rows,
            "left_out": position.read - position.rows,
            "kind": "quantity" if learner.quantity else "classes",
            **({} if learner.quantity else {"classes": learner.machine.classes_.tolist()}),
            **(position.figures.of_quantity() if learner.quantity else position.figures.means()),
            "points": learner.points,
            "changes": learner.changes,
            "changed_at": learner.changed_at,
            "aside": session.aside,
            "quarantine": quarantine,
            "model": checkpoint,
            "notes": learner.remarks(),
        }
    )


def _kept(session: Session, interrupts: Interrupts) -> str:
    """Save what was learned, unless it may be half a batch, and say what the checkpoint holds."""
    if interrupts.sound:
        with contextlib.suppress(KeyboardInterrupt):  # the file is then as it was before
            session.save()
    if session.checkpoint is None or not session.saved:
        return "nothing was written"
    return (
        f"{session.checkpoint} holds the first {session.saved} batches: go on from there with "
        "--resume"
    )
