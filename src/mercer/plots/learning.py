"""LearningDisplay: what more rows would bring, from nested subsets of the rows at hand."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone, is_classifier

from mercer.core.arrays import Array, Index
from mercer.plots.regression import effective
from mercer.plots.rows import normal_log_density, recorded, take_rows
from mercer.plots.style import BLUE, GREY, Display, same_length
from mercer.search.optimize import interrupted

ROWS = 512  # rows in use: the last fit is on three quarters of them


class Nested(NamedTuple):
    """Scores of held-out rows, and the mean score of the answer that ignores the inputs."""

    known: list[tuple[int, Array]]  # by number of rows learned from, (h,); smaller is better
    unit: str
    constant: float
    weights: Array  # (h,)


def nested_scores(
    estimator: Any,
    X: Any,
    y: Any,
    steps: int = 4,
    seed: int = 0,
    seconds: float = math.inf,
    weights: Array | None = None,
) -> Nested:
    """Fit copies of an estimator to nested parts of X (n, d) and score a quarter of the rows.

    At most 512 rows are used; each step has twice the rows of the one before. A step that would
    end after ``seconds`` (twice the rows take eight times as long) is left out. Rows count as
    often as their ``weights`` (n,) say, learned from or held out.
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

    def learned(rows: Index) -> Any:
        """Return a copy that has learned some rows, None where it cannot from so few."""
        given = {} if weights is None else {"sample_weight": weights[rows]}
        try:
            model = clone(estimator).fit(take_rows(X, rows), y[rows], **given)
        except (ValueError, np.linalg.LinAlgError):
            return None
        if interrupted(getattr(model, "report_", None)):
            raise KeyboardInterrupt  # its search has taken it for a wish to end early
        return model

    known: list[tuple[int, Array]] = []
    last, began = 0.0, monotonic()
    for n in sorted({max(least, len(rest) >> k) for k in range(steps)}):
        start = monotonic()
        if start - began + 8 * last > seconds:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of small parts, which are not what the user fitted
            model = learned(rest[:n])
            if model is not None:
                known.append((n, score(model, take_rows(X, held), y[held], y)))
        last = monotonic() - start
    if not known:
        raise ValueError("none of the fits on parts of the rows succeeded")
    unit = "negative log density per row" if classes is None else "log loss per row"
    w = np.ones(len(y)) if weights is None else weights
    return Nested(known, unit, _constant(y[rest], y[held], classes, w[rest], w[held]), w[held])


def _every_class_first(rows: Index, y: Array) -> Index:
    """Rows in an order that meets two of every class before anything else."""
    labels = y[rows].tolist()
    late = [labels[:i].count(label) > 1 for i, label in enumerate(labels)]
    return np.asarray(rows[np.argsort(late, kind="stable")])


def _density(model: Any, X: Any, y: Array, every: Array) -> Array:
    """Minus log density of each row: by the estimator, else of a Gaussian."""
    if hasattr(model, "predictive_log_density"):
        found = np.asarray(model.predictive_log_density(X, y))
    else:
        mean, std = model.predict(X, return_std=True)
        found = normal_log_density(y, mean, std)
    return -recorded(found, y, every)


def _log_loss(model: Any, X: Any, y: Array, every: Array) -> Array:
    """Minus log probability of each label; a class the part did not hold counts as 1e-15."""
    places = {label: i for i, label in enumerate(model.classes_.tolist())}
    p = np.column_stack([model.predict_proba(X), np.zeros(len(y))])
    own = p[np.arange(len(y)), [places.get(label, -1) for label in y.tolist()]]
    return np.asarray(-np.log(np.maximum(own, 1e-15)))


def _constant(train: Array, test: Array, classes: Array | None, w: Array, held: Array) -> float:
    """Score of the answer that is the same for every row; weights w of train, held of test."""
    if classes is None:
        mean = np.average(train, weights=w)
        # one row of the average weight is what the mean costs: n - 1 without weights
        spread = w @ (train - mean) ** 2 / (w.sum() - w.mean())
        std = float(np.sqrt(spread)) or 1.0
        density = recorded(normal_log_density(test, mean, std), test, np.concatenate([train, test]))
        return -float(np.average(density, weights=held))
    total = w.sum() + len(classes)
    share = {c: (w[train == c].sum() + 1) / total for c in classes.tolist()}
    return float(np.average([-np.log(share[label]) for label in test.tolist()], weights=held))


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
        so it is smaller than the spreads suggest. None if there was one step only.

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
        n, mean, error = same_length("sizes, scores and spread", sizes, scores, spread)
        return cls(n.astype(np.int64), mean, error, unit, **options).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, steps: int = 4, seed: int = 0, ax: Any = None
    ) -> Self:
        """Fit copies of the estimator on nested parts of X (n, d), at most 512 rows in all.

        A quarter is held out; the others are learned from, an eighth, a quarter, a half and all of
        them. The score is the negative log predictive density, in nats per row; of a quantity that
        is written down in steps of h, no density counts above 1/h.
        """
        return cls.compute(estimator, X, y, steps=steps, seed=seed).plot(ax)

    @classmethod
    def compute(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Return the display without drawing it; ``options`` are those of :func:`nested_scores`."""
        found = nested_scores(estimator, X, y, **options)
        each, w = [scores for _, scores in found.known], found.weights
        sizes = np.array([n for n, _ in found.known])
        means, errors = np.array([_mean_and_error(scores, w) for scores in each]).T
        gain = None if len(each) < 2 else _mean_and_error(each[-2] - each[-1], w)
        return cls(sizes, means, errors, found.unit, found.constant, gain)

    def draw(self, ax: Any) -> None:
        style = {"fmt": "o-", "color": BLUE, "lw": 1.8, "ms": 5, "capsize": 3}
        label = "this model, rows held out"
        ax.errorbar(self.sizes, self.scores, self.spread, label=label, **style)
        if self.constant is not None:
            ax.axhline(self.constant, color=GREY, lw=1.2, ls="--", label="ignoring the inputs")
        ax.set_xscale("log", base=2)
        ax.set_xticks(self.sizes, labels=[str(n) for n in self.sizes])
        ax.minorticks_off()
        ax.set(xlabel="rows learned from", ylabel=self.unit)
        self._legend(ax)


def _mean_and_error(values: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean of values (h,), and its standard error."""
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    return float(mean), float(np.sqrt(variance / (effective(weights) - 1.0)))
