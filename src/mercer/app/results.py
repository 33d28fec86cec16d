"""A table model as plain values, and on the terminal."""

from __future__ import annotations

from typing import Any

from mercer.app import terminal as console
from mercer.tables import TableModel
from mercer.tables.choose.ranking import evidence_of
from mercer.tables.report.words import ENCODED

NAMES = {
    "regression": "a quantity",
    "binary": "two classes",
    "multiclass": "several classes",
    "partly": "classes, not every row labelled",
}


def plain_of(model: TableModel) -> dict[str, Any]:
    """Return what was learned as plain values."""
    left = model.left_out_
    return {
        "estimator": type(model.machine_).__name__,
        "machine": model.chosen_.name,
        "kind": model.kind_,
        "target": model.target_,
        "classes": None if model.classes_ is None else model.classes_.tolist(),
        "features": [str(name) for name in model.feature_names_in_],
        "columns": [{"name": c.name, "kind": c.kind, "rule": c.rule} for c in model.columns_],
        "rows": len(model.rows_),
        "rows_given": model.given_,
        "weights": model.weighted_by_,
        "kernel": _written(model.machine_, "kernel_"),
        "loss": _written(model.machine_, "loss_"),
        "log_evidence": evidence_of(model.machine_),
        "leave_one_out": left.quality
        | {
            "rows": len(left.y),
            "log_density": left.score,
            "error": left.error,
            "calibration": left.calibration,
            "by": left.by,
        },
        "ranking": [row.plain() for row in model.ranking_],
        "remarks": list(model.notes_),
        "seconds": model.seconds_,
    }


def _written(machine: Any, name: str) -> str | None:
    part = getattr(machine, name, None)
    return None if part is None else repr(part)


def show_columns(model: TableModel) -> None:
    """Print what each column is and what is done to it."""
    rows = [[c.name, c.kind, c.rule] for c in model.columns_]
    title = f"Target '{model.target_}': {NAMES[model.kind_]}. Inputs:"
    console.print_table(title, ["column", "kind", "rule"], rows)


def show_ranking(model: TableModel) -> None:
    """Print the ranking of the candidates."""
    console.say_block("Ranking (* is the machine that was refitted)", str(model.compare()))


def show_model(model: TableModel) -> None:
    """Print columns, ranking, the machine, its rows left out, and the notes."""
    show_columns(model)
    show_ranking(model)
    chosen, left = model.chosen_, model.left_out_
    what = "RMSE" if model.kind_ == "regression" else "error"
    console.print_pairs(
        f"Chosen: {chosen.name}",
        [
            ("what it is", chosen.sentence),
            ("fitted to", f"{len(model.rows_)} of {model.given_} rows{_weighted(model)}"),
            (f"{left.by}: log density", left.score),
            (f"{left.by}: {what}", left.error),
            (f"{left.by}: calibration error", left.calibration),
        ],
    )
    console.print_summary(_summary(model))
    for note in model.notes_:
        console.say(f"note: {note}")


def _weighted(model: TableModel) -> str:
    if model.weights_ is None:
        return ""
    total = float(model.weights_[model.rows_].sum())
    by = "" if model.weighted_by_ is None else f" by '{model.weighted_by_}'"
    return f", weighted{by}: {total:.6g} in all"


def _summary(model: TableModel) -> list[tuple[str, str, str]]:
    """Return what the machine says of itself; its units are those behind the encoder."""
    machine = model.machine_
    return machine.summary().rows(ENCODED) if hasattr(machine, "summary") else []
