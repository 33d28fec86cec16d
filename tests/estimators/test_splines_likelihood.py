"""Smoothing splines of counts, labels and outliers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import SmoothingSpline
from mercer.inference import EP, Laplace, Variational
from mercer.losses import Flip, Gaussian, Loss, NegativeBinomial, Poisson, Softmax, StudentT
from tests.reference import spline_likelihood as slow


class Cauchy(Loss):
    """A loss of one's own that is not convex, and says nothing of its mean curvature."""

    convex = False
    normalised = True

    def value(self, y, f):
        return np.log1p((y - f) ** 2) + np.log(np.pi)


def wave(x):
    return 1.0 + np.sin(x)


def data(loss, n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, n)
    f = wave(x)
    y = {
        "poisson": lambda: rng.poisson(np.exp(f)),
        "logistic": lambda: (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * (f - 1.0)))).astype(int),
        "student_t": lambda: f + 0.2 * rng.standard_t(2, n),
    }[loss]()
    return x[:, None], y


LOSSES = ["poisson", "logistic", "student_t"]
GRID = np.linspace(-1.0, 11.0, 50)[:, None]


@pytest.fixture(scope="module", params=LOSSES)
def fitted(request):
    X, y = data(request.param)
    return SmoothingSpline(loss=request.param).fit(X, y), X, y


def test_given_lam_is_the_dense_curve():
    X, y = data("poisson", 25)
    curve = SmoothingSpline(loss="poisson", lam=2.0).fit(X, y)
    f, var, value = slow.laplace(Poisson(), X[:, 0], y, np.ones(25), 2, 0.5)
    mean, std = curve.predict_latent(X)
    np.testing.assert_allclose(mean, f, atol=1e-8)
    np.testing.assert_allclose(std**2, var, rtol=1e-7)
    assert abs(curve.log_evidence_ - value) < 1e-7
    assert curve.lam_ == 2.0
    # at other places: formula (1) and (2) for the Gaussian sites
    at = np.array([-0.5, 3.3, 12.0])
    W = np.exp(f)
    z = f + (y - W) / W
    mean, var, *_ = slow.dense(X[:, 0], z, W, 2, 2.0, origin=-1.0, at=at)
    found, std = curve.predict_latent(at[:, None])
    np.testing.assert_allclose(found, mean, atol=1e-7)
    np.testing.assert_allclose(std**2, var, rtol=1e-6)


def test_the_search_ends_at_the_largest_evidence(fitted):
    curve, X, y = fitted
    assert curve.report_["search"]["converged"]
    for factor in (0.5, 0.9, 1.1, 2.0):
        near = SmoothingSpline(loss=curve.loss_.fix(), lam=factor * curve.lam_).fit(X, y)
        assert near.log_evidence_ < curve.log_evidence_
    same = SmoothingSpline(loss=curve.loss_.fix(), lam=curve.lam_).fit(X, y)
    assert abs(same.log_evidence_ - curve.log_evidence_) < 1e-6


def test_the_truth_is_found_with_honest_bands(fitted):
    curve, _, _ = fitted
    x = np.linspace(0.3, 9.7, 100)
    truth = 2.0 * (wave(x) - 1.0) if curve.loss == "logistic" else wave(x)
    mean, std = curve.predict_latent(x[:, None])
    assert np.mean(np.abs(mean - truth) < 3.0 * std) > 0.95
    assert np.sqrt(np.mean((mean - truth) ** 2)) < {"logistic": 0.8}.get(curve.loss, 0.25)


def test_order_units_and_copies_change_nothing(fitted):
    curve, X, y = fitted
    loss, lam = curve.loss_.fix(), curve.lam_
    base = SmoothingSpline(loss=loss, lam=lam).fit(X, y)
    turned = SmoothingSpline(loss=loss, lam=lam).fit(X[::-1], y[::-1])
    np.testing.assert_allclose(turned.predict(GRID), base.predict(GRID), rtol=1e-10)
    longer = SmoothingSpline(loss=loss, lam=lam * 60.0**3).fit(60.0 * X, y)
    np.testing.assert_allclose(longer.predict(60.0 * GRID), base.predict(GRID), rtol=1e-7)
    twice = SmoothingSpline(loss=loss, lam=lam).fit(np.vstack([X, X]), np.tile(y, 2))
    heavy = SmoothingSpline(loss=loss, lam=lam).fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_array_equal(twice.predict(GRID), heavy.predict(GRID))
    assert twice.log_evidence_ == heavy.log_evidence_
    np.testing.assert_allclose(twice.loo_.mean[: len(y)], heavy.loo_.mean, rtol=1e-10)


def test_left_out_rows_are_nearly_refits(fitted):
    curve, X, y = fitted
    loss, lam = curve.loss_.fix(), curve.lam_
    rows = np.argsort(X[:, 0])[[20, 77, 150]]
    for i in rows:
        keep = np.arange(len(y)) != i
        without = SmoothingSpline(loss=loss, lam=lam).fit(X[keep], y[keep])
        density = without.predictive_log_density(X[[i]], y[[i]])[0]
        assert abs(density - curve.loo_.log_density[i]) < 0.05
        assert abs(without.predict(X[[i]])[0] - curve.loo_.mean[i]) < 0.05 * (1.0 + abs(y[i]))
    unused = SmoothingSpline(loss=loss, lam=lam).fit(X, y, sample_weight=keep.astype(float))
    np.testing.assert_allclose(unused.loo_.log_density[i], density, atol=1e-8)


