"""LengthScaleDisplay: which inputs the length scales of a kernel keep (automatic relevance)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.plots.inputs import MOST
from mercer.plots.style import BLUE, GREY, ORANGE, Display

FLOOR = 1e-6  # of the largest: what is drawn at the left end


@dataclass(repr=False, eq=False)
class LengthScaleDisplay(Display):
    """Each input's relevance 1 / length scale, in deviations of the input, and which are kept.

    An input is dropped if its relevance is below ``least``. The default, 0.03, is a length scale of
    some thirty standard deviations: two rows that are two deviations apart in it alone have a
    correlation of 0.998 still. It is that small because the length scale says how an input bends
    the function, not how much it moves it: a straight line has a long one, too.
    :class:`RelevanceDisplay` shows what the predictions make of an input.

    Parameters
    ----------
    relevance : (d,) 1 / length scale, the inputs scaled to unit deviation (``relevance_``).
    names : (d,) the inputs.
    least : relevance from which on an input counts as kept.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = GPRegressor("rbf", random_state=0).fit(X, np.sin(2 * X[:, 0]) + X[:, 2] ** 2)
    >>> LengthScaleDisplay.from_estimator(model, names=["a", "b", "c"]).kept
    ['a', 'c']
    """

    relevance: Array
    names: Sequence[str]
    least: float = 0.03

    @property
    def kept(self) -> list[str]:
        """Names of the inputs whose relevance is ``least`` or more, the most relevant first."""
        order = np.argsort(-self.relevance, kind="stable")
        return [str(self.names[j]) for j in order if self.relevance[j] >= self.least]

    @classmethod
    def from_predictions(
        cls, relevance: Any, names: Sequence[str], *, least: float = 0.03, ax: Any = None
    ) -> Self:
        """Draw relevances (d,) that are known."""
        found = np.asarray(relevance, dtype=np.float64)
        if found.ndim != 1 or len(found) != len(names) or not np.all(found >= 0.0):
            raise ValueError(
                f"relevances of shape {found.shape}, none of them negative, do not fit "
                f"{len(names)} names"
            )
        return cls(found, [str(name) for name in names], float(least)).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        least: float = 0.03,
        ax: Any = None,
    ) -> Self:
        """Draw ``relevance_`` of a fitted machine; names are those given, else those of the fit."""
        found = getattr(estimator, "relevance_", None)
        if found is None:
            raise ValueError(
                f"{type(estimator).__name__} has no length scales (relevance_): fit a Gaussian "
                "process with a stationary kernel, or use RelevanceDisplay, which takes any machine"
            )
        known = getattr(estimator, "feature_names_in_", None)
        labels = [f"column {j}" for j in range(len(found))] if known is None else list(known)
        labels = labels if names is None else list(names)
        return cls.from_predictions(found, labels, least=least, ax=ax)

    def draw(self, ax: Any) -> None:
        order = np.argsort(-self.relevance, kind="stable")[:MOST][::-1]
        places = np.arange(len(order))
        floor = FLOOR * max(float(self.relevance.max()), self.least)
        found = np.maximum(self.relevance[order], floor)
        kept = self.relevance[order] >= self.least
        colours = np.where(kept, BLUE, GREY).tolist()
        ax.hlines(places, floor, found, color=colours, lw=1.5)
        ax.scatter(found[kept], places[kept], color=BLUE, s=28, label="kept", zorder=3)
        if not kept.all():
            rest = (found[~kept], places[~kept])
            ax.scatter(*rest, facecolors="white", edgecolors=GREY, s=28, label="dropped", zorder=3)
        ax.axvline(self.least, color=ORANGE, lw=1)
        ax.set_xscale("log")
        labels = [shown(str(self.names[j]), 28) for j in order]
        ax.set_yticks(places, labels=labels, parse_math=False)
        ax.set(xlabel="relevance: deviation of the input / length scale", ylabel="input")
        self._legend(ax, "lower right")
