"""A stream that is being learned: batch after batch, with a line and a checkpoint for them."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any

from mercer.app.stream.learner import Figures, Learner, Position, write
from mercer.app.stream.quarantine import Quarantine
from mercer.app.stream.rows import (
    StreamRows,
    input_names,
    is_quantity,
    read_rows,
    warn_of_new_words,
    with_words,
    word_columns,
)
from mercer.app.terminal import AppError, print_json, quoted, shown
from mercer.tables.files import FileTable, Misshapen, read_number


@dataclass
class Session:
    """The state of the command."""

    learner: Learner
    target: str
    names: list[str] | None  # the inputs; None until the first table is seen
    words: list[str] | None  # those that are words
    position: Position
    checkpoint: str | None  # where it is written
    saved: int = 0  # batches that are in that file
    quarantine: Quarantine | None = None  # where rows go that cannot be read
    reached: int = 0  # rows that were read in this run
    aside: int = 0  # rows that went there in this run
    _digest: Any = field(default_factory=hashlib.sha256)

    def step(self, table: FileTable) -> dict[str, Any] | None:
        """Learn a table and return what there is to tell; None if it had been learned before."""
        names, words = self._columns(table)
        table, notes = self._sorted_out(table, names, words), []
        kept = (self.learner.partly, self.position.drop, self.learner.quantity)
        rows, keep = read_rows(table, self.target, names, words, *kept)
        if self.reached < self.position.read:
            self._recognise(rows)
            return None
        if not self.learner.begun and self.learner.other is not None:
            notes += self._taken(rows)
        changed, grown = self.learner.changed_at, self.learner.grown
        figures = Figures()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # they are told with the batch, each one
            if keep.any():
                if self.learner.begun:
                    warn_of_new_words(self.learner.model, rows.X, names)
                figures = self.learner.learn(rows.keep(keep))
        self._count(rows)
        before = self.position
        self.position = replace(
            before,
            batches=before.batches + 1,
            read=self.reached,
            rows=before.rows + int(keep.sum()),
            digest=self._digest.hexdigest(),
            figures=before.figures + figures,
        )
        so_far, learner = self.position.figures, self.learner
        parts = [
            each.of_quantity() if learner.quantity else each.means() for each in (figures, so_far)
        ]
        new = [label for label in learner.grown if label not in grown]
        if new:
            classes = "a class" if len(new) == 1 else "classes"
            notes.append(
                f"{classes} not seen before: {quoted(new)}, from batch {self.position.batches} on"
            )
        notes += [*table.notes, *(str(w.message) for w in caught)]
        return {
            "event": "batch",
            "kind": "quantity" if learner.quantity else "classes",
            "batch": self.position.batches,
            "source": table.path,
            "rows": self.position.rows,
            **{key: value for name in parts[0] for key, value in _pair(name, parts)},
            "points": learner.points if learner.begun else 0,
            "change": learner.renewed,
            "changed_at": learner.changed_at[len(changed) :],
            "new_classes": new,
            "aside": self.aside,
            "notes": list(dict.fromkeys(notes)),
        }

    def _taken(self, rows: StreamRows) -> list[str]:
        """Say what the target was taken for, and what says otherwise, where it may be both."""
        name = shown(self.target)
        if self.learner.quantity:
            return [
                f"'{name}' is taken for a quantity; --learner logistic, or --classes, takes it for "
                "classes"
            ]
        numbers = [read_number(label, thousands="") for label in rows.labels if label is not None]
        if len({n.value for n in numbers if n}) < 4 or any(n is None for n in numbers):
            return []
        return [f"'{name}' is taken for classes; --learner regressor takes it for a quantity"]

    def _sorted_out(self, table: FileTable, names: list[str], words: list[str]) -> FileTable:
        """Return the table without rows that cannot be read, if there is a place for them."""
        if self.quarantine is None:
            return table
        table.check([self.target], "the target")
        table.check(names, "an input")
        numbers, learner = [name for name in names if name not in words], self.learner
        kept = (learner.quantity, learner.partly)
        found, count = self.quarantine.sort_out(table, self.target, numbers, *kept)
        self.aside += count
        return found

    def put_aside(self, row: Misshapen) -> None:
        """Set a row aside that has not the fields of the header."""
        assert self.quarantine is not None
        self.quarantine.put(row)
        self.aside += 1

    def _columns(self, table: FileTable) -> tuple[list[str], list[str]]:
        """Return the inputs and which of them are words: what they are in the first table."""
        if self.words is None:
            names = input_names(table, self.target, self.names)
            if self.learner.other is not None and is_quantity(table, self.target):
                self.learner = replace(self.learner, model=self.learner.other)
            words = word_columns(table, names)
            if words:
                model = with_words(self.learner.model, names, words)
                self.learner = replace(self.learner, model=model)
            self.names, self.words = names, words
        return self.names or [], self.words

    def _count(self, rows: StreamRows) -> None:
        self.reached += len(rows.places)
        self._digest.update(rows.content())

    def _recognise(self, rows: StreamRows) -> None:
        """Pass over rows that the checkpoint has learned, if they are those."""
        self._count(rows)
        same = self._digest.hexdigest() == self.position.digest
        if self.reached > self.position.read or (self.reached == self.position.read and not same):
            raise AppError(
                f"the rows given are not the {self.position.read} that {self.checkpoint} has "
                "read: give the same files in the same order, or pass --from "
                f"{self.checkpoint} to learn others on top of them"
            )

    def end(self) -> None:
        """Refuse a stream that had nothing to learn, or less than had been learned before."""
        if not self.learner.begun:
            lost = f": each of its {self.reached} rows has a missing value" if self.reached else ""
            raise AppError(f"the stream has no row to learn from{lost}")
        if self.reached < self.position.read:
            raise AppError(
                f"{self.checkpoint} has read {self.position.read} rows, and {self.reached} are "
                "given: give the same files from the beginning, or pass --from "
                f"{self.checkpoint} to learn others on top of them"
            )

    def save(self) -> None:
        """Write the checkpoint, if one is asked for and there is something new."""
        nothing_new = self.position.batches == self.saved or not self.learner.begun
        if self.checkpoint is None or self.names is None or self.words is None or nothing_new:
            return
        columns = (self.target, self.names, self.words)
        write(self.checkpoint, self.learner, *columns, self.position)
        self.saved = self.position.batches


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt, while work is held only when it is done.

    A second signal does not wait. ``sound`` is then False: what was held may be half done.
    """

    def __init__(self) -> None:
        self.sound, self._held, self._received = True, False, 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # others have no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if not self._held or self._received > 1:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Do the work of one batch; a first interrupt waits for its end."""
        self._held, self.sound = True, False
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            self.sound = True  # the work itself failed, and left everything as it was
            raise
        finally:
            self._held = False
        self.sound = True
        if self._received:
            raise KeyboardInterrupt


