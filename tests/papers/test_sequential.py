"""The script on one pass over the data: its figures by another way, and a quick run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

PAPERS = Path(__file__).resolve().parents[2] / "papers"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("jaakkola_haussler_sequential")


def test_divergence_is_the_integral(script) -> None:
    q, p = (np.array([0.3, -1.0]), np.array([0.5, 2.0])), (np.zeros(2), np.array([1.0, 1.5]))

    def one(m: float, s: float, n: float, r: float) -> float:
        def part(x: float) -> float:
            return norm.pdf(x, m, s) * (norm.logpdf(x, m, s) - norm.logpdf(x, n, r))

        return quad(part, m - 12 * s, m + 12 * s)[0]

    exact = np.mean([one(*each) for each in zip(*q, *p, strict=True)])
    assert script.divergence(q, p) == pytest.approx(exact, abs=1e-10)
    assert script.divergence(q, q) == pytest.approx(0.0, abs=1e-15)


def test_without_data_it_says_what_is_missing(script, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(SystemExit, match="set MERCER_DATA"):
        script.main(["--quick"])


def test_quick_run(script, data_folder, tmp_path, capsys) -> None:
    files = {name: tmp_path / f"figures.{name}" for name in ("json", "md", "png")}
    given = ["--json", files["json"], "--page", files["md"], "--out", files["png"]]
    rows = script.main(["--quick", "--data", "pima", *map(str, given)])
    assert json.loads(files["json"].read_text()) == rows
    assert files["png"].stat().st_size > 10_000
    assert "figures.png" in files["md"].read_text()
    assert "one pass loses" in capsys.readouterr().out
    last = {row["method"]: row for row in rows if row["n"] == 200}
    assert last["sequential"]["evidence"][0] < last["bound"]["evidence"][0]
    assert last["bound"]["evidence"][0] < last["EP"]["evidence"][0]
    assert last["bound"]["evidence"][1] == 0.0  # the batch does not depend on the order
    assert 0.0 < last["sequential"]["evidence"][1] < 1.0
    assert last["sequential"]["error"][0] < 0.25
