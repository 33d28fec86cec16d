"""Rows that belong together or follow each other: how they are left out, and what is then true."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor
from mercer.app.main import main
from mercer.kernels import RBF, Nugget
from mercer.left_out.together import left_out_together
from mercer.losses import Gaussian
from mercer.tables.choose.effects import season_of
from mercer.tables.choose.left_out import by_folds, own_left_out
from mercer.tables.data.structure import RowStructure
from mercer.tables.judge.dependent import correlation_of_neighbours


def grouped(groups, each, seed, effect=1.0):
    """Return a table whose groups have an effect, and inputs that are alike within a group."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), each)
    centre, own = rng.normal(size=(groups, 2)), effect * rng.normal(size=groups)
    X = centre[g] + 0.1 * rng.normal(size=(groups * each, 2))
    y = np.sin(X[:, 0]) + own[g] + 0.3 * rng.normal(size=groups * each)
    who = [f"{seed}-{i}" for i in g]
    return {"a": X[:, 0], "b": X[:, 1], "who": who, "y": y}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("basis", [None, "linear"])
def test_leave_group_out_is_a_fit_to_the_others(rng, weighted, basis):
    """Against refits at fixed hyperparameters, group by group."""
    X, y = rng.normal(size=(24, 2)), rng.normal(size=24)
    X[5] = X[4]
    groups = rng.permutation(np.repeat(np.arange(6), 4))
    w = rng.choice([1.0, 2.0, 3.0], 24) if weighted else None
    fixed = {"search": None, "standardize": False, "basis": basis}
    kernel = 1.3 * RBF(0.8).on([0, 1]) + 0.4 * RBF(2.0)
    machine = GPRegressor(kernel, loss=Gaussian(0.2), **fixed).fit(X, y, w)
    left = own_left_out(machine, X, y, 0, w, RowStructure("g", groups))
    assert left.by == "leave-group-out"
    for g in range(6):
        out = groups == g
        other = GPRegressor(kernel, loss=Gaussian(0.2), **fixed)
        other.fit(X[~out], y[~out], None if w is None else w[~out])
        mean, std = other.predict(X[out], return_std=True)
        np.testing.assert_allclose(left.mean[out], mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(left.std[out], std, rtol=1e-9)
        density = other.predictive_log_density(X[out], y[out])
        np.testing.assert_allclose(left.log_density[out], density, rtol=0, atol=1e-8)


def test_a_group_is_left_out_of_the_centre_too(rng):
    """Targets less the mean of all; brute force centres the others anew."""
    n = 12
    X, raw = rng.normal(size=(n, 1)), 5.0 + rng.normal(size=n)
    groups, w = np.arange(n) // 3, rng.choice([1.0, 2.0], n)
    K = np.exp(-0.5 * (X - X.T) ** 2)
    centre = np.average(raw, weights=w)
    mean, variance = left_out_together(K, raw - centre, 0.3, groups, weights=w, centred=True)
    for g in range(4):
        a, b = np.flatnonzero(groups != g), np.flatnonzero(groups == g)
        shift = np.average(raw[a], weights=w[a])
        A = np.linalg.inv(K[np.ix_(a, a)] + np.diag(0.3 / w[a]))
        cross = K[np.ix_(b, a)]
        np.testing.assert_allclose(centre + mean[b], shift + cross @ A @ (raw[a] - shift))
        np.testing.assert_allclose(variance[b], 1.3 - np.sum(cross @ A * cross, axis=1))


def test_groups_of_one_row_are_leave_one_out(rng):
    X, y = rng.normal(size=(30, 2)), 3.0 + rng.normal(size=30)
    machine = GPRegressor("rbf").fit(X, y)
    left = own_left_out(machine, X, y, 0, None, RowStructure("g", np.arange(30)))
    np.testing.assert_allclose(left.mean, machine.loo_.mean, rtol=1e-8)
    np.testing.assert_allclose(left.log_density, machine.loo_.log_density, rtol=0, atol=1e-7)


def test_folds_keep_groups_together_and_time_apart(rng):
    y, codes = rng.normal(size=60), rng.integers(0, 12, 60)
    pairs = RowStructure("g", codes).folds(y, 0, 0, 5)
    assert sorted(np.concatenate([b for _, b in pairs])) == list(range(60))
    assert all(not set(codes[a]) & set(codes[b]) for a, b in pairs)
    times = rng.integers(0, 25, 60).astype(float)
    pairs = RowStructure("t", times=times).folds(y, 0, 0, 5)
    assert all(times[a].max() < times[b].min() for a, b in pairs)
    assert len(np.unique(np.concatenate([b for _, b in pairs]))) < 60


def test_a_class_that_comes_later_is_not_impossible(rng):
    X, times = rng.normal(size=(60, 1)), np.arange(60.0)
    codes = np.where(times < 30, np.arange(60) % 2, np.arange(60) % 3).astype(float)
    labels = np.array(["a", "b", "c"])[codes.astype(int)]
    machine = mercer.KernelClassifier("linear", loss="logistic")
    structure = RowStructure("t", times=times)
    left = by_folds(machine, X, labels, codes, 3, 0, structure=structure)
    assert np.all(left.log_density > -7.0)
    np.testing.assert_allclose(left.proba.sum(axis=1), 1.0)
    assert left.weights[0] == 0.0 < left.weights[-1]


@pytest.mark.slow
def test_grouped_figures_are_those_of_new_groups():
    """Over tables: leave-one-out is optimistic, leave-group-out within its standard error."""
    new = grouped(400, 2, 99)
    y, gaps = np.array(new["y"]), []
    for seed in range(8):
        table = grouped(30, 5, seed)
        bare = {k: v for k, v in table.items() if k != "who"}
        budget = {"time_budget": 300}
        plain = mercer.fit(bare, "y", candidates=["Gaussian process"], **budget)
        names = ["Gaussian process, groups"]
        honest = mercer.fit(table, "y", group="who", candidates=names, **budget)
        gaps.append(
            [m.left_out_.score - m.machine_.predictive_log_density(m.encode(new), y).mean()
             for m in (plain, honest)]
        )  # fmt: skip
    mean, error = np.mean(gaps, axis=0), np.std(gaps, axis=0, ddof=1) / np.sqrt(8)
    assert mean[0] > 4.0 * error[0]
    assert abs(mean[1]) < 1.5 * error[1]
    assert honest.left_out_.by == "leave-group-out, nested"


def test_an_effect_of_each_group(tmp_path):
    table, new = grouped(25, 6, 3), grouped(300, 2, 4)
    names = ["Gaussian process, groups", "linear, groups"]
    model = mercer.fit(table, "y", group="who", candidates=names, time_budget=300)
    _, known = model.predict(table, return_std=True)
    _, unknown = model.predict(new, return_std=True)
    assert known.mean() < 0.6
    assert unknown.mean() > 0.8  # the variance of groups is in it
    low, high = model.predict_interval(new)
    assert np.mean((low < new["y"]) & (new["y"] < high)) == pytest.approx(0.9, abs=0.07)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.grouped_by_ == "who"
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    bare = {k: v for k, v in new.items() if k != "who"}  # without a column all groups are new
    np.testing.assert_array_equal(again.predict(bare), model.predict(new))
    numbers = {**table, "who": np.arange(150) // 6}
    other = mercer.fit(numbers, "y", group="who", candidates=names[:1], time_budget=300)
    words = {**numbers, "who": [str(v) for v in numbers["who"]]}
    np.testing.assert_array_equal(other.predict(words), other.predict(numbers))


def test_the_kernel_of_groups_is_a_nugget():
    kernel = Nugget(0.5).on([0])
    assert kernel(np.array([[1.0]]), np.array([[1.0], [-1.0]])).tolist() == [[0.5, 0.0]]


def series(n, seed):
    """Return a series that drifts, with a trend and a season."""
    rng = np.random.default_rng(seed)
    t, x = np.arange(float(n)), rng.normal(size=n)
    drift = np.cumsum(0.15 * rng.normal(size=n))
    y = 0.5 * x + drift + 0.02 * t + np.sin(2 * np.pi * t / 12) + 0.2 * rng.normal(size=n)
    return {"t": t, "x": x, "y": y}


TIMED = ["Gaussian process", "trend and recency", "trend, season and recency"]


def test_later_rows_are_predicted_from_earlier_ones(tmp_path):
    whole = series(90, 1)
    model = mercer.fit(whole, "y", time="t", candidates=TIMED[1:2], time_budget=300)
    assert model.left_out_.by == "rows of later times"
    assert len(model.left_rows_) == len(model.left_out_.y) == 75  # five of six stretches
    assert model.left_rows_.min() == 15
    assert model.left_out_.weights is None
    low, high = model.predict_interval({"t": [91.0, 130.0], "x": [0.0, 0.0]})
    assert high[1] - low[1] > high[0] - low[0]  # the further, the wider
    model.save(tmp_path / "m.mercer")
    assert mercer.load(tmp_path / "m.mercer").ordered_by_ == "t"


@pytest.mark.slow
def test_figures_in_time_are_those_of_the_future():
    """Over series: leave-one-out is optimistic, later rows within a standard error."""
    gaps, inside = [], []
    for seed in range(8):
        whole = series(180, seed)
        past = {k: v[:150] for k, v in whole.items()}
        future = {k: v[150:] for k, v in whole.items()}
        budget = {"time_budget": 300}
        found = season_of(past["t"], past["y"])
        names = TIMED if found is not None else TIMED[:2]
        timed = mercer.fit(past, "y", time="t", candidates=names, **budget)
        plain = mercer.fit(past, "y", candidates=TIMED[:1], **budget)
        gaps.append(
            [m.left_out_.score
             - m.machine_.predictive_log_density(m.encode(future), future["y"]).mean()
             for m in (plain, timed)]
        )  # fmt: skip
        low, high = timed.predict_interval(future)
        inside.append(np.mean((low < future["y"]) & (future["y"] < high)))
    mean, error = np.mean(gaps, axis=0), np.std(gaps, axis=0, ddof=1) / np.sqrt(8)
    assert mean[0] > 3.0 * error[0]
    assert abs(mean[1]) < 1.5 * error[1]
    assert 0.8 < np.mean(inside) < 0.97


def test_signs_that_rows_are_not_independent(rng):
    given = {"candidates": ["linear"], "time_budget": 300}
    drift = {"x": rng.normal(size=150), "y": np.cumsum(rng.normal(size=150))}
    assert any("rows that follow each other" in n for n in mercer.fit(drift, "y", **given).notes_)
    noise = {"x": rng.normal(size=150), "y": rng.normal(size=150)}
    fine = mercer.fit(noise, "y", **given).notes_
    assert not any("--group" in n or "follow each other" in n for n in fine)
    ids = {**noise, "patient_id": np.arange(150) // 5}
    assert any("group='patient_id'" in n for n in mercer.fit(ids, "y", **given).notes_)
    twice = {"x": np.repeat(rng.normal(size=75), 2)[rng.permutation(150)], "y": noise["y"]}
    assert any("75 of 150 rows" in n for n in mercer.fit(twice, "y", **given).notes_)
    order = np.argsort(noise["y"])
    sorted_by_target = {k: v[order] for k, v in noise.items()}
    notes = mercer.fit(sorted_by_target, "y", **given).notes_
    assert not any("follow each other" in n for n in notes)


def test_the_test_has_its_size():
    rng = np.random.default_rng(5)
    found = [correlation_of_neighbours(rng.standard_t(2, size=100)) for _ in range(4000)]
    assert np.mean(np.array(found) > 3.0902) < 0.004  # one in a thousand, of 4000
    assert 0.02 < np.mean(np.array(found) > 1.6449) < 0.08


def test_a_season_is_found_or_not():
    t = np.sort(np.random.default_rng(0).uniform(0, 100, 150))
    wave = np.sin(2 * np.pi * t / 7) + 0.5 * np.random.default_rng(1).normal(size=150)
    assert season_of(t, wave) == pytest.approx(7.0, rel=0.05)
    assert season_of(t, np.random.default_rng(2).normal(size=150)) is None
    assert season_of(t[:10], wave[:10]) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": "who", "time": "a"}, "by group or by time: name one"),
        ({"group": "nobody"}, "has no column 'nobody'"),
        ({"time": "who"}, "is text, not a time"),
        ({"group": "half"}, "2 groups: at least 5"),
        ({"group": "gaps"}, "1 rows have no value of 'gaps'"),
        ({"group": "y"}, "cannot be the groups and target"),
        ({"group": "who", "features": ["who"]}, "cannot be an input twice"),
    ],
)
def test_structures_that_are_refused(given, message):
    table = grouped(8, 3, 0)
    table |= {"half": ["a", "b"] * 12, "gaps": [None] + ["a"] * 23}
    with pytest.raises(ValueError, match=message):
        mercer.fit(table, "y", **given)
    with pytest.raises(ValueError, match="has no column 'who'"):
        mercer.fit(np.ones((4, 1)), np.ones(4), group="who")


def test_groups_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = grouped(12, 5, 0)
    rows = zip(*(table[n] for n in ("a", "b", "who", "y")), strict=True)
    text = "a,b,who,y\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "t.csv").write_text(text)
    call = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--group", "who"]
    assert main([*call, "--candidates", 'linear,"linear, groups"']) == 0
    assert "leave-group-out" in capsys.readouterr().out
    assert main(["predict", "m.mercer", "t.csv", "-o", "p.csv"]) == 0
    model = mercer.load("m.mercer")
    assert model.cross_validate(table, folds=3).by == "leave-group-out"
    assert main(["explain", "m.mercer", "t.csv"]) == 0
