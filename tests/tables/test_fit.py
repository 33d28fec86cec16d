"""mercer.fit: every kind of table, the ranking, the refit, the time, files, mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.tables.choose.candidates import candidates_for
from mercer.tables.choose.refit import Resumed, parameters_of
from mercer.tables.choose.sample import sample
from mercer.tables.choose.screen import Clock
from mercer.tables.data.target import Target

QUICK = ["linear", "support vectors", "kernel logistic"]


def wave(n=80, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-3, 3, n), rng.normal(size=n)
    return {"x": x, "z": z, "y": 5 * np.sin(x) + noise * rng.normal(size=n) + 100}


def groups(n=120, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x, towns = rng.normal(size=n), rng.choice(["Ulm", "Bonn", "Kiel"], n)
    f = x + (towns == "Ulm") + 0.3 * rng.normal(size=n)
    names = np.array(["low", "mid", "top"])[: k if k > 2 else 2]
    label = names[np.digitize(f, [0.4] if k == 2 else [0.0, 1.0])]
    gaps = [None if i % 11 == 0 else float(v) for i, v in enumerate(x)]
    return {"x": gaps, "town": towns.tolist(), "y": label.tolist()}


def test_a_quantity():
    table = wave()
    model = mercer.fit(table, "y", candidates=["linear", "Gaussian process"])
    assert model.kind_ == "regression"
    assert model.chosen_.name == "Gaussian process"
    assert [row.name for row in model.ranking_] == ["Gaussian process", "linear", "constant"]
    scores = [row.score for row in model.ranking_]
    assert scores == sorted(scores, reverse=True)
    new = wave(200, seed=1)
    mean, std = model.predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - new["y"]) ** 2)) < 0.3
    low, high = model.predict_interval(new)
    assert 0.75 < np.mean((low < new["y"]) & (new["y"] < high)) <= 1.0
    assert np.all(std > 0)
    assert "Gaussian process" in str(model.compare())
    assert "<table>" in model.compare()._repr_html_()
    with pytest.raises(AttributeError, match="predict_interval"):
        model.predict_proba(new)


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("k", [2, 3])
def test_classes_with_gaps_and_text(k):
    table = groups(k=k)
    model = mercer.fit(table, "y", candidates=QUICK)
    assert model.kind_ == ("binary" if k == 2 else "multiclass")
    assert [c.kind for c in model.columns_] == ["numeric", "categorical"]
    p = model.predict_proba(table)
    assert p.shape == (120, k)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(model.predict(table) == np.array(table["y"])) > 0.75
    assert model.left_out_.error < 0.3
    assert model.predict({"x": [None], "town": ["Rome"]})[0] in model.classes_
    for call in (
        lambda: model.predict(table, return_std=True),
        lambda: model.predict_interval(table),
    ):
        with pytest.raises(AttributeError, match="predict_proba"):
            call()


def test_partly_labelled_rows_take_part():
    rng = np.random.default_rng(1)
    side = rng.integers(0, 2, 150)
    X = 0.3 * rng.normal(size=(150, 2)) + np.where(side[:, None] == 1, 1.0, -1.0)
    labels = [["a", "b"][s] if i < 20 else None for i, s in enumerate(side)]
    names = ["linear", "manifold support vectors", "manifold discrimination"]
    model = mercer.fit({"u": X[:, 0], "v": X[:, 1], "y": labels}, "y", candidates=names)
    assert model.kind_ == "partly"
    assert len(model.left_out_.y) == 20
    assert "130 rows have no label" in model.notes_[0]
    assert np.mean(model.predict({"u": X[:, 0], "v": X[:, 1]}) == np.array(["a", "b"])[side]) > 0.95
    alone = mercer.fit({"u": X[:, 0], "v": X[:, 1], "y": labels}, "y", candidates=names[1:2])
    assert alone.learns_unlabelled_
    assert len(alone.rows_) == 150


def test_one_column_is_also_a_spline():
    table = wave()
    del table["z"]
    model = mercer.fit(table, "y", candidates=["smoothing spline"])
    assert type(model.machine_).__name__ == "SmoothingSpline"
    assert abs(model.predict({"x": [0.5]})[0] - 100 - 5 * np.sin(0.5)) < 0.3


def test_more_rows_than_are_screened_are_all_fitted():
    table = wave(650)
    model = mercer.fit(table, "y", candidates=["Gaussian process"])
    assert len(model.rows_) == 650
    assert model.ranking_[0].size == 500
    assert len(model.left_out_.y) == 650
    search = model.machine_.report_["search"]
    assert search["evaluations"] < 30  # resumed at what 500 rows found
    assert model.machine_.search == "evidence"


def test_a_time_that_is_up_is_said(monkeypatch):
    table = wave(650)
    model = mercer.fit(table, "y", time_budget=0.05)
    tried = [row for row in model.ranking_ if row.by == "not tried: the time budget was used up"]
    assert tried
    assert all(row.score is None for row in tried)
    assert any("time budget" in note for note in model.notes_)


def test_an_interrupt_keeps_the_best_so_far():
    seen = []

    def stop(event):
        seen.append(event["stage"])
        if event["stage"] == "Gaussian process":
            raise KeyboardInterrupt

    model = mercer.fit(wave(), "y", progress=stop)
    assert model.chosen_.name == "linear"
    assert any(note.startswith("interrupted") for note in model.notes_)

    def at_once(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mercer.fit(wave(), "y", progress=at_once)


def test_noise_is_called_noise():
    rng = np.random.default_rng(3)
    table = {"x": rng.normal(size=400), "y": rng.normal(size=400)}
    model = mercer.fit(table, "y", candidates=["linear"])
    assert any("better than a constant" in note for note in model.notes_)


def test_the_same_seed_gives_the_same_model():
    table = groups(k=2)
    first = mercer.fit(table, "y", candidates=QUICK, seed=3, time_budget=1e4)
    again = mercer.fit(table, "y", candidates=QUICK, seed=3, time_budget=1e4)
    np.testing.assert_array_equal(first.predict_proba(table), again.predict_proba(table))


@pytest.mark.parametrize(
    ("table", "target", "candidates"),
    [
        (wave(), "y", ["Gaussian process"]),
        (groups(60), "y", ["support vectors"]),
        (groups(60, k=2), "y", ["relevance vectors"]),
        (groups() | {"y": [v if i % 2 else None for i, v in enumerate(groups()["y"])]}, "y",
         ["manifold support vectors"]),
    ],
    ids=["quantity", "classes", "two", "partly"],
)  # fmt: skip
def test_a_model_file_predicts_the_same_bits(tmp_path, table, target, candidates):
    model = mercer.fit(table, target, candidates=candidates)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    if model.classes_ is not None:
        np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    assert str(again.compare()) == str(model.compare())
    assert again.columns_ == model.columns_
    assert again.notes_ == model.notes_
    np.testing.assert_array_equal(again.influence_, model.influence_)
    np.testing.assert_array_equal(again.left_out_.log_density, model.left_out_.log_density)


def test_every_kind_of_column_in_a_file(tmp_path):
    rng = np.random.default_rng(0)
    n = 90
    table = {
        "x": [None if i == 4 else float(v) for i, v in enumerate(rng.normal(size=n))],
        "town": rng.choice(["Ulm", "Bonn"], n).tolist(),
        "when": np.datetime64("2024-01-01T00:00")
        + rng.integers(0, 9999, n).astype("timedelta64[h]"),
        "note": [f"{'good' if i % 2 else 'bad'} weather on day {i} of {i % 9}" for i in range(n)],
    }
    table["y"] = rng.normal(size=n)
    model = mercer.fit(table, "y", candidates=["linear"])
    assert [c.kind for c in model.columns_] == ["numeric", "categorical", "date", "text"]
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_cross_validation_on_request():
    model = mercer.fit(groups(k=2), "y", candidates=["linear"])
    checked = model.cross_validate(folds=4)
    assert checked.by == "4 folds"
    assert abs(checked.score - model.left_out_.score) < 0.15
    quantity = mercer.fit(wave(), "y", candidates=["Gaussian process"])
    assert quantity.cross_validate(folds=3).error < 0.5
    with pytest.raises(ValueError, match="folds must be"):
        model.cross_validate(folds=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "Y"}, "no column 'Y'"),
        ({"features": ["q"]}, "no column 'q'"),
        ({"features": ["x", "y"]}, "'y' cannot be an input twice"),
        ({"features": ["x", "x"]}, "'x' cannot be an input twice"),
        ({"candidates": ["magic"]}, "no candidate 'magic'; known are "),
        ({"time_budget": 0}, "time_budget must be"),
        ({"kind": "both"}, "kind must be"),
        ({"table": {"y": [1.0, 2.0]}}, "nothing to learn from"),
        ({"table": {"x": [1, 1, 1], "y": [1.0, 2.0, 3.0]}}, "no column says anything"),
        ({"table": {"x": [1, 2], "y": [1.0, None]}}, "same value|1 sample"),
    ],
)
def test_mistakes_cost_one_sentence(change, message):
    given = {"table": wave(), "target": "y", **change}
    with pytest.raises(ValueError, match=message):
        mercer.fit(given.pop("table"), given.pop("target"), **given)


def test_predictions_of_another_table():
    model = mercer.fit(groups(k=2), "y", candidates=["linear"])
    with pytest.raises(ValueError, match="lacks 1 columns of the model: 'town'"):
        model.predict({"x": [1.0]})
    with pytest.raises(ValueError, match="'town' holds numbers here and texts in training"):
        model.predict({"x": [1.0], "town": [3.0]})
    assert len(model.predict({"x": [None, None], "town": [None, None]})) == 2


# ---------------------------------------------------------------------- the parts
def test_a_sample_keeps_every_class():
    codes = np.array([0.0] * 900 + [1.0] * 90 + [2.0] * 5 + [-1.0] * 500)
    known, others = sample(Target("y", "partly", codes, np.arange(3)), np.random.default_rng(0))
    assert set(codes[known]) == {0.0, 1.0, 2.0}
    assert len(known) + len(others) <= 500
    assert len(others) > 100
    assert np.sum(codes[known] == 2.0) >= 2


def test_resumed_begins_where_it_is_told():
    table = wave(60)
    X = np.column_stack([table["x"], table["z"]])
    full = mercer.GPRegressor(random_state=0).fit(X, table["y"])
    again = mercer.GPRegressor(search=Resumed(parameters_of(full)), random_state=0)
    again.fit(X, table["y"])
    assert again.log_evidence_ == pytest.approx(full.log_evidence_, abs=1e-3)
    first, second = (m.report_["search"]["evaluations"] for m in (again, full))
    assert first < second / 3


def test_the_clock():
    seen = []
    clock = Clock(100.0, seen.append)
    advance = clock.watch(1e9, stage="a")
    advance({"evaluations": 1, "best": 0.0, "stage": "inner"})
    assert seen[-1]["stage"] == "a"
    assert not clock.spent_out
    with pytest.raises(KeyboardInterrupt):
        clock.watch(-1.0)({"evaluations": 1, "best": 0.0})
    assert clock.spent_out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass", "partly"])
def test_every_candidate_can_be_chosen_saved_and_read(kind, tmp_path):
    table = wave(60) if kind == "regression" else groups(90, 2 if kind == "binary" else 3)
    if kind == "partly":
        table["y"] = [v if i % 2 else None for i, v in enumerate(table["y"])]
    k = {"regression": 0, "binary": 2}.get(kind, 3)
    for candidate in candidates_for(kind, np.random.default_rng(0).normal(size=(90, 2)), False, k):
        model = mercer.fit(table, "y", candidates=[candidate.name])
        assert model.chosen_.name == candidate.name
        model.save(tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_the_baseline_is_ranked_but_not_chosen():
    model = mercer.fit(wave(), "y", candidates=["linear"])
    base = next(row for row in model.ranking_ if row.name == "constant")
    assert not base.chosen


def test_a_line_beside_a_process_needs_independent_columns():
    x = np.random.default_rng(0).normal(size=(60, 1))
    names = [c.name for c in candidates_for("regression", np.hstack([x, x**2]), False, 0)]
    assert "line plus process" in names
    indicators = np.hstack([x, x > 0, x <= 0])
    names = [c.name for c in candidates_for("regression", indicators, False, 0)]
    assert "line plus process" not in names


def test_few_rows_and_a_search_for_the_score_itself_are_told_apart_from_a_finding():
    few = mercer.fit({"x": [1.0, 2.0], "y": [1.0, 2.5]}, "y", kind="regression")
    assert any(note.startswith("2 rows are very few") for note in few.notes_)
    rng = np.random.default_rng(1)  # noise, and five parameters that maximise the score
    table = {f"x{j}": rng.normal(size=60) for j in range(10)} | {"y": rng.choice(["a", "b"], 60)}
    model = mercer.fit(table, "y", candidates=["least squares"])
    assert any(note.startswith("no machine predicts") for note in model.notes_)
    assert not any("very few" in note for note in model.notes_)


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_every_machine_can_be_checked_by_folds(kind, rng):
    x = rng.uniform(-2, 2, (30, 1))
    x[25:] = x[:5]  # for the machine of repeats
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=30)
    table = {"x": x[:, 0], "y": y if kind == "regression" else np.where(y > 0, "a", "b")}
    for candidate in candidates_for(kind, x, True, 2 * (kind == "binary")):
        model = mercer.fit(table, "y", candidates=[candidate.name])
        checked = model.cross_validate(folds=2)
        assert checked.by == "2 folds"
        assert np.isfinite(checked.score), candidate.name


def test_one_machine_that_fails_does_not_take_its_family_with_it(monkeypatch):
    usual = mercer.SVC.fit

    def fit(self, X, y, sample_weight=None):
        if self.C < 1.0:
            raise ValueError("too soft")
        return usual(self, X, y, sample_weight)

    monkeypatch.setattr(mercer.SVC, "fit", fit)
    x = np.random.default_rng(0).normal(size=40)
    model = mercer.fit(
        {"x": x, "y": np.where(x > 0, "a", "b")}, "y", candidates=["support vectors"]
    )
    assert model.chosen_.score is not None
    assert model.machine_.C > 1.0
    monkeypatch.setattr(mercer.SVC, "fit", lambda self, X, y: fit(self.set_params(C=0.1), X, y))
    with pytest.raises(ValueError, match="support vectors: failed: too soft"):
        mercer.fit({"x": x, "y": np.where(x > 0, "a", "b")}, "y", candidates=["support vectors"])
