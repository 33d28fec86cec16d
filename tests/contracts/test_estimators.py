"""Every public estimator fulfils the shipped contract, hostile model files included."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer.testing import check_estimator

ESTIMATORS = sorted(
    name
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), BaseEstimator)
)
LINE = np.random.default_rng(0).uniform(0.0, 5.0, 30)
TABLES = {"SmoothingSpline": (LINE[:, None], np.sin(LINE))}  # it takes one column


@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract(name):
    X, y = TABLES.get(name, (None, None))
    check_estimator(getattr(mercer, name)(), X, y, variants=150)
