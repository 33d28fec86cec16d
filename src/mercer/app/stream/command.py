"""``mercer stream``: batches from files or a pipe are learned one after the other."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from mercer.app.files.outputs import check_outputs
from mercer.app.stream.begin import Wanted, begin
from mercer.app.stream.checkpoint import Position
from mercer.app.stream.rows import STDIN, batches
from mercer.app.stream.session import Interrupts, Session, printer
from mercer.app.terminal import AppError, progress, require


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
