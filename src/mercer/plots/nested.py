"""Nested parts of the rows: a machine learns from more and more of them and predicts others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from mercer.arrays import Array, Index
from mercer.plots.recorded import recorded
from mercer.plots.rows import take_rows
from mercer.search.interrupts import interrupted

ROWS = 512  # rows in use: the last fit is on three quarters of them


@dataclass(frozen=True)
class Nested:
    """Scores (h,) of the held-out rows by number of rows learned from; smaller is better.

    ``constant`` is the mean score of the answer that ignores the inputs, ``weights`` (h,) say how
    often each held-out row counts.
    """

    known: list[tuple[int, Array]]
    unit: str
    constant: float
    weights: Array


def nested_scores(
    estimator: Any,
    X: Any,
    y: Any,
    steps: int,
    seed: int,
    seconds: float,
    weights: Array | None = None,
) -> Nested:
    """Fit copies of an estimator to nested parts of X (n, d) and score a quarter of the rows.

    At most 512 rows are used; each step has twice the rows of the one before. A step that would
    end after ``seconds`` (twice the rows take eight times as long) is left out. Rows count as
    often as their ``weights`` (n,) say, learned from or held out. A density of a quantity counts no
    more than the steps allow in which it was written down.
    """
    y = np.asarray(y)
    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    held, rest = order[: len(order) // 4], order[len(order) // 4 :]
    if len(held) < 5:
        raise ValueError(f"a learning curve needs 20 rows or more, not {len(y)}")
    if is_classifier(estimator) and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{type(estimator).__name__} has no predict_proba, and the score is that of "
            "probabilities: use a probabilistic classifier, e.g. GPClassifier"
        )
    classes = np.unique(y) if hasattr(estimator, "predict_proba") else None
    rest = rest if classes is None else _every_class_first(rest, y)
    least = 4 if classes is None else max(4, 2 * len(classes))
    score = _density if classes is None else _log_loss
    known: list[tuple[int, Array]] = []
    last, began = 0.0, monotonic()
    for n in sorted({max(least, len(rest) >> k) for k in range(steps)}):
        start = monotonic()
        if start - began + 8 * last > seconds:
            break
        found = _score(estimator, X, y, rest[:n], held, score, weights)
        last = monotonic() - start
        if found is not None:
            known.append((n, found))
    if not known:
        raise ValueError("none of the fits on parts of the rows succeeded")
    unit = "negative log density per row" if classes is None else "log loss per row"
    w = np.ones(len(y)) if weights is None else weights
    return Nested(known, unit, _constant(y[rest], y[held], classes, w[rest], w[held]), w[held])


def _every_class_first(rows: Index, y: Array) -> Index:
    """Rows in an order that meets two of every class before anything else."""
    seen: dict[Any, int] = {}
    late = []
    for label in y[rows].tolist():
        seen[label] = seen.get(label, 0) + 1
        late.append(seen[label] > 2)
    return np.asarray(rows[np.argsort(np.array(late), kind="stable")])


def _score(
    estimator: Any,
    X: Any,
    y: Array,
    rows: Index,
    held: Index,
    score: Callable[..., Array],
    weights: Array | None,
) -> Array | None:
    """Score of each held-out row (h,); None where the method cannot learn from so few rows."""
    machine = clone(estimator)
    given = {} if weights is None else {"sample_weight": weights[rows]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small parts, which are not what the user fitted
        try:
            machine.fit(take_rows(X, rows), y[rows], **given)
        except (ValueError, np.linalg.LinAlgError):
            return None
        if interrupted(getattr(machine, "report_", None)):
            raise KeyboardInterrupt  # its search has taken it for a wish to end early
        return score(machine, take_rows(X, held), y[held], y)


def _density(machine: Any, X: Any, y: Array, every: Array) -> Array:
    """Minus log density of each row: as the machine says, else of a Gaussian."""
    if hasattr(machine, "predictive_log_density"):
        found = np.asarray(machine.predictive_log_density(X, y))
    else:
        mean, std = machine.predict(X, return_std=True)
        found = _gaussian(y, mean, std)
    return -recorded(found, y, every)


def _gaussian(y: Array, mean: Any, std: Any) -> Array:
    """Log density of y (n,)."""
    return np.asarray(-0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def _log_loss(machine: Any, X: Any, y: Array, every: Array) -> Array:
    """Minus log probability of each label; a class the part did not hold counts as 1e-15."""
    places = {label: i for i, label in enumerate(machine.classes_.tolist())}
    p = np.column_stack([machine.predict_proba(X), np.zeros(len(y))])
    own = p[np.arange(len(y)), [places.get(label, -1) for label in y.tolist()]]
    return np.asarray(-np.log(np.maximum(own, 1e-15)))


def _constant(train: Array, test: Array, classes: Array | None, w: Array, held: Array) -> float:
    """Score of the answer that is the same for every row; weights w of train, held of test."""
    if classes is None:
        mean = np.average(train, weights=w)
        # one row of the average weight is what the mean costs: n - 1 without weights
        spread = w @ (train - mean) ** 2 / (w.sum() - w.mean())
        std = float(np.sqrt(spread)) or 1.0
        density = recorded(_gaussian(test, mean, std), test, np.concatenate([train, test]))
        return -float(np.average(density, weights=held))
    total = w.sum() + len(classes)
    share = {c: (w[train == c].sum() + 1) / total for c in classes.tolist()}
    return float(np.average([-np.log(share[label]) for label in test.tolist()], weights=held))
