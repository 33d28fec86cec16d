"""Views: what the page shows of a model, as plain values."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mercer.core.words import shown
from mercer.serve.http.api import csv_of
from mercer.serve.limits import RefusedError, bad
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import State
from mercer.serve.page import svg
from mercer.serve.page.sheets import Sheet
from mercer.serve.rows.read import SentColumns
from mercer.tables import TableModel

SURPRISING, PROPOSED = 8, 5  # rows
SHOWN = 200  # predictions on the page; all are in the download
CHANGED = 0.05  # share of the function that drift renewed, from which it is marked
BATCHES = 400


class Batches(msgspec.Struct):
    """The prequential scores of a stream."""

    words: str
    picture: str
    rows: int
    version: int


def ranking(model: TableModel) -> list[dict[str, str]]:
    """Return the candidates, best first, as text."""

    def figure(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    return [
        {
            "name": row.name,
            "sentence": row.sentence,
            "chosen": "yes" if row.chosen else "",
            "score": figure(row.score),
            "error": figure(row.error),
        }
        for row in model.ranking_
    ]


def surprising(model: TableModel, sheet: Sheet | None) -> list[dict[str, Any]]:
    """Return the rows that the others predict worst, with their values while the table is held."""
    left = model.left_out_
    density = np.where(np.isfinite(left.log_density), left.log_density, -np.inf)
    found = []
    for i in np.argsort(density, kind="stable")[:SURPRISING]:
        row = int(model.left_rows_[i])
        if model.classes_ is None:
            seen, told = f"{left.y[i]:.4g}", f"{left.mean[i]:.4g} ± {left.std[i]:.2g}"
        else:
            code = int(left.y[i])
            seen, told = str(model.classes_[code]), f"probability {left.proba[i, code]:.1%}"
        values = {} if sheet is None or row >= sheet.frame.n else sheet.row(row)
        values.pop(model.target_, None)
        found.append(
            {"row": row + 1, "seen": shown(seen, 40), "told": told,
             "density": f"{density[i]:.2f}", "values": values}
        )  # fmt: skip
    return found


def predicted_rows(state: State, columns: SentColumns) -> dict[str, Any]:
    """Return the predictions of some rows, as a table and as a CSV to keep."""
    found = state.predict(state.rows(columns))
    names = list(found)
    rows = [[_cell(v) for v in values] for values in zip(*found.values(), strict=True)]
    return {"head": names, "rows": rows[:SHOWN], "all": len(rows), "csv": csv_of(found)}


def proposed_rows(state: State, columns: SentColumns) -> dict[str, Any]:
    """Return which of some rows to observe next, best first."""
    machine, X = state.machine, state.rows(columns)
    if not hasattr(machine, "propose"):
        raise RefusedError(409, "fixed", "this model proposes no rows")
    try:
        found = machine.propose(X, min(PROPOSED, columns.n))
    except (ValueError, TypeError, ArithmeticError, AttributeError, NotImplementedError) as error:
        raise bad(str(error)) from None
    pairs = zip(found.indices.tolist(), found.scores.tolist(), strict=True)
    rows = [[str(i + 1), f"{score:.4g}"] for i, score in pairs]
    return {"head": ["row", found.by], "rows": rows, "all": len(rows), "csv": ""}


def live(keeper: Keeper) -> Batches:
    """Return the scores of the batches so far, each predicted before it was learned."""
    quantity = keeper.state.quantity
    batches = keeper.history(0, BATCHES)
    which = "log_density" if quantity else "log_loss"
    values = [getattr(b.batch, which) for b in batches]
    marks = [
        i for i, b in enumerate(batches) if b.what == "rollback" or (b.change or 0.0) > CHANGED
    ]
    total = keeper.state.sums.scores(quantity)
    figures = {
        "rmse": total.rmse, "log density": total.log_density, "accuracy": total.accuracy,
        "log loss": total.log_loss,
    }  # fmt: skip
    told = ", ".join(f"{name} {v:.4g}" for name, v in figures.items() if v is not None)
    words = f"{total.rows} rows learned" + (
        f"; predicted before they were learned: {told}" if told else ""
    )
    axis = f"{which.replace('_', ' ')} of each batch; marks: change or roll-back"
    picture = svg.history(values, marks, words, axis)
    return Batches(words, picture, total.rows, keeper.version)


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else shown(str(value), 60)
