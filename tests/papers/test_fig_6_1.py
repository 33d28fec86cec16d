"""The script of GPML figure 6.1: what it prints is what the figure shows."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

PAPERS = Path(__file__).resolve().parents[2] / "papers"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("gpml_fig_6_1")


@pytest.mark.parametrize("seed", [1, 2])
def test_numbers(script, seed: int) -> None:
    found = script.figures(seed)
    assert found["fourth difference of the mean"] < 1e-12
    assert found["exponent, mean of the spline"] == pytest.approx(2.0, abs=0.05)
    assert found["exponent, draws of the spline"] == pytest.approx(1.5, abs=0.05)
    assert found["exponent, draws of the RBF"] == pytest.approx(2.0, abs=0.05)
    assert found["thin plate and dense, mean"] < 1e-6
    assert found["thin plate and dense, deviation"] < 1e-6


def test_picture(script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--out", str(tmp_path / "figure.png")]) == 0
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "spline log evidence" in capsys.readouterr().out


def test_the_page_is_that_of_the_stored_run(script) -> None:
    stored = json.loads((PAPERS / "gpml_fig_6_1.json").read_text())
    written = PAPERS.parent / "docs" / "papers" / "gpml_fig_6_1.md"
    assert written.read_text() == script.page(stored)
    now = script.figures(1)
    assert now.keys() == stored.keys()
    for name in ("spline log evidence", "RBF log evidence", "exponent, draws of the spline"):
        assert stored[name] == pytest.approx(now[name], abs=5e-3)
