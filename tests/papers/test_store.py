"""What the scripts of papers/ store: a run goes on where the last one ended."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from joblib import delayed

FIELDS = ("name", "seed")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "papers"))
    return importlib.import_module("_store")


def work(name: str, seed: int) -> tuple[tuple[str, int], dict[str, int], float]:
    return (name, seed), {"square": seed**2}, 0.0


def test_rows_come_back_by_their_keys(store, tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    tasks = (delayed(work)("a", i) for i in range(3))
    done = {key: row for key, row, _ in store.extend(path, FIELDS, tasks, 1)}
    assert store.load(path, FIELDS) == done == {("a", i): {"square": i**2} for i in range(3)}
    assert json.loads(path.read_text().splitlines()[2]) == {"name": "a", "seed": 2, "square": 4}


def test_a_line_that_was_cut_short_spoils_no_other(store, tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"name": "a", "seed": 1, "square": 1}\n{"name": "a", "se')
    assert set(store.load(path, FIELDS)) == {("a", 1)}
    list(store.extend(path, FIELDS, [delayed(work)("a", 2)], 1))
    assert set(store.load(path, FIELDS)) == {("a", 1), ("a", 2)}


def test_without_a_file_nothing_is_written(store, tmp_path) -> None:
    ((key, row, _),) = store.extend(None, FIELDS, [delayed(work)("b", 3)], 1)
    assert (key, row) == (("b", 3), {"square": 9})
    assert store.load(None, FIELDS) == store.load(tmp_path / "none", FIELDS) == {}
    store.write(tmp_path / "all.json", {"b": 9})
    assert json.loads((tmp_path / "all.json").read_text()) == {"b": 9}
