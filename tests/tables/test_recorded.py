"""Quantities written down in steps: the step, and scores that cannot be finer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from mercer.tables.left_out import of_quantity
from mercer.tables.recorded import recorded, step_of


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
