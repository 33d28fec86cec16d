"""The least-squares benchmark and the USPS experiment run; no time is asserted here."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.inside import WHERE, turns

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    for folder in ("benchmarks", "papers"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module


@WHERE
def test_the_lsc_suite_runs_and_agrees(script, monkeypatch, tmp_path, capsys, where):
    for name in script("measure").ONE_THREAD:
        monkeypatch.setenv(name, "1")
    if where == "inside":
        monkeypatch.setattr(script("lsc"), "interleaved", turns(script("lsc").task_of))
    file = tmp_path / "rows.jsonl"
    script("run").main(["lsc", "--sizes", "60", "--repeats", "1", "--json", str(file)])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == 5
    assert not any("DISAGREES" in row["note"] for row in rows)
    assert "LOO of 20 ridge parameters, n = 60" in capsys.readouterr().out


def test_bits_and_errors(script):
    log_p = np.log([[0.75, 0.25], [0.55, 0.45], [0.125, 0.875]])
    found = script("usps_3v5").scores(
        log_p, np.array([3, 5, 3]), np.array([3, 5]), np.array([3, 5])
    )
    assert found["errors"] == 2
    assert found["bits"] == pytest.approx(1 + np.log2([0.75, 0.45, 0.125]).mean())
    assert found["worst"] == 2
    assert found["bits without the worst"] == pytest.approx(1 + np.log2([0.75, 0.45]).mean())


def test_usps_runs_on_a_part(script, data_folder, capsys):
    script("usps_3v5").main(["--rows", "60", "--restarts", "0"])
    assert "12/773 errors (1.55 %), bits 0.77" in capsys.readouterr().out


@pytest.mark.slow
def test_usps_reproduces_the_book(script, data_folder):
    usps = script("usps_3v5")
    found = usps.plsc(False, 3, usps.read("usps_3v5"))
    assert found["errors"] == usps.BOOK["errors"]
    assert found["LOO log probability"] == pytest.approx(-20.08, abs=0.02)
    assert found["bits"] == pytest.approx(0.890, abs=0.002)
    assert found["log length scale"] == pytest.approx(2.958, abs=0.01)
