"""Every public estimator fulfils the shipped contract, hostile model files included."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_classifier

import mercer
from mercer.left_out.figures import LeftOut
from mercer.process import Process
from mercer.testing import check_estimator
from tests.short import SHORT

ESTIMATORS = sorted(
    name
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), BaseEstimator)
)
PREDICTORS = [name for name in ESTIMATORS if hasattr(getattr(mercer, name), "predict")]
# the machine of a table is one of the others
MACHINES = [name for name in PREDICTORS if not issubclass(getattr(mercer, name), mercer.TableModel)]
LINE = np.random.default_rng(0).uniform(0.0, 5.0, 30)
TABLES = {"SmoothingSpline": (LINE[:, None], np.sin(LINE))}  # it takes one column


def test_what_does_not_predict_transforms():
    for name in set(ESTIMATORS) - set(PREDICTORS):
        made = getattr(mercer, name)().fit(np.eye(3))
        assert made.transform(np.eye(3)).shape[0] == 3
        assert made.report_
        assert made.summary().rows()


@pytest.mark.parametrize("name", MACHINES)
def test_every_predictor_answers(name):
    """Processes, a report, rows left out or the reason why not, a summary."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    estimator = getattr(mercer, name)()
    X, y = TABLES.get(name, (X, np.where(y > 0, 1, 0) if is_classifier(estimator) else y))
    estimator.fit(X, y)
    assert estimator.posteriors_
    assert all(isinstance(process, Process) for process in estimator.posteriors_)
    assert isinstance(estimator.report_, dict)
    assert not [key for key in estimator.report_ if not key.isidentifier()]
    figures = estimator.left_out_
    assert (figures is None) == (estimator.loo_ is None)
    if figures is None:
        assert len(estimator.report_["left_out"].split()) > 3  # a sentence
    else:
        assert isinstance(figures, LeftOut)
        assert len(figures.weights) == len(X)
    assert estimator.summary().rows()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract(name):
    X, y = TABLES.get(name, (None, None))
    check_estimator(getattr(mercer, name)(**SHORT.get(name, {})), X, y, variants=150)
