"""The benchmark of tables: its splits, its verdicts, and what it keeps of the peers."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression

from tests.benchmarks.test_runner import ROOT


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def tables(script, monkeypatch):
    module, data = script("tables"), script("table_data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    f = 2 * X[:, 0] + 0.5 * rng.normal(size=160)
    classes = np.where(f > 0, "yes", "no")
    small = {"line": (lambda: (X, f), 80), "sides": (lambda: (X, classes), 80)}
    for owner in (module, data):
        monkeypatch.setattr(owner, "TABLES", small)
    return module


def test_splits_are_their_own_and_repeat(tables, script):
    task_of = script("table_data").task_of
    first, again, second = task_of("line", 0), task_of("line", 0), task_of("line", 1)
    np.testing.assert_array_equal(first.train, again.train)
    assert not np.array_equal(first.train, second.train)
    assert not set(first.train) & set(first.test)
    assert (first.classes, task_of("sides", 0).classes) == (False, True)


def test_peers_of_scikit_learn(tables, script, monkeypatch):
    peers, task_of = script("table_peers"), script("table_data").task_of
    exact = 0.5 + np.log(0.5) + 0.5 * np.log(2 * np.pi)  # of the truth
    for make, more in ((BayesianRidge, 0.2), (lambda: RandomForestRegressor(20), 0.7)):
        assert abs(-peers.of_quantity(make, task_of("line", 0)).mean() - exact) < more
    assert -peers.of_classes(LogisticRegression, task_of("sides", 0)).mean() < 0.4


def test_rows_of_several_splits_count_once(tables):
    rows = [np.array([3, 5]), np.array([5, 9])]
    values = [np.array([1.0, 2.0]), np.array([4.0, 7.0])]
    np.testing.assert_array_equal(tables.by_row(rows, values), [1.0, 3.0, 7.0])


def test_a_verdict_is_paired(tables):
    n = len(tables.task_of("sides", 0).test)
    rng = np.random.default_rng(1)
    mine = rng.normal(-0.5, 0.3, size=n)
    shift = np.where(np.arange(n) % 2, 0.02, -0.01)
    peers = [{"good": mine + shift, "bad": mine - 1.0}]
    found = tables.compared("sides", [mine], peers)
    assert found["best"] == "good"
    assert found["rank"] == 2
    assert found["behind"] == pytest.approx(shift.mean())
    assert found["se"] == pytest.approx(shift.std(ddof=1) / np.sqrt(n))


def test_densities_of_whole_numbers_are_cut(tables):
    y = np.array([3.0, 4.0, 6.0])
    np.testing.assert_array_equal(tables.cut(np.array([5.0, -1.0, 0.0]), y, y), [0.0, -1.0, 0.0])


def test_calibration_error(tables):
    sure = np.repeat([0.55, 0.95], [100, 100])
    right = np.concatenate([np.arange(100) < 75, np.arange(100) < 95])
    assert tables.calibration_error(sure, right) == pytest.approx(0.1)


def test_figures_are_kept_and_compared(tables, script, monkeypatch, tmp_path):
    def peers(name, split):
        return {"plain": (np.full(len(tables.task_of(name, split).test), -1.0), 2.0)}

    def ours(name, split):
        task = tables.task_of(name, split)
        n, one = len(task.test), {"cpu": 3.0, "chosen": "m", "left out": 0.9, "ranking": {}}
        own = {"sure": np.full(n, 0.9), "right": np.arange(n) % 10 > 0}
        more = own if task.classes else {"covered": np.arange(n) % 10 > 0}
        return one | more | {"density": np.full(n, -0.9)}

    monkeypatch.setattr(tables, "theirs", peers)
    monkeypatch.setattr(tables, "ours", ours)
    monkeypatch.setattr(script("table_peers"), "versions", lambda: {"plain": "1"})
    file = tmp_path / "peers.npz"
    with pytest.raises(SystemExit, match="fit them first"):
        tables.table_rows([], file, "mercer")
    assert tables.table_rows([], file, "peers") == []
    monkeypatch.setattr(tables, "theirs", None)  # they are known now
    rows = tables.table_rows([], file)
    assert [row.verdict for row in rows] == ["PASS"] * len(rows)
    assert rows[0].value == pytest.approx(-0.1)
    assert {row.what: row.value for row in rows}["mean rank"] == 1.0
    assert tables.Store(file).about["versions"] == {"plain": "1"}
