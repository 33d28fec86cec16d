"""What a report asks of a model: the effects of inputs, the prediction along one, more rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from mercer.core.arrays import Array, Index
from mercer.core.words import shown
from mercer.plots.inputs import Effects, shuffled_effects
from mercer.plots.learning import LearningDisplay
from mercer.plots.rows import take_rows
from mercer.plots.style import ORANGE, PALE, Display, class_line, optional
from mercer.search import Optimize
from mercer.tables.data.frame import objects
from mercer.tables.model import TableModel
from mercer.tables.report.page import Picture, picture
from mercer.tables.stack.machine import Combination

GRID, GROUPS, CURVES = 60, 8, 6
MAIN = 3  # inputs that are shown row by row and drawn one by one


class View:
    """What a report asks of a model that was fitted to a table."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.left, self.machine = model.left_out_, model.machine_
        self.quantity = model.kind_ == "regression"
        self.target = str(model.target_)
        self.used = model.used_
        self.rows: Index = np.asarray(model.left_rows_, dtype=np.intp)  # of those left out

    @property
    def frame(self) -> Any:
        """The table that the model was fitted to; refuse a model without it."""
        if self.model.frame_ is None:
            raise ValueError(
                "this needs the training rows, and a model that was loaded from a file has none: "
                "write the report after fitting, with report(path) or mercer fit --report"
            )
        return self.model.frame_

    @property
    def source(self) -> str:
        """What each row was predicted from, in words."""
        by = self.left.by
        if by.endswith("held out"):
            return f"a fit without them ({by})"
        return "all the others" if by.startswith("leave-one-out") else f"other rows ({by})"

    @cached_property
    def effects(self) -> Effects:
        """How far predictions move when a column is shuffled, in deviations of a quantity."""
        name, y, w = "predict" if self.quantity else "predict_proba", self.left.y, self.left.weights
        spread = float(np.sqrt(np.average((y - np.average(y, weights=w)) ** 2, weights=w)))
        answer = SimpleNamespace(**{name: getattr(self.model, name)})
        options: Any = {"only": self.used, "scale": spread or 1.0}
        return shuffled_effects(answer, self.frame, repeats=3, seconds=10.0, **options)

    @property
    def main(self) -> list[str]:
        """The inputs with the greatest effects, the greatest first."""
        order = np.argsort(-self.effects.effects, kind="stable")[:MAIN]
        return [self.effects.names[j] for j in order]


