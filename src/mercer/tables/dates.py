"""DateFeatures: a date as the day itself and its place in the cycles that the data go through."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array

YEAR, WEEK = 365.2425, 7.0


class DateFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Turn columns of days since 1970 (n, d), NaN where missing, into numbers.

    Each column gives the day; cosine and sine of its place in the year if the data span one and a
    half years, in the week if they span three weeks, in the day if there are times of day; and an
    indicator of missing values, which count as the median day.

    Attributes
    ----------
    middle_ : (d,) the median day of each column.
    cycles_ : (d, 3) whether the year, the week and the day are used.
    gaps_ : (d,) whether a value was missing in ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> DateFeatures().fit_transform(np.arange(0.0, 30.0, 10.0)[:, None]).shape
    (3, 1)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look which cycles the columns of X (n, d) go through."""
        A = np.asarray(X, dtype=np.float64)
        self.n_features_in_ = A.shape[1]
        self.gaps_: Any = np.isnan(A).any(axis=0)
        self.middle_ = np.nanmedian(A, axis=0)
        span = np.nanmax(A, axis=0) - np.nanmin(A, axis=0)
        part = np.where(np.isnan(A), 0.0, A % 1.0)
        clock = np.any(part != 0.0, axis=0)
        self.cycles_ = np.column_stack([span > 1.5 * YEAR, span > 3 * WEEK, clock])
        return self

    def transform(self, X: Any) -> Array:
        """Return the features of X (n, d), the columns one after the other."""
        check_is_fitted(self)
        A = np.asarray(X, dtype=np.float64)
        found = []
        for j in range(A.shape[1]):
            absent = np.isnan(A[:, j])
            day = np.where(absent, self.middle_[j], A[:, j])
            found.append(day)
            for on, period in zip(self.cycles_[j], (YEAR, WEEK, 1.0), strict=True):
                if on:
                    turn = 2.0 * np.pi * day / period
                    found += [np.cos(turn), np.sin(turn)]
            if self.gaps_[j]:
                found.append(absent.astype(np.float64))
        return np.column_stack(found)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        names = ("middle", "cycles", "gaps")
        return {}, {n: getattr(self, f"{n}_") for n in names if hasattr(self, f"{n}_")}

    @classmethod
    def _from_state(cls, state: Any, arrays: Any, resolve: Any) -> Self:
        step = cls()
        if arrays:
            step.middle_, step.gaps_ = arrays["middle"], arrays["gaps"]
            step.cycles_ = arrays["cycles"]
            step.n_features_in_ = len(step.middle_)
        return step
