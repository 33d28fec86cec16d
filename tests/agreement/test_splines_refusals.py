"""What splines and relevance vectors refuse; the machine stays as it was. Other clothes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer
from mercer import RVClassifier, RVRegressor, SmoothingSpline, ThinPlateSpline
from mercer.kernels import RBF

N = 40


def table(rng, d=1):
    X = rng.uniform(0.0, 10.0, (N, d))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=N)


BAD_FITS = [
    (SmoothingSpline(), "nan", "drop these rows"),
    (SmoothingSpline(), "short", "fewer|more rows|smaller order"),
    (SmoothingSpline(), "one place", "smaller order"),
    (SmoothingSpline(loss="poisson"), "targets", "count"),
    (SmoothingSpline(loss="logistic"), "separated", "smaller order"),
    (SmoothingSpline(loss="logistic"), "targets", "0 and 1"),
    (ThinPlateSpline(), "nan", "drop these rows"),
    (ThinPlateSpline(), "one place", "more points"),
    (RVRegressor(), "nan", "drop these rows"),
    (RVClassifier(), "nan", "drop these rows"),
    (RVClassifier(), "one class", "two classes"),
]


@pytest.mark.parametrize(("model", "fault", "remedy"), BAD_FITS)
def test_bad_data(rng, model, fault, remedy):
    X, y = table(rng)
    good = y
    if isinstance(model, RVClassifier) or getattr(model, "loss", None) == "logistic":
        good = (np.sin(2.0 * X[:, 0]) > 0.0).astype(float)
    elif getattr(model, "loss", None) == "poisson":
        good = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    model = clone(model).fit(X, good)
    before = model.predict(X)
    bad_X, bad_y = X.copy(), good.copy()
    if fault == "nan":
        bad_X[3] = np.nan
    elif fault == "short":
        bad_X, bad_y = X[:2], good[:2]
    elif fault == "one place":
        bad_X = np.ones_like(X)
    elif fault == "targets":
        bad_y = np.linspace(-3.0, 3.5, N)
    elif fault == "separated":
        bad_y = (X[:, 0] > 5.0).astype(float)
    else:
        bad_y = np.zeros(N)
    with pytest.raises(ValueError, match=remedy):
        model.fit(bad_X, bad_y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("ends", "kind", "words"),
    [
        ((0.0, np.inf), ValueError, "two finite ends"),
        (("a", 1.0), TypeError, "must be numbers"),
        (([0.0, 1.0], 2.0), ValueError, "for several call it for each"),
        ((None, 1.0), TypeError, "must be numbers"),
    ],
)
def test_ends_of_an_integral(rng, ends, kind, words):
    X, y = table(rng)
    with pytest.raises(kind, match=words):
        SmoothingSpline().fit(X, y).integral(*ends)


def test_nothing_is_said_before_a_fit():
    spline = SmoothingSpline()
    asked = [
        lambda: spline.derivative([[1.0]]),
        lambda: spline.integral(0.0, 1.0),
        lambda: spline.loo_,
        lambda: spline.sample_y([[1.0]]),
        lambda: spline.summary(),
    ]
    for ask in asked:
        with pytest.raises(NotFittedError):
            ask()


def test_left_out_rows_that_alone_decide_are_not_a_number(rng):
    """The far point has leverage one: without it the line through the others says nothing there."""
    x = np.concatenate([np.arange(8.0) * 1e-7, [1.0]])
    left = SmoothingSpline(2, lam=1e-30).fit(x[:, None], rng.normal(size=9)).loo_
    assert np.isnan(left.mean[-1])
    assert np.isnan(left.variance[-1])
    assert not np.any(left.variance <= 0.0)


# ------------------------------------------------------------------ kind data in other clothes
ALL = [
    SmoothingSpline(),
    ThinPlateSpline(),
    RVRegressor(RBF(1.0)),
    RVRegressor(RBF(1.0), heal=True),
]


@pytest.mark.parametrize("model", ALL)
def test_frames_files_and_repeated_rows(rng, model, tmp_path):
    X, y = table(rng)
    count = rng.integers(1, 4, N)
    new = np.linspace(-1.0, 11.0, 9)[:, None]
    plain = clone(model).fit(X, y, sample_weight=count)
    for frame in (pd.DataFrame, pl.DataFrame):
        named = clone(model).fit(frame({"time": X[:, 0]}), y, sample_weight=count)
        assert list(named.feature_names_in_) == ["time"]
        np.testing.assert_array_equal(named.predict(frame({"time": new[:, 0]})), plain.predict(new))
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    for one, two in zip(
        plain.predict(new, return_std=True), repeated.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
    mercer.save(plain, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    for one, two in zip(
        plain.predict(new, return_std=True), again.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    assert type(model).__name__ in plain._repr_html_()
    assert "log evidence" in str(plain.summary())


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_a_loaded_spline_are_the_same_bits(rng, order, tmp_path):
    X, y = table(rng)
    spline = SmoothingSpline(order).fit(X, y)
    mercer.save(spline, tmp_path / "spline.mercer")
    again = mercer.load(tmp_path / "spline.mercer")
    new = rng.uniform(-1.0, 11.0, (30, 1))
    for k in range(2 * order):
        np.testing.assert_array_equal(spline.derivative(new, k), again.derivative(new, k))


@pytest.mark.parametrize(("tables", "most"), [(6, 1), pytest.param(15, 3, marks=pytest.mark.slow)])
def test_noise_has_no_relevant_rows(tables, most):
    """But for chance: of the best of many functions at its best length scale, seldom."""
    kept = np.zeros(2, dtype=int)
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        kept[0] += len(RVRegressor().fit(X, rng.normal(size=60)).relevance_rows_) > 0
        kept[1] += len(RVClassifier().fit(X, rng.integers(0, 2, 60)).relevance_rows_) > 0
    assert np.all(kept <= most)


def test_relevance_does_not_depend_on_the_order_of_rows_or_equal_columns(rng):
    X, y = table(rng)
    one = RVRegressor(RBF(1.0)).fit(X, y)
    order = rng.permutation(N)
    two = RVRegressor(RBF(1.0)).fit(X[order], y[order])
    assert {*X[one.relevance_rows_, 0]} == {*X[order][two.relevance_rows_, 0]}
    assert two.log_evidence_ == pytest.approx(one.log_evidence_, rel=1e-12)
    wave = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
    twice = np.column_stack([wave, wave, -2.0 * wave, wave.sum(axis=1), np.zeros(N)])
    few = RVRegressor(functions="columns").fit(wave, y)
    many = RVRegressor(functions="columns").fit(twice, y)
    assert len(many.relevance_rows_) <= 2
    assert many.log_evidence_ >= few.log_evidence_ - 0.5
    np.testing.assert_allclose(many.predict(twice), few.predict(wave), atol=0.05)


@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(2.0)])
def test_the_evidence_never_falls_and_healed_bars_open(rng, kernel):
    X, y = table(rng)
    model = RVRegressor(kernel, heal=True).fit(X, y)
    trace = np.array(model.report_["machines"][0]["evidence"])
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    far, std = model.predict([[1e4]], return_std=True)
    _, plain = RVRegressor(kernel).fit(X, y).predict([[1e4]], return_std=True)
    assert far[0] == pytest.approx(model.intercept_[0], abs=1e-6)
    assert std[0] ** 2 - plain[0] ** 2 == pytest.approx(np.var(y), rel=1e-6)
