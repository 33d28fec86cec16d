"""Comparison: what fitted machines say of themselves, as a table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any


@dataclass(frozen=True)
class Entry:
    """What one machine says of itself; None where its method has no such figure.

    Attributes
    ----------
    name : the machine.
    log_evidence : log p(y | X), exact or approximate; higher is better.
    loo : leave-one-out log predictive density, summed over the rows; higher is better.
    loo_error : leave-one-out share of wrong classes (an estimate from cavities).
    error_bound : upper bound on the leave-one-out error (Lemma 1).
    parameters : hyperparameters that were learned.
    """

    name: str
    log_evidence: float | None
    loo: float | None
    loo_error: float | None
    error_bound: float | None
    parameters: int


@dataclass(frozen=True)
class Comparison:
    """The ranking, best first. ``str`` gives text, notebooks show a table.

    Attributes
    ----------
    by : the figure that ranks.
    entries : one for each machine.
    order : (k,) the position of each entry in the list that was given.
    """

    by: str
    entries: tuple[Entry, ...]
    order: tuple[int, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the ranking as plain dictionaries, e.g. for a data frame."""
        return [{f.name: getattr(e, f.name) for f in fields(Entry)} for e in self.entries]

    def _cells(self) -> list[list[str]]:
        head = [f.name.replace("_", " ") for f in fields(Entry)]
        body = [[_text(v) for v in row.values()] for row in self.rows()]
        return [head, *body]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        lines = [
            "  ".join(
                c.ljust(w) if j == 0 else c.rjust(w)
                for j, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([f"ranked by {self.by.replace('_', ' ')}", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        top = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in body
        )
        caption = f"ranked by {escape(self.by.replace('_', ' '))}"
        return f"<table><caption>{caption}</caption><tr>{top}</tr>{rows}</table>"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
