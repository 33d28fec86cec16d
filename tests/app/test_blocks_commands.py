"""``mercer fit`` in blocks, and ``mercer predict`` of many files into a folder."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mercer
from mercer.app import fit
from mercer.app.main import main

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("polars")


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, " ".join(err.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two parts of a table of 120 rows, and all of it as CSV."""
    made = tmp_path_factory.mktemp("blocks")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    table["price"] = np.sin(table.a) + 0.1 * rng.normal(size=120)
    table["side"] = np.where(table.a + rng.normal(size=120) > 0, "up", "down")
    table["often"] = 1.0 + np.arange(120) % 2
    table[:70].to_parquet(made / "part-0.parquet")
    table[70:].to_parquet(made / "part-1.parquet")
    table.to_csv(made / "big.csv", index=False)
    return made


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return folder


FEW = ("--features", "a,b", "--points", "8", "--engine", "local")


def test_fit_in_blocks_and_predict_into_a_folder(here, capsys, tmp_path) -> None:
    parts = str(here / "part-*.parquet")
    arguments = ["fit", parts, "-t", "price", "-o", "m.mercer", *FEW, "--weights", "often"]
    code, out, err = run(capsys, *arguments, "--report", "r.html", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["estimator"] == "GPRegressor"
    assert found["rows"] == {"used": 120, "weight": 180.0}
    assert found["blocks"]["engine"] == "LocalEngine"
    assert found["blocks"]["passes"] >= 2
    assert found["features"] == ["a", "b"]
    page = (tmp_path / "r.html").read_text()
    assert "inducing points" in page
    assert "mercer fit" in page
    code, out, err = run(capsys, "predict", "m.mercer", parts, "-o", "out/", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] == 120
    model = mercer.load("m.mercer")
    for i in (0, 1):
        table = pandas.read_parquet(here / f"part-{i}.parquet")
        mean, std = model.predict(table[["a", "b"]], return_std=True)
        written = pandas.read_parquet(tmp_path / "out" / f"part-{i}.parquet")
        np.testing.assert_allclose(written.prediction, mean)
        np.testing.assert_allclose(written["std"], std)
    assert model.score(parts, "price") > 0.9
    assert run(capsys, "info", "m.mercer")[0] == 0


def test_classes_are_told_by_the_target(here, capsys) -> None:
    arguments = ["fit", here / "big.csv", "-t", "side", "-o", "m.mercer", *FEW]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "sample of 120 rows" in out
    assert "model written to m.mercer" in out
    assert mercer.load("m.mercer").classes_.tolist() == ["down", "up"]


def test_a_file_too_large_for_memory_goes_by_itself(here, capsys, monkeypatch) -> None:
    monkeypatch.setattr(fit, "available_bytes", lambda: 1000)
    monkeypatch.setattr(fit, "LITTLE", 0)
    arguments = ["fit", here / "big.csv", "-t", "price", "-o", "m.mercer", "--features", "a,b"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "is read in blocks" in " ".join(out.split())
    assert mercer.load("m.mercer").report_["inducing"]["points"] <= 30  # of 120 rows


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--candidates", "SVM"), "--candidates needs the table in memory"),
        (("--drop-missing",), "--drop-missing needs the table in memory"),
        (("--check", "5"), "--check needs the table in memory"),
        (("--delimiter", ";"), "separated by commas"),
        (("--scheduler", "tcp://127.0.0.1:1"), "--engine dask"),
        (("--weights", "oftn"), "did you mean 'often'"),
    ],
)
def test_what_needs_the_table_in_memory_is_refused(here, capsys, more, said) -> None:
    arguments = ["fit", here / "big.csv", "-t", "price", "-o", "m.mercer", *FEW]
    code, _, err = run(capsys, *arguments, *more)
    assert (code, said in err) == (1, True), err


def test_columns_of_text_are_refused_by_name(here, capsys) -> None:
    arguments = ["fit", here / "part-0.parquet", "-t", "price", "-o", "m.mercer"]
    code, _, err = run(capsys, *arguments, "--engine", "local")
    assert code == 1
    assert "'side'" in err


def test_many_tables_want_a_folder(here, capsys, tmp_path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = mercer.SVR().fit(pandas.DataFrame(X, columns=["a", "b"]), X[:, 0])
    mercer.save(model, "m.mercer")
    parts = [here / "part-0.parquet", here / "part-1.parquet"]
    assert run(capsys, "predict", "m.mercer", *parts, "-o", "out")[0] == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [p.name for p in parts]
    code, _, err = run(capsys, "predict", "m.mercer", parts[0], parts[0], "-o", "out")
    assert (code, "two of them are called part-0.parquet" in err) == (1, True)
    code, _, err = run(capsys, "predict", "m.mercer", *parts, "-o", "-")
    assert (code, "a file of its own" in err) == (1, True)
    code, _, err = run(capsys, "predict", "m.mercer", "nothing-*.csv", "-o", "out")
    assert (code, "no file fits nothing-*.csv" in err) == (1, True)


def test_a_cluster_by_its_address_and_a_checkpoint(here, capsys, cluster, tmp_path) -> None:
    arguments = ["fit", here / "part-*.parquet", "-t", "price", "--features", "a,b", "--json"]
    local = ["--points", "8", "--engine", "local", "-o", "local.mercer"]
    away = ["--points", "8", "--engine", "dask", "--scheduler", cluster.scheduler_address]
    assert run(capsys, *arguments, *local)[0] == 0
    for _ in range(2):  # the second time from the checkpoint
        code, _, err = run(capsys, *arguments, *away, "-o", "m.mercer", "--checkpoint", "kept")
        assert (code, err) == (0, "")
    assert any((tmp_path / "kept").iterdir())
    X = pandas.read_csv(here / "big.csv")[["a", "b"]]
    same = [mercer.load(name).predict(X) for name in ("local.mercer", "m.mercer")]
    np.testing.assert_array_equal(*same)
