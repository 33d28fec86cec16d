"""Left-out figures of every estimator are per row, in the order of the rows given."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import is_classifier

import mercer
from mercer.kernels import RBF
from tests.contracts.test_estimators import PREDICTORS

# where a search would end elsewhere within its tolerance, or a line is needed
FIXED = {
    "GPClassifier": {"search": None},
    "GPRegressor": {"search": None},
    "KernelRegressor": {"search": None},
    "ProbabilisticLeastSquaresClassifier": {"search": None},
    "RVClassifier": {"search": None},
    "RVRegressor": {"search": None},
    "SVC": {"tol": 1e-8},
    "SmoothingSpline": {"lam": 0.1},
    "TableClassifier": {"candidates": ["linear", "support vectors"]},
    "TableRegressor": {"candidates": ["linear", "Gaussian process"]},
    "ThinPlateSpline": {"lam": 1.0},
}
CASES = {name: (name, FIXED.get(name, {}), 2) for name in PREDICTORS} | {
    "GPClassifier, joint": ("GPClassifier", {"search": None}, 3),
    "GPClassifier, one against rest": ("GPClassifier", {"search": None, "inference": "ep"}, 3),
    "GPRegressor, student_t": (
        "GPRegressor",
        {"search": None, "loss": "student_t", "inference": "laplace"},
        2,
    ),
    "KernelClassifier, logistic": ("KernelClassifier", {"loss": mercer.losses.Logistic()}, 3),
    "KernelRegressor, laplace": ("KernelRegressor", {"search": None, "loss": "laplace_noise"}, 2),
    "LapLSClassifier, calibrated": ("LapLSClassifier", {"calibration": "sigmoid"}, 2),
    "LapMEDClassifier, calibrated": ("LapMEDClassifier", {"calibration": "sigmoid"}, 3),
    "LapSVC, calibrated": ("LapSVC", {"calibration": "sigmoid", "tol": 1e-9}, 3),
    "LeastSquaresClassifier, several": ("LeastSquaresClassifier", {}, 3),
    "ProbabilisticLeastSquaresClassifier, several": (
        "ProbabilisticLeastSquaresClassifier",
        {"search": None},
        3,
    ),
    "RVClassifier, several": ("RVClassifier", {"search": None}, 3),
    "SVC, several": ("SVC", {"tol": 1e-8, "probability": "loo"}, 3),
    "SVC, ep": ("SVC", {"kernel": 2.0 * RBF(), "inference": "ep", "search": None}, 2),
    "SmoothingSpline, period": ("SmoothingSpline", {"lam": 0.1, "period": 7.0}, 2),
    "SmoothingSpline, counts": ("SmoothingSpline", {"lam": 0.1, "loss": "poisson"}, 2),
    "ThinPlateSpline, knots": ("ThinPlateSpline", {"lam": 1.0, "knots": 15}, 2),
}


def table(name, options, classes):
    """Rows of which some are given again, with the same target or another."""
    rng = np.random.default_rng(0)
    d = 1 if name == "SmoothingSpline" else 2
    X = rng.normal(size=(40, d))
    f = X[:, 0] + 0.5 * rng.normal(size=40)
    again = np.r_[np.arange(40), 3, 3, 7]
    X, f = X[again], f[again]
    if is_classifier(getattr(mercer, name)()):
        y = np.digitize(f, [0.0] if classes == 2 else [-0.5, 0.5])
        y[-1] = (y[-1] + 1) % classes  # equal inputs, another label
        return X, y
    f[-1] += 1.0
    return X, np.round(np.exp(f)) if options.get("loss") == "poisson" else f


def per_row(figures, n):
    """Every array of the figures that has a row for each row."""
    found = {f.name: getattr(figures, f.name) for f in fields(figures)}
    arrays = {k: v for k, v in found.items() if isinstance(v, np.ndarray)}
    assert all(len(v) == n for v in arrays.values())
    return arrays


@pytest.mark.parametrize("case", CASES)
def test_figures_follow_the_rows(case):
    check_figures(*CASES[case])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TableClassifier", "TableRegressor"])
def test_figures_of_every_candidate_follow_the_rows(name):
    check_figures(name, {}, 2)


def check_figures(name, options, classes):
    X, y = table(name, options, classes)
    first = getattr(mercer, name)(**options).fit(X, y).left_out_
    if first is None:
        pytest.skip("no figures of rows left out")
    order = np.random.default_rng(1).permutation(len(X))
    other = getattr(mercer, name)(**options).fit(X[order], y[order]).left_out_
    mine, theirs = per_row(first, len(X)), per_row(other, len(X))
    assert mine.keys() == theirs.keys()
    assert len(mine) > 1
    for key, values in mine.items():
        size = np.nanmax(np.abs(values), initial=1e-300)
        np.testing.assert_allclose(
            theirs[key], values[order], atol=1e-5 * size, rtol=1e-5, err_msg=key
        )
        # rows 3, 40 and 41 are equal: three entries, the same
        np.testing.assert_allclose(values[[40, 41]], values[[3, 3]], rtol=1e-7, atol=1e-9 * size)


def test_margins_of_rows_without_a_coefficient():
    """The margin of a row that is no support vector is y f: nothing moves without it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    machine = mercer.SVC(C=1.0, tol=1e-6).fit(X, y)
    rest = np.setdiff1d(np.arange(12), machine.support_)
    assert len(rest) > 0
    margins = (y * machine.decision_function(X))[rest]
    np.testing.assert_allclose(machine.loo_.margin.ravel()[rest], margins, rtol=1e-5)
    twice = mercer.SVC().fit(np.vstack([X, X]), np.r_[y, y])
    assert len(twice.loo_.margin) == 24
