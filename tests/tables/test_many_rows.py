"""Tables that no exact fit can take: what is affordable, every form end to end, what is said."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import mercer
from mercer.app.results import plain_of
from mercer.linalg import Inducing
from mercer.tables.choose import many, screen
from mercer.tables.choose.afford import FILE, Offer, family_of, forms, rank_of
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.resume import Known, found_by, points_of
from mercer.tables.files.numbers import parse_number, parse_plain

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

RATE, ROOM = 3e10, 8e9  # operations a second, bytes


# ---------------------------------------------------------------------- what is affordable
@pytest.mark.parametrize("family", ["process", "likelihood", "mode", "support", "line", "other"])
@pytest.mark.parametrize("n", [800, 20_000, 1_000_000])
@pytest.mark.parametrize("seconds", [0.5, 30.0, 3000.0])
@pytest.mark.parametrize("room", [1e8, 8e9])
def test_every_form_is_within_its_limits(family, n, seconds, room):
    found = forms(family, n, 10, seconds, room, RATE)
    for form in found:
        assert form.seconds <= seconds * (1 + 1e-12)
        assert form.bytes <= room
        assert form.rows <= n
        assert form.points <= n // 2
        if form.name == "exact" and family in ("process", "likelihood"):
            assert 4 * form.rows**2 <= FILE
    assert [f.name for f in found[:-1]].count("exact") == 0
    if found and found[0].name == "exact" and found[0].rows == n:
        assert len(found) == 1


@pytest.mark.parametrize(
    ("family", "n", "first"),
    [
        ("process", 3000, "exact"),
        ("process", 1_000_000, "inducing"),
        ("likelihood", 20_000, "inducing"),
        ("mode", 1_000_000, "inducing"),
        ("support", 100_000, "exact"),
        ("support", 1_000_000, "inducing"),
        ("line", 1_000_000, "exact"),
    ],
)
def test_the_form_of_all_rows_in_half_a_minute(family, n, first):
    found = forms(family, n, 8, 30.0, ROOM, RATE)
    assert (found[0].name, found[0].rows) == (first, n)


def test_time_buys_points_and_rows():
    several = [forms("process", 200_000, 8, t, ROOM, RATE) for t in (0.4, 1.6, 3.2)]
    points, rows = [f[0].points for f in several], [f[-1].rows for f in several]
    assert points == sorted(set(points))
    assert rows == sorted(set(rows))


def test_an_iterative_solution_needs_time_and_gaussian_noise():
    assert "iterative" not in [f.name for f in forms("process", 30_000, 8, 30.0, ROOM, RATE)]
    assert "iterative" in [f.name for f in forms("process", 30_000, 8, 36_000.0, ROOM, RATE)]
    assert "iterative" not in [f.name for f in forms("likelihood", 30_000, 8, 1e6, ROOM, RATE)]


def test_a_straight_line_has_few_directions():
    x = np.random.default_rng(0).normal(size=(30, 3))
    line = mercer.GPRegressor("linear").fit(x, x @ [1.0, 2.0, 3.0])
    assert rank_of(line, 3) == 14
    assert rank_of(mercer.GPRegressor("rbf", search=None).fit(x, x[:, 0]), 3) == 0
    (form, _) = forms("process", 1_000_000, 3, 60.0, ROOM, RATE, rank=14)
    assert form.points == 14


@pytest.mark.parametrize(
    ("machine", "family"),
    [
        (mercer.GPRegressor(), "process"),
        (mercer.GPRegressor(loss="student_t"), "likelihood"),
        (mercer.GPClassifier(), "likelihood"),
        (mercer.KernelClassifier(), "mode"),
        (mercer.SVC(), "support"),
        (mercer.SmoothingSpline(), "line"),
        (mercer.RVRegressor(), "other"),
        (mercer.ProbabilisticLeastSquaresClassifier(), "other"),
    ],
)
def test_families(machine, family):
    assert family_of(machine) == family


# ---------------------------------------------------------------------- parameters of other rows
def plane(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, f + 0.3 * rng.normal(size=n), np.where(f + 0.3 * rng.normal(size=n) > 0, "a", "b")


def test_kept_parameters_are_those_that_were_found():
    X, y, _ = plane(60)
    first = mercer.GPRegressor().fit(X, y)
    second = mercer.GPRegressor(search=Known(found_by(first))).fit(X, y)
    assert repr(second.kernel_) == repr(first.kernel_)
    assert repr(second.loss_) == repr(first.loss_)
    np.testing.assert_allclose(second.predict(X), first.predict(X), rtol=1e-10)
    assert second.log_evidence_ == pytest.approx(first.log_evidence_, rel=1e-10)


def test_points_are_kept_in_the_units_of_the_columns():
    X, y, _ = plane(80)
    X = 100.0 + 30.0 * X
    first = mercer.GPRegressor(gram=Inducing(m=12, rows=40, max_iter=3)).fit(X, y)
    kept = Known(found_by(first))
    second = mercer.GPRegressor(search=kept, gram=points_of(first)).fit(X, y)
    np.testing.assert_allclose(second.posteriors_[0].points, first.posteriors_[0].points, atol=1e-9)
    np.testing.assert_allclose(second.predict(X), first.predict(X), rtol=1e-6)


def test_no_iteration_keeps_the_parameters_of_the_first_rows():
    X, y, _ = plane(150)
    few, more = (
        mercer.GPRegressor(gram=Inducing(m=m, rows=60, max_iter=0), random_state=1).fit(X, y)
        for m in (10, 20)
    )
    assert repr(few.kernel_) == repr(more.kernel_)
    assert few.report_["inducing"]["chosen"] == "kmeans"
    assert "evaluations" in few.report_["search"]


# ---------------------------------------------------------------------- every form, end to end
FORMS = [
    ("y", "Gaussian process", "inducing"),
    ("y", "Gaussian process", "iterative"),
    ("y", "Gaussian process", "exact"),
    ("y", "heavy tails", "inducing"),
    ("c", "Gaussian process", "inducing"),
    ("c", "kernel logistic", "inducing"),
    ("c", "support vectors", "inducing"),
    ("c", "support vectors", "exact"),
]


@pytest.fixture
def small(monkeypatch):
    """Screen on 60 rows, search on no more, and take all rows in the form that is asked for."""

    def only(name):
        monkeypatch.setattr(screen.sample, "__defaults__", (60,))
        fit = sys.modules["mercer.tables.learn"]  # the package has a function of that name
        monkeypatch.setattr(fit, "takes_all", lambda *given: False)
        monkeypatch.setattr(many, "affordable", lambda *given: 60)
        monkeypatch.setattr(
            many,
            "forms",
            lambda family, n, d, *rest, **more: [Offer(name, n, 25 * (name != "exact"))],
        )

    return only


@pytest.mark.parametrize(("target", "candidate", "form"), FORMS)
def test_a_table_in_every_form(small, tmp_path, target, candidate, form):
    small(form)
    X, y, c = plane(400)
    table = {"a": X[:, 0], "b": X[:, 1], target: y if target == "y" else c}
    model = mercer.fit(table, target, candidates=[candidate])
    said = model.representation_
    assert (said["form"], said["rows"], said["rows_given"]) == (form, 400, 400)
    assert (said["points"] is None) == (form != "inducing")
    assert len(model.left_rows_) == len(model.left_out_.y) == 40
    assert model.left_out_.by == "40 rows held out"
    assert any(note.startswith("compared by the log density of 40 rows") for note in model.notes_)
    new = dict(zip("ab", plane(200, seed=1)[0].T, strict=True))
    truth = plane(200, seed=1)[1 if target == "y" else 2]
    if target == "y":
        assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.45
    else:
        assert np.mean(model.predict(new) != truth) < 0.2
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.representation_ == said
    assert json.loads(json.dumps(plain_of(model)))["representation"]["form"] == form
    if form != "iterative":
        assert model.cross_validate(folds=2).error == pytest.approx(model.left_out_.error, abs=0.25)
    if form == "inducing" and candidate == "Gaussian process" and target == "y":
        assert said["bounds"][0] == pytest.approx(model.machine_.log_evidence_)
        assert "is at least" in said["words"]
        assert 0.9 < said["explained"] <= 1.0
    if form == "inducing" and candidate in ("kernel logistic", "support vectors"):
        assert said["gap"] >= 0.0
        assert "duality gap" in said["words"]


def test_the_rows_held_out_were_not_seen(small, monkeypatch):
    small("inducing")
    seen, usual = [], many.Contest.judge

    def judge(self, tried, form, machine, rows, *rest):
        seen.append(np.intersect1d(rows, self.held))
        return usual(self, tried, form, machine, rows, *rest)

    monkeypatch.setattr(many.Contest, "judge", judge)
    X, y, _ = plane(300)
    mercer.fit({"a": X[:, 0], "b": X[:, 1], "y": y}, "y", candidates=["Gaussian process"])
    assert len(seen) >= 2
    assert all(len(rows) == 0 for rows in seen)


def test_an_interrupt_keeps_the_best_so_far(small):
    small("inducing")

    def stop(event):
        if "points for" in event["stage"]:
            raise KeyboardInterrupt

    X, _, c = plane(300)
    table = {"a": X[:, 0], "b": X[:, 1], "c": c}
    names = ["Gaussian process", "kernel logistic"]
    model = mercer.fit(table, "c", candidates=names, progress=stop)
    assert model.interrupted_
    assert model.representation_["form"] == "exact"
    assert len(model.rows_) < 300
    assert any(note.startswith("interrupted") for note in model.notes_)


def test_a_form_that_fails_leaves_the_others(small, monkeypatch):
    small("inducing")

    def fail(self, tried, form, *rest):
        raise ValueError("no such luck")

    monkeypatch.setattr(many.Contest, "_take", fail)
    X, y, _ = plane(300)
    table = {"a": X[:, 0], "b": X[:, 1], "y": y}
    model = mercer.fit(table, "y", candidates=["Gaussian process"])
    assert model.representation_["form"] == "exact"
    assert len(model.rows_) == 60
    assert any("no such luck" in note for note in model.notes_)


def test_a_clock_that_has_run_out_leaves_time_for_the_rows(small, monkeypatch):
    """However long reading and screening took: it is a budget, not an interrupt."""
    small("inducing")
    usual = screen.screen

    def slow(candidates, X, target, clock, *rest):
        found = usual(candidates, X, target, clock, *rest)
        clock.began -= 1e4
        return found

    monkeypatch.setattr(sys.modules["mercer.tables.learn"], "screen", slow)
    X, y, _ = plane(300)
    table = {"a": X[:, 0], "b": X[:, 1], "y": y}
    model = mercer.fit(table, "y", candidates=["Gaussian process"])
    assert not model.interrupted_
    assert len(model.rows_) >= 270


def test_a_sigmoid_of_complete_rows_needs_no_rows_without_a_label():
    X, _, c = plane(120)
    machine = SigmoidClassifier(mercer.SVC(gram=Inducing(m=20))).fit(X, c)
    p = machine.predict_proba(X)
    assert np.mean(machine.predict(X) == c) > 0.85
    assert np.mean(np.log(p[np.arange(120), (c == "b").astype(int)])) > -0.4


# ---------------------------------------------------------------------- files
@pytest.mark.parametrize(
    "texts",
    [["1", " 2.5 ", "+.5e-3"], ["1_000"], ["1", "nan"], ["1", ""], ["inf"], ["0x1"], ["\u0661"],
     ["1e400"], ["1,5"], ["7."]],
)  # fmt: skip
def test_numbers_at_once_are_those_one_by_one(texts):
    each, plain = [parse_number(text) for text in texts], parse_plain(texts)
    if plain is not None:
        assert plain.tolist() == each
    else:
        assert any(value is None or not np.isfinite(value) for value in each)
