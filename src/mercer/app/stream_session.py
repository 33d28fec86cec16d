"""A stream that is being learned: one batch after the other, and what is kept of it."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from mercer.app.errors import AppError
from mercer.app.stream_checkpoint import Columns, Position, write
from mercer.app.stream_columns import warn_of_new_words, with_words, word_columns
from mercer.app.stream_figures import Figures
from mercer.app.stream_learner import Learner
from mercer.app.stream_rows import Reader, Rows, input_names
from mercer.app.tables import Table


@dataclass
class Session:
    """The state of the command.

    Attributes
    ----------
    position : how far it has come; ``reached``: how many rows were read in this run.
    names, words : the inputs, and those that are words; None until the first table is seen.
    checkpoint : where it is written, or None; ``saved``: batches that are in that file.
    """

    learner: Learner
    target: str
    names: list[str] | None
    words: list[str] | None
    position: Position
    checkpoint: str | None
    saved: int = 0
    reached: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    def step(self, table: Table) -> dict[str, Any] | None:
        """Learn a table and return what there is to tell; None if it had been learned before."""
        names, words = self._columns(table)
        reader = Reader(self.target, names, words, self.learner.partly, self.position.drop)
        rows, keep = reader.read(table)
        if self.reached < self.position.read:
            self._recognise(rows)
            return None
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
        return self._told(table.path, figures, [str(w.message) for w in caught])

    def _columns(self, table: Table) -> tuple[list[str], list[str]]:
        """Return the inputs and which of them are words: what they are in the first table."""
        if self.words is None:
            names = input_names(table, self.target, self.names)
            words = word_columns(table, names)
            if words:
                model = with_words(self.learner.model, names, words)
                self.learner = replace(self.learner, model=model)
            self.names, self.words = names, words
        return self.names or [], self.words

    def _count(self, rows: Rows) -> None:
        self.reached += len(rows.places)
        self._digest.update(rows.content())

    def _recognise(self, rows: Rows) -> None:
        """Pass over rows that the checkpoint has learned, if they are those."""
        self._count(rows)
        there = self.reached == self.position.read
        if self.reached > self.position.read or (
            there and self._digest.hexdigest() != self.position.digest
        ):
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
        if self.checkpoint is None or self.position.batches == self.saved:
            return
        if self.names is None or self.words is None or not self.learner.begun:
            return
        about = Columns(self.target, self.names, self.words)
        write(self.checkpoint, self.learner, about, self.position)
        self.saved = self.position.batches

    def _told(self, source: str, figures: Figures, notes: list[str]) -> dict[str, Any]:
        here, so_far = figures.means(), self.position.figures.means()
        return {
            "event": "batch",
            "batch": self.position.batches,
            "source": source,
            "rows": self.position.rows,
            "error": here["error"],
            "mean_error": so_far["error"],
            "log_loss": here["log_loss"],
            "mean_log_loss": so_far["log_loss"],
            "points": self.learner.points if self.learner.begun else 0,
            "notes": list(dict.fromkeys(notes)),
        }
