"""The final round, the clock's reserve, rows that are repeated, and machines that take long."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.search import Optimize
from mercer.tables.choose import refit as finalists
from mercer.tables.choose import screen
from mercer.tables.choose.candidates import candidates_for
from mercer.tables.choose.left_out import repeated
from mercer.tables.choose.resume import Resumed, carry_on, unfinished
from mercer.tables.choose.screen import Clock
from mercer.tables.data.target import Target

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


def plane(n, seed=0, copies=0):
    """A smooth function, what every place has of its own, and some rows twice."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    X, y = np.vstack([X, X[:copies]]), np.r_[y, y[:copies]]
    return {"a": X[:, 0], "b": X[:, 1], "y": y}


@pytest.fixture
def screened(monkeypatch):
    """A screening on 40 of 200 rows in which the line came out a little ahead of the process."""
    monkeypatch.setattr(screen.sample, "__defaults__", (40,))
    table = plane(200)
    X, clock = np.column_stack([table["a"], table["b"]]), Clock(600.0)
    target = Target("y", "regression", table["y"])
    names = ("linear", "Gaussian process")
    some = [c for c in candidates_for("regression", X, False, 0) if c.name in names]
    found = screen.screen(some, X, target, clock, 0.5, 0)
    line, process = found.tried
    line.seconds = process.seconds = 0.1  # whatever this machine is doing besides
    ahead = process.left.log_density + 0.05
    line.left = replace(line.left, log_density=ahead)
    return found, X, target, clock


def test_the_best_on_few_rows_need_not_be_the_best_on_all(screened):
    best, final = finalists.final_round(*screened, 0)
    assert best.candidate.name == "Gaussian process"
    assert len(final.left.y) == len(final.rows) == 200
    assert "Gaussian process was behind linear on 40 rows" in final.notes[0]


@pytest.mark.parametrize("after", ["screening", "final round"])
def test_a_search_that_was_cut_short_runs_on_while_there_is_time(screened, monkeypatch, after):
    found, X, target, clock = screened
    process = found.tried[1]
    if after == "screening":
        few, labels = X[found.rows], target.labels(found.rows)
        cut = clone(process.machine).set_params(search=Optimize(restarts=0, max_iter=1))
        process.machine = cut.fit(few, labels)
        clock.bind("Gaussian process: its search was ended")
        assert unfinished(process.machine)
        carry_on(found, X, target, clock, 0.5)
        assert not unfinished(process.machine)
        assert process.machine.log_evidence_ > cut.log_evidence_ + 0.1
        assert process.row.score == process.score
        assert clock.bound == []
        same = process.machine
        carry_on(found, X, target, clock, 0.5)  # nothing is left to do
        assert process.machine is same
        return
    limits = [1, 200]  # of the search on all rows, and of the one that goes on

    def short(found, criterion, **options):
        return Resumed(found, criterion, max_iter=limits.pop(0), **options)

    monkeypatch.setattr(finalists, "Resumed", short)
    found.tried.pop(0)  # the line
    _, final = finalists.final_round(found, X, target, clock, 0)
    assert limits == []
    assert not unfinished(final.machine)


@pytest.mark.parametrize("reason", ["far behind", "too slow", "interrupted", "no figures"])
def test_who_is_not_compared_on_all_rows(screened, reason):
    found, X, target, clock = screened
    if reason == "far behind":
        behind = found.tried[1].left.log_density - finalists.CLOSE
        found.tried[1].left = replace(found.tried[1].left, log_density=behind)
    elif reason == "too slow":
        found.tried[1].seconds = 1e4
    elif reason == "interrupted":
        found.interrupted = True
    else:
        found.tried[1].left = replace(found.tried[1].left, by="5 folds")
    best, final = finalists.final_round(found, X, target, clock, 0)
    assert best.candidate.name == "linear"
    assert not any("behind" in note for note in final.notes)


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt()])
def test_a_second_machine_that_fails_leaves_the_first(screened, monkeypatch, failure):
    usual = finalists.refit

    def refit(tried, *rest):
        if tried.candidate.name == "Gaussian process":
            raise failure
        return usual(tried, *rest)

    monkeypatch.setattr(finalists, "refit", refit)
    best, final = finalists.final_round(*screened, 0)
    assert best.candidate.name == "linear"
    assert len(final.rows) == 200


def test_a_person_ends_the_final_round(monkeypatch):
    """The machine in hand is kept at what its search has found, no other is begun."""
    stages = []

    def stop(event):
        stages.append(event["stage"])
        if event["stage"] == "Gaussian process on 650 rows" and "evaluations" in event:
            raise KeyboardInterrupt

    monkeypatch.setattr(finalists, "CLOSE", 9.0)
    names = ["linear", "Gaussian process"]
    model = mercer.fit(plane(650), "y", candidates=names, progress=stop)
    assert model.chosen_.name == "Gaussian process"
    assert "linear on 650 rows" not in stages
    assert any("fewer machines were compared" in note for note in model.notes_)


