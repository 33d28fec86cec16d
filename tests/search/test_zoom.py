"""The highest point of a curve."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.search.one_parameter import LANES, highest


def peak(centre, width=1.0, height=1.0):
    return lambda u: height / (1.0 + ((u - centre) / width) ** 2)


@pytest.mark.parametrize("centre", [-7.3, 0.0, 3.21, 19.9])
def test_a_peak(centre):
    found, report = highest(peak(centre), -10.0, 20.0)
    assert found == pytest.approx(centre, abs=1e-5)
    assert report["at_bounds"] == []
    assert report["evaluations"] <= 4 * LANES


def test_the_higher_of_two_peaks_even_if_the_grid_sees_less_of_it():
    low, high = -30.0, 40.0
    grid = np.linspace(low, high, LANES - 1)
    off = 0.5 * (grid[9] + grid[10])  # halfway between two places of the grid
    narrow, broad = peak(off, 0.8, 2.0), peak(float(grid[3]), 3.0, 1.0)
    found, _ = highest(lambda u: np.maximum(narrow(u), broad(u)), low, high)
    assert found == pytest.approx(off, abs=1e-4)


def test_ends_are_reported():
    found, report = highest(lambda u: -np.where(np.isinf(u), 99.0, u), 0.0, 9.0)
    assert found == 0.0
    assert report["at_bounds"] == ["smallest"]
    found, report = highest(lambda u: -np.exp(-u), 0.0, 9.0)
    assert found == np.inf
    assert report["at_bounds"] == ["largest"]


def test_a_flat_curve_takes_the_limit():
    assert highest(lambda u: np.full(len(u), 3.0), -5.0, 5.0)[0] == np.inf


def test_values_that_do_not_exist_are_the_lowest():
    found, _ = highest(lambda u: np.where(u < 0.0, np.nan, peak(2.0)(u)), -10.0, 10.0)
    assert found == pytest.approx(2.0, abs=1e-4)


def test_an_infinite_limit_ends_the_search_at_once():
    found, report = highest(lambda u: np.where(np.isinf(u), np.inf, 0.0), 0.0, 9.0)
    assert found == np.inf
    assert report["evaluations"] == LANES
