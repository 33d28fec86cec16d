"""Notes: what a reader of a fit should know, in sentences."""

from __future__ import annotations

import numpy as np

from mercer.tables.columns import Column
from mercer.tables.ranking import Row
from mercer.tables.refit import Final
from mercer.tables.resumed import parameters_of
from mercer.tables.screen import Screening
from mercer.tables.targets import Target
from mercer.wording import shown

CLOSE = 0.005  # nats per row
FEW = 10  # rows, of which figures say next to nothing


def notes_of(
    target: Target, columns: list[Column], found: Screening, final: Final, ranking: list[Row]
) -> list[str]:
    """Return the sentences: of the target, the columns, the search, the ranking."""
    notes = list(target.notes)
    notes += [f"column '{shown(c.name)}' {c.rule}" for c in columns if not c.used]
    if found.interrupted:
        notes.append("interrupted: the best machine so far was kept, the others were not tried")
    notes += final.notes
    scored = [(row, row.score) for row in ranking if row.score is not None]
    best = max(score for row, score in scored if row.chosen)
    base = max(score for row, score in scored if row.name == "constant")
    if len(found.rows) < FEW:
        notes.append(
            f"{len(found.rows)} rows are very few: the figures of rows left out keep the units and "
            "hyperparameters that all rows chose, and may be far too good"
        )
    if best <= base + CLOSE + _kept(found, ranking) / len(found.rows):
        notes.append(
            "no machine predicts rows left out better than a constant does: the inputs say nothing "
            "about the target, as far as these rows show"
        )
    others = [(row, score) for row, score in scored if not row.chosen and row.name != "constant"]
    close = [row.name for row, score in others if score > best - CLOSE]
    if close:
        notes.append(f"nearly as good: {', '.join(close)}")
    return list(dict.fromkeys(notes))


def _kept(found: Screening, ranking: list[Row]) -> float:
    """Return what is gained, in nats in all, since hyperparameters are kept for rows left out.

    Some two nats where they maximise the evidence; where the search is for the log probability of
    rows left out itself, about one for each of them.
    """
    chosen = next(row.name for row in ranking if row.chosen)
    tried = next(t for t in found.tried if t.candidate.name == chosen)
    if tried.candidate.criterion != "plsc":
        return 2.0
    return float(sum(np.size(value) for value in parameters_of(tried.machine).values()))
