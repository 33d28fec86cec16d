"""Edges: whether trees explain what a model leaves over; where they do, it is the wrong tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.model_selection import KFold

from mercer.core.arrays import Array
from mercer.tables.choose.left_out import TINY, LeftOutTable
from mercer.tables.quality import mean_and_error

FEWEST, MOST = 60, 1000  # rows
TREES, DEPTH, RATE = 60, 3, 0.1
WIDTH = 30  # columns that a split looks at
CUT = 4.0  # deviations beyond which a residual counts as one of so many
SURE, LEAST = 3.0, 0.02  # standard errors; nats per row


@dataclass(frozen=True)
class Edges:
    """What boosted trees gain on the predictions of rows left out.

    Attributes
    ----------
    gain : nats per row; of a quantity, as if its noise were Gaussian.
    error : the standard error of it.
    share : of the squared residuals that the trees explain, or of the log loss.
    rows : how many rows they were tried on.
    """

    gain: float
    error: float
    share: float
    rows: int

    @property
    def found(self) -> bool:
        """Whether the trees gain enough to matter, beyond chance."""
        return self.gain > max(LEAST, SURE * self.error)

    def words(self, quantity: bool) -> str:
        """Return what it means, in a sentence."""
        of = "the squared errors" if quantity else "the log loss"
        if not self.found:
            return f"trees that were tried on {self.rows} rows left out find nothing more in them"
        return (
            f"another kind of model would probably predict better: trees boosted on what this one "
            f"leaves over explain {100 * self.share:.0f} % of {of} of {self.rows} rows left out "
            f"({self.gain:.2g} nats per row, standard error {self.error:.1g}); the target jumps, "
            "or depends on combinations of inputs, where kernels are smooth. Try gradient boosting "
            "(scikit-learn's HistGradientBoosting, LightGBM) beside it"
        )

    def plain(self, quantity: bool) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "found": self.found,
            "gain": self.gain,
            "standard_error": self.error,
            "share": self.share,
            "rows": self.rows,
            "words": self.words(quantity),
        }


class _Given(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What boosting begins with: probabilities that are the last k columns of X."""

    def __init__(self, k: int = 2) -> None:
        self.k = k

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> _Given:
        self.classes_ = np.arange(self.k)
        return self

    def predict_proba(self, X: Array) -> Array:
        return X[:, -self.k :]


def edges_of(left: LeftOutTable, X: Array, seed: int) -> Edges | None:
    """Return what trees gain, in five folds of the rows left out, at inputs X (l, d).

    A quantity: trees predict the residuals z = (y - mean) / std, those beyond four deviations taken
    as four, and the gain is (log sum z^2 - log sum (z - g)^2) / 2 a row, of Gaussians with their
    own variances. Classes: trees are added to the log probabilities (Friedman 2001, with the model
    as first guess), and the gain is that in log probability. Rows of a fold are not seen by the
    trees that predict them. None for fewer than 60 rows, and for classes with fewer than five.
    """
    some = np.flatnonzero(np.isfinite(left.log_density))
    if left.std is not None:
        some = some[np.isfinite(left.std[some]) & (left.std[some] > 0.0)]
    if len(some) > MOST:
        some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    if len(some) < FEWEST:
        return None
    weights = np.ones(len(some)) if left.weights is None else left.weights[some]
    folds = list(KFold(5, shuffle=True, random_state=seed).split(some))
    own = {"max_depth": DEPTH, "learning_rate": RATE, "subsample": 0.7, "random_state": seed}
    own["max_features"] = min(WIDTH, X.shape[1])
    own["min_samples_leaf"] = 5
    if left.proba is None:
        z = np.clip((left.y[some] - left.mean[some]) / left.std[some], -CUT, CUT)
        g = np.zeros(len(some))
        trees: Any = GradientBoostingRegressor(n_estimators=TREES, init="zero", **own)
        for train, test in folds:
            trees.fit(X[some[train]], z[train], weights[train])
            g[test] = trees.predict(X[some[test]])
        return _of_quantity(z, g, weights)
    k = left.proba.shape[1]
    codes = left.codes[some]
    counts = np.bincount(codes, minlength=k)
    if counts.min() < 5 or k > len(some) // 20:
        return None
    given = np.maximum(left.proba[some], 1e-6)
    given = given / given.sum(axis=1, keepdims=True)
    Z = np.column_stack([X[some], given])
    gains = np.zeros(len(some))
    base = np.log(given[np.arange(len(some)), codes])
    count = max(20, TREES // max(1, k - 1))
    trees = GradientBoostingClassifier(n_estimators=count, init=_Given(k), **own)
    for train, test in folds:
        if len(np.unique(codes[train])) < k:
            return None
        trees.fit(Z[train], codes[train], weights[train])
        p = trees.predict_proba(Z[test])[np.arange(len(test)), codes[test]]
        gains[test] = np.log(np.maximum(p, TINY)) - base[test]
    gain, error = mean_and_error(gains, weights)
    return Edges(
        gain, error, gain / max(float(-np.average(base, weights=weights)), TINY), len(some)
    )


def _of_quantity(z: Array, g: Array, weights: Array) -> Edges:
    before, after = (float(np.average(v, weights=weights)) for v in (z**2, (z - g) ** 2))
    if not before > 0.0 or not after > 0.0:
        return Edges(0.0, 0.0, 0.0, len(z))
    # the differential of the gain, which the error of the means is propagated with
    _, error = mean_and_error(0.5 * (z**2 / before - (z - g) ** 2 / after), weights)
    return Edges(0.5 * float(np.log(before / after)), error, 1.0 - after / before, len(z))
