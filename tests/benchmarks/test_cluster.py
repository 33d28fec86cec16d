"""The suite of fits from parquet files runs; no time is asserted here."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("pyarrow")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_rows_of_a_file_are_those_that_were_drawn(script, tmp_path):
    import pyarrow.parquet as pq

    cluster = script("cluster")
    path = cluster.written(tmp_path / "t.parquet", cluster.GROUP + 10)
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 2
    X, y, label = cluster.drawn(10, 1)
    last = file.read_row_group(1).to_pandas()
    np.testing.assert_array_equal(last[cluster.NAMES].to_numpy(), X)
    np.testing.assert_array_equal(last["y"], y)
    np.testing.assert_array_equal(last["label"], label)


def test_a_fit_in_one_process_is_measured(script, monkeypatch, tmp_path):
    cluster = script("cluster")
    monkeypatch.setattr(cluster, "M", 20)
    path = str(cluster.written(tmp_path / "t.parquet", 300))
    found = cluster.fitted("local", path, path)
    assert (found["rows"], found["blocks"], found["passes"]) == (300, 1, 2)
    assert found["cpu"] > 0.0
    assert found["waits"] == 0.0  # there is no cluster
    assert len(found["peaks"]) == 1


def test_growth_is_judged_by_the_least_of_the_turns(script, monkeypatch):
    cluster = script("cluster")
    spent = iter([1.0, 14.0, 90.0, 2.0, 10.5])
    peak = {"a": 10**8, "b": 11 * 10**7, "c": 14 * 10**7}

    def once(where, path, warm):
        cpu = next(spent)
        return {"cpu": cpu, "wall": cpu, "peaks": [peak[path]], "blocks": 1}

    monkeypatch.setattr(cluster, "once", once)
    rows = cluster.growth_rows({10**5: "a", 10**6: "b", 10**7: "c"}, repeats=2)
    found = {(row.what, row.who): row for row in rows}
    time = found["parquet, n = 100000 to 10000000", "mercer, CPU time a row"]
    assert time.value == pytest.approx(10.5 / 9.0)
    assert time.verdict == "FAIL"
    memory = found["parquet, n = 1000000 to 10000000", "mercer, memory"]
    assert memory.value == pytest.approx(14 / 11)


def test_known_odds_have_a_known_log_loss(script, tmp_path):
    """The mean of -log p at labels of odds p is their entropy, within what 20 000 rows tell."""
    peers = script("cluster_peers")
    facts = peers.synthetic(tmp_path, 100)
    held = np.load(tmp_path / "new.npz")
    p = 1.0 / (1.0 + np.exp(-peers.logits(held["X"].astype(float))))
    entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
    assert facts["bayes"] == pytest.approx(entropy.mean(), abs=0.01)
    f = np.log(p / (1 - p))
    p = peers.sigmoid(2.0 * f[:10_000], held["y"][:10_000], 2.0 * f[10_000:])
    assert peers.log_loss(p, held["y"][10_000:]) == pytest.approx(entropy.mean(), abs=0.015)


def test_the_peer_finds_a_width_of_its_own(script, monkeypatch):
    """One boundary under wrong labels asks for a wide kernel, many clear ones for a narrow one."""
    peers, rng = script("cluster_peers"), np.random.default_rng(0)
    monkeypatch.setattr(peers, "M", 40)
    monkeypatch.setattr(peers, "ALPHAS", (1e-5,))
    X = rng.uniform(-1.0, 1.0, size=(800, 1))
    one = (X[:, 0] > 0.0) ^ (rng.random(800) < 0.2)
    many = np.sin(6.0 * np.pi * X[:, 0]) > 0.0
    assert peers.searched(X, one.astype(int)) <= 0.1
    assert peers.searched(X, many.astype(int)) >= 4.0


def test_the_size_of_a_cluster_follows_the_formula(script):
    size = script("cluster_size")
    one = {"seconds": 2.0, "answer": 10**6, "broadcast": 4 * 10**6}
    row = size.sized(10**9, 500, "a fit", {"value": 3}, {"value": one}, each=0.0)
    blocks = 10**9 / 65536
    pass_ = blocks * 2.0 / 256 + 5 * 4e6 / 1.25e9 + blocks * 1e6 / (16 * 1.25e9)
    assert row.what == "n = 1e9, m = 500"
    assert row.value == pytest.approx(3 * pass_ / 60)
    assert row.quality["core hours"] == pytest.approx(3 * blocks * 2 / 3600)
    assert row.quality["GB read"] == pytest.approx(3 * 36)
    assert row.quality["Tflop"] == pytest.approx(3 * 2 * 1e9 * 500**2 / 1e12)
    slow = size.sized(10**9, 500, "a fit", {"value": 3}, {"value": one}, each=0.01)
    assert slow.value - row.value == pytest.approx(3 * (blocks * 0.01 - blocks * 2 / 256) / 60)


def test_the_page_of_sizes_has_the_stored_figures():
    stored = json.loads((ROOT / "docs/benchmarks/sizing.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/guide/cluster-size.md").read_text(encoding="utf-8")
    for row in stored["rows"]:
        assert f"| {row['what']} | {row['who']} |" in page
