"""Displays of how sure a classifier is: errors against rejection, and the margins of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.left_out.figures import worst
from mercer.plots.classes import ClassPredictions, known_codes
from mercer.plots.style import BLUE, GREY, INK, ORANGE, Display


def own_margin(codes: Index, scores: Array) -> Array:
    """Return the margin of each row (n,): y f for scores (n,), own less best other for (n, k)."""
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


@dataclass(repr=False, eq=False)
class ErrorRejectDisplay(ClassPredictions):
    """Share of errors among the rows that are answered, as the least sure ones are turned down.

    A row is as sure as its largest probability; without probabilities, as its largest score is
    above the next. A classifier that knows when it does not know falls fast; one that does not
    stays at its error.

    Parameters
    ----------
    rejected : (k,) share of the rows that are not answered, from 0; equally sure rows go together.
    error : (k,) share of errors among the others.

    Examples
    --------
    >>> display = ErrorRejectDisplay.from_predictions([0, 1, 1, 1], [0.1, 0.45, 0.8, 0.9])
    >>> display.rejected.tolist(), display.error.tolist()
    ([0.0, 0.25, 0.5], [0.25, 0.0, 0.0])
    """

    rejected: Array
    error: Array

    @property
    def area(self) -> float:
        """The error averaged over the shares rejected: small is good."""
        return float(np.trapezoid(self.error, self.rejected))

    @classmethod
    def compute(cls, codes: Index, proba: Array, classes: Array, **options: Any) -> Self:
        """Return the display without drawing it; ``weights`` (n,) are how often each row counts."""
        return cls._of(proba.argmax(axis=1) != codes, proba.max(axis=1), **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw a fitted classifier's answers to X (n, d), by probabilities if it has them."""
        if hasattr(estimator, "predict_proba") or not hasattr(estimator, "decision_function"):
            return super().from_estimator(estimator, X, y, ax=ax, **options)
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        codes = known_codes(np.asarray(y), estimator.classes_)
        found = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return cls._of(found != codes, own_margin(found, scores), **options).plot(ax)

    @classmethod
    def _of(cls, wrong: Array, sure: Array, weights: Any = None, **options: Any) -> Self:
        if options:
            raise ValueError(f"there is no option {next(iter(options))!r}; weights is the only one")
        w = np.ones(len(sure)) if weights is None else np.asarray(weights, dtype=np.float64)
        _, group = np.unique(sure, return_inverse=True)
        mass, bad = np.bincount(group, w), np.bincount(group, w * wrong)
        left = mass[::-1].cumsum()[::-1]  # of the rows at least as sure
        return cls(1.0 - left / mass.sum(), bad[::-1].cumsum()[::-1] / left)

    def draw(self, ax: Any) -> None:
        first = self.error[0]
        share = np.linspace(0.0, self.rejected[-1], 200)
        best = np.maximum(first - share, 0.0) / np.maximum(1.0 - share, 1e-12)
        ax.plot(self.rejected, self.error, color=BLUE, lw=1.8, label="this model")
        ax.plot(share, best, color=ORANGE, lw=1, ls="--", label="errors turned down first")
        ax.axhline(first, color=GREY, lw=0.8, label="in any order")
        self._label(ax, "share of rows that are not answered", "share of errors among the others")
        ax.set_ylim(bottom=0)
        self._legend(ax)


@dataclass(repr=False, eq=False)
class MarginDisplay(Display):
    """Share of the rows with at most that margin, the distribution of y f.

    The margin of a row is its label times the decision function, with more than two classes the
    score of its own class less the best of the others. Rows below 0 are errors; rows between 0 and
    1 are right and cost a support vector machine something all the same (Seeger's thesis, 2.2.1).

    Parameters
    ----------
    margins : (n,) in increasing order.
    shares : (n,) share of the rows with at most that margin.

    Examples
    --------
    >>> display = MarginDisplay.from_predictions(["a", "b", "b"], [-2.0, 1.0, -0.5])
    >>> display.margins.tolist(), round(display.error, 3)
    ([-0.5, 1.0, 2.0], 0.333)
    """

    margins: Array
    shares: Array

    @property
    def error(self) -> float:
        """The share of rows whose margin is not above 0."""
        found = self.shares[self.margins <= 0.0]
        return float(found[-1]) if len(found) else 0.0

    @classmethod
    def from_predictions(
        cls, y: Any, scores: Any, *, classes: Any = None, weights: Any = None, ax: Any = None
    ) -> Self:
        """Draw labels y (n,) and scores: (n,), above 0 for the second of two classes, or (n, k).

        ``classes`` (k,) are the labels of the columns; None takes those of y, sorted.
        """
        labels, found = np.asarray(y), np.asarray(scores, dtype=np.float64)
        known = np.unique(labels) if classes is None else np.asarray(classes)
        wanted = (
            (len(labels),) if len(known) == 2 and found.ndim == 1 else (len(labels), len(known))
        )
        if labels.ndim != 1 or found.shape != wanted or not len(labels):
            raise ValueError(
                f"labels of shape {labels.shape} and {len(known)} classes need scores of shape "
                f"{wanted}, not {found.shape}; name the classes of the columns with classes=..."
            )
        return cls._of(own_margin(known_codes(labels, known), found), weights).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, weights: Any = None, ax: Any = None
    ) -> Self:
        """Draw the margins of a fitted classifier at X (n, d), best rows it has not seen."""
        if not hasattr(estimator, "decision_function"):
            raise ValueError(
                f"{type(estimator).__name__} has no decision_function, and margins are about it: "
                "use ErrorRejectDisplay for a classifier with probabilities alone"
            )
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        return cls.from_predictions(y, scores, classes=estimator.classes_, weights=weights, ax=ax)

    @classmethod
    def from_loo(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw every training row's estimated margin when it is left out (``loo_.margin``)."""
        loo: Any = getattr(estimator, "loo_", None)
        if getattr(loo, "margin", None) is None or loo.codes is None:
            raise ValueError(
                f"{type(estimator).__name__} has no margins of rows left out (loo_ with margin): "
                "use from_estimator with rows that were held out"
            )
        return cls._of(worst(loo.margin, loo.codes.astype(np.intp)), loo.weights).plot(ax)

    @classmethod
    def _of(cls, margins: Array, weights: Any) -> Self:
        w = np.ones(len(margins)) if weights is None else np.asarray(weights, dtype=np.float64)
        order = np.argsort(margins, kind="stable")
        return cls(margins[order], w[order].cumsum() / w.sum())

    def draw(self, ax: Any) -> None:
        ax.step(self.margins, self.shares, where="post", color=BLUE, lw=1.8)
        ax.axvline(0.0, color=ORANGE, lw=1.2, label=f"errors: {self.error:.1%}")
        ax.axvline(1.0, color=INK, lw=0.8, ls=":", label="margin 1")
        self._label(ax, "margin of a row", "share of rows with at most that margin")
        ax.set_ylim(0.0, 1.02)
        self._legend(ax, "upper left")
