"""What the inputs of a table model do: relevance by shuffling, partial dependence with bands."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.tables import Frame, TableModel

ROWS, AVERAGED, GRID = 200, 40, 7  # rows shuffled, rows averaged over, places along an input


def relevance(model: TableModel, frame: Frame, seed: int = 0) -> dict[str, float]:
    """Return by how much predictions change when one column is shuffled, most relevant first.

    A quantity: root mean square in standard deviations of its predictions. Classes: the share of
    probability that moves, on average (0 to 1).
    """
    rng = np.random.default_rng(seed)
    part = frame.take(np.sort(rng.permutation(frame.n)[:ROWS]))
    base = _predicted(model, part)
    scale = float(base.std()) or 1.0
    found = {}
    for name in map(str, model.feature_names_in_):
        columns = dict(part.columns)
        columns[name] = columns[name][rng.permutation(part.n)]
        moved = _predicted(model, Frame(columns, part.dates, part.n))
        if model.classes_ is None:
            found[name] = float(np.sqrt(np.mean((moved - base) ** 2))) / scale
        else:
            found[name] = float(np.abs(moved - base).sum(axis=1).mean() / 2)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _predicted(model: TableModel, frame: Frame) -> Array:
    if model.classes_ is None:
        return np.asarray(model.predict(frame), dtype=np.float64)
    return model.predict_proba(frame)


def dependence(model: TableModel, frame: Frame, name: str, seed: int = 0) -> dict[str, Any]:
    """Return the average prediction as one column takes its values, with a band.

    Keys: "at" (the values), "class" (None for a quantity), "mean", "low", "high". A quantity: the
    mean of f over rows, and 1.645 times the mean deviation of f on both sides, noise left out.
    Classes: the probability of the last class of two, of each of several; the band holds the
    middle 90 % of the rows.
    """
    rng = np.random.default_rng(seed)
    part = frame.take(np.sort(rng.permutation(frame.n)[:AVERAGED]))
    values = _places(frame, name)
    every = []
    for value in values:
        columns = dict(part.columns)
        if columns[name].dtype == object:
            columns[name] = np.full(part.n, value, dtype=object)
        else:
            columns[name] = np.full(part.n, float(value))
        X = model.encode(Frame(columns, part.dates, part.n))
        every.append(_band(model, X))
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


def _places(frame: Frame, name: str) -> list[Any]:
    """Return the values to go through: quantiles of numbers, the most frequent texts."""
    column = frame.columns[name][~frame.missing(name)]
    if column.dtype == object:
        values, counts = np.unique(column.astype(str), return_counts=True)
        return [str(v) for v in values[np.argsort(-counts, kind="stable")][:GRID]]
    places = np.quantile(column, np.linspace(0.05, 0.95, GRID))
    return [float(v) for v in np.unique(places)]
