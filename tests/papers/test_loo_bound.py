"""The script on the leave-one-out bound: its figures by another way, and a quick run of it all."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).resolve().parents[2] / "papers"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("loo_bound")


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("width", [0.2, 2.0])
def test_figures_are_what_they_say(script, loss, width) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(25, 2)), rng.normal(size=(50, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    t = np.where(Z[:, 0] > 0, 1.0, -1.0)
    bound, cavity, loo, test = script.figures(loss, width, X, y, Z, t)

    def decisions(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        return script.machine(loss, width, 2).fit(X[rows], y[rows]).decision_function(at)

    every = np.arange(25)  # no row is passed over here
    left = [y[i] * decisions(np.delete(every, i), X[i : i + 1])[0] for i in every]
    assert loo == np.mean(np.array(left) <= 0.0)
    assert bound >= loo
    assert abs(cavity - loo) <= 3 / 25
    assert test == np.mean(t * decisions(every, Z) <= 0.0)


def test_without_data_it_says_what_is_missing(script, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(SystemExit, match="set MERCER_DATA"):
        script.main(["--quick"])


@pytest.mark.slow
def test_quick_run_of_all_three_sets(script, data_folder, tmp_path, capsys) -> None:
    picture = tmp_path / "bound.png"
    script.main(["--quick", "--out", str(picture)])
    printed = capsys.readouterr().out
    for name in ("pima", "banana", "ringnorm"):
        for loss in ("logistic", "hinge"):
            assert f"{name}, {loss}, 15 rows" in printed
    held = re.findall(r"bound below the leave-one-out error: (\d+) of 3 widths", printed)
    assert held == ["0"] * 6  # Lemma 1
    rows = [line.split() for line in printed.splitlines() if re.match(r" +[0-9.]+ +[0-9.]+", line)]
    table = np.array(rows, dtype=float)
    assert table.shape == (18, 5)
    assert np.all((table[:, 1:] >= 0.0) & (table[:, 1:] <= 1.0))
    assert picture.read_bytes().startswith(b"\x89PNG")
