"""``mercer explain``: which inputs matter, what they do, and which rows the model leans on."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.app import terminal as console
from mercer.app.results import table_model
from mercer.app.terminal import progress, require
from mercer.core.arrays import Array
from mercer.core.words import shape
from mercer.plots.inputs import changes_by_column
from mercer.tables import Frame, TableModel
from mercer.tables.files import FileOptions, frame_of, read_file

ROWS, AVERAGED, GRID = 200, 40, 7  # rows shuffled, rows averaged over, places along an input


def relevance(model: TableModel, frame: Frame, seed: int = 0) -> dict[str, float]:
    """Return by how much predictions change when one column is shuffled, most relevant first.

    A quantity: root mean square in standard deviations of its predictions. Classes: the share of
    probability that moves, on average (0 to 1).
    """
    rng = np.random.default_rng(seed)
    part = frame.take(np.sort(rng.permutation(frame.n)[:ROWS]))
    answer = model.predict if model.classes_ is None else model.predict_proba
    base = np.asarray(answer(part))
    scale = float(base.std()) or 1.0

    def change(moved: Array) -> float:
        if model.classes_ is None:
            return float(np.sqrt(np.mean((moved - base) ** 2))) / scale
        return float(np.abs(moved - base).sum(axis=1).mean() / 2)

    names = model.used_
    (found,) = changes_by_column(answer, part, names, rng, change)
    shares = dict(zip(names, found.tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def dependence(model: TableModel, frame: Frame, name: str, seed: int = 0) -> dict[str, Any]:
    """Return the average prediction as one column takes its values, with a band.

    A quantity: the mean of f over rows, and 1.645 times the mean deviation of f on both sides,
    noise left out. Classes: the probability of the last class of two, of each of several; the band
    holds the middle 90 % of the rows.
    """
    rng = np.random.default_rng(seed)
    part = frame.take(np.sort(rng.permutation(frame.n)[:AVERAGED]))
    known = frame.columns[name][~frame.missing(name)]
    if known.dtype == object:  # the most frequent texts
        texts, counts = np.unique(known.astype(str), return_counts=True)
        values: list[Any] = texts[np.argsort(-counts, kind="stable")][:GRID].tolist()
    else:
        values = np.unique(np.quantile(known, np.linspace(0.05, 0.95, GRID))).tolist()
    every = []
    for value in values:
        column = np.full(part.n, value, dtype=part.columns[name].dtype)
        moved = replace(part, columns={**part.columns, name: column})
        every.append(_band(model, model.encode(moved)))
    mean, low, high = (np.array([e[i] for e in every]).T for i in range(3))
    labels = [None] if model.classes_ is None else [str(c) for c in model.classes_]
    chosen = range(len(labels)) if len(labels) != 2 else [1]
    curves = [{"class": labels[c], "mean": mean[c], "low": low[c], "high": high[c]} for c in chosen]
    return {"column": name, "at": values, "curves": curves}


def _band(model: TableModel, X: Array) -> tuple[Array, Array, Array]:
    """Return mean, low and high over the rows, (k,) each, (1,) for a quantity."""
    machine = model.machine_
    if model.classes_ is not None:
        p = np.asarray(machine.predict_proba(X))
        return p.mean(axis=0), np.quantile(p, 0.05, axis=0), np.quantile(p, 0.95, axis=0)
    std = machine.predict_latent(X)[1]
    wide = 1.6448536269514722 * float(np.mean(std)) if std is not None else 0.0
    middle = float(np.mean(machine.predict(X)))
    return np.array([middle]), np.array([middle - wide]), np.array([middle + wide])


def run(
    *, model: str, table: str, top: int, asked: FileOptions, seed: int, quiet: bool, as_json: bool
) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    remedy = ": `mercer info` describes it; explain is for models that `mercer fit` chose"
    fitted = table_model(model, remedy)
    memory = fitted.reading_
    data = read_file(table, asked, memory)
    names = fitted.used_
    data.check(names, "an input of the model")
    kinds = {c.name: c.kind for c in fitted.columns_ if c.used}
    frame = frame_of(data, names, kinds, memory)
    with progress(quiet or as_json) as advance:
        advance({"stage": "relevance of the inputs"})
        shares = relevance(fitted, frame, seed)
        curves = []
        for i, name in enumerate(list(shares)[:top]):
            advance({"stage": f"effect of {name}", "step": i, "steps": min(top, len(shares))})
            if kinds[name] not in ("text", "group"):  # it has no values to go through
                curves.append(dependence(fitted, frame, name, seed))
    order = np.argsort(-fitted.influence_, kind="stable")[:top]
    largest = [(int(fitted.rows_[i]) + 1, float(fitted.influence_[i])) for i in order]
    rows = [{"row": row, "share": share} for row, share in largest if share > 0.0]
    if as_json:
        plain = {"relevance": shares, "dependence": curves, "influential_rows": rows}
        console.print_json({"target": fitted.target_, "machine": fitted.chosen_.name} | plain)
    elif not quiet:
        _show(fitted, frame, shares, curves, rows)


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
                [_place(frame, found["column"], at), *(shape(float(v)) for v in figures)]
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
    return value if isinstance(value, str) else shape(float(value))
