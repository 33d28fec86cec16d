"""What scikit-learn asks of a fitted machine: importances, slopes; a learned kernel again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_selection import RFE

import mercer
from mercer import SVC, SVR, GPRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=60)


def test_features_are_eliminated_by_their_length_scales():
    machine = GPRegressor("rbf").fit(X, Y)
    found = machine.feature_importances_
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found, machine.relevance_ / machine.relevance_.sum())
    assert RFE(GPRegressor("rbf"), n_features_to_select=1, step=3).fit(X, Y).support_[1]


def test_a_kernel_without_length_scales_says_so():
    machine = GPRegressor("linear", search=None).fit(X, Y)
    assert not hasattr(machine, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance"):
        machine.feature_importances_  # noqa: B018  # reading it is the test


def test_slopes_of_a_linear_kernel():
    labels = np.digitize(X[:, 0] + 0.3 * X[:, 2], [-0.5, 0.5])
    for y in (labels > 0, labels):
        machine = SVC(kernel="linear").fit(X, y)
        f = np.squeeze(X @ machine.coef_.T + machine.intercept_)
        np.testing.assert_allclose(machine.decision_function(X), f, atol=1e-10)
    machine = SVR(kernel="linear").fit(X, Y)
    np.testing.assert_allclose(machine.predict(X), X @ machine.coef_[0] + machine.intercept_)
    assert RFE(SVC(kernel="linear"), n_features_to_select=2).fit(X, labels).support_[0]
    with pytest.raises(AttributeError, match='kernel="linear"'):
        SVC().fit(X, labels).coef_  # noqa: B018  # reading it is the test


def test_a_learned_kernel_again():
    """A kernel that is given is used in your units: the mean of the target stays outside."""
    machine = GPRegressor("rbf").fit(X, Y + 1000.0)
    mean = np.mean(Y + 1000.0)
    again = GPRegressor(machine.kernel_, loss=machine.loss_, search=None)
    again.fit(X, Y + 1000.0 - mean)
    (f, std), (f_before, std_before) = (m.predict(X, return_std=True) for m in (again, machine))
    np.testing.assert_allclose(f + mean, f_before)
    np.testing.assert_allclose(std, std_before)
    assert again.log_evidence_ == pytest.approx(machine.log_evidence_)


def test_a_plan_of_rows_is_collected_or_refused():
    polars = pytest.importorskip("polars")
    plan = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).lazy()
    with pytest.raises(TypeError, match=r"X is a LazyFrame, which has no rows yet: give X.collect"):
        GPRegressor().fit(plan, Y)
    model = mercer.fit(plan, "y", candidates=["linear"])
    assert model.given_ == 60
    assert len(model.predict(plan)) == 60