def test_model_files_are_exact(fitted, tmp_path):
    curve, _, _ = fitted
    mercer.save(curve, tmp_path / "curve.mercer")
    again = mercer.load(tmp_path / "curve.mercer")
    np.testing.assert_array_equal(again.predict(GRID), curve.predict(GRID))
    for one, two in zip(again.predict_latent(GRID), curve.predict_latent(GRID), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.sample_y(GRID, 2), curve.sample_y(GRID, 2))
    np.testing.assert_array_equal(again.loo_.log_density, curve.loo_.log_density)
    assert again.integral(0.0, 3.0) == curve.integral(0.0, 3.0)
    assert str(again.summary()) == str(curve.summary())
    assert again.loss_ == curve.loss_
    assert clone(again).get_params() == clone(curve).get_params()


def test_derivative_integral_and_draws_are_those_of_the_latent_curve(fitted):
    curve, _, _ = fitted
    x = np.array([[2.2], [7.1]])
    h = 1e-5
    f = [curve.predict_latent(x + s)[0] for s in (-h, h)]
    slope, std = curve.derivative(x, return_std=True)
    np.testing.assert_allclose(slope, (f[1] - f[0]) / (2.0 * h), rtol=1e-5)
    assert np.all(std > 0.0)
    t = np.linspace(0.0, 5.0, 4001)
    mean = curve.predict_latent(t[:, None])[0]
    assert abs(curve.integral(0.0, 5.0) - np.trapezoid(mean, t)) < 1e-5
    draws = curve.sample_y(x, 4000, random_state=0)
    mean, std = curve.predict_latent(x)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5.0 * std / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.06)


def test_what_is_predicted_is_the_response():
    X, y = data("poisson")
    curve = SmoothingSpline(loss="poisson").fit(X, y)
    f, s = curve.predict_latent(GRID)
    mean, std = curve.predict(GRID, return_std=True)
    np.testing.assert_allclose(mean, np.exp(f + 0.5 * s**2), rtol=1e-10)
    assert np.all(std**2 > mean)  # a Poisson variable of unknown rate
    low, high = curve.predict_interval(X, 0.9)
    assert np.all((low == np.floor(low)) & (high == np.floor(high)))
    assert 0.85 < np.mean((low <= y) & (y <= high)) <= 1.0
    with pytest.raises(ValueError, match="not that of the function"):
        curve.predict(GRID, return_cov=True)


def test_labels_have_probabilities():
    X, y = data("logistic")
    curve = SmoothingSpline(loss="logistic").fit(X, y)
    p = curve.predict(GRID)
    np.testing.assert_array_equal(curve.predict_proba(GRID), np.column_stack([1.0 - p, p]))
    np.testing.assert_allclose(curve.predict(GRID, return_std=True)[1], np.sqrt(p * (1.0 - p)))
    density = curve.predictive_log_density(X, y)
    np.testing.assert_allclose(density, np.log(curve.predict_proba(X))[np.arange(len(y)), y])
    signs = SmoothingSpline(loss="logistic").fit(X, 2 * y - 1)
    truths = SmoothingSpline(loss="logistic").fit(X, y == 1)
    np.testing.assert_array_equal(signs.predict(GRID), p)
    np.testing.assert_array_equal(truths.predict(GRID), p)
    with pytest.raises(ValueError, match="a label has no interval"):
        curve.predict_interval(GRID)
    assert not hasattr(SmoothingSpline(loss="poisson"), "predict_proba")
    assert hasattr(SmoothingSpline(loss="probit"), "predict_proba")


def test_outliers_lose_their_pull():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 150)
    y = wave(x) + 0.1 * rng.normal(size=150)
    y[rng.choice(150, 15, replace=False)] += 8.0
    robust = SmoothingSpline(loss="student_t").fit(x[:, None], y)
    plain = SmoothingSpline().fit(x[:, None], y)
    error = [np.sqrt(np.mean((c.predict(x[:, None]) - wave(x)) ** 2)) for c in (robust, plain)]
    assert error[0] < 0.08 < 0.4 < error[1]
    assert robust.loss_.df < 3.0
    assert robust.report_["inference"]["curvature"] == "expected"
    assert "expected curvature" in str(robust.summary())


def test_ep_and_laplace_tell_nearly_the_same_story():
    X, y = data("logistic", 120)
    ep = SmoothingSpline(loss="probit", inference="ep").fit(X, y)
    laplace = SmoothingSpline(loss="probit", inference=Laplace()).fit(X, y)
    assert ep.report_["inference"]["name"] == "EP"
    np.testing.assert_allclose(ep.predict(GRID[5:-5]), laplace.predict(GRID[5:-5]), atol=0.03)
    assert abs(ep.log_evidence_ - laplace.log_evidence_) < 0.5
    assert SmoothingSpline(loss="probit", inference=EP(), lam=ep.lam_).fit(X, y).lam_ == ep.lam_