Event = dict[str, Any]
COLUMNS = {
    "batch": 7, "rows": 10, "error": 10, "so far": 10, "log loss": 10, "so far ": 10, "points": 9
}  # fmt: skip
HEADER = "".join(f"{name.strip():>{width}}" for name, width in COLUMNS.items())
FIGURES = {"classes": ("error", "log_loss"), "quantity": ("rmse", "nlpd")}


def _pair(name: str, parts: list[dict[str, float | None]]) -> list[tuple[str, float | None]]:
    """A figure of the batch, and of all rows so far."""
    return [(name, parts[0][name]), (f"mean_{name}", parts[1][name])]


def printer(quiet: bool, as_json: bool) -> Callable[[Event], None]:
    """Return what prints an event: nothing, a line of JSON, or text."""
    if quiet:
        return lambda event: None
    return partial(print_json, indent=None) if as_json else Text()


EACH, PAUSE = 100, 1.0  # batches that have a line each, seconds from line to line after them


class Text:
    """Lines for a reader, under a header; each note when it comes for the first time.

    After the first hundred batches there is at most a line a second, and one for every change.
    """

    def __init__(self) -> None:
        self._headed, self._last = False, 0.0
        self._noted: set[str] = set()

    def __call__(self, event: Event) -> None:
        if event["event"] == "resume":
            lines = [f"going on after {event['rows']} rows that {event['model']} has learned"]
        elif event["event"] == "batch":
            each = FIGURES[event.get("kind", "classes")]
            means = (event[f"{so_far}{name}"] for name in each for so_far in ("", "mean_"))
            numbers = ["-" if mean is None else f"{mean:.4f}" for mean in means]
            cells = [str(event["batch"]), str(event["rows"]), *numbers, str(event["points"])]
            widths = zip(cells, COLUMNS.values(), strict=True)
            header = HEADER
            if event.get("kind") == "quantity":
                header = header.replace("   error", "    RMSE").replace("log loss", "    NLPD")
            lines, now = [] if self._headed else [header], time.monotonic()
            changed_at = event.get("changed_at")
            found = event["change"] or changed_at
            if event["batch"] <= EACH or now - self._last >= PAUSE or found:
                lines.append("".join(f"{cell:>{width}}" for cell, width in widths))
                self._headed, self._last = True, now
            if event["change"]:
                share = f"{100 * event['change']:.0f} %"
                lines.append(f"a change was found in batch {event['batch']}: {share} renewed")
            elif changed_at:
                since = changed_at[-1]
                lines.append(
                    f"a change was found in batch {event['batch']}: rows are foreseen worse since "
                    f"row {since}"
                )
        else:
            left = f", {event['left_out']} left out for missing values" if event["left_out"] else ""
            if event.get("aside"):
                left += f", {event['aside']} set aside in {event['quarantine']}"
            text = f"{event['rows']} rows in {event['batches']} batches{left}"
            if event.get("rmse") is not None:
                text += f"; RMSE before learning {event['rmse']:.4g}, NLPD {event['nlpd']:.4f}"
            if event.get("error") is not None:
                text += f"; error before learning {event['error']:.4f}"
            if event.get("log_loss") is not None:
                text += f", log loss {event['log_loss']:.4f}"
            if event["changes"] is not None:
                count = event["changes"]
                text += f"; {count} change{'' if count == 1 else 's'} found"
                rows = ", ".join(str(row) for row in event.get("changed_at", [])[-5:])
                text += f" (after row {rows})" if rows else ""
            lines = [text + (f"; model written to {event['model']}" if event["model"] else "")]
        notes = [note for note in event.get("notes", []) if note not in self._noted]
        self._noted.update(notes)
        for line in [*lines, *(f"note: {note}" for note in notes)]:
            sys.stdout.write(shown(line, 2000) + "\n")
        sys.stdout.flush()
