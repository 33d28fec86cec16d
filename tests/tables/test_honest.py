"""Figures that tuning does not flatter: nested hyperparameters, families, charges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from mercer import GPRegressor
from mercer.tables.choose.candidates import candidates_for
from mercer.tables.choose.honest import (
    EACH,
    FOLDS,
    NESTED,
    _fifths,
    _in_part,
    charged,
    nested_left_out,
    refitted,
    settle,
    tuned,
)
from mercer.tables.choose.left_out import of_quantity
from mercer.tables.choose.resume import Resumed, parameters_of
from mercer.tables.choose.screen import Clock, screen
from mercer.tables.data.frame import as_frame
from mercer.tables.data.target import read_target
from mercer.tables.stack.mixture import of_family

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
F = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1]
TARGETS = {"y": F + 0.3 * RNG.normal(size=60), "c": np.where(F > 0.1, "up", "down")}


def tried_of(name, target):
    """The screened candidate of a name, and the target."""
    goal = read_target(as_frame({"t": TARGETS[target]}), "t")
    chosen = [c for c in candidates_for(goal.kind, X, False, goal.k) if c.name == name]
    return screen(chosen, X, goal, Clock(60.0), 1.0, 0), goal


def test_nested_figures_by_the_formula():
    """For each fifth: search elsewhere, then leave out its rows by GPML (5.12) in all rows.

    The machine leaves a row out of the centring as well, a change of 1/n^2.
    """
    found, goal = tried_of("Gaussian process", "y")
    tried, y = found.tried[0], goal.values
    left = nested_left_out(tried.machine, tried.candidate, X, goal, 0)
    assert left.by == NESTED
    part, units = _fifths(X, y, 0, 0), tried.machine.units_
    Z, t = units.standardised(X), units.y_standardised(y[:, None])[:, 0]
    for fold in range(FOLDS):
        here = part == fold
        search = Resumed(parameters_of(tried.machine), "evidence", columns=False)
        other = clone(tried.machine).set_params(search=search).fit(X[~here], y[~here])
        K = other.posteriors_[0].parent.kernel(Z) + other.losses_[0].noise * np.eye(60)
        inverse = np.linalg.inv(K)
        variance = 1.0 / np.diag(inverse)
        mean = t - (inverse @ t) * variance
        scale = float(units.y_scale[0])
        inside = (scale * mean + units.y_shift[0])[here]
        np.testing.assert_allclose(left.mean[here], inside, atol=5e-3)
        np.testing.assert_allclose(left.std[here], scale * np.sqrt(variance)[here], rtol=2e-3)


def test_what_all_rows_found_is_not_where_the_fifths_begin():
    """A column that all rows switch off would stay off."""
    found, goal = tried_of("Gaussian process, interactions", "y")
    tried = found.tried[0]
    other = clone(tried.machine).set_params(search=None).fit(X, goal.labels())
    begun = [nested_left_out(m, tried.candidate, X, goal, 0) for m in (tried.machine, other)]
    np.testing.assert_allclose(*(left.log_density for left in begun), atol=1e-6)


def test_columns_are_switched_on_again():
    """From scales of a fit that has one column only, the search finds the other again."""
    z = np.random.default_rng(4).normal(size=(80, 2))
    y = np.sin(2.0 * z[:, 1]) + 0.1 * np.random.default_rng(5).normal(size=80)
    found = parameters_of(GPRegressor("rbf").fit(z, y))
    found["kernel__kernel__length_scale"] = np.array([1.0, 1e6])
    again, kept = (
        GPRegressor("rbf", search=Resumed(found, columns=columns)).fit(z, y).loo_.mean
        for columns in (False, True)
    )
    assert np.mean((y - again) ** 2) < 0.05 * np.var(y)
    assert np.mean((y - kept) ** 2) > 0.9 * np.var(y)


def test_some_fifths_stand_for_all():
    y, rng = np.zeros(50), np.random.default_rng(0)
    part = np.arange(50) % FOLDS
    kept, *lefts = (
        of_quantity(y, y, y + 1.0, d, "leave-one-out")
        for d in (rng.normal(size=50), rng.normal(size=50) - 1.0, rng.normal(size=50) - 1.0)
    )
    found = _in_part(lefts, kept, part, NESTED)
    for fold in (0, 1):
        here = part == fold
        np.testing.assert_allclose(found.log_density[here], lefts[fold].log_density[here])
    lost = [kept.log_density - left.log_density for left in lefts]
    charge = np.mean(np.clip(np.r_[lost[0][part == 0], lost[1][part == 1]], -3.0, 3.0))
    assert charge > 0.5
    np.testing.assert_allclose(found.log_density[part > 1], kept.log_density[part > 1] - charge)


@pytest.mark.parametrize("name", ["least squares", "linear"])
def test_nested_figures_of_classes(name):
    """Hyperparameters that rows chose for themselves give better figures than others' do."""
    found, goal = tried_of(name, "c")
    tried = found.tried[0]
    left = nested_left_out(tried.machine, tried.candidate, X, goal, 0)
    assert left.proba.shape == (60, 2)
    assert left.score < tried.left.score


