"""View: a fitted table model as the report reads it, every figure computed once."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.core.arrays import Index
from mercer.core.words import shown
from mercer.plots.inputs import Effects, shuffled_effects
from mercer.tables.model import TableModel

MAIN = 3  # inputs that are shown row by row and drawn one by one


class View:
    """What a report asks of a model that was fitted to a table."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.left, self.machine = model.left_out_, model.machine_
        self.quantity = model.kind_ == "regression"
        self.target = str(model.target_)
        self.used = [str(name) for name in model.feature_names_in_]
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
        return "all the others" if by == "leave-one-out" else f"other rows ({by})"

    @property
    def weighted(self) -> str:
        """What the rows are weighted by, in words."""
        by = self.model.weighted_by_
        return "weighted" if by is None else f"weighted by “{shown(by, 40)}”"

    @cached_property
    def effects(self) -> Effects:
        """How far predictions move when a column is shuffled, in deviations of a quantity."""
        name, scale = (
            ("predict", self._spread() or 1.0) if self.quantity else ("predict_proba", 1.0)
        )
        answer = SimpleNamespace(**{name: getattr(self.model, name)})
        return shuffled_effects(
            answer, self.frame, repeats=3, scale=scale, only=self.used, seconds=10.0
        )

    def _spread(self) -> float:
        y, w = self.left.y, self.left.weights
        return float(np.sqrt(np.average((y - np.average(y, weights=w)) ** 2, weights=w)))

    @property
    def main(self) -> list[str]:
        """The inputs with the greatest effects, the greatest first."""
        order = np.argsort(-self.effects.effects, kind="stable")[:MAIN]
        return [self.effects.names[j] for j in order]
