"""``mercer propose``: which rows of a table to observe next."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import SVC, GPRegressor
from mercer.app.main import main
from mercer.kernels import RBF

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=25), "b": rng.normal(size=25)})
    y = np.sin(table["a"]) + table["b"]
    mercer.save(GPRegressor(RBF(1.0), search=None).fit(table, y), "gp.mercer")
    mercer.save(SVC().fit(table, y > 0), "svc.mercer")
    rows = pd.DataFrame({"name": [f"r{i}" for i in range(12)], "a": rng.normal(size=12)})
    rows["b"] = rng.normal(size=12)
    rows.to_csv("candidates.csv", index=False)
    return tmp_path


def test_rows_are_those_of_the_model(folder, capsys):
    rows = pd.read_csv("candidates.csv")
    model = mercer.load("gp.mercer")
    for by, more in (
        ("information", []),
        ("improvement", ["--maximize"]),
        ("bound", ["--kappa", 1]),
    ):
        code, out, err = run(
            capsys, "propose", "gp.mercer", "candidates.csv", "-n", 3, "--by", by, "--json", *more
        )
        assert (code, err) == (0, "")
        wanted = {"maximize": "--maximize" in more, "kappa": 1.0 if "--kappa" in more else 2.0}
        found = model.propose(rows[["a", "b"]], 3, by, **wanted)
        told = json.loads(out)
        assert [row["row"] for row in told["rows"]] == [i + 1 for i in found]
        assert [row["name"] for row in told["rows"]] == [f"r{i}" for i in found]
        np.testing.assert_allclose([row["score"] for row in told["rows"]], found.scores)


def test_the_rows_are_printed_and_written(folder, capsys):
    code, out, err = run(capsys, "propose", "gp.mercer", "candidates.csv", "-n", 2, "-o", "out.csv")
    assert (code, err) == (0, "")
    assert "2 of 12 rows by information" in out
    with open("out.csv", newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert list(written[0]) == ["row", "score", "alone", "name", "a", "b"]
    assert len(written) == 2
    code, out, _ = run(capsys, "propose", "svc.mercer", "candidates.csv", "-n", 2)
    assert code == 0
    assert "by margin" in out


def test_mistakes_are_sentences(folder, capsys):
    code, _, err = run(capsys, "propose", "gp.mercer", "candidates.csv", "-n", 13)
    assert code == 1
    assert "13 rows are asked for, and there are 12 candidates" in err
    code, _, err = run(capsys, "propose", "gp.mercer", "candidates.csv", "--by", "luck")
    assert code == 1
    assert "unknown criterion 'luck'" in err
    code, _, err = run(capsys, "propose", "svc.mercer", "candidates.csv", "--by", "variance")
    assert code == 1
    assert "SVC has no spread of f" in err


def test_a_model_of_a_table_proposes_rows_of_tables(folder, capsys):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=60), "town": ["Ulm", "Bonn"] * 30})
    table["y"] = table["x"] + (table["town"] == "Ulm") + 0.1 * rng.normal(size=60)
    model = mercer.fit(table, target="y", candidates=["linear"])
    model.save("table.mercer")
    rows = table.drop(columns="y").head(9)
    rows.to_csv("rows.csv", index=False)
    found = model.propose(rows, 2, "variance")
    assert len(found) == 2
    code, out, _ = run(
        capsys, "propose", "table.mercer", "rows.csv", "-n", 2, "--by", "variance", "--json"
    )
    assert code == 0
    assert [row["row"] - 1 for row in json.loads(out)["rows"]] == list(found)
