"""scikit-learn's conventions for thin-plate splines, on tables of two columns.

The checks bring tables of up to ten columns and few rows. Those that fail on them are listed in
``test_sklearn.EXCLUDED`` with the reason, and all are repeated here on the first two columns.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import ThinPlateSpline
from mercer.estimators.shared.table import read_inputs, read_rows


class TwoColumns(ThinPlateSpline):
    """A thin-plate spline of the first two columns, which does not mind others."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # two of ten columns say little of y
        return tags


@parametrize_with_checks([TwoColumns()])
def test_conventions_on_two_columns(
    estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(machine: Any, X: Any, y: Any, **options: Any) -> Any:
        X, y = read_rows(machine, X, y, **options)
        return X[:, :2].copy(), y

    def inputs(machine: Any, X: Any) -> Any:
        return read_inputs(machine, X)[:, :2].copy()

    monkeypatch.setattr("mercer.estimators.shared.machine.read_rows", rows)
    monkeypatch.setattr("mercer.estimators.shared.predictions.read_inputs", inputs)
    check(estimator)
