"""Counts of successes in a number of trials: as many rows of labels, in one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import GPClassifier, GPRegressor, SmoothingSpline
from mercer.kernels import RBF
from mercer.losses import Binomial

KERNEL = 1.5 * RBF(0.8)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (20, 1))
    n = rng.integers(1, 9, 20)
    return X, rng.binomial(n, 1 / (1 + np.exp(-np.sin(2 * X[:, 0])))), n


def test_it_is_a_probability(table) -> None:
    _, y, n = table
    f = np.linspace(-2.0, 2.0, 20)
    p = 1 / (1 + np.exp(-f))
    np.testing.assert_allclose(-Binomial(n).value(y, f), stats.binom(n, p).logpmf(y), atol=1e-12)
    np.testing.assert_allclose(Binomial(n).conditional_cdf(y, f), stats.binom(n, p).cdf(y))


@pytest.mark.parametrize("inference", ["laplace", "variational"])
def test_totals_are_repeated_labels(table, inference) -> None:
    X, y, n = table
    make = {"inference": inference, "search": None}
    model = GPRegressor(KERNEL, loss=Binomial(n), **make).fit(X, y)
    rows = np.repeat(X, n, axis=0)
    labels = np.concatenate([np.arange(k) < s for s, k in zip(y, n, strict=True)])
    each = GPClassifier(KERNEL, loss="logistic", **make).fit(rows, labels)
    np.testing.assert_allclose(model.predict(X), each.predict_proba(X)[:, 1], atol=1e-5)
    ways = stats.binom(n, 0.5).logpmf(y).sum() + n.sum() * np.log(2.0)  # sum of log C(n, y)
    assert model.log_evidence_ == pytest.approx(each.log_evidence_ + ways, abs=1e-5)
    assert model.left_out_.mean.shape == (20,)
    assert np.all(model.left_out_.mean <= n)


def test_search_files_and_one_number_for_all(table, tmp_path) -> None:
    X, y, n = table
    model = GPRegressor(loss=Binomial(n), basis=0, inference="ep").fit(X, y)
    assert model.report_["search"]["converged"]
    assert np.all((model.predict(X) > 0.0) & (model.predict(X) < 1.0))
    mercer.save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict(X), model.predict(X))
    same = GPRegressor(KERNEL, loss=Binomial(10), search=None).fit(X, y)
    per_row = GPRegressor(KERNEL, loss=Binomial(np.full(20, 10)), search=None).fit(X, y)
    np.testing.assert_allclose(same.predict(X), 10.0 * per_row.predict(X), rtol=1e-6)
    low, high = same.predict_interval(X, 0.9)
    assert np.all((low >= 0) & (high <= 10) & (low <= high))
    SmoothingSpline(loss=Binomial(10)).fit(X, y)


def test_what_cannot_be_is_refused(table) -> None:
    X, y, n = table
    for bad in (0, 2.5, [3, 0], [], "many", [[1, 2]]):
        with pytest.raises(ValueError, match="Binomial needs a whole number of trials"):
            Binomial(bad)
    with pytest.raises(ValueError, match="at most its trials"):
        GPRegressor(KERNEL, loss=Binomial(2)).fit(X, y)
    with pytest.raises(ValueError, match="trials for 19 rows, and there are 20 targets"):
        GPRegressor(KERNEL, loss=Binomial(n[1:])).fit(X, y)
    with pytest.raises(ValueError, match=r"binomial.*trials"):
        GPRegressor(KERNEL, loss="binomial").fit(X, y)
