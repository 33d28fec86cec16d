"""A table model as plain values, and on the terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import mercer
from mercer.app import terminal as console
from mercer.app.terminal import AppError
from mercer.tables import TableModel
from mercer.tables.choose.ranking import evidence_of
from mercer.tables.report.words import ENCODED, SLOPES, largest_first

NAMES = {
    "regression": "a quantity",
    "binary": "two classes",
    "multiclass": "several classes",
    "partly": "classes, not every row labelled",
}


def table_model(path: str, remedy: str) -> TableModel:
    """Return the model in a file of `mercer fit`; ``remedy`` ends the sentence about another."""
    fitted = mercer.load(path)
    if not isinstance(fitted, TableModel):
        raise AppError(f"{path} holds one {type(fitted).__name__}{remedy}")
    return fitted


def plain_of(model: TableModel) -> dict[str, Any]:
    """Return what was learned as plain values."""
    left, machine = model.left_out_, model.machine_
    parts = {name: getattr(machine, f"{name}_", None) for name in ("kernel", "loss")}
    return {
        "estimator": type(machine).__name__,
        "machine": model.chosen_.name,
        "kind": model.kind_,
        "target": model.target_,
        "classes": None if model.classes_ is None else model.classes_.tolist(),
        "features": model.used_,
        "columns": [{"name": c.name, "kind": c.kind, "rule": c.rule} for c in model.columns_],
        "rows": len(model.rows_),
        "rows_given": model.given_,
        "representation": model.representation_,
        "weights": model.weighted_by_,
        "group": model.grouped_by_,
        "time": model.ordered_by_,
        **{name: None if part is None else repr(part) for name, part in parts.items()},
        "coefficients": [
            {"column": c.column, "value": c.value, "standard_error": c.std}
            for c in model.coefficients()
        ],
        "log_evidence": evidence_of(machine),
        "leave_one_out": left.quality
        | {
            "rows": len(left.y),
            "log_density": left.score,
            "error": left.error,
            "calibration": left.calibration,
            "by": left.by,
        },
        **(model.verdict_.plain(model.kind_ == "regression") if model.verdict_ else {}),
        "ranking": [row.plain() for row in model.ranking_],
        "reading": None if model.reading_ is None else asdict(model.reading_),
        "remarks": list(model.notes_),
        "seconds": model.seconds_,
    }


def show_columns(model: TableModel) -> None:
    """Print what each column is and what is done to it."""
    rows = [[c.name, c.kind, c.rule] for c in model.columns_]
    title = f"Target '{model.target_}': {NAMES[model.kind_]}. Inputs:"
    console.print_table(title, ["column", "kind", "rule"], rows)


def show_ranking(model: TableModel) -> None:
    """Print the ranking of the candidates."""
    console.say_block("Ranking (* is the machine that was refitted)", str(model.compare()))


def _how(model: TableModel) -> str:
    """Say how the rows are known, without their number, which stands above."""
    words = str(model.representation_["words"]).removeprefix("it was fitted to ")
    return words.partition(" rows")[2].lstrip(", ")


def _share(quality: dict[str, float]) -> str:
    return f"{100 * quality['coverage90']:.1f} % of the rows"


def _beside(model: TableModel) -> list[tuple[str, str]]:
    """Return the comparisons with the simplest models; that with trees is among the notes."""
    if model.verdict_ is None:
        return []
    quantity = model.kind_ == "regression"
    return [("beside the simplest", one.words(quantity)) for one in model.verdict_.simple]


def show_model(model: TableModel) -> None:
    """Print columns, ranking, the machine, its rows left out, and the notes."""
    show_columns(model)
    show_ranking(model)
    chosen, left = model.chosen_, model.left_out_
    quantity = model.kind_ == "regression"
    what = "RMSE" if quantity else "error"
    rows = f"{len(model.rows_)} of {model.given_} rows"
    if model.weights_ is not None:
        by = "" if model.weighted_by_ is None else f" by '{model.weighted_by_}'"
        rows += f", weighted{by}: {float(model.weights_[model.rows_].sum()):.6g} in all"
    console.print_pairs(
        f"Chosen: {chosen.name}",
        [
            ("what it is", chosen.sentence),
            ("fitted to", rows),
            *([("how", _how(model))] if model.representation_["form"] != "exact" else []),
            (f"{left.by}: log density", left.score),
            (f"{left.by}: {what}", left.error),
            *([(f"{left.by}: R2", left.quality["r2"])] if quantity else []),
            *([(f"{left.by}: in 90 % interval", _share(left.quality))] if quantity else []),
            (f"{left.by}: calibration error", left.calibration),
            *_beside(model),
        ],
    )
    slopes = [[c.column, c.text] for c in largest_first(model.coefficients(), console.LINES)]
    if slopes:
        console.print_table(SLOPES, ["column", "slope"], slopes)
    console.print_summary(model.machine_.summary().rows(ENCODED))  # units behind the encoder
    for note in model.notes_:
        console.say(f"note: {note}")
