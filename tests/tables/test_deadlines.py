"""Time: every machine obeys a deadline, a fit that runs out of it says so, many classes."""

from __future__ import annotations

import time

import numpy as np
import pytest

import mercer
from mercer.core.deadline import OutOfTime, check_time, out_of_time, until
from mercer.tables import expect as expecting
from mercer.tables.choose import screen
from mercer.tables.choose.candidates import candidates_for
from mercer.tables.expect import expect

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = {"regression": X[:, 0] + 0.1 * RNG.normal(size=40), "multiclass": np.arange(40) % 5}
CASES = [
    (kind, candidate)
    for kind, k in (("regression", 0), ("multiclass", 5))
    for candidate in candidates_for(kind, X, False, k)
]


@pytest.mark.parametrize(("kind", "candidate"), CASES, ids=lambda v: getattr(v, "name", v))
def test_every_candidate_ends_at_a_deadline(kind, candidate):
    machine = candidate.make(X, None)[0]
    with pytest.raises(OutOfTime), until(time.monotonic() - 1.0):
        machine.fit(X, Y[kind])
    assert not out_of_time()
    check_time()


def test_the_earlier_of_two_deadlines_counts():
    with pytest.raises(OutOfTime), until(time.monotonic() - 1.0), until(np.inf):
        check_time()


def test_a_candidate_that_cannot_finish_is_not_begun(monkeypatch):
    monkeypatch.setattr(screen, "_pilot", lambda *given: (_ for _ in ()).throw(OutOfTime))
    model = mercer.fit(X, Y["multiclass"] * 1.0, kind="classification", candidates=["logistic"])
    assert model.chosen_.name == "logistic"  # the first is needed, and has no pilot
    model = mercer.fit(
        X, Y["multiclass"] * 1.0, kind="classification", candidates=["logistic", "linear"]
    )
    late = next(row for row in model.ranking_ if row.name == "linear")
    assert late.by == screen.LATE
    assert "linear: not finished" in model.report_["time"]["bound"]


@pytest.mark.parametrize("rows", [X, np.repeat(X, 13, axis=0) + 0.1 * RNG.normal(size=(520, 3))])
def test_a_final_round_out_of_time_keeps_what_was_screened(monkeypatch, rows):
    monkeypatch.setattr(screen.Clock, "end", property(lambda clock: time.monotonic() - 1.0))
    model = mercer.fit(rows, rows[:, 0], candidates=["linear"])
    assert not model.interrupted_
    if len(rows) > 500:
        assert len(model.rows_) == 500
        assert any("the time budget ended before" in note for note in model.notes_)


def test_many_classes_and_one_with_a_single_row():
    codes = np.append(np.repeat(np.arange(40), 3), 40)
    centres = RNG.normal(size=(41, 4)) * 3.0
    Z = centres[codes] + RNG.normal(size=(121, 4))
    names = np.array([f"c{code:02d}" for code in codes])
    model = mercer.fit(Z, names, candidates=["logistic"])
    assert model.predict_proba(Z).shape == (121, 41)
    assert np.mean(model.predict(Z) == names) > 0.5
    assert any("one row alone of the class c40" in note for note in model.notes_)
    assert any("fewer than five rows" in note and "and 32 more" in note for note in model.notes_)


def test_a_fit_says_first_how_long_it_will_take(monkeypatch, capsys):
    events = []
    given = {"candidates": ["linear"], "time_budget": 20.0}
    model = mercer.fit(X, Y["regression"], progress=events.append, **given)
    assert [i for i, event in enumerate(events) if "expected" in event] == [0]
    told = model.report_["time"]
    assert 0.0 < told["expected"] == events[0]["expected"] <= told["budget"] == 20.0
    assert told["used"] > 0.0
    assert "at most the time budget of 20 s: 1 machine, 40 rows, 3 columns" in events[0]["stage"]
    assert not events[0]["long"]
    monkeypatch.setattr(expecting, "LONG", 0.0)
    mercer.fit(X, Y["regression"], progress=True, **given)
    assert "40 rows, 3 columns\n" in capsys.readouterr().err


def test_what_is_expected_grows_with_the_table_and_ends_at_the_budget():
    base = {"machines": 4, "rows": 300, "columns": 5, "classes": 2, "budget": 1e9}
    one = expect(**base).seconds
    more = {"machines": 5, "rows": 301, "columns": 6, "classes": 3, "rate": expecting.RATE / 2}
    assert all(expect(**{**base, name: value}).seconds > one for name, value in more.items())
    assert expect(**{**base, "rows": 501}).seconds > expect(**{**base, "rows": 500}).seconds
    short = expect(**{**base, "budget": 0.5 * one})
    assert short.seconds == short.budget
    assert "the whole time budget" in short.words()
    assert not expect(1, 20, 2, 0, 60.0).long
