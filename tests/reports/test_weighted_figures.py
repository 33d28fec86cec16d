"""Figures and pictures of weighted rows are those of rows that are repeated."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from mercer import plots
from mercer.plots.classes import reliability_bins
from mercer.plots.regression import effective
from mercer.tables.choose.left_out import of_classes, of_quantity
from mercer.tables.report.figures import class_cards, mistakes, quantity_cards, quantity_pictures

N = 50
RNG = np.random.default_rng(1)
W = RNG.integers(1, 4, N)
COPIES = np.repeat(np.arange(N), W)
Y, MEAN, STD = RNG.normal(size=N), 0.3 * RNG.normal(size=N), RNG.uniform(0.5, 1.5, N)


def classes(k):
    return RNG.integers(0, k, N), RNG.dirichlet(np.ones(k), N), np.array(list("abc")[:k])


def texts(cards):
    return [card.value for card in cards]


def test_cards_of_a_quantity():
    arrays = (Y, MEAN, STD, -(Y**2))
    weighted = quantity_cards(of_quantity(*arrays, "", W.astype(float)))
    copies = of_quantity(*(a[COPIES] for a in arrays), "")
    assert texts(weighted) == texts(quantity_cards(copies))
    assert texts(weighted) != texts(quantity_cards(of_quantity(*arrays, "")))


def test_pictures_of_a_quantity():
    covered = plots.CoverageDisplay.compute(Y, MEAN, STD, weights=W.astype(float))
    repeated = plots.CoverageDisplay.compute(*(a[COPIES] for a in (Y, MEAN, STD)))
    np.testing.assert_allclose(covered.shares, repeated.shares)
    assert covered.rows == pytest.approx(W.sum() ** 2 / (W**2).sum())
    assert covered.rows < N < repeated.rows  # copies are no further evidence of honesty
    left = of_quantity(Y, MEAN, STD, -(Y**2), "", W.astype(float))
    shown = quantity_pictures(left, "y", "all the others")
    at = plots.CoverageDisplay.compute(Y, MEAN, STD, weights=W.astype(float)).shares
    assert len(shown) == 3
    assert np.all(np.diff(at) >= 0)


def test_rows_that_count_alike():
    assert effective(np.full(7, 3.0)) == pytest.approx(7.0)
    assert effective(np.array([1.0, 0.0, 0.0])) == 1.0


@pytest.mark.parametrize("k", [2, 3])
def test_cards_and_mistakes_of_classes(k):
    codes, proba, names = classes(k)
    weighted = of_classes(codes, proba, "", W.astype(float))
    copies = of_classes(codes[COPIES], proba[COPIES], "")
    assert texts(class_cards(weighted, names)) == texts(class_cards(copies, names))
    assert mistakes(weighted, names)[0].rows == mistakes(copies, names)[0].rows


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_curves(k, kind):
    codes, proba, names = classes(k)
    weighted = plots.DiscriminationDisplay.compute(
        codes, proba, names, kind=kind, weights=W.astype(float)
    )
    repeated = plots.DiscriminationDisplay.compute(codes[COPIES], proba[COPIES], names, kind=kind)
    for one, other in zip(weighted.curves, repeated.curves, strict=True):
        assert one.area == pytest.approx(other.area)
        assert one.share == pytest.approx(other.share)


def test_groups_of_like_weight(rng):
    p = np.round(rng.uniform(size=200), 2)
    hit, w = rng.uniform(size=200) < p, rng.integers(1, 4, 200)
    copies = np.repeat(np.arange(200), w)
    one = reliability_bins(p, hit, weights=w.astype(float))
    other = reliability_bins(p[copies], hit[copies])
    np.testing.assert_allclose(one.predicted, other.predicted)
    np.testing.assert_allclose(one.observed, other.observed)
    np.testing.assert_allclose(one.counts, other.counts)
    assert np.all(one.rows < one.counts)


class Mean(RegressorMixin, BaseEstimator):
    """Says the weighted mean of what it has seen, with deviation one."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X, return_std=False):
        mean = np.full(len(X), self.mean_)
        return (mean, np.ones(len(X))) if return_std else mean


def test_a_learning_curve_weighs():
    X = np.arange(float(N))[:, None]
    plain = plots.LearningDisplay.compute(Mean(), X, Y)
    alike = plots.LearningDisplay.compute(Mean(), X, Y, weights=np.full(N, 2.0))
    np.testing.assert_allclose(alike.scores, plain.scores)
    np.testing.assert_allclose(alike.spread, plain.spread)
    assert alike.constant == pytest.approx(plain.constant)
    w = np.where(Y > 0, 5.0, 1.0)
    high = plots.LearningDisplay.compute(Mean(), X, Y, weights=w)
    order = np.random.default_rng(0).permutation(N)
    held, rest = order[: N // 4], order[N // 4 :]
    centre = np.average(Y[rest], weights=w[rest])
    score = 0.5 * (Y[held] - centre) ** 2 + 0.5 * np.log(2 * np.pi)
    assert high.scores[-1] == pytest.approx(np.average(score, weights=w[held]))
