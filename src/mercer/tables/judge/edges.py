"""Edges: whether trees explain what a model leaves over; where they do, it is the wrong tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from mercer.core.arrays import Array, Index
from mercer.core.deadline import check_time
from mercer.tables.choose.left_out import TINY, LeftOutTable
from mercer.tables.data.structure import RowStructure
from mercer.tables.quality import mean_and_error

FEWEST, MOST = 60, 1000  # rows
TURNS = 5  # folds
TREES, DEPTH, RATE, LEAF = 60, 3, 0.1, 5
SMALL = 1e-4  # a probability, and a curvature, below which steps would be long
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


def edges_of(
    left: LeftOutTable, X: Array, seed: int, structure: RowStructure | None = None
) -> Edges | None:
    """Return what trees gain, in five folds of the rows left out, at inputs X (l, d).

    A quantity: trees predict the residuals z = (y - mean) / std, those beyond four deviations taken
    as four, and the gain is (log sum z^2 - log sum (z - g)^2) / 2 a row, of Gaussians with their
    own variances. Classes: trees are added to the log probabilities (Friedman 2001, with the model
    as first guess), and the gain is that in log probability. Rows of a fold are not seen by the
    trees that predict them; with a ``structure`` a fold is groups of rows, or a stretch of time
    after all that the trees have seen. None for fewer than 60 rows, and for classes with fewer than
    five.
    """
    some = np.flatnonzero(np.isfinite(left.log_density))
    if left.weights is not None:
        some = some[left.weights[some] > 0.0]  # the others were not predicted
    if left.std is not None:
        some = some[np.isfinite(left.std[some]) & (left.std[some] > 0.0)]
    if len(some) > MOST:
        some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    if len(some) < FEWEST:
        return None
    own = None if structure is None else structure.take(some)
    folds = list(KFold(TURNS, shuffle=True, random_state=seed).split(some))
    if own is not None:
        if len(np.unique(own.together)) < TURNS:
            return None
        folds = own.folds(left.y[some], 0, seed, TURNS)
    tested = np.sort(np.concatenate([b for _, b in folds]))  # nothing is before the earliest
    rng = np.random.default_rng(seed)
    inputs, weights = X[some], np.ones(len(some)) if left.weights is None else left.weights[some]
    same = None if own is None else own.together[tested]
    if left.proba is None:
        z = np.clip((left.y[some] - left.mean[some]) / left.std[some], -CUT, CUT)
        g = np.zeros(len(some))
        for train, test in folds:
            g[test] = boosted(inputs, z[:, None], weights, train, test, rng, None)[:, 0]
        return _of_quantity(z[tested], g[tested], weights[tested], same)
    k, codes = left.proba.shape[1], left.codes[some]
    if np.bincount(codes, minlength=k).min() < 5 or k > len(some) // 20:
        return None
    given = np.maximum(left.proba[some], SMALL)
    base = np.log(given / given.sum(axis=1, keepdims=True))
    one, gains = np.arange(len(some)), np.zeros(len(some))
    for train, test in folds:
        f = base[test] + boosted(inputs, np.eye(k)[codes], weights, train, test, rng, base)
        f -= np.logaddexp.reduce(f, axis=1, keepdims=True)
        gains[test] = f[np.arange(len(test)), codes[test]] - base[one[test], codes[test]]
    gain, error = mean_and_error(gains[tested], weights[tested], same)
    lost = float(-np.average(base[one, codes][tested], weights=weights[tested]))
    return Edges(gain, error, gain / max(lost, TINY), len(tested))


def boosted(
    X: Array,
    Y: Array,
    weights: Array,
    train: Index,
    test: Index,
    rng: np.random.Generator,
    base: Array | None,
) -> Array:
    """Return what trees of the rows ``train`` add at the rows ``test``, (q, k).

    They see the inputs X (n, d) alone: a prediction of a row left out may betray its target. Y
    (n, k) are residuals of k = 1 quantity, or indicators of k classes with log probabilities
    ``base`` (n, k); trees then take Newton steps, (y - p) / (p (1 - p)), on seven tenths of the
    rows each (Friedman 2001, 2002).
    """
    k = Y.shape[1]
    f = np.zeros((len(X), k))
    count = TREES if k <= 2 else max(20, TREES // k)
    settings: Any = {"max_depth": DEPTH, "min_samples_leaf": LEAF}
    settings["max_features"] = min(WIDTH, X.shape[1])
    far = np.finfo(np.float32).max  # checked here once, and not again for each of many small trees
    inputs = np.clip(X, -far, far).astype(np.float32)
    for _ in range(count):
        check_time()
        some = rng.permutation(train)[: max(2 * LEAF, int(0.7 * len(train)))]
        p = None
        if base is not None:
            p = base + f
            p = np.exp(p - np.logaddexp.reduce(p, axis=1, keepdims=True))
        for c in range(k if k != 2 else 1):  # two classes: the second is the other side
            r, w = Y[some, c] - f[some, c], weights[some]
            if p is not None:
                h = np.maximum(p[some, c] * (1.0 - p[some, c]), SMALL)
                r, w = np.clip((Y[some, c] - p[some, c]) / h, -CUT, CUT), w * h
            tree = DecisionTreeRegressor(random_state=int(rng.integers(1 << 31)), **settings)
            tree.fit(inputs[some], r, w, check_input=False)
            f[:, c] += RATE * tree.predict(inputs, check_input=False)
    return f[test]


def _of_quantity(z: Array, g: Array, weights: Array, same: Index | None) -> Edges:
    before, after = (float(np.average(v, weights=weights)) for v in (z**2, (z - g) ** 2))
    if not before > 0.0 or not after > 0.0:
        return Edges(0.0, 0.0, 0.0, len(z))
    # the differential of the gain, which the error of the means is propagated with
    _, error = mean_and_error(0.5 * (z**2 / before - (z - g) ** 2 / after), weights, same)
    return Edges(0.5 * float(np.log(before / after)), error, 1.0 - after / before, len(z))
