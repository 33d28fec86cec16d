"""Whether stated frequencies are those observed: of intervals, and of the probability of an event.

Where rows share their inputs, leaving one out moves its probability against its own label: of k
equal rows of which a are hits, a hit is predicted with (a - 1)/(k - 1) and a miss with a/(k - 1).
Groups by that probability tell hits from misses, and look dishonest for the best of machines. Such
rows therefore stay together, by their mean probability. Their mean in turn follows their own
labels, so that the difference d of predicted and observed is too small; of a squared difference on
new rows its expectation is

    d^2 + sum_g k_g (2 k_g eta_g - 1) v_g / W^2

over the sets g of k_g equal rows in a group of W rows, v_g the variance of their hits and eta_g by
how much one more hit raises their probability: the left-out probabilities show it, since
cov_g(p, hit) = -eta_g v_g. (Unbiased for pairs of rows left out together, to first order in eta.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from mercer.core.arrays import Array, Index

LEVELS = np.linspace(0.1, 0.9, 9)


def coverage(
    y: Array, mean: Array, std: Array, levels: Array, weights: Array | None = None
) -> Array:
    """Return the share of y (n,) inside its central interval of each level (k,), shape (k,)."""
    distance = np.abs(y - mean)[None, :]
    inside = distance <= ndtri((1 + levels[:, None]) / 2) * std
    return np.asarray(np.average(inside, axis=1, weights=weights))


def interval_error(y: Array, mean: Array, std: Array, weights: Array | None = None) -> float:
    """Return by how much central intervals of levels 0.1 to 0.9 miss their share, on average."""
    return float(np.abs(coverage(y, mean, std, LEVELS, weights) - LEVELS).mean())


def class_error(
    proba: Array, codes: Index, weights: Array | None = None, same: Index | None = None
) -> float:
    """Return by how much the probability of the predicted class is off, on average of ten groups.

    proba (n, k), codes (n,); rows of equal inputs, equal numbers in ``same`` (n,), are predicted
    alike.
    """
    best, right = predicted_class(proba, codes, weights, same)
    return reliability_bins(best, right, weights=weights, same=same).error


def predicted_class(
    proba: Array, codes: Index, weights: Array | None = None, same: Index | None = None
) -> tuple[Array, Array]:
    """Return the probability (n,) of the class predicted for each row, and whether it is right.

    For rows of equal inputs it is the class of their mean probabilities.
    """
    typical = proba
    if same is not None:
        w = np.ones(len(codes)) if weights is None else weights
        sums = np.column_stack([np.bincount(same, w * column) for column in proba.T])
        typical = np.asarray(sums[same], dtype=np.float64)
    chosen = typical.argmax(axis=1)
    return proba[np.arange(len(codes)), chosen], chosen == codes


@dataclass(frozen=True)
class Bins:
    """Groups of rows with like probabilities: mean predicted, share observed, counts (b,)."""

    predicted: Array
    observed: Array
    counts: Array
    rows: Array  # the counts; of weighted rows, how many that count alike they are worth
    own: Array | float = 0.0  # (b,) what is added to squares, since equal rows follow their labels

    @property
    def error(self) -> float:
        """Mean distance of predicted and observed, every group by its rows; smaller is better."""
        squares = (self.predicted - self.observed) ** 2 + self.own
        return float(np.average(np.sqrt(np.maximum(squares, 0.0)), weights=self.counts))


def reliability_bins(
    p: Array,
    hit: Array,
    bins: int = 10,
    weights: Array | None = None,
    same: Index | None = None,
) -> Bins:
    """Group rows by their probability p (n,) into at most ``bins`` groups of like size.

    ``hit`` (n,) is 1 where the event occurred, ``weights`` (n,) how often a row counts. Equal
    probabilities stay in one group, so there may be fewer groups; so do rows with equal numbers in
    ``same`` (n,), which have equal inputs and whose p are of rows left out.

    Examples
    --------
    >>> import numpy as np
    >>> found = reliability_bins(np.array([0.1, 0.1, 0.8, 0.8]), np.array([0, 0, 1, 0]), bins=2)
    >>> found.predicted.tolist(), found.observed.tolist(), round(found.error, 2)
    ([0.1, 0.8], [0.0, 0.5], 0.2)
    """
    w = np.ones(len(p)) if weights is None else weights
    hit = np.asarray(hit, dtype=np.float64)
    at = p
    if same is not None:
        at = (np.bincount(same, w * p) / np.maximum(np.bincount(same, w), 1e-300))[same]
    # each group ends at a probability that occurs: none is empty
    levels = np.arange(1, bins + 1) / bins
    ends = np.unique(np.quantile(at, levels, method="inverted_cdf", weights=weights))
    place = np.minimum(np.searchsorted(ends, at, side="left"), len(ends) - 1)
    counts, squares = (np.bincount(place, v).astype(np.float64) for v in (w, w**2))
    sums = [np.bincount(place, w * v) for v in (p, hit)]
    own: Array | float = 0.0
    if same is not None:
        added = _of_equal_rows(p, hit, w, same)
        where = np.zeros(len(added), dtype=np.intp)
        where[same] = place
        own = np.bincount(where, added, len(counts)) / counts**2
    return Bins(sums[0] / counts, sums[1] / counts, counts, counts**2 / squares, own)


def _of_equal_rows(p: Array, hit: Array, w: Array, same: Index) -> Array:
    """Return k_g (2 k_g eta_g - 1) v_g of each set g of equal rows; 0 for one that is alone."""
    k = np.bincount(same, w)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [(np.bincount(same, w * v) / k)[same] for v in (p, hit)]
        spread = np.bincount(same, w * (hit - means[1]) ** 2) / (k - 1.0)
        common = np.bincount(same, w * (p - means[0]) * (hit - means[1])) / (k - 1.0)
        added = -2.0 * k**2 * common - k * spread
    return np.where(k > 1.0, np.nan_to_num(added), 0.0)
