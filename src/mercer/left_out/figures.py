"""What all other observations say about each one: the figures that every machine reports.

Whether stated frequencies are those observed: of intervals, and of the probability of an event.

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
Of it sum_g k_g (k_g - 1)^2 eta_g^2 v_g / W^2 is the variance with which predictions follow their
labels, and the rest the square of a mean: the figure is the expected distance of such a normal
number from zero. Its standard error is at most that of the share observed among all n rows,
sqrt(mean v / n): at most 1.8 points of 800 rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from mercer.core.arrays import Array, Index


@dataclass(frozen=True)
class LeftOut:
    """What all other observations say about each one, in the order of the rows given to ``fit``.

    A field that the method does not have is None. A row of weight zero is predicted from all rows
    that count.

    Attributes
    ----------
    weights : (N,) how often each row counts.
    mean, variance : (N,) or (N, m) of the left-out observation, noise included; of a quantile loss
        the quantile in place of the mean. Where the variance is infinite (Student's t with
        df <= 2) it is the square of half the central 68 % interval.
    log_density : (N,) or (N, m), log p(y_i | the others).
    quantiles : (N, p) of the left-out observation, at p levels.
    proba : (N, k) probability of each class, in the order of ``classes_``.
    codes : (N,) the class of each row as a number 0 .. k-1.
    margin : (N, m) estimated y f(x) of each row when it is left out, y = -1 or +1; with more than
        two classes there is a column for each class against the rest.
    bound : (N, m) what each margin is at least when its row is left out.
    reason : why there is no bound, if there is none.
    error_bounds : upper bounds of the left-out error of each of the m machines, by name: (m,) each.
    jitter : share of the mean kernel variance added to a diagonal on the way, 0 if none.
    estimates : how many margins of support vectors are estimates at first order, as it would take
        too long to follow their paths; all others are exact.
    """

    weights: Array
    mean: Array | None = None
    variance: Array | None = None
    log_density: Array | None = None
    proba: Array | None = None
    codes: Array | None = None
    margin: Array | None = None
    bound: Array | None = None
    reason: str | None = None
    error_bounds: dict[str, Array] = field(default_factory=dict)
    jitter: float = 0.0
    quantiles: Array | None = None
    estimates: int = 0

    @classmethod
    def of_classes(cls, proba: Array, codes: Array | Index, weights: Array) -> LeftOut:
        """Return the figures of a classifier with probabilities (N, k) of left-out rows."""
        own = proba[np.arange(len(codes)), codes.astype(np.intp)]
        density = np.log(np.maximum(own, np.finfo(float).tiny))
        return cls(weights, log_density=density, proba=proba, codes=codes.astype(np.float64))

    @property
    def std(self) -> Array | None:
        """Standard deviation of the left-out observation, (N,) or (N, m)."""
        return None if self.variance is None else np.asarray(np.sqrt(self.variance))

    @property
    def total(self) -> float | None:
        """Weighted sum of the log densities: the leave-one-out log predictive density."""
        return None if self.log_density is None else float((self.weights @ self.log_density).sum())

    @property
    def cavity(self) -> Array | None:
        """Another name of ``margin``."""
        return self.margin

    @property
    def error(self) -> float | None:
        """Weighted share of the rows that get another class when left out; None without classes.

        By ``proba``, or by ``margin``: a row is right if its own class comes out above the others.
        """
        if self.codes is None or (self.proba is None and self.margin is None):
            return None
        if self.proba is None:
            return self.cavity_error
        wrong = self.proba.argmax(axis=1) != self.codes
        return float(self.weights @ wrong / self.weights.sum())

    @property
    def cavity_error(self) -> float:
        """The left-out error by the estimated margins: an estimate, not a bound."""
        if self.margin is None:
            raise ValueError(
                "there is no cavity estimate: the loss does not determine how the function bends "
                "at the training points"
            )
        return self._share(self.margin)

    @property
    def error_bound(self) -> float:
        """Upper bound of the left-out error (Jaakkola & Haussler, Lemma 1)."""
        if self.bound is None:
            raise ValueError(self.reason or "this method has no bound of the left-out error")
        return self._share(self.bound)

    def _share(self, margins: Array) -> float:
        assert self.codes is not None
        wrong = worst(margins, self.codes.astype(np.intp)) <= 0.0
        return float(self.weights @ wrong / self.weights.sum())

    def among(self, keep: Index, others: LeftOut | None, weights: Array) -> LeftOut:
        """Return the figures of all rows, of ``weights`` (N,): these at ``keep``, then ``others``.

        ``others`` are the figures of the remaining rows, in order; None if there are none.
        """
        if others is None:
            return replace(self, weights=weights)
        found: dict[str, Any] = {}
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(others, one.name)
            if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                found[one.name] = np.empty((len(weights), *mine.shape[1:]))
                found[one.name][np.delete(np.arange(len(weights)), keep)] = theirs
                found[one.name][keep] = mine
        return replace(self, **(found | {"weights": weights}))


def worst(margins: Array, codes: Index) -> Array:
    """The smallest lead (n,) of a row's own class: its margin, or for columns f_y - f_j.

    With one machine per class, f_y >= b_y and f_j <= -b_j: the lead is at least b_y + b_j.
    """
    if margins.shape[1] == 1:
        return margins[:, 0]
    own = np.take_along_axis(margins, codes[:, None], axis=1)
    lead = own + margins
    np.put_along_axis(lead, codes[:, None], np.inf, axis=1)
    return np.asarray(lead.min(axis=1))


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
    variance: Array | float = 0.0  # (b,) of predictions that follow the labels of equal rows

    @property
    def error(self) -> float:
        """Mean distance of predicted and observed, every group by its rows; smaller is better."""
        squares = (self.predicted - self.observed) ** 2 + self.own
        mean, deviation = np.sqrt(np.maximum(squares - self.variance, 0.0)), np.sqrt(self.variance)
        z = mean / np.maximum(deviation, 1e-150)
        distance = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z**2)
        distance += mean * (1.0 - 2.0 * ndtr(-z))
        return float(np.average(distance, weights=self.counts))


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
    equal: list[Array] = []
    if same is not None:
        where = np.zeros(int(same.max()) + 1, dtype=np.intp)
        where[same] = place
        found = _of_equal_rows(p, hit, w, same)
        equal = [np.bincount(where, one, len(counts)) / counts**2 for one in found]
    return Bins(sums[0] / counts, sums[1] / counts, counts, counts**2 / squares, *equal)


def _of_equal_rows(p: Array, hit: Array, w: Array, same: Index) -> tuple[Array, Array]:
    """Return k_g (2 k_g eta_g - 1) v_g and k_g (k_g - 1)^2 eta_g^2 v_g of each set g of equal rows.

    Both are 0 for a row that is alone.
    """
    k = np.bincount(same, w)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [(np.bincount(same, w * v) / k)[same] for v in (p, hit)]
        v = np.bincount(same, w * (hit - means[1]) ** 2) / (k - 1.0)
        common = np.bincount(same, w * (p - means[0]) * (hit - means[1])) / (k - 1.0)
        found = -2.0 * k**2 * common - k * v, k * ((k - 1.0) * common) ** 2 / v
    added, variance = (np.where(k > 1.0, np.nan_to_num(one, posinf=0.0), 0.0) for one in found)
    return added, variance
