"""LearningDisplay: what more rows would bring, from nested parts of the rows there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.plots.coverage import effective
from mercer.plots.nested import nested_scores
from mercer.plots.style import BLUE, GREY, Display


@dataclass(repr=False, eq=False)
class LearningDisplay(Display):
    """Score of rows that were held out, against the number of rows that were learned from.

    Still falling at the right: more rows would help. Flat: they would not; other inputs might.

    Parameters
    ----------
    sizes : (k,) numbers of training rows.
    scores : (k,) mean score of the held-out rows; smaller is better.
    spread : (k,) standard error of that mean.
    unit : what the score is.
    constant : score of the answer that ignores the inputs, or None.
    gain : what the last step brought, and the standard error of that: the same rows were held out,
        so it is smaller than the spreads say. None if there was one step only.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> x = np.random.default_rng(0).uniform(0, 9, size=(120, 1))
    >>> display = LearningDisplay.from_estimator(GPRegressor(), x, np.sin(x[:, 0]))
    >>> display.sizes.tolist(), bool(display.scores[-1] < display.scores[0])
    ([11, 22, 45, 90], True)
    """

    sizes: Array
    scores: Array
    spread: Array
    unit: str
    constant: float | None = None
    gain: tuple[float, float] | None = None

    @classmethod
    def from_predictions(
        cls, sizes: Any, scores: Any, spread: Any, *, unit: str, ax: Any = None, **options: Any
    ) -> Self:
        """Draw scores (k,) that are known; ``options`` are ``constant`` and ``gain``."""
        found = [np.asarray(a, dtype=np.float64) for a in (sizes, scores, spread)]
        if len({a.shape for a in found}) > 1 or found[0].ndim != 1:
            raise ValueError("sizes, scores and spread need one dimension and the same length")
        return cls(found[0].astype(np.int64), found[1], found[2], unit, **options).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        steps: int = 4,
        seed: int = 0,
        ax: Any = None,
    ) -> Self:
        """Fit copies of the estimator on nested parts of X (n, d), at most 512 rows in all.

        A quarter is held out; the others are learned from, an eighth, a quarter, a half and all of
        them. The score is the negative log predictive density, in nats per row; of a quantity that
        is written down in steps of h, no density counts above 1/h.
        """
        return cls.compute(estimator, X, y, steps=steps, seed=seed).plot(ax)

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        steps: int = 4,
        seed: int = 0,
        seconds: float = math.inf,
        weights: Array | None = None,
    ) -> Self:
        """Return the display without drawing it.

        Steps that would take longer than ``seconds`` (twice the rows, eight times the time) are
        left out. ``weights`` (n,) say how often each row counts.
        """
        found = nested_scores(estimator, X, y, steps, seed, seconds, weights)
        each, w = [scores for _, scores in found.known], found.weights
        return cls(
            np.array([n for n, _ in found.known]),
            np.array([np.average(scores, weights=w) for scores in each]),
            np.array([_error(scores, w) for scores in each]),
            found.unit,
            found.constant,
            None if len(each) < 2 else _gain(each[-2] - each[-1], w),
        )

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        ax.errorbar(
            self.sizes,
            self.scores,
            self.spread,
            fmt="o-",
            color=BLUE,
            lw=1.8,
            ms=5,
            capsize=3,
            label="this model, rows held out",
        )
        if self.constant is not None:
            ax.axhline(self.constant, color=GREY, lw=1.2, ls="--", label="ignoring the inputs")
        ax.set_xscale("log", base=2)
        ax.set_xticks(self.sizes, labels=[str(n) for n in self.sizes])
        ax.minorticks_off()
        ax.set(xlabel="rows learned from", ylabel=self.unit)
        ax.legend(loc="best", fontsize=9, frameon=False)


def _error(values: Array, weights: Array) -> float:
    """Standard error of the weighted mean of values (h,)."""
    n = effective(weights)
    rest = values - np.average(values, weights=weights)
    return float(np.sqrt(np.average(rest**2, weights=weights) / (n - 1.0)))


def _gain(difference: Array, weights: Array) -> tuple[float, float]:
    return float(np.average(difference, weights=weights)), _error(difference, weights)
