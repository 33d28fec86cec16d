"""RelevanceDisplay: how much the predictions depend on each input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.plots.effects import shuffled_effects
from mercer.plots.style import BLUE, INK, Display
from mercer.wording import shown

MOST = 30  # bars


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
        """See :class:`mercer.plots.Display`."""
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
