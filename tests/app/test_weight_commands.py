"""``--weights``: a column of the file says how often each row counts."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import mercer
from mercer.app.main import main


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """t.csv has a column w of weights from 0 to 2, twice.csv every row as often as it says."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    x, town = rng.normal(size=70), rng.choice(["Ulm", "Bonn"], 70)
    y = x + (town == "Ulm") + 0.3 * rng.normal(size=70)
    w = rng.integers(0, 3, 70)
    rows = [f"{a!r},{b},{c!r}" for a, b, c in zip(x.tolist(), town, y.tolist(), strict=True)]
    weighted = [f"{row},{count}" for row, count in zip(rows, w, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,town,y,w", *weighted]) + "\n")
    repeated = [row for row, count in zip(rows, w, strict=True) for _ in range(count)]
    (tmp_path / "twice.csv").write_text("\n".join(["x,town,y", *repeated]) + "\n")
    return tmp_path


def test_fit_predict_compare(folder, capsys):
    common = ["-t", "y", "--candidates", "linear", "--json"]
    found = {}
    for table, more in (("t.csv", ["--weights", "w"]), ("twice.csv", [])):
        code, out, err = run(capsys, "fit", table, "-o", f"{table}.mercer", *common, *more)
        assert (code, err) == (0, "")
        found[table] = json.loads(out)
        assert run(capsys, "predict", f"{table}.mercer", "t.csv", "-o", f"{table}.out")[0] == 0
    assert found["t.csv"]["features"] == ["x", "town"]
    assert (found["t.csv"]["weights"], found["twice.csv"]["weights"]) == ("w", None)
    for one, other in zip(found["t.csv"]["ranking"], found["twice.csv"]["ranking"], strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=1e-6)
    one, other = (
        np.loadtxt(f"{name}.out", delimiter=",", skiprows=1) for name in ("t.csv", "twice.csv")
    )
    np.testing.assert_allclose(one, other, rtol=1e-6)
    code, out, _ = run(capsys, "info", "t.csv.mercer")
    assert code == 0
    total = int(mercer.load("t.csv.mercer").weights_.sum())
    assert f"weighted by 'w': {total} in all" in " ".join(out.split())
    code, out, err = run(capsys, "compare", "t.csv", "--weights", "w", *common)
    assert (code, err) == (0, "")
    assert json.loads(out)["ranking"][0]["score"] == found["t.csv"]["ranking"][0]["score"]


def test_a_report_weighs(folder, capsys):
    given = ["-t", "y", "--candidates", "linear", "-q", "--report", "r.html", "-o", "m.mercer"]
    for table, more in (("t.csv", ["--weights", "w"]), ("twice.csv", [])):
        code, _, err = run(capsys, "fit", table, *given, *more)
        assert (code, err) == (0, "")
        text = (folder / "r.html").read_text()
        assert ("weighted by “w”" in text) == ("its weight says" in text) == bool(more)


@pytest.mark.parametrize(
    ("cell", "weights", "message"),
    [
        ("", "w", "line 4: column 'w' has no value (1 of 70 rows lack one)"),
        ("-1", "w", "the weights 'w': sample_weight must be finite and not negative; row 2 has -1"),
        ("two", "w", "line 4: column 'w' holds 'two', not a number"),
        ("1", "town", "the weights 'town' are texts, not numbers"),
        ("1", "ww", "no column 'ww' (the weights)"),
        ("1", "y", "'y' cannot be the target and the weights too"),
    ],
)
def test_mistakes_cost_one_sentence(folder, capsys, cell, weights, message):
    lines = (folder / "t.csv").read_text().splitlines()
    lines[3] = lines[3].rpartition(",")[0] + "," + cell
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--weights", weights]
    code, out, err = run(capsys, *given)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert "m.mercer" not in os.listdir()


def test_rows_without_a_weight_can_be_dropped(folder, capsys):
    lines = (folder / "t.csv").read_text().splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ","
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--weights", "w", "--drop-missing"]
    code, out, err = run(capsys, *given, "--json", "--candidates", "linear")
    assert (code, err) == (0, "")
    assert "1 rows with missing values were left out" in json.loads(out)["remarks"]


def test_a_ranking_in_a_file_has_its_weights(folder, capsys):
    code, _, err = run(capsys, "compare", "m.mercer", "--weights", "w")
    assert (code, err) == (1, "mercer: --weights is for a table: pass --target as well\n")
