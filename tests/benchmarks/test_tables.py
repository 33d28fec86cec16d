"""The benchmark of tables: its losses, and that it says what it found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("benchmark_tables", FOLDER / "tables.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_tables", module)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def task(tables, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    f = 2 * X[:, 0] + 0.5 * rng.normal(size=160)
    y = np.where(f > 0, "yes", "no") if classes else f
    return tables.Task("line", X, y, np.arange(80), np.arange(80, 160))


def test_log_loss(tables):
    p = np.array([[0.75, 0.25], [0.5, 0.5]])
    found = tables.log_loss(p, np.array(["b", "a"]), np.array(["a", "b"]))
    assert found == pytest.approx(-0.5 * (np.log(0.25) + np.log(0.5)))


def test_peers_of_a_quantity(tables):
    found = tables.peers(task(tables, classes=False))
    assert set(found) == {"GPR", "GPR, ARD", "ridge"}
    exact = 0.5 + np.log(0.5) + 0.5 * np.log(2 * np.pi)  # of the truth
    assert all(abs(loss - exact) < 0.2 for loss, _ in found.values())
    assert all(loss == recorded for loss, recorded in found.values())  # nothing to cut


def test_densities_of_whole_numbers_are_cut(tables):
    y = np.array([3.0, 4.0, 6.0])
    assert tables.losses_of(np.array([5.0, -1.0, -1.0]), y) == pytest.approx([-1.0, 2.0 / 3.0])


def test_rows_say_how_far_behind(tables, monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "TASKS", {"line": lambda: task(tables, classes=True)})
    monkeypatch.setattr(tables, "peers", lambda task: {"good": [0.1, 0.1], "bad": [0.9, 0.9]})
    mine = {"loss": 0.105, "recorded": 0.105, "seconds": 3.0, "cpu": 2.0, "machine": "m"}
    monkeypatch.setattr(tables, "ours", lambda task: {**mine, "left_out": 0.1, "ranking": {}})
    rows = tables.table_rows(["line"], tmp_path / "peers.json")
    assert rows[0].value == pytest.approx(0.005)
    assert [row.verdict for row in rows] == ["PASS", "PASS"]
    assert "best peer good" in rows[0].note
    assert (tmp_path / "peers.json").exists()


def test_a_density_above_what_steps_allow_is_followed_by_a_second_row(tables, monkeypatch):
    monkeypatch.setattr(tables, "TASKS", {"line": lambda: task(tables, classes=False)})
    monkeypatch.setattr(tables, "peers", lambda task: {"bold": [-5.0, 0.4], "plain": [0.9, 0.9]})
    mine = {"loss": -4.0, "recorded": 0.3, "seconds": 3.0, "cpu": 2.0, "machine": "m"}
    monkeypatch.setattr(tables, "ours", lambda task: {**mine, "left_out": 0.1, "ranking": {}})
    rows = tables.table_rows(["line"])
    assert [row.value for row in rows] == pytest.approx([1.0, 3.0, -0.1])
    assert [row.verdict for row in rows] == ["FAIL", "PASS", "PASS"]
