"""What if: one row whose inputs a person moves, and what the model predicts for it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.serve.limits import bad
from mercer.serve.models.learner import State
from mercer.serve.page import svg
from mercer.serve.rows.read import SentColumns
from mercer.tables import TableModel
from mercer.tables.data.frame import EPOCH

GRID, ALONG = 160, 61  # points of a density, and of a curve along one input
COVERAGE = 0.9
LEVELS = 60  # values of a column that are offered to choose from


@dataclass(frozen=True)
class Input:
    """An input as the page shows it: a slider, a choice or a field."""

    name: str
    kind: str  # "range", "date", "choice" or "field"
    value: str
    low: str = ""
    high: str = ""
    step: str = "any"
    levels: list[str] = field(default_factory=list)


def inputs_of(state: State) -> list[Input]:
    """Return the inputs of a model, each at a typical value."""
    if not isinstance(state.model, TableModel):
        return [
            Input(name, "field", "" if name in state.words else "0") for name in state.inputs or []
        ]
    return [_input(column) for column in state.model.columns_ if column.used]


def _input(column: Any) -> Input:
    if column.kind == "numeric" and column.low is not None and column.low < column.high:
        step = 10.0 ** np.floor(np.log10((column.high - column.low) / 100.0))
        low, high = step * np.floor(column.low / step), step * np.ceil(column.high / step)
        middle = step * np.round(column.middle / step)
        at, first, last, by = (f"{v:.12g}" for v in (middle, low, high, step))
        return Input(column.name, "range", at, first, last, by)
    if column.kind == "date" and column.low is not None:
        at, first, last = (_day(v) for v in (column.middle, column.low, column.high))
        return Input(column.name, "date", at, first, last)
    if column.kind == "categorical" and 0 < len(column.levels) <= LEVELS:
        return Input(column.name, "choice", column.levels[0], levels=list(column.levels))
    return Input(column.name, "field", "" if column.kind == "text" else "0")


def _day(days: float) -> str:
    return (EPOCH + datetime.timedelta(days=float(days))).date().isoformat()


def answer(state: State, values: Mapping[str, str], moved: str | None) -> dict[str, Any]:
    """Return the pictures and the words for one row; ``moved`` is the input to draw along."""
    names = state.inputs or []
    for name in names:
        if not isinstance(values.get(name), str):
            raise bad("a value is missing", column=name)
    X = _rows(state, {name: [values[name]] for name in names})
    found = _classes(state, X) if not state.quantity else _quantity(state, X)
    entry = next((i for i in inputs_of(state) if i.name == moved and i.kind == "range"), None)
    if entry is not None:
        found["along"] = _along(state, values, entry)
    return found


def _rows(state: State, columns: dict[str, list[str]]) -> Any:
    n = len(next(iter(columns.values())))
    return state.rows(SentColumns(dict(columns), n, texts=True))


def _classes(state: State, X: Any) -> dict[str, Any]:
    names, p = _probabilities(state, X)
    order = np.argsort(-p[0])[:12]
    words = f"{names[order[0]]}, with probability {p[0, order[0]]:.1%}"
    picture = svg.bars([names[i] for i in order], p[0, order], f"probabilities: {words}")
    return {"words": words, "picture": picture}


def _probabilities(state: State, X: Any) -> tuple[list[str], Array]:
    found = state.predict(X)
    names = [name[2:] for name in found if name.startswith("p_")]
    if not names:  # a machine without probabilities: the class that it says
        labels = [str(c) for c in state.classes or []]
        chosen = [str(c) for c in found["prediction"]]
        return labels, np.array([[float(c == label) for label in labels] for c in chosen])
    return names, np.array([found[f"p_{name}"] for name in names]).T


def _quantity(state: State, X: Any) -> dict[str, Any]:
    machine, target = state.machine, state.target or "prediction"
    mean = float(np.ravel(machine.predict(X))[0])
    if not hasattr(machine, "predict_interval"):
        return {"words": f"{shown(target)}: {mean:.4g}; this model has no intervals", "picture": ""}
    low, high = (float(np.ravel(v)[0]) for v in machine.predict_interval(X, coverage=COVERAGE))
    words = f"{shown(target)}: {mean:.4g}; nine in ten lie between {low:.4g} and {high:.4g}"
    wide = 0.75 * (high - low) or 1.0
    ends = [low - wide, high + wide]
    if isinstance(state.model, TableModel):  # so that the picture stays and the curve moves
        seen = state.model.left_out_.y
        ends = [min(float(seen.min()), ends[0]), max(float(seen.max()), ends[1])]
    grid = np.linspace(ends[0], ends[1], GRID)
    if not hasattr(machine, "predictive_log_density"):
        return {"words": words, "picture": ""}
    log = np.asarray(machine.predictive_log_density(np.repeat(X, GRID, axis=0), grid))
    height = np.where(np.isfinite(log), np.exp(np.clip(log, -700.0, 700.0)), 0.0)
    picture = svg.density(grid, height, (low, high), mean, f"density of {words}", target)
    return {"words": words, "picture": picture}


def _along(state: State, values: Mapping[str, str], entry: Input) -> dict[str, str]:
    """Return the curve of the prediction along one input, the others as they are."""
    grid = np.linspace(float(entry.low), float(entry.high), ALONG)
    columns = {name: [values[name]] * ALONG for name in state.inputs or []}
    columns[entry.name] = [f"{v:.12g}" for v in grid]
    X, here = _rows(state, columns), float(values[entry.name])
    if state.quantity:
        machine = state.machine
        mean = np.ravel(machine.predict(X))
        low, high = mean, mean
        if hasattr(machine, "predict_interval"):
            low, high = (np.ravel(v) for v in machine.predict_interval(X, coverage=COVERAGE))
        words = f"{shown(state.target or '')} along {shown(entry.name)}, the other inputs as set"
        return {
            "words": words,
            "picture": svg.curve(grid, mean, low, high, here, words, entry.name),
        }
    names, p = _probabilities(state, X)
    j = int(np.argmax(p[np.argmin(np.abs(grid - here))]))
    words = f"probability of {shown(names[j], 30)} along {shown(entry.name)}, the others as set"
    picture = svg.curve(grid, p[:, j], p[:, j], p[:, j], here, words, entry.name, (0.0, 1.0))
    return {"words": words, "picture": picture}
