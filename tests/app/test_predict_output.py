"""Where predictions go: standard output, pipes, files of other kinds; columns that are kept."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.tables.files.table import read_file

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model m.mercer of x, and a table t.csv with an id, a note and x."""
    monkeypatch.chdir(tmp_path)
    X = np.linspace(0, 6, 20)[:, None]
    fitted = mercer.GPRegressor("rbf", search=None).fit(X, np.sin(X[:, 0]))
    fitted.feature_names_in_ = np.array(["x"], dtype=object)
    mercer.save(fitted, "m.mercer")
    (tmp_path / "t.csv").write_text('id,note,x\n007,"a, b",1\n008,NA,2\n')
    return tmp_path


def predict(*arguments):
    return main(["predict", "m.mercer", "t.csv", *arguments])


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_predictions_on_standard_output(folder, capfdbinary, name):
    assert predict("-o", "p.csv", "--quiet") == 0
    assert predict("-o", name) == 0
    out, err = capfdbinary.readouterr()
    assert out == (folder / "p.csv").read_bytes()
    assert err == b"2 predictions written to standard output\n"
    assert not os.path.exists("-")
    assert predict("-o", name, "--json") == 1
    assert b"cannot both go to standard output" in capfdbinary.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="pipes differ on Windows")
def test_predictions_through_a_pipe(folder):
    os.mkfifo("pipe")
    code = "import sys; sys.stdout.write(open('pipe').read())"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert predict("-o", "pipe", "--quiet") == 0
        out, _ = reader.communicate(timeout=60)
    assert out.splitlines()[0] == "prediction,std,low,high"
    assert len(out.splitlines()) == 3


def test_other_outputs_are_files(folder, capsys):
    for command in (["fit", "t.csv", "-t", "x", "-o", "-"], ["export", "m.mercer", "-"]):
        assert main(command) == 1
        assert "only predictions go to standard output" in capsys.readouterr().err
    assert predict("-o", "p.xlsx") == 1
    assert "p.xlsx: a spreadsheet cannot be written" in capsys.readouterr().err
    assert not os.path.exists("p.xlsx")


def test_columns_are_kept_as_they_are(folder, capsys):
    assert predict("-o", "p.csv", "--keep", "id, note") == 0
    table = read_file("p.csv")
    assert table.names == ["id", "note", "prediction", "std", "low", "high"]
    assert table.columns["id"] == ["007", "008"]
    assert table.columns["note"] == ["a, b", "NA"]
    capsys.readouterr()
    assert predict("-o", "p.csv", "--keep", "name") == 1
    assert "has no column 'name' (to keep)" in capsys.readouterr().err
    (folder / "t.csv").write_text("prediction,x\n1,1\n")
    assert predict("-o", "p.csv", "--keep", "prediction") == 1
    assert "two columns 'prediction'" in capsys.readouterr().err


def test_columns_of_parquet_are_kept(folder, capsys):
    polars = pytest.importorskip("polars")
    frame = {"id": [7, None], "w": [0.5, 2.0], "x": [1.0, 2.0], "big": [2**60, 1]}
    polars.DataFrame(frame).write_parquet("t.parquet")
    call = ["predict", "m.mercer", "t.parquet", "-o"]
    assert main([*call, "p.parquet", "--keep", "id,w"]) == 0
    found = polars.read_parquet("p.parquet")
    assert found["id"].to_list() == [7, None]
    assert found["id"].dtype == polars.Int64
    assert found["w"].to_list() == [0.5, 2.0]
    assert main([*call, "p.csv", "--keep", "big"]) == 1
    assert "more digits than are kept; store them as text" in capsys.readouterr().err


@pytest.mark.parametrize("missing", [False, True])
def test_quantiles_are_columns(folder, missing):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, 60)[:, None]
    machine = mercer.QuantileRegressor((0.1, 0.5, 0.9), search=None)
    machine.fit(X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=60))
    expected = machine.predict(np.array([[1.0], [4.5]]))
    machine.feature_names_in_ = np.array(["x"], dtype=object)
    mercer.save(machine, "q.mercer")
    (folder / "t.csv").write_text("x,id\n1,a\n,b\n4.5,c\n" if missing else "x,id\n1,a\n4.5,c\n")
    call = ["predict", "q.mercer", "t.csv", "-o", "q.csv", "--keep", "id"]
    assert main([*call, *(["--allow-missing"] if missing else [])]) == 0
    table = read_file("q.csv")
    assert table.names == ["id", "quantile_0.1", "quantile_0.5", "quantile_0.9"]
    found = table.numbers(table.names[1:])
    if missing:
        assert np.isnan(found[1]).all()
        found = found[[0, 2]]
    np.testing.assert_array_equal(found, expected)
    assert np.all(np.diff(found, axis=1) >= 0)