def test_copies_of_rows_are_predicted_from_them_and_new_rows_are_not():
    table = plane(120, copies=40)
    model = mercer.fit(table, "y", candidates=["repeated rows", "Gaussian process, rough"])
    assert model.chosen_.name == "repeated rows"
    score = model.left_out_.log_density[40:120].mean()  # the rows that are there once
    said = next(text for text in model.notes_ if text.startswith("80 rows share their inputs"))
    assert f"the score of the 80 others is {score:.4g}" in said
    seen = {name: values[:40] for name, values in table.items()}
    mean, std = model.predict(seen, return_std=True)
    np.testing.assert_allclose(mean, seen["y"], atol=1e-2)
    assert std.max() < 0.05
    new = plane(300, seed=5)
    low, high = model.predict_interval(new, coverage=0.8)
    assert 0.7 < np.mean((low < new["y"]) & (new["y"] < high)) < 0.9
    plain = mercer.fit(table, "y", candidates=["Gaussian process, rough"])
    errors = [np.mean((m.predict(new) - new["y"]) ** 2) for m in (model, plain)]
    assert errors[0] < 1.1 * errors[1]


def test_repeats_with_noise_of_their_own_are_not_repeated_exactly():
    table = plane(100, copies=100)
    table["y"] = table["y"] + 0.3 * np.random.default_rng(1).normal(size=200)
    model = mercer.fit(table, "y", candidates=["repeated rows"])
    assert 0.05 < model.machine_.loss_.noise < 0.2  # 0.09; the place's own is 0.25


def test_the_machine_for_repeats_survives_a_file(tmp_path):
    table = plane(60, copies=20)
    model = mercer.fit(table, "y", candidates=["repeated rows"])
    assert model.machine_.search.balance is False
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_repeats_are_offered_where_there_are_some():
    x = np.random.default_rng(0).normal(size=(50, 2))
    assert repeated(x) == 0
    twice = np.vstack([x, x[:7]])
    assert repeated(twice) == 7
    for X, weighted, offered in ((x, False, 0), (twice, False, 1), (twice, True, 0)):
        names = [c.name for c in candidates_for("regression", X, False, 0, weighted)]
        assert names.count("repeated rows") == offered


def test_a_search_leaves_time_for_what_follows(monkeypatch):
    """Four evaluations more must fit in: at one second each the sixth of ten is the last."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    advance = Clock(99.0).watch(10.0, 4.0)
    for _ in range(6):
        now[0] += 1.0
        advance({"stage": "s"})
    now[0] += 1.0
    with pytest.raises(KeyboardInterrupt):
        advance({"stage": "s"})


def test_a_machine_too_slow_for_its_time_is_not_waited_for(monkeypatch):
    slow = mercer.RVRegressor.fit

    def fit(self, X, y, sample_weight=None):
        time.sleep(0.3)
        return slow(self, X, y)

    monkeypatch.setattr(mercer.RVRegressor, "fit", fit)
    names = ["linear", "relevance vectors"]
    model = mercer.fit(plane(80), "y", candidates=names, time_budget=3.0)
    row = next(r for r in model.ranking_ if r.name == "relevance vectors")
    assert row.score is None
    assert screen.LATE in row.by
    assert row.seconds < 1.0
    assert mercer.fit(plane(80), "y", candidates=names[1:], time_budget=3.0).chosen_.score


def test_a_person_ends_the_only_search_on_all_rows():
    """It is said, so that the command keeps nothing; a search that the clock ends is no wish."""

    def stop(event):
        if event["stage"].endswith("on 650 rows") and "evaluations" in event:
            raise KeyboardInterrupt

    model = mercer.fit(plane(650), "y", candidates=["linear"], progress=stop)
    assert any(note.startswith("interrupted: the search on all rows") for note in model.notes_)
    short = mercer.fit(plane(650), "y", candidates=["linear"], time_budget=0.05)
    assert not any(note.startswith("interrupted") for note in short.notes_)


def test_scores_of_different_rows_are_not_compared(screened, monkeypatch):
    usual = finalists.refit

    def refit(tried, *rest):
        final = usual(tried, *rest)
        if tried.candidate.name == "linear":
            return final
        some = replace(final.left, y=final.left.y[:90], log_density=final.left.log_density[:90])
        return replace(final, left=some, left_rows=final.left_rows[:90])

    monkeypatch.setattr(finalists, "refit", refit)
    assert finalists.final_round(*screened, 0)[0].candidate.name == "linear"


def test_where_the_first_cannot_take_all_rows_nobody_is_compared_with_it(screened):
    found, _, target, clock = screened
    found.tried[0].seconds = 1e5
    assert finalists._others(found.tried[0], found, target, clock) == []


def test_an_interrupt_ends_a_cross_validation(monkeypatch):
    """Every search keeps its best point: nobody would ever come to the end of the folds."""
    from mercer.search import Optimize

    model = mercer.fit(plane(60), "y", candidates=["linear"])
    usual, folds = Optimize._screened, []

    def stop(self, watch, space, starts):
        usual(self, watch, space, starts)
        folds.append(len(folds))
        raise KeyboardInterrupt

    monkeypatch.setattr(Optimize, "_screened", stop)
    with pytest.raises(KeyboardInterrupt):
        model.cross_validate(folds=3)
    assert len(folds) == 1


def test_a_check_of_repeats_resumes_their_search(monkeypatch):

    model = mercer.fit(plane(60, copies=20), "y", candidates=["repeated rows"])
    seen = []

    class Spy(finalists.Resumed):
        def __init__(self, found=None, criterion="evidence", max_iter=200, progress=False,
                     balance=True):  # fmt: skip
            seen.append(balance)
            super().__init__(found, criterion, max_iter, progress, balance)

    monkeypatch.setattr(finalists, "Resumed", Spy)
    model.cross_validate(folds=2)
    assert seen
    assert not any(seen)
