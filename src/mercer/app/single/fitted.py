"""A table and the regressor fitted to it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mercer
from mercer.app.single.quality import quality
from mercer.app.terminal import Progress
from mercer.core.arrays import Array
from mercer.search import Optimize
from mercer.search.optimize import interrupted


@dataclass
class Fitted:
    """A fitted regressor with the table it was fitted to."""

    model: Any
    X: Array  # (n, d)
    y: Array  # (n,)
    names: list[str]
    target: str
    source: str
    notes: list[str] = field(default_factory=list)

    def loo_quality(self) -> dict[str, float]:
        """Leave-one-out figures, every row counted by its weight."""
        loo = self.model.loo_
        return quality(self.y, loo.mean, loo.std, loo.log_density, loo.weights)

    def mean(self, X: Array) -> Array:
        """Return the predictions at X (q, d) alone, (q,): no variance is computed."""
        with nameless():
            return np.asarray(self.model.predict(X))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of new observations at X (q, d), (q,) each."""
        with nameless():
            mean, std = self.model.predict(X, return_std=True)
        return mean, std


@contextlib.contextmanager
def nameless() -> Iterator[None]:
    """Predict with arrays whose columns were put in the model's order by name before."""
    with warnings.catch_warnings():
        # the names were compared and the columns ordered above: scikit-learn cannot know
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def fit_table(
    names: list[str],
    X: Array,
    y: Array,
    weights: Array | None,
    target: str,
    source: str,
    kernel: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fitted:
    """Fit the default regressor; an interrupt is an interrupt, also inside the search."""
    search = Optimize(progress=progress or False)
    model = mercer.GPRegressor(kernel, search=search, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # they are collected for the report, each one
        model.fit(X, y, sample_weight=weights)
    if interrupted(model.report_):
        raise KeyboardInterrupt
    model.set_params(search="evidence")  # the same search; a progress bar is not part of a model
    model.feature_names_in_ = np.array(names, dtype=object)
    model.report_["table"] = {"target": target, "rows": len(y)}
    notes = list(dict.fromkeys(str(w.message) for w in caught))
    return Fitted(model, X, y, names, target, source, notes)
