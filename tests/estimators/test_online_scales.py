"""The scales of a stream: how smooth the named kernel is, and what the order can do."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import OnlineLogisticClassifier
from mercer.inference import Bound
from mercer.kernels import RBF, Constant, Linear
from mercer.process.stream import StreamPosterior, likely_length
from tests.estimators.test_online import table


def rings(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    return X * [100.0, 1.0], np.sin(9.0 * np.hypot(X[:, 0], X[:, 1])) > 0


def test_a_rough_function_gets_a_short_length_scale():
    X, y = rings(1500)
    model = OnlineLogisticClassifier(budget=200)
    for i in range(0, 1500, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
    assert model.report_["scales"]["length_factor"] == 0.25
    assert model.prequential_.accuracy > 0.8
    X, y = table(100)
    smooth = OnlineLogisticClassifier().partial_fit(X, y)
    assert smooth.report_["scales"]["length_factor"] == 1.0


def test_the_length_is_the_best_by_its_evidence():
    X, y = rings(128)
    S, w = np.where(y, 1.0, -1.0)[:, None], np.ones(128)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = 4.0 * RBF(1.5) + Constant(1.0)
    found, factor = likely_length(kernel, Z, S, w)
    values = {}
    for f in (1.0, 0.5, 0.25, 0.125):
        other = 4.0 * RBF(1.5 * f) + Constant(1.0)
        _, blocks = StreamPosterior.empty(other, 2, 1).absorb(Z, S, w)
        values[f] = blocks[0].log_q + np.log2(f)  # a nat for each halving
    assert factor == max(values, key=lambda f: values[f])
    np.testing.assert_array_equal(found(Z), (4.0 * RBF(1.5 * factor) + Constant(1.0))(Z))
    np.testing.assert_array_equal(kernel(Z), (4.0 * RBF(1.5) + Constant(1.0))(Z))  # untouched


def test_nothing_is_chosen_where_nothing_is_to_choose():
    X, y = rings(60)
    for given in ({"kernel": RBF([50.0, 1.0])}, {"kernel": "linear"}):
        model = OnlineLogisticClassifier(**given).partial_fit(X, y)
        assert model.report_["scales"]["length_factor"] == 1.0
    one = np.zeros((1, 2)), np.ones((1, 1)), np.ones(1)
    assert likely_length(4.0 * RBF(1.0), *one)[1] == 1.0
    assert likely_length(2.0 * Linear(), np.eye(2), np.ones((2, 1)), np.ones(2))[1] == 1.0


def test_fit_chooses_by_rows_of_any_order():
    X, y = rings(300)
    order = np.random.default_rng(1).permutation(300)
    a, b = OnlineLogisticClassifier().fit(X, y), OnlineLogisticClassifier().fit(X[order], y[order])
    assert a.report_["scales"]["length_factor"] < 1.0
    np.testing.assert_array_equal(a.predict_latent(X), b.predict_latent(X))


def test_no_order_is_better_than_the_batch_and_none_is_far():
    X, y = table(150)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0]) + Constant(1.0)
    batch = OnlineLogisticClassifier(kernel, inference=Bound(tol=1e-10)).fit(X, y)
    values, p = [], []
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(150)
        model = OnlineLogisticClassifier(kernel).partial_fit(X[order], y[order])
        values.append(model.log_evidence_)
        p.append(model.predict_proba(X)[:, 1])
    gap = batch.log_evidence_ - np.array(values)
    assert gap.min() > 0.0  # the theorem
    assert np.ptp(values) <= gap.max()  # so two orders differ by less than the worse one lost
    assert gap.max() < 0.04 * 150  # documented: some hundredths of a nat for each example at most
    assert np.std(values) < 0.5 * gap.mean()
    assert np.std(p, axis=0).max() < 0.03


@pytest.mark.parametrize("rows", [2, 5])
def test_few_rows_keep_the_default(rows):
    X, y = rings(rows, seed=3)
    model = OnlineLogisticClassifier().partial_fit(X, y, classes=[False, True])
    assert model.report_["scales"]["length_factor"] == 1.0
