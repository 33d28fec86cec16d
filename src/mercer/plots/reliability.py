"""ReliabilityDisplay: whether a share p of the rows with the probability p is what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.arrays import Array, Index
from mercer.plots.coverage import sampling_band
from mercer.plots.probabilities import ClassPredictions
from mercer.plots.style import BLUE, GREY, ORANGE


@dataclass(frozen=True)
class Bins:
    """Groups of rows with like probabilities: mean predicted, share observed, counts (b,).

    ``rows`` (b,) are the counts, or of weighted rows, how many that count alike they are worth.
    """

    predicted: Array
    observed: Array
    counts: Array
    rows: Array

    @property
    def error(self) -> float:
        """Mean distance of predicted and observed, every group by its rows; smaller is better."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.counts))


def reliability_bins(p: Array, hit: Array, bins: int = 10, weights: Array | None = None) -> Bins:
    """Group rows by their probability p (n,) into at most ``bins`` groups of like size.

    ``hit`` (n,) is 1 where the event came, ``weights`` (n,) say how often a row counts. Equal
    probabilities stay in one group, so there may be fewer groups.

    Examples
    --------
    >>> import numpy as np
    >>> found = reliability_bins(np.array([0.1, 0.1, 0.8, 0.8]), np.array([0, 0, 1, 0]), bins=2)
    >>> found.predicted.tolist(), found.observed.tolist(), round(found.error, 2)
    ([0.1, 0.8], [0.0, 0.5], 0.2)
    """
    # each group ends at a probability that occurs: none is empty
    levels = np.arange(1, bins + 1) / bins
    ends = np.unique(np.quantile(p, levels, method="inverted_cdf", weights=weights))
    w = np.ones(len(p)) if weights is None else weights
    place = np.minimum(np.searchsorted(ends, p, side="left"), len(ends) - 1)
    counts, squares = (np.bincount(place, v).astype(np.float64) for v in (w, w**2))
    sums = [np.bincount(place, w * v) for v in (p, np.asarray(hit, dtype=np.float64))]
    return Bins(sums[0] / counts, sums[1] / counts, counts, counts**2 / squares)


@dataclass(repr=False, eq=False)
class ReliabilityDisplay(ClassPredictions):
    """Observed share against predicted probability, in groups of rows of like size.

    Two classes: the probability of the second one. More: the probability of the class that was
    predicted, and how often it was right. Honest probabilities lie on the diagonal; the bars are
    where chance alone puts 95 % of honest groups of that size.

    Parameters
    ----------
    bins : the groups, with ``predicted``, ``observed``, ``counts`` and ``error``.
    event : what the probability is of.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
    >>> display = ReliabilityDisplay.from_predictions(["a", "a", "b", "b"], p, bins=2)
    >>> display.event, round(display.bins.error, 3)
    ("'b'", 0.175)
    """

    bins: Bins
    event: str

    @classmethod
    def compute(cls, codes: Index, proba: Array, classes: Array, **options: Any) -> Self:
        """Return the display without drawing it."""
        if len(classes) == 2:
            p, hit, event = proba[:, 1], codes == 1, repr(str(classes[1]))
        else:
            p, hit = proba.max(axis=1), codes == proba.argmax(axis=1)
            event = "the predicted class"
        return cls(reliability_bins(p, hit, **options), event)

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        b = self.bins
        low, high = sampling_band(b.predicted, b.rows)
        ax.plot([0, 1], [0, 1], color=ORANGE, lw=1, label="honest")
        ax.vlines(b.predicted, low, high, color=GREY, lw=1.2, label="honest, within chance")
        ax.plot(b.predicted, b.observed, "o-", color=BLUE, ms=5, lw=1.5, label="this model")
        what = self.event if len(self.event) < 30 else self.event[:28] + "…'"
        ax.set_xlabel(f"probability of {what}", parse_math=False)
        ax.set_ylabel("share of rows where it came true")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.legend(loc="upper left", fontsize=9, frameon=False)