def test_a_row_has_no_part_in_the_hyperparameters_that_leave_it_out():
    """Another target of a row changes its posterior mean left out by its own fifth not at all."""
    found, goal = tried_of("Gaussian process", "y")
    tried = found.tried[0]
    before = nested_left_out(tried.machine, tried.candidate, X, goal, 0)
    moved = goal.values.copy()
    moved[7] += 0.2
    after = nested_left_out(tried.machine, tried.candidate, X, replace(goal, values=moved), 0)
    part = _fifths(X, goal.values, 0, 0)
    # units of the whole machine move a little with the target; its search does not see it
    assert after.mean[7] == pytest.approx(before.mean[7], abs=5e-3)
    assert np.abs(after.mean - before.mean)[part == part[7]].max() < 0.2


def test_equal_inputs_stay_together_and_classes_are_spread():
    twice = np.repeat(X, 2, axis=0)
    part = _fifths(twice, np.repeat(F, 2), 0, 0)
    assert np.array_equal(part[::2], part[1::2])
    assert np.array_equal(part[::2], _fifths(X, F, 0, 0))
    codes = (F > 0.5).astype(float)
    part = _fifths(X, codes, 2, 0)
    counts = np.array([np.bincount(part[codes == c], minlength=FOLDS) for c in (0, 1)])
    assert np.all(np.ptp(counts, axis=1) <= 1)
    few = np.arange(60) < 3  # no fifth has all of them
    part = _fifths(X, few.astype(float), 2, 0)
    assert len(np.unique(part[few])) == 3
    assert _fifths(X, (np.arange(60) < 1).astype(float), 2, 0) is None
    assert _fifths(X[:8], F[:8], 0, 0) is None


def test_the_best_of_many_settings_has_no_luck():
    """Settings that differ by noise alone: the best looks better than it is, nested does not."""
    rng, lucky, honest = np.random.default_rng(1), [], []
    points = np.arange(100.0)[:, None]
    for _ in range(30):
        L, y = rng.normal(size=(100, 8)), rng.normal(size=100)
        tables = [of_quantity(y, L[:, j], np.ones(100), L[:, j], "leave-one-out") for j in range(8)]
        lucky.append(L.mean(axis=0).max())
        honest.append(of_family(tables, points).log_density.mean())
    assert np.mean(lucky) > 0.1
    assert abs(np.mean(honest)) < 0.05


def test_settled_figures_and_charges():
    found, goal = tried_of("Gaussian process", "y")
    tried = found.tried[0]
    raw = tried.left
    settle(found, X, goal, Clock(60.0), 1.0)
    assert tried.left.by == NESTED
    assert tried.kept is raw
    assert tried.row.score == pytest.approx(tried.left.score)
    more = refitted(tried, tried.machine, raw)
    lost = np.clip(raw.log_density - tried.left.log_density, -3.0, 3.0).sum()
    assert more.charge == pytest.approx(max(0.0, lost / len(raw.y)))
    assert more.score == pytest.approx(raw.score - more.charge)
    late, goal = tried_of("Gaussian process", "y")
    clock = Clock(60.0)
    settle(late, X, goal, clock, 0.0)  # no time at all
    count = tuned(late.tried[0].machine)
    assert count >= 3
    assert late.tried[0].left.charge == pytest.approx(EACH * count / 60)
    assert clock.bound
    assert charged(tried.machine, tried.left) is tried.left
