"""scikit-learn's conventions for a method of one column.

The checks bring tables of several columns. Those that fail on them are listed in
``test_sklearn.EXCLUDED`` with the reason, and all are repeated here on the first column.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import SmoothingSpline
from tests.estimators.test_sklearn import EXCLUDED


class FirstColumn(SmoothingSpline):
    """A smoothing spline that looks at the first column and does not mind others."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the first of ten columns says little of y
        return tags

    def _column(self, X):
        return np.ascontiguousarray(X[:, 0])


@parametrize_with_checks([FirstColumn()])
def test_conventions_on_one_column(estimator, check):
    check(estimator)


def test_every_exception_has_the_same_reason():
    reasons = set(EXCLUDED["SmoothingSpline"].values())
    assert len(reasons) == 1
    assert "one column" in reasons.pop()
