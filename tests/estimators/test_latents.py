"""Estimators with several latent functions: noise that changes, kernels by class, excess zeros."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import GPClassifier, GPRegressor, KernelRegressor, losses
from mercer.kernels import RBF, Linear, Several, White
from mercer.search import Optimize

SHORT = Optimize(restarts=0, max_iter=20)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (90, 1))
    s = 0.1 + 0.15 * X[:, 0]
    return X, 20.0 + 10.0 * np.sin(X[:, 0]) + 10.0 * s * rng.normal(size=90), s


@pytest.fixture(scope="module")
def model(table):
    return GPRegressor(loss="heteroscedastic").fit(*table[:2])


def again(model):
    with tempfile.TemporaryDirectory() as folder:
        mercer.save(model, f"{folder}/model.mercer")
        return mercer.load(f"{folder}/model.mercer")


def test_the_deviation_follows_the_noise(model, table):
    X, y, s = table
    mean, std = model.predict(X, return_std=True)
    assert np.corrcoef(std, s)[0, 1] > 0.9
    assert np.median(np.abs(std / (10.0 * s) - 1.0)) < 0.35
    plain = GPRegressor().fit(X, y)
    assert model.log_evidence_ > plain.log_evidence_ + 2.0
    assert model.left_out_.total > plain.left_out_.total + 2.0
    np.testing.assert_array_equal(model.predict(X), mean)
    low, high = model.predict_interval(X, 0.9)
    assert 0.8 < np.mean((low < y) & (y < high)) <= 1.0
    assert model.predict_spread(X).shape == y.shape
    both = model.predict_with_interval(X)
    np.testing.assert_allclose(both[1], std)


def test_the_density_integrates_to_one(model):
    y = np.linspace(-60.0, 100.0, 4001)
    density = np.exp(model.predictive_log_density(np.full((4001, 1), 7.0), y))
    assert np.trapezoid(density, y) == pytest.approx(1.0, abs=1e-6)
    mean, std = model.predict([[7.0]], return_std=True)
    assert np.trapezoid(y * density, y) == pytest.approx(mean[0], rel=1e-6)
    assert np.trapezoid((y - mean[0]) ** 2 * density, y) == pytest.approx(std[0] ** 2, rel=1e-4)
    low, high = model.predict_interval([[7.0]], 0.8)
    inside = (y > low[0]) & (y < high[0])
    assert np.trapezoid(density[inside], y[inside]) == pytest.approx(0.8, abs=2e-3)


def test_both_functions_and_draws(model, table):
    X = table[0][:5]
    mean, std = model.predict_latent(X)
    assert mean.shape == std.shape == (5, 2)
    np.testing.assert_allclose(mean[:, 0], model.predict(X))
    noise = model.loss_.noise * np.exp(mean[:, 1] + 0.5 * std[:, 1] ** 2)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1] ** 2, std[:, 0] ** 2 + noise)
    draws = model.sample_y(X, 4000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean[:, 0], atol=0.15 * std[:, 0].max())
    np.testing.assert_allclose(draws.std(axis=1), std[:, 0], rtol=0.1)
    assert model.sample_prior(X, 2).shape == (5, 2)
    with pytest.raises(ValueError, match="predict_latent"):
        model.predict_component(X, 0)
    with pytest.raises(ValueError, match="return_std"):
        model.predict(X, return_cov=True)


def test_a_file_and_the_summary(model, table):
    X = table[0]
    loaded = again(model)
    for a, b in zip(loaded.predict(X, True), model.predict(X, True), strict=True):
        np.testing.assert_array_equal(a, b)
    text = str(model.summary())
    assert "log_noise" in text
    assert "median noise variance" in text
    assert model.kernel_.parts[1].variance < 20.0  # a logarithm, whatever the unit of y
    assert clone(model).get_params()["loss"] == "heteroscedastic"


def test_units_change_nothing(table):
    X, y, _ = table
    search = Optimize(restarts=0, max_iter=5)
    one = GPRegressor(loss="heteroscedastic", search=search).fit(X, y)
    other = GPRegressor(loss="heteroscedastic", search=search).fit(100.0 * X, 3.0 + 50.0 * y)
    a, b = one.predict(X, return_std=True), other.predict(100.0 * X, return_std=True)
    np.testing.assert_allclose(3.0 + 50.0 * a[0], b[0], rtol=1e-6)
    np.testing.assert_allclose(50.0 * a[1], b[1], rtol=1e-6)
    gone = len(y) * np.log(50.0)
    assert other.log_evidence_ == pytest.approx(one.log_evidence_ - gone, abs=1e-5)
    stated = GPRegressor(one.kernel_, loss=one.loss_, search=None, standardize=False)
    shift = y.mean() * 0.0 + one.units_.y_shift[0]
    same = stated.fit(X, y - shift)
    np.testing.assert_allclose(same.predict(X, True)[1], a[1], rtol=1e-6)
    assert same.log_evidence_ == pytest.approx(one.log_evidence_, abs=1e-6)


@pytest.mark.parametrize("loss", [losses.Heteroscedastic(0.3), losses.ZeroInflatedPoisson()])
def test_left_out_is_near_a_fit_without_the_row(loss):
    rng = np.random.default_rng(2)
    X = np.linspace(0.0, 6.0, 24)[:, None]
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=24)
    if loss.response == "count":
        y = rng.poisson(np.exp(1.0 + y)) * (rng.random(24) < 0.7) * 1.0
    given = {"kernel": [1.2 * RBF(1.5), 0.5 * RBF(3.0)], "loss": loss, "search": None}
    model = GPRegressor(**given).fit(X, y)
    wanted, mean = [], []
    for i in range(24):
        others = np.arange(24) != i
        part = GPRegressor(**given).fit(X[others], y[others])
        wanted.append(part.predictive_log_density(X[[i]], y[[i]])[0])
        mean.append(part.predict(X[[i]])[0])
    off = np.abs(model.left_out_.log_density - wanted)  # an estimate: rows that surprise are off
    assert np.median(off) < 0.03
    assert np.median(np.abs(model.left_out_.mean - mean)) < 0.05
    assert model.left_out_.total == pytest.approx(np.sum(wanted), rel=0.1)


def test_weights_are_copies(table):
    X, y = table[0][:20], table[1][:20]
    w = np.resize([1.0, 2.0, 0.0], 20)
    given = {"loss": "heteroscedastic", "search": Optimize(restarts=0, max_iter=3)}
    one = GPRegressor(**given).fit(X, y, sample_weight=w)
    copies = np.repeat(np.arange(20), w.astype(int))
    two = GPRegressor(**given).fit(X[copies], y[copies])
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-8)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-8)


def test_outliers_do_not_make_noise(table):
    X, y = table[0][:60], table[1][:60]
    wild = y.copy()
    wild[[3, 40]] += 300.0
    model = GPRegressor(loss="heteroscedastic_t", search=SHORT).fit(X, wild)
    off = model.predict(X) - GPRegressor(loss="heteroscedastic", search=SHORT).fit(X, y).predict(X)
    assert np.mean(np.abs(off)) < 4.0
    assert model.loss_.df < 20.0
    assert again(model).loss_ == model.loss_


def test_excess_zeros_have_a_place():
    """Zeros on the right are excess ones, and the rate is learned from the others."""
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(0.0, 10.0, (100, 1)), axis=0)
    rate, zero = np.exp(1.2 + 0.8 * np.sin(X[:, 0])), np.where(X[:, 0] > 5.0, 0.7, 0.02)
    y = rng.poisson(rate) * (rng.random(100) > zero)
    model = GPRegressor(loss="zero_inflated_poisson", search=SHORT).fit(X, y)
    plain = GPRegressor(loss="poisson", search=SHORT).fit(X, y)
    assert model.log_evidence_ > plain.log_evidence_ + 5.0
    latent = model.predict_latent(X)[0]
    assert np.corrcoef(latent[:, 0], np.log(rate))[0, 1] > 0.8
    share = 1.0 / (1.0 + np.exp(-latent[:, 1]))
    assert share[X[:, 0] > 6.0].mean() > 0.5 > 0.2 > share[X[:, 0] < 4.0].mean()
    mean, std = model.predict(X, return_std=True)
    assert np.all(mean > 0.0)
    assert np.all(std > 0.0)
    low, high = model.predict_interval(X)
    assert np.mean((low <= y) & (y <= high)) > 0.85
    np.testing.assert_array_equal(again(model).predict(X), model.predict(X))


@pytest.mark.parametrize("y", [np.arange(9.0), np.ones(9), np.r_[0.0, 5.0, np.zeros(7)]])
def test_odd_targets_are_survived(y):
    """A straight line, a constant and a single spike: noise of zero in most places."""
    model = GPRegressor(loss="heteroscedastic", search=SHORT).fit(np.arange(9.0)[:, None], y)
    mean, std = model.predict([[3.3]], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def test_the_variational_bound(table, model):
    X, y, _ = table
    other = GPRegressor(loss="heteroscedastic", inference="variational", search=SHORT).fit(X, y)
    assert other.log_evidence_ == pytest.approx(model.log_evidence_, abs=1.5)
    a, b = (one.predict(X, return_std=True)[1] for one in (other, model))
    np.testing.assert_allclose(a, b, rtol=0.15)
    assert other.left_out_.total == pytest.approx(model.left_out_.total, abs=2.0)
    np.testing.assert_array_equal(again(other).predict(X, True)[1], a)


def test_the_mode_alone_has_no_spread(table):
    X, y = table[0][:30], table[1][:30]
    kernels = [100.0 * RBF(1.0), RBF(3.0)]
    model = KernelRegressor(kernels, loss=losses.Heteroscedastic(1.0), search=None).fit(X, y)
    assert model.predict(X).shape == (30,)
    assert model.predict_latent(X)[1] is None
    assert model.left_out_ is None
    assert "laplace" in model.report_["left_out"]
    np.testing.assert_array_equal(again(model).predict(X), model.predict(X))


# ------------------------------------------------------------------ a kernel for each class
@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3, :2], np.array(["a", "b", "c"])[y[::3]]


def test_the_same_kernel_for_each_class_is_the_shared_one(iris):
    X, y = iris
    kernel = 3.0 * RBF(1.2)
    one = GPClassifier(kernel, search=None).fit(X, y)
    own = GPClassifier([kernel] * 3, search=None).fit(X, y)
    assert own.log_evidence_ == pytest.approx(one.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(own.predict_proba(X), one.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(own.left_out_.proba, one.left_out_.proba, atol=1e-9)


def test_classes_may_differ_in_kind(iris):
    X, y = iris
    search = Optimize(restarts=0, max_iter=10)
    model = GPClassifier(["rbf", "linear", "rbf"], search=search).fit(X, y)
    assert isinstance(model.kernel_, Several)
    assert "Linear" in repr(model.kernel_.parts[1])
    assert model.score(X, y) > 0.7
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(again(model).predict_proba(X), p)
    mean, std = model.predict_latent(X[:4])
    assert mean.shape == std.shape == (4, 3)
    two = GPClassifier([2.0 * RBF(), 1.0 * Linear()], search=None).fit(X[y != "c"], y[y != "c"])
    assert two.predict_proba(X[:3]).shape == (3, 2)


def test_gradient_of_kernels_by_class(iris):
    from mercer.inference import Laplace
    from mercer.linalg.dense.several import several_gram
    from mercer.search import Space
    from mercer.search.criteria.evidence import EvidenceCriterion, simple_problem

    X, y = iris
    codes = np.unique(y, return_inverse=True)[1][:, None].astype(float)
    kernel = Several([2.0 * RBF(1.0), 1.0 * Linear(), 0.5 * RBF([2.0, 1.0])])
    space = Space({"kernel": kernel, "loss": losses.Softmax()})
    criterion = EvidenceCriterion(space, simple_problem(X, codes), Laplace(), several_gram)
    _, gradient = criterion(space.start)
    for j, e in enumerate(1e-4 * np.eye(len(space))):
        slope = (criterion(space.start + e)[0] - criterion(space.start - e)[0]) / 2e-4
        assert gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


# ------------------------------------------------------------------ refusals
def test_what_does_not_fit_is_refused(table, iris):
    X, y = table[0][:10], table[1][:10]
    with pytest.raises(ValueError, match="one function"):
        GPRegressor([RBF(), RBF()]).fit(X, y)
    with pytest.raises(ValueError, match="mean, log_noise"):
        GPRegressor([RBF(), RBF(), RBF()], loss="heteroscedastic").fit(X, y)
    with pytest.raises(ValueError, match="noise parts"):
        GPRegressor(RBF() + White(), loss="heteroscedastic").fit(X, y)
    with pytest.raises(ValueError, match="MultiOutputRegressor"):
        GPRegressor(loss="heteroscedastic").fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="dense algebra"):
        GPRegressor(loss="heteroscedastic", gram="inducing").fit(X, y)
    with pytest.raises(ValueError, match="put its functions into their kernels"):
        GPRegressor(loss="heteroscedastic", basis="linear").fit(X, y)
    with pytest.raises(ValueError, match="use inference='laplace'"):
        GPRegressor(loss="heteroscedastic", inference="ep").fit(X, y)
    with pytest.raises(ValueError, match="3 classes"):
        GPClassifier([RBF(), RBF()]).fit(*iris)
    with pytest.raises(ValueError, match="one function"):
        GPClassifier([RBF()] * 3, loss="probit").fit(*iris)


@pytest.mark.slow
@parametrize_with_checks(
    [
        GPRegressor(loss="heteroscedastic", search=Optimize(restarts=0, max_iter=3)),
        GPRegressor(loss="heteroscedastic_t", search=Optimize(restarts=0, max_iter=3)),
    ],
    expected_failed_checks=lambda _: {
        "check_regressor_multioutput": "several functions for one target: outputs one by one"
    },
)
def test_sklearn_checks(estimator, check):
    check(estimator)
