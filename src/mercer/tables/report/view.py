"""View: a fitted table model as the report reads it, every figure computed once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.words import shown
from mercer.plots.inputs import Effects, shuffled_effects

MAIN = 3  # inputs that are shown row by row and drawn one by one


class View:
    """What a report asks of a model that was fitted to a table.

    The model is read by its attributes alone: ``kind_``, ``target_``, ``classes_``, ``columns_``,
    ``ranking_``, ``notes_``, ``machine_``, ``left_out_`` and ``left_rows_`` (rows as they were
    predicted without themselves, and which they are), ``frame_`` (the table it was fitted to).
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.left = model.left_out_
        self.quantity = model.kind_ == "regression"
        self.target = str(model.target_)
        self.columns = list(model.columns_)

    @property
    def machine(self) -> Any:
        """The machine at the end of the pipeline."""
        return self.model.machine_

    @property
    def frame(self) -> Any:
        """The table that the model was fitted to."""
        self.require_rows()
        return self.model.frame_

    def require_rows(self) -> None:
        """Refuse a model without its training rows."""
        if self.model.frame_ is None:
            raise ValueError(
                "this needs the training rows, and a model that was loaded from a file has none: "
                "write the report after fitting, with report(path) or mercer fit --report"
            )

    @property
    def used(self) -> list[str]:
        """The names of the columns that the machine sees."""
        return [c.name for c in self.columns if c.kind not in ("ignored", "constant")]

    @property
    def codes(self) -> Index:
        """The class of each left-out row, (m,)."""
        return np.asarray(self.left.y, dtype=np.intp)

    @property
    def rows(self) -> Index:
        """The numbers of the left-out rows in the table, (m,)."""
        return np.asarray(self.model.left_rows_, dtype=np.intp)

    @property
    def from_what(self) -> str:
        """What each row was predicted from, in words."""
        by = str(getattr(self.left, "by", "leave-one-out"))
        return "all the others" if by == "leave-one-out" else f"other rows ({by})"

    @property
    def weighted(self) -> str:
        """What the rows are weighted by, in words."""
        by = self.model.weighted_by_
        return "weighted" if by is None else f"weighted by “{shown(by, 40)}”"

    def predict_proba(self, table: Any) -> Array:
        """Return the probabilities, or the mean as one column: one function for both kinds."""
        if self.quantity:
            return np.asarray(self.model.predict(table), dtype=np.float64)[:, None]
        return np.asarray(self.model.predict_proba(table), dtype=np.float64)

    @cached_property
    def effects(self) -> Effects:
        """How far predictions move when a column is shuffled."""
        answer: Any = _Quantity(self.model) if self.quantity else self
        scale = self._spread() or 1.0 if self.quantity else None
        options: Any = {"repeats": 3, "only": self.used, "seconds": 10.0}
        return shuffled_effects(answer, self.frame, scale=scale, **options)

    def _spread(self) -> float:
        """The standard deviation of the target."""
        y, w = self.left.y, self.left.weights
        return float(np.sqrt(np.average((y - np.average(y, weights=w)) ** 2, weights=w)))

    @property
    def main(self) -> list[str]:
        """The inputs with the greatest effects, the greatest first."""
        order = np.argsort(-self.effects.effects, kind="stable")[:MAIN]
        return [self.effects.names[j] for j in order]


class _Quantity:
    """A regression, by its mean alone."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, table: Any) -> Any:
        return self.model.predict(table)
