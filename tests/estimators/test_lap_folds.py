"""Scores, folds and grids of partly labelled rows: only labelled rows are dealt out and judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
)

from mercer import LabelledKFold, LapLSClassifier, LapMEDClassifier, LapSVC
from mercer.kernels import RBF

MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]
OPTIONS: dict[str, Any] = {"C": 10.0, "beta": 1.0, "kernel": RBF(0.8), "n_neighbors": 4}


def table(rng: np.random.Generator, n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their classes, and which are labelled: 8 of "a", 6 of "b"."""
    X = rng.normal(size=(n, 2))
    side = np.arange(n) % 2
    X[:, 0] += 2.0 * side
    known = np.zeros(n, dtype=bool)
    known[[*range(1, 13, 2), *range(4, 20, 2)]] = True
    return X, np.array(["a", "b"])[side], known


def marked(truth: np.ndarray, known: np.ndarray) -> list[Any]:
    return [t if k else None for t, k in zip(truth.tolist(), known, strict=True)]


# ---------------------------------------------------------------------- the folds
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_labelled_row_is_tested_once_and_no_other(
    rng: np.random.Generator, shuffle: bool
) -> None:
    X, truth, known = table(rng)
    seen = []
    for train, test in LabelledKFold(3, shuffle=shuffle, random_state=0).split(
        X, marked(truth, known)
    ):
        assert set(train) & set(test) == set()
        assert set(np.flatnonzero(~known)) <= set(train)  # all rows without a label stay in
        assert set(train) | set(test) == set(range(40))
        assert set(truth[test]) == set(truth[train[known[train]]]) == {"a", "b"}
        assert abs(np.sum(truth[test] == "a") - 8 / 3) < 1.0  # stratified
        seen += test.tolist()
    assert sorted(seen) == np.flatnonzero(known).tolist()


def test_a_splitter_as_scikit_learn_knows_them(rng: np.random.Generator) -> None:
    cv = LabelledKFold(4, unlabelled=-1)
    assert isinstance(cv, BaseCrossValidator)
    assert cv.get_n_splits() == 4
    assert "n_splits=4" in repr(cv)
    X, truth, known = table(rng)
    codes = np.where(known, (truth == "b").astype(int), -1)
    by_mark = list(cv.split(X, codes))
    by_none = list(LabelledKFold(4).split(X, marked(truth, known)))
    for one, two in zip(by_mark, by_none, strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
    one, two = (
        list(LabelledKFold(2, shuffle=True, random_state=s).split(X, codes)) for s in (1, 2)
    )
    assert any(not np.array_equal(a[1], b[1]) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("y", "n", "words"),
    [
        (None, 2, "give it y as well"),
        ([None] * 6, 2, "label some rows"),
        (["a", None, "a", None, None, None], 2, "only one class"),
        (["a", "a", "a", "b", "b", None], 3, "'b' has 2 labelled rows.*n_splits=2 at most"),
        (["a", "a", "b", None, None, None], 2, "'b' has 1 labelled rows.*label more"),
        (["a", "a", "b", "b", None, None], 1, "at least 2"),
        (["a", "a", "b", "b", None, None], 2.0, "at least 2"),
        (["a", "b"], 2, "2 entries and X has 6 rows"),
    ],
)
def test_folds_that_cannot_be(y: Any, n: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        next(LabelledKFold(n).split(np.zeros((6, 1)), y))


# ---------------------------------------------------------------------- scores
@pytest.mark.parametrize("machine", MACHINES)
def test_score_is_that_of_the_labelled_rows(rng: np.random.Generator, machine: Any) -> None:
    X, truth, known = table(rng)
    y = marked(truth, known)
    model = machine(**OPTIONS).fit(X, y)
    right = model.predict(X) == truth
    assert model.score(X, y) == pytest.approx(right[known].mean(), abs=1e-15)
    assert model.score(pd.DataFrame(X), pd.Series(y)) == model.score(X, y)
    w = rng.uniform(0.5, 2.0, size=40)
    weighted = np.average(right[known], weights=w[known])
    assert model.score(X, y, sample_weight=w) == pytest.approx(weighted, abs=1e-15)
    assert model.score(X, truth) == pytest.approx(right.mean(), abs=1e-15)
    codes = np.where(known, (truth == "b").astype(int), -1)
    other = machine(unlabelled=-1, **OPTIONS).fit(X, codes)
    assert other.score(X, codes) == model.score(X, y)
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(X, [None] * 40)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_grid_over_labelled_folds(rng: np.random.Generator, machine: Any) -> None:
    """The scores of the grid are those of fits by hand on the folds."""
    X, truth, known = table(rng)
    y, cv = np.array(marked(truth, known), dtype=object), LabelledKFold(3)
    grid = GridSearchCV(machine(**OPTIONS), {"beta": [0.0, 5.0]}, cv=cv).fit(X, y)
    for beta, mean in zip((0.0, 5.0), grid.cv_results_["mean_test_score"], strict=True):
        by_hand = [
            np.mean(machine(**(OPTIONS | {"beta": beta})).fit(X[a], y[a]).predict(X[b]) == y[b])
            for a, b in cv.split(X, y)
        ]
        assert mean == pytest.approx(np.mean(by_hand), abs=1e-15)
    assert grid.best_estimator_.report_["labelled"] == known.sum()
    assert grid.score(X, y) == grid.best_estimator_.score(X, y)
    scores = cross_val_score(machine(**OPTIONS), X, y, cv=cv)
    numbers = np.where(known, (truth == "b").astype(float), np.nan)
    again = cross_val_score(machine(**OPTIONS), X, numbers, cv=cv, scoring="accuracy")
    np.testing.assert_array_equal(scores, again)
    with pytest.raises(ValueError, match="partition"):  # rows without a label are never tested
        cross_val_predict(machine(**OPTIONS), X, y, cv=cv)
