"""The numbers behind the pictures, against slow and obvious versions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import mercer
from mercer import kernels, plots
from mercer.plots.classes import reliability_bins
from mercer.plots.inputs import shuffled_effects
from mercer.plots.rows import count_rows, take_rows, with_column


def axes():
    return Figure().add_subplot()


@pytest.mark.parametrize("distinct", [3, 40, 1000])
def test_groups_hold_every_row_once(rng, distinct):
    p = np.round(rng.uniform(size=300) * distinct) / distinct
    hit = rng.uniform(size=300) < p
    bins = reliability_bins(p, hit, 10)
    assert bins.counts.sum() == 300
    assert np.all(np.diff(bins.predicted) > 0)
    assert bins.counts @ bins.predicted == pytest.approx(p.sum())
    assert bins.counts @ bins.observed == pytest.approx(hit.sum())
    if distinct == 1000:  # few ties: all groups alike
        assert len(bins.counts) == 10
        assert np.ptp(bins.counts) <= 8
    if distinct == 3:  # equal probabilities stay together
        slow = [(v, hit[p == v].mean(), np.sum(p == v)) for v in np.unique(p)]
        found = np.column_stack([bins.predicted, bins.observed, bins.counts])
        np.testing.assert_allclose(found, slow)


def test_reliability_of_honest_and_of_shy_probabilities(rng):
    p = rng.uniform(size=20_000)
    y = (rng.uniform(size=20_000) < p).astype(int)
    honest = plots.ReliabilityDisplay.from_predictions(y, p, ax=axes())
    shy = plots.ReliabilityDisplay.from_predictions(y, 0.5 + 0.4 * (p - 0.5), ax=axes())
    assert honest.bins.error < 0.02
    # |p - (0.3 + 0.4 p)| = 0.6 |p - 1/2| on average over the unit interval
    assert shy.bins.error == pytest.approx(0.15, abs=0.01)


def test_several_classes_are_judged_by_the_predicted_one():
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    display = plots.ReliabilityDisplay.from_predictions(
        ["a", "c", "c"], p, classes=["a", "b", "c"], bins=3, ax=axes()
    )
    np.testing.assert_allclose(display.bins.predicted, [0.5, 0.6, 0.8])
    np.testing.assert_allclose(display.bins.observed, [0, 1, 1])


def test_area_is_the_share_of_pairs_in_order(rng):
    y = rng.integers(0, 3, size=60)
    p = rng.dirichlet(np.ones(3), size=60)
    display = plots.DiscriminationDisplay.from_predictions(y, p, ax=axes())
    for c, curve in enumerate(display.curves):
        inside, outside = p[y == c, c], p[y != c, c]
        pairs = np.sign(inside[:, None] - outside[None, :])
        assert curve.area == pytest.approx(np.mean(0.5 * (pairs + 1)))
        assert curve.share == pytest.approx(np.mean(y == c))


def test_shares_inside_intervals(rng):
    y, mean, std = rng.normal(size=80), rng.normal(size=80), rng.uniform(0.5, 2, size=80)
    display = plots.CoverageDisplay.from_predictions(y, mean, std, ax=axes())
    from scipy.stats import norm

    for level, share in zip(display.levels, display.shares, strict=True):
        low, high = norm.interval(level, mean, std)
        assert share == np.mean((low <= y) & (y <= high))


def test_leave_one_out_is_drawn_as_it_is(rng):
    X = rng.normal(size=(30, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=30)
    weights = np.r_[np.zeros(2), np.ones(28)]
    model = mercer.GPRegressor().fit(X, y, sample_weight=weights)
    display = plots.ResidualDisplay.from_loo(model, y, ax=axes())
    z = (y - model.loo_.mean) / model.loo_.std
    np.testing.assert_array_equal(display.residuals, z[2:])
    label = np.where(y > 0, "up", "down")
    classifier = mercer.GPClassifier(search=None).fit(X, label)
    proba = classifier.loo_.proba
    found = plots.ReliabilityDisplay.from_loo(classifier, label, ax=axes())
    direct = plots.ReliabilityDisplay.from_predictions(label, proba, ax=axes())
    np.testing.assert_array_equal(found.bins.observed, direct.bins.observed)


def test_evidence_is_that_of_a_fit_with_the_value(rng):
    X = 5 + 10 * rng.normal(size=(40, 2))
    y = 100 + np.sin(X[:, 0] / 10) + 0.1 * rng.normal(size=40)
    model = mercer.GPRegressor(kernel="rbf").fit(X, y)
    scale, name = np.asarray(model.kernel_.kernel.length_scale), "kernel__kernel__length_scale"
    values = scale.ravel()[0] * np.array([0.5, 1, 2])
    display = plots.EvidenceDisplay.from_estimator(model, X, y, name, values=values, ax=axes())
    assert display.evidence[1] == pytest.approx(model.log_evidence_, abs=1e-6)
    assert display.evidence[1] >= display.evidence.max() - 1e-9
    half = kernels.Scale(kernels.RBF(length_scale=0.5 * scale), variance=model.kernel_.variance)
    by_hand = mercer.GPRegressor(half, loss=model.loss_, search=None).fit(X, y - y.mean())
    assert display.evidence[0] == pytest.approx(by_hand.log_evidence_, abs=1e-6)


def test_evidence_of_a_classifier(rng):
    X = rng.normal(size=(40, 1))
    label = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, "b", "a")
    model = mercer.GPClassifier("rbf").fit(X, label)
    name = next(f"kernel__{k}" for k in model.kernel_.free if k.endswith("length_scale"))
    display = plots.EvidenceDisplay.from_estimator(model, X, label, name, ax=axes())
    assert np.nanmax(display.evidence) <= model.log_evidence_ + 1e-4
    assert np.nanmax(display.evidence) >= model.log_evidence_ - 1e-4


class Product:
    """Predicts the product of two columns and ignores the third."""

    def predict(self, table):
        if hasattr(table, "to_pandas"):
            table = table.to_pandas()
        rows = np.asarray(table, dtype=float)
        return rows[:, 0] * rows[:, 1]


def test_effects_are_the_same_for_every_container(rng):
    X = rng.normal(size=(80, 3))
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    frames = [pd.DataFrame(columns, index=np.arange(80)[::-1]), pl.DataFrame(columns)]
    frames.append(pa.table(columns))
    wanted = shuffled_effects(Product(), X, seed=3)
    assert wanted.names == ["column 0", "column 1", "column 2"]
    assert wanted.effects[2] == 0.0
    for frame in frames:
        found = shuffled_effects(Product(), frame, seed=3)
        assert found.names == ["a", "b", "c"]
        np.testing.assert_allclose(found.effects, wanted.effects)
        before = np.asarray(frame.to_pandas() if hasattr(frame, "to_pandas") else frame).copy()
        order = np.arange(80)[::-1]
        after = with_column(frame, 1, order)
        after = np.asarray(after.to_pandas() if hasattr(after, "to_pandas") else after)
        np.testing.assert_array_equal(after[:, 1], X[order, 1])
        np.testing.assert_array_equal(after[:, [0, 2]], before[:, [0, 2]])
        assert count_rows(frame) == 80
        assert count_rows(take_rows(frame, np.array([3, 1]))) == 2


def test_expected_effect_of_a_shuffled_column(rng):
    """A shuffled standard normal column moves x by sqrt(2) of its deviation."""
    X = rng.normal(size=(500, 1))

    class Same:
        def predict(self, table):
            return table[:, 0]

    found = shuffled_effects(Same(), X, repeats=20)
    assert found.effects[0] == pytest.approx(np.sqrt(2), rel=0.05)
    doubled = shuffled_effects(Same(), X, repeats=20, scale=2 * X.std())
    assert doubled.effects[0] == pytest.approx(found.effects[0] / 2)


def test_learning_curve_by_hand(rng):
    X = rng.uniform(0, 9, size=(64, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=64)
    model = mercer.GPRegressor(search=None)
    display = plots.LearningDisplay.from_estimator(model, X, y, steps=2, seed=5, ax=axes())
    order = np.random.default_rng(5).permutation(64)
    held, rest = order[:16], order[16:]
    assert display.sizes.tolist() == [24, 48]
    each = []
    for n in (24, 48):
        fitted = mercer.GPRegressor(search=None).fit(X[rest[:n]], y[rest[:n]])
        each.append(-fitted.predictive_log_density(X[held], y[held]))
    np.testing.assert_allclose(display.scores, [e.mean() for e in each])
    gain = each[0] - each[1]
    np.testing.assert_allclose(display.gain, [gain.mean(), gain.std(ddof=1) / 4])


def test_learning_curve_meets_every_class(rng):
    label = np.r_[np.repeat("common", 70), np.repeat("rare", 10)]
    X = rng.normal(size=(80, 1)) + (label == "rare")[:, None]
    model = mercer.KernelClassifier()
    display = plots.LearningDisplay.from_estimator(model, X, label, ax=axes())
    assert len(display.sizes) == 4
    assert np.all(np.isfinite(display.scores))
    assert 0 < display.constant < np.log(2)


def test_regions_are_the_predictions(rng):
    X = rng.normal(size=(40, 3))
    label = np.array(["a", "b"])[(X[:, 0] > X[:, 2]).astype(int)]
    model = mercer.KernelClassifier().fit(X, label)
    display = plots.DecisionRegionDisplay.from_estimator(
        model, X, label, columns=(2, 0), grid=7, ax=axes()
    )
    at = np.array([[b, np.median(X[:, 1]), a] for b in display.x1 for a in display.x0])
    np.testing.assert_array_equal(
        display.classes[display.codes].ravel(), model.classes_[model.predict_proba(at).argmax(1)]
    )
    machine = mercer.SVC().fit(X[:, :2], label)
    hard = plots.DecisionRegionDisplay.from_estimator(machine, X[:, :2], label, grid=7, ax=axes())
    assert np.all(hard.sure == 1.0)


def test_band_along_a_column(rng):
    X = rng.normal(size=(30, 2))
    model = mercer.GPRegressor().fit(X, X[:, 1])
    display = plots.BandDisplay.from_estimator(model, X, column=1, levels=(0.5, 0.9), ax=axes())
    at = np.column_stack([np.full(len(display.x), np.median(X[:, 0])), display.x])
    mean, std = model.predict(at, return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.std, std)
    assert len(display.ax_.collections) == 2


def test_slow_predictions_take_fewer_rows(rng, monkeypatch):
    clock = iter(np.arange(100.0))  # every look at the clock is a second later
    monkeypatch.setattr("mercer.plots.inputs.monotonic", lambda: next(clock))
    X = rng.normal(size=(400, 3))
    assert shuffled_effects(Product(), X).rows == 400
    # a second for 25 rows: 4 predictions of 3 columns in 100 seconds are 625 rows, in 10 s 62
    assert shuffled_effects(Product(), X, repeats=1, seconds=100.0).rows == 400
    assert shuffled_effects(Product(), X, repeats=1, seconds=10.0).rows == 62
    assert shuffled_effects(Product(), X, repeats=1, seconds=0.1).rows == 50


def test_slow_fits_end_the_curve(rng, monkeypatch):
    clock = iter(np.arange(100.0))  # every look at the clock is a second later
    monkeypatch.setattr("mercer.plots.learning.monotonic", lambda: next(clock))
    X = rng.normal(size=(64, 1))
    model = mercer.GPRegressor(search=None)
    # a fit takes a second; the second one would take eight and begin after three
    curve = plots.LearningDisplay.compute(model, X, X[:, 0], seconds=10.0)
    assert curve.sizes.tolist() == [6]
    assert curve.gain is None
