"""Quantities written down in steps: the step, and scores that cannot be finer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.plots.learning import nested_scores
from mercer.plots.rows import recorded, step_of
from mercer.tables.choose.left_out import of_quantity
from mercer.tables.report.figures import quantity_cards


@pytest.mark.parametrize("step", [1.0, 5.0, 0.1, 0.25, 2e-4, 3e7])
def test_the_step_is_found_wherever_the_values_lie(step, rng):
    whole = rng.integers(-40, 60, 200)
    whole[:2] = 3, 4
    assert step_of(step * whole) == pytest.approx(step)
    assert step_of(step * (whole + 1000)) == pytest.approx(step)


def test_a_continuous_quantity_has_no_step(rng):
    y = rng.normal(size=50)
    assert step_of(y) == 0.0
    density = norm.logpdf(y, 0.0, 1e-9)
    np.testing.assert_array_equal(recorded(density, y), density)
    assert step_of(np.zeros(3)) == 0.0
    assert step_of(np.full(3, 2.5)) == 0.0  # no difference, no step


def test_a_sharp_density_scores_as_the_probability_of_its_step(rng):
    """As the noise vanishes about the right value, log P(step) - log h goes to -log h."""
    y = 0.5 * rng.integers(0, 9, 100)
    for std, place in ((1e-3, 1e-12), (1e-6, 1e-12)):
        left = of_quantity(y, y, np.full(100, std), norm.logpdf(0.0, 0.0, std) * np.ones(100), "-")
        cell = norm.cdf(0.25 / std) - norm.cdf(-0.25 / std)
        assert left.score == pytest.approx(np.log(cell / 0.5), abs=place)
    wide = norm.logpdf(y, 0.0, 3.0)
    left = of_quantity(y, np.zeros(100), np.full(100, 3.0), wide, "-")
    assert left.score == pytest.approx(wide.mean())
    cell = np.log(norm.cdf(y + 0.25, 0.0, 3.0) - norm.cdf(y - 0.25, 0.0, 3.0)) - np.log(0.5)
    assert left.score == pytest.approx(cell.mean(), abs=2e-3)


def test_a_continuous_quantity_far_from_zero_has_no_step(rng):
    """Its six leading digits hardly vary: rounding to them is no step."""
    y = 700.0 + 5e-4 * rng.normal(size=60)
    assert step_of(y) == 0.0
    assert step_of(y.astype(np.float32).astype(np.float64)) != 1e-3
    whole = 1000.0 + rng.integers(0, 90, 60) / 4
    assert step_of(np.float32(whole).astype(np.float64)) == step_of(whole) > 0.0
    assert step_of(np.float32(0.1 * rng.integers(1, 90, 60)).astype(float)) == pytest.approx(0.1)


def test_the_report_shows_the_score_of_the_ranking_and_says_so(rng):
    y = rng.integers(3, 9, 80).astype(float)
    sharp = norm.logpdf(0.0, 0.0, 1e-3) * np.ones(80)
    left = of_quantity(y, y, np.full(80, 1e-3), sharp, "leave-one-out")
    card = quantity_cards(left)[-1]
    assert card.value == f"{left.score:.3f}" == "0.000"
    assert "none counts above 1/1" in card.words
    wide = quantity_cards(of_quantity(y, y, np.ones(80), np.full(80, -1.0), ""))[-1]
    assert wide.value == "-1.000"
    assert "counts above" not in wide.words


class Exact(RegressorMixin, BaseEstimator):
    """Says what it is told with no doubt: the target is the input."""

    def fit(self, X, y):
        return self

    def predict(self, X, return_std=False):
        return X[:, 0], np.full(len(X), 1e-9)


def test_the_learning_curve_is_cut_as_the_ranking_is(rng):
    y = 0.5 * rng.integers(0, 40, 100)
    found = nested_scores(Exact(), y[:, None], y, 2, 0, 9.0)
    for _, scores in found.known:
        np.testing.assert_allclose(scores, np.log(0.5))
