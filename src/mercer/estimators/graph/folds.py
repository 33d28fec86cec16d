"""LabelledKFold: folds of the labelled rows, for scikit-learn's tools; unlabelled rows stay in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.utils.validation import _num_samples

from mercer.core.arrays import Index
from mercer.estimators.shared.labels import encode, split_labels


class LabelledKFold(BaseCrossValidator):  # type: ignore[misc]  # scikit-learn ships no types
    """Stratified folds of the labelled rows of a partly labelled table.

    Each labelled row is tested once. Every training part has the labelled rows of the other folds
    and all rows without a label; the rows that are tested are not in it, not even unlabelled. (Left
    out of the labels alone, and kept in the graph, they are in ``left_out_`` of a fitted machine.)

    Parameters
    ----------
    n_splits : >= 2, default 5. Folds, at most as many as the rarest class has labelled rows.
    shuffle : default False. Whether the labelled rows are shuffled before they are dealt out.
    random_state : None (default), int or RandomState. Of ``shuffle``.
    unlabelled : default None. Rows whose label is None or NaN are unlabelled; a value given here
        marks them too. The same as that of the machine.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from mercer import LabelledKFold, LapSVC
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> y = ["a", None, "a", "b", None, "b"]
    >>> for train, test in LabelledKFold(2).split(X, y):
    ...     print(train, test)
    [1 2 4 5] [0 3]
    [0 1 3 4] [2 5]
    >>> grid = GridSearchCV(LapSVC(n_neighbors=2), {"beta": [0.0, 1.0]}, cv=LabelledKFold(2))
    >>> float(grid.fit(X, y).best_score_)
    1.0
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        unlabelled: Any = None,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabelled = unlabelled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return int(self.n_splits)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Index, Index]]:
        """Yield the rows (train, test) of each fold of X (n, d), y (n,); ``groups`` are ignored."""
        if y is None:
            raise ValueError("LabelledKFold deals out the labelled rows: give it y as well")
        n = _num_samples(X)
        known, labels = split_labels(y, n, self.unlabelled)
        if not known.any():
            raise ValueError(
                "no row of y has a label, so that there is nothing to deal out: label some rows of "
                "at least two classes (None, NaN and the value of unlabelled= mark those without)"
            )
        classes, codes = encode(labels)
        whole = isinstance(self.n_splits, (int, np.integer)) and not isinstance(self.n_splits, bool)
        if not whole or self.n_splits < 2:
            raise ValueError(f"n_splits must be a whole number, at least 2, got {self.n_splits!r}")
        counts = np.bincount(codes)
        rarest = int(counts.argmin())
        if counts[rarest] < self.n_splits:
            remedy = (
                f"use n_splits={counts[rarest]} at most" if counts[rarest] > 1 else "label more"
            )
            raise ValueError(
                f"the class {classes.tolist()[rarest]!r} has {counts[rarest]} labelled rows and "
                f"there are {self.n_splits} folds, so that some would be without it: {remedy}"
            )
        rows, rest = np.flatnonzero(known), np.flatnonzero(~known)
        folds = StratifiedKFold(
            self.n_splits,
            shuffle=self.shuffle,
            random_state=self.random_state if self.shuffle else None,
        )
        for train, test in folds.split(rows, codes):
            yield np.sort(np.concatenate([rows[train], rest])), rows[test]