@dataclass(repr=False, eq=False)
class AlongDisplay(Display):
    """Predictions along one input, with the others at their median or most frequent value."""

    name: str
    target: str
    values: Any  # (k,) of the input: numbers, dates or texts
    curves: dict[str, Array]  # by label, (k,): the prediction, or the probability of classes
    half: Array | None = None  # (k,) half the width of the 90 % band
    groups: bool = False

    def draw(self, ax: Any) -> None:
        at = np.arange(len(self.values)) if self.groups else self.values
        for i, (label, curve) in enumerate(self.curves.items()):
            style = {"color": ORANGE} if self.half is not None else class_line(i)
            if self.half is not None and self.groups:
                ax.vlines(at, curve - self.half, curve + self.half, color=PALE, lw=6)
            elif self.half is not None:
                ax.fill_between(at, curve - self.half, curve + self.half, color=PALE, lw=0)
            if self.groups:
                style = {"color": style["color"], "marker": "o", "linestyle": ""}
            ax.plot(at, curve, lw=2, label=shown(label, 18), **style)
        if self.groups:
            labels = [shown(str(v), 14) for v in self.values]
            ax.set_xticks(at, labels=labels, rotation=30, ha="right", parse_math=False)
        elif np.asarray(at).dtype.kind == "M":
            dates = optional("matplotlib.dates", "plotting")
            ax.xaxis.set_major_locator(dates.AutoDateLocator(minticks=2, maxticks=4))
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
        else:
            ax.locator_params(axis="x", nbins=3)  # panels are narrow: long numbers run together
        self._label(ax, shown(self.name, 24), shown(self.target, 30))
        if self.half is None:
            ax.set_ylim(*self._shares())
            # above the axes, not on the curves
            self._legend(ax, "lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, fontsize=8)

    def _shares(self) -> tuple[float, float]:
        """Return limits for probabilities: all of 0 to 1, or what is about small changes."""
        every = np.concatenate(list(self.curves.values()))
        low, high = float(every.min()), float(every.max())
        pad = max(0.5 * (high - low), 0.05)
        if high - low > 0.5:
            return -0.03, 1.03
        return max(low - pad, -0.03), min(high + pad, 1.03)

    def leaves(self, y: Array) -> bool:
        """Whether the curve of a quantity runs far outside of what was observed, y (n,)."""
        low, high = float(y.min()), float(y.max())
        far, curve = 0.5 * (high - low), np.concatenate(list(self.curves.values()))
        return self.half is not None and bool(np.any((curve < low - far) | (curve > high + far)))


def along(view: View, name: str) -> AlongDisplay | None:
    """Return the display of one column; None of a text or a group: there is no order."""
    kind = next(c.kind for c in view.model.columns_ if c.name == name)
    column = view.frame.columns[name]
    if kind in ("text", "group"):
        return None
    groups = kind == "categorical"
    values = _groups(column) if groups else np.linspace(np.nanmin(column), np.nanmax(column), GRID)
    frame = replace(view.frame, columns={n: view.frame.columns[n] for n in view.used})
    table, classes = typical(frame, name, values), view.model.classes_
    if kind == "date":
        seconds = np.round(values * 86400).astype("timedelta64[s]")
        values = np.datetime64("1970-01-01T00:00:00") + seconds
    if classes is None:
        mean, std = view.model.predict(table, return_std=True)
        half = ndtri(0.95) * np.asarray(std)
        return AlongDisplay(name, view.target, values, {"": np.asarray(mean)}, half, groups)
    counts = np.bincount(view.left.codes, minlength=len(classes))
    most = np.argsort(-counts, kind="stable")[:CURVES].tolist() if len(classes) > 2 else [1]
    proba = view.model.predict_proba(table)
    curves = {str(classes[c]): proba[:, c] for c in sorted(most)}
    return AlongDisplay(name, "probability", values, curves, None, groups)


def typical(frame: Any, name: str, values: Any) -> Any:
    """Return a table in which column ``name`` has the values (k,) and the others do not vary."""
    columns = {}
    for other, column in frame.columns.items():
        middle = _groups(column)[0] if column.dtype == object else float(np.nanmedian(column))
        columns[other] = np.full(len(values), middle, dtype=column.dtype)
    columns[name] = values
    return replace(frame, columns=columns, n=len(values))


def _groups(column: Any) -> Any:
    """The most frequent texts, the most frequent first."""
    known, counts = np.unique([str(v) for v in column if v is not None], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:GROUPS]
    return objects(str(known[i]) for i in order)


SECONDS = 10.0  # a longer curve ends earlier
STEPS = 30  # of the search on each part


def learning(view: View) -> LearningDisplay:
    """Return the learning curve of the machine on the encoded rows.

    Hyperparameters are learned anew on every part, from one start and in at most 30 steps.
    """
    machine = _shortened(view.machine)
    X = view.model.encode(take_rows(view.frame, view.rows))
    y: Any = view.left.y if view.quantity else view.left.codes
    return LearningDisplay.compute(machine, X, y, seconds=SECONDS, weights=view.left.weights)


def _shortened(fitted: Any) -> Any:
    """Return an unfitted machine with a short search."""
    if isinstance(fitted, Combination):
        return fitted.again(_shortened)
    machine = clone(fitted)
    given = machine.get_params(deep=False)
    search = given.get("search")
    criterion, balance = getattr(search, "criterion", search), getattr(search, "balance", True)
    if isinstance(criterion, str) and "gram" in given:  # the others have short ones of their own
        short = Optimize(criterion, restarts=0, max_iter=STEPS, balance=balance)
        machine.set_params(search=short)
    return machine


def learning_picture(view: View) -> Picture | None:
    """Return the picture of it, or None where there are too few rows, or points stand for many."""
    if view.model.representation_["form"] != "exact":
        return None
    try:
        display = learning(view)
    except ValueError:
        return None
    if display.gain is None:
        return None
    first, last = float(display.scores[0]), float(display.scores[-1])
    rows = "labelled rows" if view.model.kind_ == "partly" else "rows"
    return Picture(
        "Learning curve",
        picture(display, height=3.8),
        f"{display.unit} of rows held out against the number of rows learned from: {first:.3f} "
        f"with {display.sizes[0]} rows, {last:.3f} with {display.sizes[-1]}.",
        f"The model learned anew from parts of at most {display.sizes[-1]} {rows} and predicted "
        f"others that it had not seen; smaller is better. {_verdict(*display.gain)}",
    )


def _verdict(gain: float, error: float) -> str:
    """What the last doubling of the rows says, from its gain and the error of that, in nats."""
    if gain > 2 * error and gain > 0.01:
        return f"The last doubling brought {gain:.3f}: more rows would probably help again."
    if gain < -2 * error and gain < -0.02:
        return (
            f"The last doubling made it worse by {-gain:.3f}: the short searches for "
            "hyperparameters on these parts found less good ones, and the curve does not say "
            "whether more rows would help."
        )
    if gain + 2 * error < 0.02:
        return "The last doubling changed nothing: more rows of the same kind would hardly help."
    return (
        f"The last doubling brought {gain:.3f} (standard error {error:.3f}): too few rows were "
        "held out to say whether more would help."
    )
