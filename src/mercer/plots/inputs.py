"""RelevanceDisplay: how much the predictions depend on each input, by shuffling its column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.plots.rows import column_names, count_rows, take_rows, with_column
from mercer.plots.style import BLUE, INK, Display

FEW = 25
ROWS = 500  # rows used for the effect of an input: enough for a bar chart


@dataclass(frozen=True)
class Effects:
    """Effect (d,) of each input, its deviation over repeats (d,), names (d,), unit, rows used."""

    effects: Array
    spread: Array
    names: list[str]
    unit: str
    rows: int


def shuffled_effects(
    estimator: Any,
    table: Any,
    *,
    repeats: int = 5,
    seed: int = 0,
    scale: float | None = None,
    only: Sequence[str] | None = None,
    seconds: float = math.inf,
) -> Effects:
    """Return by how much predictions change when one column is shuffled among the rows.

    Root mean square over at most 500 rows. For a regressor it is measured in ``scale`` (None: the
    standard deviation of the predictions); for a classifier it is the change of the probabilities.
    Columns that are not among ``only`` are not shuffled and not returned. Where predictions are
    slow, fewer rows are used (50 at least), so that it takes about ``seconds``.

    Parameters
    ----------
    estimator : with ``predict``, for classes ``predict_proba`` or ``decision_function``.
    table : (n, d) array, or data frame (pandas, polars, pyarrow).

    Examples
    --------
    >>> import numpy as np
    >>> class Sum:
    ...     def predict(self, X):
    ...         return X[:, 0]
    >>> found = shuffled_effects(Sum(), np.random.default_rng(0).normal(size=(50, 2)))
    >>> found.names, float(found.effects[1]), bool(found.effects[0] > 1)
    (['column 0', 'column 1'], 0.0, True)
    """
    known = ("predict_proba", "decision_function", "predict")
    method = next(name for name in known if hasattr(estimator, name))

    def answer(part: Any) -> Array:
        return np.asarray(getattr(estimator, method)(part), dtype=np.float64)

    rng = np.random.default_rng(seed)
    rows, every = rng.permutation(count_rows(table))[:ROWS], column_names(table)
    names = every if only is None else [name for name in every if name in only]
    if seconds < math.inf:
        began = monotonic()
        answer(take_rows(table, rows[:FEW]))
        each = max(monotonic() - began, 1e-9) / len(rows[:FEW])
        rows = rows[: max(2 * FEW, int(seconds / (each * (1 + repeats * len(names)))))]
    part = take_rows(table, rows)
    base = answer(part)
    if method == "predict_proba":
        scale = 1.0
    elif scale is None:
        scale = float(base.std()) or 1.0

    def change(moved: Array) -> float:
        return float(np.sqrt(np.mean((moved - base) ** 2)) / scale)

    changes = changes_by_column(answer, part, names, rng, change, repeats)
    unit = {
        "predict_proba": "change of the probabilities",
        "decision_function": "change of the scores / their deviation",
        "predict": "change of the predictions / deviation of the target",
    }[method]
    return Effects(changes.mean(axis=0), changes.std(axis=0), names, unit, len(rows))


def changes_by_column(
    answer: Callable[[Any], Array],
    table: Any,
    names: Sequence[str],
    rng: np.random.Generator,
    change: Callable[[Array], float],
    repeats: int = 1,
) -> Array:
    """Return the ``change`` of the answers as each named column is shuffled, (repeats, d)."""
    every, n = column_names(table), count_rows(table)
    changes = np.empty((repeats, len(names)))
    for j, name in enumerate(names):
        for r in range(repeats):
            moved = with_column(table, every.index(name), rng.permutation(n))
            changes[r, j] = change(answer(moved))
    return changes


MOST = 15  # bars: more cannot be read


@dataclass(repr=False, eq=False)
class RelevanceDisplay(Display):
    """Bars of how far predictions move when one input is shuffled among the rows.

    Parameters
    ----------
    effects : (d,) root mean square change, in deviations of the target or in probability.
    names : (d,) the inputs.
    spread : (d,) standard deviation over repeated shuffles, or None.
    unit : what the bars measure.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = GPRegressor().fit(X, X[:, 0])
    >>> display = RelevanceDisplay.from_estimator(model, X, names=["used", "not used"])
    >>> bool(display.effects[0] > 100 * display.effects[1])
    True
    """

    effects: Array
    names: Sequence[str]
    spread: Array | None = None
    unit: str = "change of the predictions"

    @classmethod
    def from_predictions(
        cls, effects: Any, names: Sequence[str], *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw effects (d,) that are known; ``options`` are ``spread`` and ``unit``."""
        found = np.asarray(effects, dtype=np.float64)
        if found.ndim != 1 or len(found) != len(names):
            raise ValueError(f"effects of shape {found.shape} do not fit {len(names)} names")
        return cls(found, [str(n) for n in names], **options).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        names: Sequence[str] | None = None,
        repeats: int = 5,
        seed: int = 0,
        ax: Any = None,
    ) -> Self:
        """Shuffle each column of X (n, d), an array or a data frame, and draw what happens.

        At most 500 rows are used. Names are those given, else those of the columns.
        """
        found = shuffled_effects(estimator, X, repeats=repeats, seed=seed)
        labels = list(found.names if names is None else names)
        return cls.from_predictions(
            found.effects, labels, spread=found.spread, unit=found.unit, ax=ax
        )

    def draw(self, ax: Any) -> None:
        order = np.argsort(self.effects, kind="stable")[::-1][:MOST][::-1]
        places = np.arange(len(order))
        ax.barh(places, self.effects[order], color=BLUE, height=0.7)
        if self.spread is not None:
            low = np.maximum(self.effects[order] - self.spread[order], 0)
            ax.hlines(places, low, self.effects[order] + self.spread[order], color=INK, lw=1)
        labels = [shown(str(self.names[j]), 28) for j in order]
        ax.set_yticks(places, labels=labels, parse_math=False)
        ax.set_xlabel(self.unit)
        ax.set_xlim(left=0)
