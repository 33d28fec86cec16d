"""Notes: what a reader of a fit should know, in sentences."""

from __future__ import annotations

from mercer.tables.columns import Column
from mercer.tables.ranking import Row
from mercer.tables.refit import Final
from mercer.tables.screen import Screening
from mercer.tables.targets import Target
from mercer.wording import shown

CLOSE = 0.005  # nats per row


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
    # a machine keeps its hyperparameters when a row is left out: worth some 2/n of a nat per row
    if best <= base + CLOSE + 2.0 / len(found.rows):
        notes.append(
            "no machine predicts rows left out better than a constant does: the inputs say nothing "
            "about the target, as far as these rows show"
        )
    others = [(row, score) for row, score in scored if not row.chosen and row.name != "constant"]
    close = [row.name for row, score in others if score > best - CLOSE]
    if close:
        notes.append(f"nearly as good: {', '.join(close)}")
    return list(dict.fromkeys(notes))
