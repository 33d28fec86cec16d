"""The script on Skilling's bounds: what it prints holds, and the page is that of the stored run."""

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
    module = importlib.import_module("skilling_bounds")
    monkeypatch.setattr(module, "N", 80)
    monkeypatch.setattr(module, "STEPS", 15)
    return module


def test_bounds_close_about_the_value(script) -> None:
    X, K, b = script.problem()
    assert X.shape == (80, 2)
    exact = float(b @ np.linalg.solve(K + 0.1 * np.eye(80), b)) / float(b @ b)
    main, side = script.lanczos(K, b, 12)
    pairs = [script.bounds(main, side, r, 0.1) for r in range(1, 13)]
    for low, high, radau in pairs:
        assert low - 1e-9 <= exact <= high + 1e-9
        assert high == pytest.approx(radau, rel=1e-6)
    assert np.all(np.diff([p[0] for p in pairs]) >= -1e-12)
    assert np.all(np.diff([p[1] for p in pairs]) <= 1e-9)


def test_the_rule_of_gauss_is_above_for_a_logarithm(script) -> None:
    found = script.determinant(0.1, 6, 4)
    assert found["low"] <= found["high"]
    whole = script.determinant(0.1, 40, 200)
    assert abs(whole["low"] - whole["logdet"]) < 4.0 * whole["error"]


def test_the_page_is_that_of_the_stored_run(script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "STEPS", 120)
    stored = json.loads((PAPERS / "skilling_bounds.json").read_text())
    written = PAPERS.parent / "docs" / "papers" / "skilling_bounds.md"
    assert written.read_text() == script.page(stored)
