"""The benchmark of relevance vector machines: its figures are those of the machines."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rvm")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_evidence_is_the_machines_own(suite, task) -> None:
    data = suite.problem(task, 120, 0)
    fitted = suite._mercer(task, *data[:2])
    evidence, error, vectors = suite._figures(task, fitted, *data)
    assert evidence == pytest.approx(fitted["model"].log_evidence_, abs=1e-5)
    assert vectors == len(fitted["model"].relevance_rows_)
    assert error == pytest.approx(suite._figures(task, fitted, *data)[1])
    assert 0.0 < error < (4.0 if task == "regression" else 0.5)


def test_libraries_that_are_missing_have_no_version(suite) -> None:
    assert suite.version("mercer") is not None
    assert suite.version("no such library") is None
    assert suite.sets_of(500) > suite.sets_of(2000)
    assert suite.sets_of(2000)[0] > suite.sets_of(2000)[1] == 1  # its differences have errors
