"""Displays of classifiers: discrimination (ROC, precision and recall) and reliability."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.words import shown
from mercer.left_out.figures import Bins, predicted_class, reliability_bins
from mercer.plots.regression import sampling_band
from mercer.plots.style import BLUE, GREY, ORANGE, Display, class_line


class ClassPredictions(Display):
    """A display of labels and the probabilities (n, k) that were given to the classes."""

    @classmethod
    @abstractmethod
    def compute(cls, codes: Index, proba: Array, classes: Array, **options: Any) -> Self:
        """Return the display of codes (n,), proba (n, k) and classes (k,), without drawing it."""

    @classmethod
    def from_predictions(
        cls, y: Any, proba: Any, *, classes: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw labels y (n,) and probabilities (n, k), or (n,) of the second of two classes.

        ``classes`` (k,) are the labels of the columns; None takes those of y, sorted.
        """
        return cls.compute(*checked_classes(y, proba, classes), **options).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the probabilities of a fitted classifier for X (n, d), best rows it has not seen."""
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no predict_proba, and this picture is about "
                "probabilities: use a probabilistic classifier, e.g. GPClassifier, or "
                "SVC(probability='loo')"
            )
        proba = estimator.predict_proba(X)
        return cls.from_predictions(y, proba, classes=estimator.classes_, ax=ax, **options)

    @classmethod
    def from_loo(cls, estimator: Any, y: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw every training row y (n,) as it is predicted from all others (``loo_``)."""
        loo: Any = getattr(estimator, "loo_", None)
        if getattr(loo, "proba", None) is None:
            raise ValueError(
                f"{type(estimator).__name__} has no leave-one-out probabilities (loo_ with proba): "
                "use from_estimator with rows that were held out"
            )
        there = loo.weights > 0
        options |= {"classes": estimator.classes_, "ax": ax}
        return cls.from_predictions(np.asarray(y)[there], loo.proba[there], **options)


def checked_classes(y: Any, proba: Any, classes: Any) -> tuple[Index, Array, Array]:
    """Return codes (n,), probabilities (n, k) and classes (k,), or refuse what is wrong."""
    y, p = np.asarray(y), np.asarray(proba, dtype=np.float64)
    known = np.unique(y) if classes is None else np.asarray(classes)
    if p.ndim == 1:
        p = np.column_stack([1 - p, p])
    if y.ndim != 1 or p.shape != (len(y), len(known)) or not len(y):
        raise ValueError(
            f"labels of shape {y.shape} and {len(known)} classes need probabilities of shape "
            f"({len(y)}, {len(known)}), not {p.shape}; name the classes of the columns with "
            "classes=..."
        )
    if not (np.all(p >= 0) and np.all(np.abs(p.sum(axis=1) - 1) < 1e-6)):
        raise ValueError("probabilities lie between 0 and 1 and sum to 1 over the classes")
    return known_codes(y, known), p, known


def known_codes(y: Array, classes: Array) -> Index:
    """Return the class of each label of y (n,) as 0 .. k-1, or refuse one that is none."""
    places = {label: i for i, label in enumerate(classes.tolist())}
    lost = [label for label in np.unique(y).tolist() if label not in places]
    if lost:
        raise ValueError(f"label {lost[0]!r} of y is none of the classes {classes.tolist()}")
    return np.array([places[label] for label in y.tolist()], dtype=np.intp)


MOST = 8  # curves; with more classes those with the most rows are drawn


@dataclass(frozen=True)
class Curve:
    """One class against the rest: x and y of the curve, the area below it, the class' share."""

    label: str
    x: Array
    y: Array
    area: float
    share: float


@dataclass(repr=False, eq=False)
class DiscriminationDisplay(ClassPredictions):
    """The curve of each class against the rest (two classes: of the second one).

    "roc": share of the class found against share of false alarms; a coin follows the diagonal.
    "pr": precision (share of alarms that are right) against recall (share of the class found); a
    coin stays at the share of the class. Area 1 is perfect.

    Parameters
    ----------
    curves : one for each class drawn.
    kind : "roc" or "pr".

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> display = DiscriminationDisplay.from_predictions([0, 0, 1, 1], p, kind="roc")
    >>> display.curves[0].area
    0.75
    """

    curves: list[Curve]
    kind: str = "roc"

    @classmethod
    def compute(cls, codes: Index, proba: Array, classes: Array, **options: Any) -> Self:
        """Return the display without drawing it; ``kind`` is "roc" (default) or "pr".

        ``weights`` (n,) are how often each row counts.
        """
        kind, weights = options.pop("kind", "roc"), options.pop("weights", None)
        if kind not in ("roc", "pr") or options:
            raise ValueError(f"kind must be 'roc' or 'pr', not {kind!r}; no other option exists")
        counts = np.bincount(codes, weights, len(classes))
        total = counts.sum()
        present = [c for c in np.unique(codes).tolist() if not np.all(codes == c)]
        if not present:
            raise ValueError("one class alone has no such curve: give rows of two classes or more")
        wanted = present[-1:] if len(classes) == 2 else present
        most = sorted(sorted(wanted, key=lambda c: -counts[c])[:MOST])
        found = [
            _curve(kind, str(classes[c]), codes == c, proba[:, c], counts[c] / total, weights)
            for c in most
        ]
        return cls(found, kind)

    def draw(self, ax: Any) -> None:
        roc = self.kind == "roc"
        for i, curve in enumerate(self.curves):
            label = f"{shown(curve.label, 18)} ({'area' if roc else 'average'} {curve.area:.3f})"
            ax.plot(curve.x, curve.y, lw=1.8, label=label, **class_line(i))
            if not roc:
                ax.axhline(curve.share, color=class_line(i)["color"], lw=0.6)
        if roc:
            ax.plot([0, 1], [0, 1], color=GREY, lw=1)
        words = ("share of false alarms", "share found") if roc else ("recall", "precision")
        ax.set(xlabel=words[0], ylabel=words[1])
        self._square(ax)
        self._legend(ax, "lower right" if roc else "lower left")


def _curve(
    kind: str, label: str, truth: Array, score: Array, share: float, w: Array | None
) -> Curve:
    from sklearn import metrics

    if kind == "roc":
        x, y, _ = metrics.roc_curve(truth, score, sample_weight=w)
        area = metrics.roc_auc_score(truth, score, sample_weight=w)
    else:
        y, x, _ = metrics.precision_recall_curve(truth, score, sample_weight=w)
        area = metrics.average_precision_score(truth, score, sample_weight=w)
    return Curve(label, x, y, float(area), float(share))


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
            weights, same = options.get("weights"), options.get("same")
            p, hit = predicted_class(proba, codes, weights, same)
            event = "the predicted class"
        return cls(reliability_bins(p, hit, **options), event)

    def draw(self, ax: Any) -> None:
        b = self.bins
        low, high = sampling_band(b.predicted, b.rows)
        ax.plot([0, 1], [0, 1], color=ORANGE, lw=1, label="honest")
        ax.vlines(b.predicted, low, high, color=GREY, lw=1.2, label="honest, within chance")
        ax.plot(b.predicted, b.observed, "o-", color=BLUE, ms=5, lw=1.5, label="this model")
        what = self.event if len(self.event) < 30 else self.event[:28] + "…'"
        self._label(ax, f"probability of {what}", "share of rows where it came true")
        self._square(ax)
        self._legend(ax, "upper left")
