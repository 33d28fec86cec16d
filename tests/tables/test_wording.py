"""What is said about a search: who ended it, why it stopped, how good it is, in the user's unit."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import mercer
from mercer import GPRegressor
from mercer.search import Optimize
from mercer.tables.choose.candidates import candidates_for
from mercer.tables.choose.screen import Clock, Timed

X = np.linspace(0.0, 6.0, 25)[:, None]
Y = 1000.0 * np.sin(X[:, 0]) + 50.0 * np.random.default_rng(3).normal(size=25)


def convergence(machine):
    return next(v for _, label, v in machine.summary().rows() if label == "convergence")


def test_a_time_budget_is_not_an_interrupt():
    advance = Clock(1e9).watch(1e-9)
    said = convergence(GPRegressor("rbf", search=Timed(progress=advance)).fit(X, Y))
    assert "the time budget ended the search, the best point so far is kept" in said
    assert "interrupted" not in said


def test_a_person_is_one():
    def stop(event):
        raise KeyboardInterrupt

    said = convergence(GPRegressor("rbf", search=Optimize(progress=stop)).fit(X, Y))
    assert "; interrupted, the best point so far is kept" in said
    assert said.count("kept") == 1


def test_why_a_climb_ended():
    search = Optimize(restarts=0, max_iter=1)
    said = convergence(GPRegressor("rbf", search=search).fit(X, Y))
    assert "not converged (the limit of max_iter=1 iterations was reached)" in said
    abnormal = SimpleNamespace(status=2, message="ABNORMAL: ")
    assert "the line search found no better point" in search._why(abnormal)


@pytest.mark.parametrize("basis", [None, "linear"])
def test_progress_is_in_the_unit_of_the_summary(basis):
    events = []
    search = Optimize(progress=events.append)
    machine = GPRegressor("rbf", basis=basis, search=search).fit(100.0 * X, Y)
    assert machine.log_evidence_ < 0.0 < machine.log_evidence_ + len(Y) * np.log(Y.std())
    assert events[-1]["best"] == pytest.approx(machine.log_evidence_, abs=1e-6)


def test_a_grid_is_a_search():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    table = {"x": x, "y": np.where(x + rng.normal(size=60) > 0, "a", "b")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the few rows: the words of the search are asked for
        model = mercer.fit(table, "y", candidates=["logistic"])
    assert convergence(model.machine_) == "the best of 4 settings, by rows left out"


def test_a_matern_process_has_no_kinks():
    for kind, k in (("regression", 0), ("binary", 2)):
        for candidate in candidates_for(kind, X, True, k, False, False):
            assert "kink" not in candidate.sentence
