"""The benchmark of few labels: its problems, its pairs, and that it says what it found."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def few(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("few")


def test_a_problem_has_as_many_labels_as_asked_for(few):
    X, labels, Z, truth = few.problem("two moons", 5, 0)
    known = labels != None  # noqa: E711  # elementwise
    assert X.shape == (300, 2)
    assert np.bincount(labels[known].astype(int)).tolist() == [5, 5]
    assert len(Z) == len(truth) == 500
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)


def test_paired_differences(few):
    gain, t = few._paired(np.array([0.9, 0.8, 0.7]), np.array([0.8, 0.8, 0.6]))
    d = np.array([0.1, 0.0, 0.1])
    assert gain == pytest.approx(d.mean())
    assert t == pytest.approx(d.mean() / (d.std(ddof=1) / np.sqrt(3)))
    assert few._paired(d, d) == (0.0, 0.0)


def test_it_runs_and_prints_all_criteria(few, monkeypatch):
    monkeypatch.setattr(few, "LABELS", (3,))
    monkeypatch.setattr(few, "TEST", 250)
    rows = few.few_rows(["two moons"], range(2), 40)
    who = {row.who for row in rows}
    assert {f"LapSVC, {by}" for by in ("left_out", "evidence", "partition")} <= who
    assert {"LapLSClassifier, left_out", "LapMEDClassifier, left_out"} <= who
    assert 0.5 < rows[0].quality["accuracy"] <= 1.0
    assert {row.unit for row in rows} == {"standard errors", "points", "nats"}
