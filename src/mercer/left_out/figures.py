"""What all other observations say about each one: the figures that every machine reports."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index


@dataclass(frozen=True)
class LeftOut:
    """What all other observations say about each one, in the order of the rows given to ``fit``.

    A field that the method does not have is None. A row of weight zero is predicted from all rows
    that count.

    Attributes
    ----------
    weights : (N,) how often each row counts.
    mean, variance : (N,) or (N, m) of the left-out observation, noise included. Where the variance
        is infinite (Student's t with df <= 2) it is the square of half the central 68 % interval.
    log_density : (N,) or (N, m), log p(y_i | the others).
    proba : (N, k) probability of each class, in the order of ``classes_``.
    codes : (N,) the class of each row as a number 0 .. k-1.
    margin : (N, m) estimated y f(x) of each row when it is left out, y = -1 or +1; with more than
        two classes there is a column for each class against the rest.
    bound : (N, m) what each margin is at least when its row is left out.
    reason : why there is no bound, if there is none.
    error_bounds : upper bounds of the left-out error of each of the m machines, by name: (m,) each.
    jitter : share of the mean kernel variance added to a diagonal on the way, 0 if none.
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
