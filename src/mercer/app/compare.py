"""``mercer compare``: the ranking of the machines, from a model file or for a table."""

from __future__ import annotations

from mercer.app import terminal as console
from mercer.app.files.table import read_table
from mercer.app.fit import fit_frame
from mercer.app.results import show_columns, show_ranking
from mercer.app.terminal import AppError, progress, require
from mercer.persist import load
from mercer.tables import TableModel


def run(
    *,
    model: str,
    target: str | None,
    features: list[str] | None,
    weights: str | None,
    kind: str | None,
    candidates: list[str] | None,
    time_budget: float,
    delimiter: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    if target is None:
        if weights is not None:
            raise AppError("--weights is for a table: pass --target as well")
        fitted = load(model)
        if not isinstance(fitted, TableModel):
            raise AppError(
                f"{model} holds one {type(fitted).__name__}, fitted without a ranking; compare "
                f"the machines for its table with: mercer compare TABLE --target NAME"
            )
    else:
        data = read_table(model, delimiter)
        with progress(quiet or as_json) as advance:
            fitted = fit_frame(
                data, target, features, False, advance,
                weights=weights, kind=kind, candidates=candidates, time_budget=time_budget,
                seed=seed,
            )  # fmt: skip
    if as_json:
        rows = [row.plain() for row in fitted.ranking_]
        console.print_json(
            {"target": fitted.target_, "kind": fitted.kind_, "ranking": rows,
             "remarks": fitted.notes_}
        )  # fmt: skip
    elif not quiet:
        if target is not None:
            show_columns(fitted)
        show_ranking(fitted)
        for note in fitted.notes_:
            console.say(f"note: {note}")