def test_a_line_on_the_scale_of_the_link_is_infinitely_smooth():
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 10.0, 300)
    curve = SmoothingSpline(loss="poisson").fit(x[:, None], rng.poisson(np.exp(0.3 * x)))
    assert np.isinf(curve.lam_)
    assert curve.report_["search"]["at_bounds"] == ["lam (largest)"]
    assert abs(curve.edf_ - 2.0) < 1e-8
    assert abs(curve.derivative([[5.0]])[0] - 0.3) < 0.02
    robust = SmoothingSpline(loss="student_t").fit(x[:, None], 2.0 * x + rng.standard_t(3, 300))
    assert np.isinf(robust.lam_)
    assert abs(robust.derivative([[5.0]])[0] - 2.0) < 0.1


def test_fixed_parameters_stay_and_others_are_found():
    X, y = data("student_t")
    fixed = SmoothingSpline(loss=StudentT(scale=1.0, df=4.0).fix("df")).fit(X, y)
    assert fixed.loss_.df == 4.0
    assert 0.1 < fixed.loss_.scale < 0.5
    X, y = data("poisson")
    spread = SmoothingSpline(loss=NegativeBinomial()).fit(X, y)
    assert spread.loss_.size > 5.0


def test_kinks_are_averaged_over():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 60)
    curve = SmoothingSpline(loss="laplace_noise").fit(x[:, None], wave(x) + rng.laplace(0, 0.1, 60))
    assert curve.report_["inference"]["name"] == "EP"
    assert 0.05 < curve.loss_.scale < 0.2
    np.testing.assert_allclose(curve.predict(x[:, None]), wave(x), atol=0.2)


def test_targets_without_noise_say_so():
    x = np.linspace(0.0, 10.0, 60)
    curve = SmoothingSpline(loss="student_t").fit(x[:, None], 2.0 * x)
    assert curve.report_["search"]["at_bounds"] == ["lam (largest)", "loss__scale"]
    np.testing.assert_allclose(curve.predict(x[:, None]), 2.0 * x, atol=1e-9)


def test_many_counts_need_no_square_array():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 100.0, 100_000)
    y = rng.poisson(np.exp(wave(x)))
    tracemalloc.start()
    curve = SmoothingSpline(loss="poisson", lam=1.0).fit(x[:, None], y)
    mean, std = curve.predict_latent(x[:, None])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28
    assert np.sqrt(np.mean((mean - wave(x)) ** 2)) < 0.04
    assert 0.9 < np.mean(np.abs(mean - wave(x)) < 2.0 * std) < 0.995


def test_a_search_that_stops_too_early_warns():
    X, y = data("poisson", 50)
    with pytest.warns(ConvergenceWarning, match="before it reached its tolerance"):
        SmoothingSpline(loss="poisson", inference=Laplace(max_iter=1), lam=1.0).fit(X, y)


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"loss": 3}, TypeError, "a Loss or the name of one"),
        ({"loss": "nonsense"}, ValueError, "nonsense"),
        ({"loss": Softmax()}, ValueError, "one curve for each class"),
        ({"loss": Flip(), "inference": "ep"}, ValueError, "negative precision"),
        ({"loss": Cauchy()}, ValueError, "expected curvature"),
        ({"loss": "poisson", "search": "gcv"}, ValueError, "search='evidence'"),
        ({"loss": "poisson", "inference": Variational()}, ValueError, "knows Laplace and EP"),
        ({"loss": "student_t", "inference": "ep"}, ValueError, "negative precision"),
        ({"loss": "gaussian", "inference": "ep"}, ValueError, "needs no approximation"),
        ({"loss": Gaussian(0.1).fix("noise")}, ValueError, "sample_weight = 1 / noise"),
    ],
)
def test_parts_that_do_not_fit_are_refused(params, kind, message):
    X, y = data("logistic", 30)
    with pytest.raises(kind, match=message):
        SmoothingSpline(**params).fit(X, y)


def test_targets_that_do_not_fit_are_refused():
    X, y = data("poisson", 30)
    with pytest.raises(ValueError, match="a count 0, 1, 2"):
        SmoothingSpline(loss="poisson").fit(X, y + 0.5)
    with pytest.raises(ValueError, match="labels 0 and 1"):
        SmoothingSpline(loss="logistic").fit(X, y + 3)
    with pytest.raises(ValueError, match="distinct input"):
        SmoothingSpline(loss="poisson").fit(X[:1], y[:1])
    curve = SmoothingSpline(loss="poisson", lam=1.0).fit(X, y)
    before = curve.predict(X)
    with pytest.raises(ValueError, match="a count"):
        curve.fit(X, -1.0 - y)
    np.testing.assert_array_equal(curve.predict(X), before)
    with pytest.raises(ValueError, match="a count"):
        curve.predictive_log_density(X, y - 0.25)
