"""The benchmark of splines runs; no time is asserted here."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.mark.slow
def test_the_suite_runs_on_tiny_sizes(script, monkeypatch, tmp_path):
    for name in script("measure").ONE_THREAD:
        monkeypatch.setenv(name, "1")
    file = tmp_path / "rows.jsonl"
    script("run").main(["spline", "--sizes", "200", "400", "--repeats", "1", "--json", str(file)])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    mine = [row for row in rows if row["who"] == "mercer"]
    assert sum("points" in row["what"] and row["seconds"] is not None for row in mine) == 4
    assert all(row["quality"]["RMSE"] < 0.2 for row in mine if row["quality"])
    assert any(row["unit"] == "MiB" for row in mine)
    assert any(row["what"].startswith("time per point") for row in mine)


def test_time_per_point_is_compared_between_sizes(script):
    row = script("measure").Row
    rows = [
        row(f"spline through {n} uneven points", "mercer", seconds=s)
        for n, s in ((100, 1.0), (1000, 5.0))
    ]
    [growth] = script("spline").growth_row(rows)
    assert growth.value == pytest.approx(0.5)
    assert script("spline").growth_row(rows[:1]) == []


def test_a_missing_peer_is_said(script, monkeypatch):
    spline = script("spline")
    monkeypatch.setattr(spline, "version", lambda name: None)
    told = {"result": {}, "seconds": 0.01, "system": 0.0}
    monkeypatch.setattr(spline, "interleaved", lambda workers, _: dict.fromkeys(workers, told))
    rows = spline._compared(100, "uneven", "csaps", 1)
    assert [row.who for row in rows] == ["mercer", "csaps"]
    assert "not installed" in rows[-1].note


def test_peers_are_given_the_same_problem(script):
    spline = script("spline")
    x, y = spline.problem(300, even=True)
    assert np.abs(spline._mercer(x, y) - spline._scipy(x, y)).max() < 0.3
    assert np.all(np.diff(spline.problem(300)[0]) > 0.0)
