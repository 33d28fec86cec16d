"""What displays of classifiers have in common: the ways to labels and probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from mercer.arrays import Array, Index
from mercer.plots.style import Display


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
        if not hasattr(loo, "proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no leave-one-out probabilities (loo_ with proba): "
                "use from_estimator with rows that were held out"
            )
        counted = loo.weights > 0
        return cls.from_predictions(
            np.asarray(y)[counted],
            loo.proba[counted],
            classes=estimator.classes_,
            ax=ax,
            **options,
        )


def checked_classes(y: Any, proba: Any, classes: Any) -> tuple[Index, Array, Array]:
    """Return codes (n,), probabilities (n, k) and classes (k,), or say what is wrong."""
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
    places = {label: i for i, label in enumerate(known.tolist())}
    lost = [label for label in np.unique(y).tolist() if label not in places]
    if lost:
        raise ValueError(f"label {lost[0]!r} of y is none of the classes {known.tolist()}")
    return np.array([places[label] for label in y.tolist()], dtype=np.intp), p, known
