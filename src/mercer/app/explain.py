"""``mercer explain``: which inputs matter, what they do, and which rows the model leans on."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from mercer.app import console
from mercer.app.effects import dependence, relevance
from mercer.app.errors import AppError, require
from mercer.app.frames import frame_of
from mercer.app.progress import progress
from mercer.app.tables import read_table
from mercer.persist import load
from mercer.tables import Frame, TableModel


def run(
    *,
    model: str,
    table: str,
    top: int,
    delimiter: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    fitted = load(model)
    if not isinstance(fitted, TableModel):
        raise AppError(
            f"{model} holds one {type(fitted).__name__}: `mercer info` describes it; explain is "
            "for models that `mercer fit` chose"
        )
    data = read_table(table, delimiter)
    names = [str(name) for name in fitted.feature_names_in_]
    data.check(names, "an input of the model")
    frame = frame_of(data, names, {c.name: c.kind for c in fitted.columns_ if c.used})
    with progress(quiet or as_json) as advance:
        advance({"stage": "relevance of the inputs"})
        shares = relevance(fitted, frame, seed)
        curves = []
        for i, name in enumerate(list(shares)[:top]):
            advance({"stage": f"effect of {name}", "step": i, "steps": min(top, len(shares))})
            if _varies(fitted, name):
                curves.append(dependence(fitted, frame, name, seed))
    rows = influential(fitted, top)
    if as_json:
        plain = {"relevance": shares, "dependence": curves, "influential_rows": rows}
        console.print_json({"target": fitted.target_, "machine": fitted.chosen_.name} | plain)
    elif not quiet:
        _show(fitted, frame, shares, curves, rows)


def influential(model: TableModel, top: int) -> list[dict[str, Any]]:
    """Return the training rows with the largest coefficients: row (from 1) and share."""
    order = np.argsort(-model.influence_, kind="stable")[:top]
    return [
        {"row": int(model.rows_[i]) + 1, "share": float(model.influence_[i])}
        for i in order
        if model.influence_[i] > 0.0
    ]


def _varies(model: TableModel, name: str) -> bool:
    """A text column has no values to go through."""
    return next(c for c in model.columns_ if c.name == name).kind != "text"


def _show(
    model: TableModel,
    frame: Frame,
    shares: dict[str, float],
    curves: list[dict[str, Any]],
    rows: list[dict[str, Any]],
) -> None:
    unit = "deviations" if model.classes_ is None else "probability moved"
    console.print_table(
        "Relevance of the inputs: how predictions change when a column is shuffled",
        ["column", unit],
        [[name, f"{share:.3f}"] for name, share in shares.items()],
    )
    for found in curves:
        for curve in found["curves"]:
            about = f"'{model.target_}'"
            if curve["class"] is not None:
                about = f"the probability of '{curve['class']}'"
            title = f"Effect of '{found['column']}' on {about}, averaged over the other inputs"
            table = zip(found["at"], curve["mean"], curve["low"], curve["high"], strict=True)
            body = [
                [_place(frame, found["column"], at), *(f"{v:.4g}" for v in figures)]
                for at, *figures in table
            ]
            console.print_table(title, [found["column"], "mean", "low", "high"], body)
    if rows:
        console.print_table(
            "Training rows that the function leans on most (share of all coefficients)",
            ["row", "share"],
            [[str(r["row"]), f"{100 * r['share']:.1f} %"] for r in rows],
        )


def _place(frame: Frame, name: str, value: Any) -> str:
    if frame.kind(name) == "date":
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=value)).isoformat(" ")[:16]
    return value if isinstance(value, str) else f"{value:.4g}"
