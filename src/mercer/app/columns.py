"""Predictions as columns of a table: numbers with intervals, or classes with probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.app.errors import AppError
from mercer.app.fitted import nameless
from mercer.arrays import Array

Columns = dict[str, Any]


def predictions(fitted: Any, X: Array, keep: Array, coverage: float) -> Columns:
    """Return the columns for X (n, d), one value each row, missing where ``keep`` is False.

    A model with intervals has prediction, std, low and high; a classifier the class as prediction,
    and p_<class> or, without probabilities, its score; any other the prediction alone.
    """
    known: Columns = dict.fromkeys(_names(fitted), np.empty(0))
    if keep.any():
        with nameless():
            known = _known(fitted, X[keep], coverage)
    return {name: _spread(values, keep) for name, values in known.items()}


def _names(fitted: Any) -> list[str]:
    """Return the names of the columns, for rows of which none can be predicted."""
    if hasattr(fitted, "predict_interval"):
        return ["prediction", "std", "low", "high"]
    labels = [str(label) for label in getattr(fitted, "classes_", [])]
    if hasattr(fitted, "predict_proba"):
        return ["prediction", *(f"p_{label}" for label in labels)]
    if hasattr(fitted, "decision_function"):
        several = [f"score_{label}" for label in labels]
        return ["prediction", *(several if len(labels) > 2 else ["score"])]
    return ["prediction"]


def _known(fitted: Any, X: Array, coverage: float) -> Columns:
    if hasattr(fitted, "predict_interval"):
        mean, std = fitted.predict(X, return_std=True)
        if np.ndim(mean) != 1:
            raise AppError("this model predicts several targets at once: use it from Python")
        low, high = fitted.predict_interval(X, coverage=coverage)
        return {"prediction": mean, "std": std, "low": low, "high": high}
    found: Columns = {"prediction": fitted.predict(X)}
    labels = [str(label) for label in getattr(fitted, "classes_", [])]
    if hasattr(fitted, "predict_proba"):
        p = fitted.predict_proba(X).T
        return found | {f"p_{label}": each for label, each in zip(labels, p, strict=True)}
    if hasattr(fitted, "decision_function"):
        score = fitted.decision_function(X)
        if np.ndim(score) == 1:
            return found | {"score": score}
        return found | {f"score_{label}": each for label, each in zip(labels, score.T, strict=True)}
    return found


def _spread(values: Array, keep: Array) -> Any:
    """Return the values (k,) at the k rows where ``keep`` is True; NaN or None elsewhere."""
    if np.asarray(values).dtype.kind == "f":
        column: Any = np.full(len(keep), np.nan)
        column[keep] = values
        return column
    given = iter(np.asarray(values).tolist())
    return [next(given) if kept else None for kept in keep]
