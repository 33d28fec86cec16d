"""Row: one candidate in the ranking, and the figures that it is judged by; Listing: all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any

import numpy as np

from mercer.estimators.shared.summary import ABSURD, absurd, noise_at_bound
from mercer.tables.choose.left_out import LeftOutTable

FIGURES = ("score", "error", "loss", "calibration", "evidence", "loo_bound")


@dataclass(frozen=True)
class Row:
    """One machine of the ranking.

    Attributes
    ----------
    name, sentence : the machine, in words.
    chosen : whether it was refitted on all rows.
    score : mean log predictive density of rows left out; None where it failed. Ranks.
    error : root mean squared error, or the share of wrong classes, of rows left out.
    loss : minus the score: log loss, or negative log predictive density (NLPD).
    calibration : mean difference between stated and observed frequencies.
    evidence : log evidence, not comparable across losses; None where the loss is not a likelihood.
    loo_bound : an upper bound of the leave-one-out error, where the method has one.
    seconds : what it took; size : support, relevance or training points that it keeps.
    by : how rows were left out, or why there are no figures.
    doubts : what makes the figures doubtful, in words; empty if nothing does.
    """

    name: str
    sentence: str
    chosen: bool
    score: float | None
    error: float | None
    loss: float | None
    calibration: float | None
    evidence: float | None
    loo_bound: float | None
    seconds: float
    size: int | None
    by: str
    doubts: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the row as a dictionary."""
        return asdict(self)

    def cells(self) -> list[str]:
        """Return the row as text: name, figures, seconds, size, and how rows were left out."""
        mark = "* " if self.chosen else "  "
        numbers = (self.score, self.error, self.calibration, self.evidence, self.loo_bound)
        texts = ["-" if v is None else f"{v:.4g}" for v in numbers]
        size = "-" if self.size is None else str(self.size)
        by = self.by[:60] + (" !" if self.doubts else "")
        return [mark + self.name, *texts, f"{self.seconds:.1f}", size, by]


def row_of(
    name: str, sentence: str, machine: Any, left: LeftOutTable, seconds: float, chosen: bool = False
) -> Row:
    """Return the row of a fitted machine with its rows left out."""
    figures = (left.score, left.error, -left.score, left.calibration)
    others: Any = (evidence_of(machine), _bound(machine), seconds, _size(machine), left.by)
    doubts = noise_at_bound(getattr(machine, "report_", None) or {})
    if left.calibration > ABSURD:
        doubts.append(absurd(left.calibration))
    found = Row(name, sentence, chosen, *figures, *others)
    return replace(found, doubts="; ".join(doubts))


def failed(name: str, sentence: str, seconds: float, reason: str) -> Row:
    """Return the row of a machine without figures."""
    none: dict[str, Any] = dict.fromkeys([*FIGURES, "size"])
    return Row(name, sentence, False, seconds=seconds, by=reason, **none)


def evidence_of(machine: Any) -> float | None:
    """Return the log evidence; None where the loss does not normalise, so that there is none.

    Least squares on labels has a number of that name, the evidence of a regression on -1 and +1:
    no probability of the labels, which those of the other machines are.
    """
    value, loss = getattr(machine, "log_evidence_", None), getattr(machine, "loss_", None)
    return None if value is None or not getattr(loss, "normalised", False) else float(value)


def _bound(machine: Any) -> float | None:
    loo: Any = getattr(machine, "loo_", None)
    if getattr(loo, "bound", None) is not None:
        return float(loo.error_bound)
    support = getattr(loo, "error_bounds", {}).get("support")
    return float(np.max(support)) if support is not None and len(support) == 1 else None


def _size(machine: Any) -> int | None:
    machine = getattr(machine, "machine_", machine)
    for name in ("support_vectors_", "relevance_vectors_"):
        if getattr(machine, name, None) is not None:
            return len(getattr(machine, name))
    posteriors = getattr(machine, "posteriors_", None)
    points = getattr(posteriors[0], "points", None) if posteriors else None
    return None if points is None else len(points)


CAPTION = "ranked by the log density of rows left out, per row"


@dataclass(eq=False, repr=False)
class Listing:
    """The ranking of a table model, best first; ``rows()`` gives plain dictionaries."""

    ranking: list[Row]
    kind: str

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, e.g. for a data frame."""
        return [row.plain() for row in self.ranking]

    def head(self) -> list[str]:
        """Return the column names; the error is named by what it is."""
        quantity = self.kind == "regression"
        own = ("log density", "RMSE") if quantity else ("log probability", "error")
        return ["machine", *own, "calibration", "evidence", "LOO bound", "seconds", "size", "by"]

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        return [row.cells() for row in self.ranking]

    def __str__(self) -> str:
        cells = [self.head(), *self.cells()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        sides = ["<", *[">"] * (len(widths) - 2), "<"]  # words left, numbers right
        lines = [
            "  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([CAPTION, *lines, *self.notes()])

    def notes(self) -> list[str]:
        """Return what makes the figures of a row doubtful; "!" marks the row."""
        return [f"! {row.name}: {row.doubts}" for row in self.ranking if row.doubts]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = line(self.head(), "th") + "".join(line(row, "td") for row in self.cells())
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return f"<table><caption>{CAPTION}</caption>{body}</table>{notes}"
