"""Figures 4.2 and 4.3 of the thesis: bounds are bounds, and the page is that of the stored run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).resolve().parents[2] / "papers"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("thesis_evidence")


def test_bounds_hold_along_a_small_search(script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "STEPS", 2)
    monkeypatch.setattr(script, "MOST", 2)
    monkeypatch.setattr(script, "METHOD", script.MCMC(samples=60, warmup=30, chains=2))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=15) > 0.0, 1.0, -1.0)
    kernels = script.trajectory(X, y)
    assert len(kernels) == 2
    found = script.energies(kernels[-1], X, y)
    slack = 4.0 * found["error"]
    assert found["mode"] < found["truth"] + slack
    assert found["truth"] - slack < found["best"] < found["at laplace"] + 1e-6


def test_the_stored_run_keeps_the_order_of_the_bounds() -> None:
    stored = json.loads((PAPERS / "thesis_evidence.json").read_text())
    for points in stored.values():
        for one in points:
            slack = 4.0 * one["error"]
            assert one["mode"] < one["truth"] + slack
            assert one["truth"] - slack < one["best"] <= one["at laplace"] + 1e-6


def test_the_page_is_that_of_the_stored_run(script) -> None:
    stored = json.loads((PAPERS / "thesis_evidence.json").read_text())
    written = PAPERS.parent / "docs" / "papers" / "thesis_evidence.md"
    assert written.read_text() == script.page(stored)
