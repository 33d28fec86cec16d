"""The benchmark and paper scripts run; no time is asserted here."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.benchmarks.inside import WHERE, turns

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "data" / "uci_regression_gpy.json"
# What the comparison of evidences allows: GPy adds 1e-8 to the diagonal, and both stop early.
NATS = 0.1


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    """Return a function that imports a script of benchmarks/ or papers/ by name."""
    for folder in ("benchmarks", "papers"):
        monkeypatch.syspath_prepend(str(ROOT / folder))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.fixture
def needs_data() -> None:
    if not os.environ.get("MERCER_DATA"):
        pytest.skip("MERCER_DATA is not set: the tables are not in the repository")


# ---------------------------------------------------------------------- benchmarks
def test_mercer_agrees_with_scikit_learn_on_the_benchmark(script):
    peers = script("peers")
    X, y, theta = peers.problem(60)
    mine, slope = peers.Mercer(X, y)(theta)
    theirs, their_slope = peers.ScikitLearn(X, y)(theta)
    np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    np.testing.assert_allclose(slope, their_slope, rtol=1e-7, atol=1e-7)


def inside(monkeypatch, module):
    """Let the workers of a suite do their turns here."""

    def task_of(part, *given):
        return (module.fit_of if part == "fit" else module.evaluation_of)(*given)

    def in_fresh_process(arguments):
        _, part, who, size = arguments
        assert part == "memory"
        return {"bytes": module.memory_of(who, int(size))}

    monkeypatch.setattr(module, "interleaved", turns(task_of))
    monkeypatch.setattr(module, "in_fresh_process", in_fresh_process)


@WHERE
def test_the_suite_runs_on_tiny_sizes(script, monkeypatch, tmp_path, capsys, where):
    for name in script("measure").ONE_THREAD:
        monkeypatch.setenv(name, "1")
    if where == "inside":
        inside(monkeypatch, script("gpr"))
    file = tmp_path / "rows.jsonl"
    sizes = ["--sizes", "60", "--fit-size", "40", "--restarts", "0", "--repeats", "1"]
    parts = ["--parts", "evidence", "memory", "fit", "--peers", "scikit-learn"]
    script("run").main(["gpr", *sizes, *parts, "--json", str(file)])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"mercer", "scikit-learn", "floor"} <= {row["who"] for row in rows}
    assert not any("DISAGREES" in row["note"] for row in rows)
    assert "evidence + gradient, n = 60" in capsys.readouterr().out


def test_classifiers_of_the_benchmark_solve_the_same_problem(script):
    peers = script("gpc_peers")
    X, y = peers.problem(60, d=2)
    mine = peers.FITS["mercer Laplace logistic"](X, y)
    theirs = peers.FITS["scikit-learn"](X, y)
    assert mine["at the start"] == pytest.approx(theirs["at the start"], rel=1e-9)
    assert mine["log evidence"] > mine["at the start"]
    assert mine["log evidence"] >= theirs["log evidence"] - 1e-2


@WHERE
def test_the_classification_suite_runs_on_tiny_sizes(script, monkeypatch, tmp_path, where):
    for name in script("measure").ONE_THREAD:
        monkeypatch.setenv(name, "1")
    gpc = script("gpc")
    if where == "inside":
        inside(monkeypatch, gpc)
    first = gpc.contests(40)[:1]
    monkeypatch.setattr(gpc, "contests", lambda n: first)
    file = tmp_path / "rows.jsonl"
    given = ["--sizes", "40", "--repeats", "1", "--peers", "scikit-learn", "--json", str(file)]
    script("run").main(["gpc", *given])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = {row["what"].split(",")[0] for row in rows}
    assert kinds == {"classify", "factorisations", "peak extra memory", "machine"}
    assert not any("DISAGREES" in row["note"] for row in rows)
    assert any(row["bar"] == ">= 4" and row["who"] == "scikit-learn" for row in rows)


def test_another_model_at_the_start_is_marked(script):
    gpc = script("gpc")
    assert gpc._same({"at the start": -100.0}, {"at the start": -100.0005})
    assert not gpc._same({"at the start": -100.0}, {"at the start": -100.1})


def test_a_missing_classifier_is_said(script, monkeypatch):
    gpc = script("gpc")
    monkeypatch.setattr(gpc, "version", lambda name: None if name == "gpboost" else "1.0")
    [row] = gpc.missing(["gpboost", "scikit-learn"])
    assert row.who == "gpboost"
    assert "not installed" in row.note


def test_a_missing_peer_is_skipped_and_said(script, monkeypatch):
    gpr = script("gpr")
    monkeypatch.setattr(gpr, "version", lambda name: None if name == "GPy" else "1.0")
    found, rows = gpr.present(["GPy", "scikit-learn"])
    assert found == ["scikit-learn"]
    assert "not installed" in rows[0].note


def test_start_up_is_measured(script, monkeypatch):
    startup = script("startup")
    monkeypatch.setattr(startup, "COMMANDS", {"import mercer": startup.COMMANDS["import mercer"]})
    [row] = startup.startup_rows(1)
    assert 0 < row.value < np.inf


@pytest.mark.parametrize(
    ("value", "bar", "verdict"),
    [(7.5, ">= 7", "PASS"), (6.9, ">= 7", "FAIL"), (1.3, "<= 1.2", "FAIL"), (None, ">= 7", "")],
)
def test_verdict(script, value, bar, verdict):
    assert script("measure").Row("task", "who", value, bar=bar).verdict == verdict


# ---------------------------------------------------------------------- papers
def test_scores_of_a_normal_prediction(script):
    found = script("uci_regression").scores(np.array([1.0, 3.0]), np.full(2, 2.0), np.ones(2))
    assert found["rmse"] == 1.0
    assert found["nlpd"] == pytest.approx(0.5 * np.log(2 * np.pi) + 0.5)


def test_reference_values_say_where_they_come_from():
    stored = json.loads(REFERENCE.read_text())
    assert stored["made_by"].endswith("--reference")
    assert {"GPy", "numpy", "scipy"} <= set(stored["versions"])
    assert set(stored["data"]) == {"boston", "concrete", "wine_red"}
    assert all(len(entry["splits"]) == 20 for entry in stored["data"].values())
    assert len(stored["data"]["wine_red"]["splits without copies"]) == 20


COMPARED = [
    ("boston", "all records"),
    ("concrete", "all records"),
    ("wine_red", "distinct records"),
]


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "label"), COMPARED)
def test_same_evidence_as_gpy_at_its_hyperparameters(script, name, label):
    stored = json.loads(REFERENCE.read_text())["data"][name]["tables"][label]
    X, y = next((X, y) for which, X, y in script("uci_regression").tables(name) if which == label)
    theta = np.log([stored["variance"], *stored["length_scale"], stored["noise"]])
    value, _ = script("peers").Mercer(X, y)(theta)
    assert value == pytest.approx(stored["log_evidence"], abs=1e-2)


@pytest.mark.slow
@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "label"), COMPARED)
def test_evidence_reaches_that_of_gpy(script, name, label):
    stored = json.loads(REFERENCE.read_text())["data"][name]["tables"][label]
    papers = script("uci_regression")
    X, y = next((X, y) for which, X, y in papers.tables(name) if which == label)
    assert papers.mercer_table(X, y)["log_evidence"] >= stored["log_evidence"] - NATS


# ---------------------------------------------------------------------- streams
@pytest.mark.slow
def test_the_stream_suite_runs_on_tiny_sizes(script, monkeypatch, tmp_path):
    for name in script("measure").ONE_THREAD:
        monkeypatch.setenv(name, "1")
    peers, stream = script("stream_peers"), script("stream")
    monkeypatch.setattr(stream, "STREAMS", {"rings": peers.rings})
    names = ["mercer", "SGD, averaged"]
    monkeypatch.setattr(stream, "LEARNERS", {name: peers.LEARNERS[name] for name in names})
    file = tmp_path / "rows.jsonl"
    parts = ["--parts", "update", "accuracy", "memory"]
    script("run").main(["stream", "--sizes", "4000", "--repeats", "1", *parts, "--json", str(file)])
    rows = {
        (row["what"], row["who"]): row for row in map(json.loads, file.read_text().splitlines())
    }
    assert rows["update at t = 200, no budget", "one example"]["value"] > 0.0
    assert rows["budget 300, batches of 100, to t = 4000", "an example"]["unit"] == "us"
    assert rows["prequential, rings", "SGD, averaged"]["bar"] == ">= 0"
    assert rows["LapMED peak memory, 240 x 617", "mercer"]["verdict"] == "PASS"


@pytest.mark.slow
def test_the_suite_of_the_service_runs_for_some_seconds(script, tmp_path):
    file = tmp_path / "rows.jsonl"
    script("run").main(["serve", "--sizes", "4", "--json", str(file)])
    rows = {row["who"]: row for row in map(json.loads, file.read_text().splitlines())}
    assert rows["predictions"]["value"] > 0.0
    assert rows["rows learned"]["value"] > 0.0
    assert rows["memory, end - first quarter"]["verdict"] == "PASS"


def test_streams_of_the_benchmark(script):
    peers = script("stream_peers")
    for make in (peers.hidden, peers.rings, peers.categories):
        X, y = make(300)
        assert len(X) == len(y) == 300
        assert len(np.unique(y)) == 2
        assert abs(np.mean(y == y.max()) - 0.5) < 0.15
    X, _ = peers.categories(300)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    found = peers.prequential("rings", "mercer", 600)
    X, y = peers.rings(600)
    from mercer import OnlineLogisticClassifier

    model = OnlineLogisticClassifier(budget=300)
    for i in range(0, 600, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100], classes=[0, 1])
    guessed = model.prequential_.right / 600  # in the first batch all are one class
    assert abs(found["accuracy"] - guessed) < 0.05


def test_the_suite_of_a_gpu_runs_on_tiny_sizes(script, monkeypatch):
    """With PyTorch on the CPU; where it is not installed the suite says so."""
    gpu = script("gpu")
    [row] = gpu.gpu_rows([60], 1, "cuda:99")
    assert "device='cpu'" in row.note
    pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'mercer[gpu]'")
    monkeypatch.setattr(gpu, "LABELS", 50)
    monkeypatch.setattr(gpu, "FIT_ROWS", 60)
    rows = gpu.gpu_rows([60], 1, "torch")
    figures = [row.what.split(",")[0] for row in rows if row.value is not None]
    assert {"evidence + gradient", "laplace", "ep"} <= set(figures)
    reference = script("peers").Mercer(*script("peers").problem(60, gpu.D)[:2])
    value, slope = reference(script("peers").problem(60, gpu.D)[2])
    assert rows[0].quality["log evidence"] == pytest.approx(float(value), rel=1e-9)
    assert rows[0].quality["|gradient|"] == pytest.approx(float(np.linalg.norm(slope)), rel=1e-7)
