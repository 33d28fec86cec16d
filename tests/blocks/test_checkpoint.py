"""Fits that are interrupted: they go on with the same bits, and never from the files of others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mercer.core.errors import ModelFileError
from mercer.kernels import RBF
from mercer.linalg.blocks.checkpoint import Checkpoint, Checkpointed, contents_of, digest
from mercer.linalg.blocks.engine import Part, RowBlock
from mercer.linalg.blocks.local import LocalEngine


class Stop(Exception):
    """What interrupts a fit."""


def step(block: RowBlock, broadcast: Part) -> Part:
    """Sums of logistic regression."""
    p = 1 / (1 + np.exp(-block.X @ broadcast["b"]))
    H = (block.X * (p * (1 - p))[:, None]).T @ block.X
    return {"g": block.X.T @ (p - block.y), "H": np.asfortranarray(H), "loss": np.log(p).sum()}


def newton(engine: Any, stop: int | None = None, steps: int = 5) -> np.ndarray:
    """Newton's method by passes; it may be stopped before one of them."""
    b = np.zeros(3)
    for i in range(steps):
        if i == stop:
            raise Stop
        sums = engine.map_sum(step, {"b": b})
        assert sums["H"].flags.f_contiguous
        b = b - np.linalg.solve(sums["H"] + np.eye(3), sums["g"] + b)
    return b


@pytest.fixture
def engine(rng: np.random.Generator) -> LocalEngine:
    X = rng.normal(size=(50, 3))
    return LocalEngine.of_arrays(X, (X[:, 0] > 0).astype(float), None, size=7)


@pytest.mark.parametrize("stop", [0, 1, 3, 4])
def test_a_fit_goes_on_with_the_same_bits(engine: Any, tmp_path: Path, stop: int) -> None:
    straight = newton(engine)
    folder = tmp_path / "kept"
    with pytest.raises(Stop):
        newton(Checkpointed(engine, folder, {"C": 1.0}), stop)
    before = engine.passes
    again = Checkpointed(engine, folder, {"C": 1.0})
    calls: list[int] = []
    again.watch = lambda done, of: calls.append(done)
    assert newton(again).tobytes() == straight.tobytes()
    assert again.replayed == stop
    assert again.passes == 5
    assert again.rows == 50
    assert calls.count(8) == 5 - stop
    assert engine.passes == before


def test_an_interrupted_write_leaves_the_last_state(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = newton(engine)
    checked = Checkpointed(engine, tmp_path, {})
    real = os.replace

    def fail(source: str, target: Any) -> None:
        if "pass-000002" in str(target):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        newton(checked)
    monkeypatch.undo()
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == ["pass-000000.safetensors", "pass-000001.safetensors", "task.json"]
    again = Checkpointed(engine, tmp_path, {})
    assert newton(again).tobytes() == straight.tobytes()
    assert again.replayed == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_damaged_passes_are_made_again(engine: Any, tmp_path: Path, damage: str) -> None:
    straight = newton(Checkpointed(engine, tmp_path, {}))
    path = tmp_path / "pass-000002.safetensors"
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes({"flipped": bytes(data), "cut": data[:-30], "empty": b""}[damage])
    again = Checkpointed(engine, tmp_path, {})
    with pytest.warns(UserWarning, match=r"pass-000002.* cannot be used: .*computed again"):
        assert newton(again).tobytes() == straight.tobytes()
    assert again.replayed == 4


def test_another_fit_is_refused(engine: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    newton(Checkpointed(engine, folder, {"C": 1.0, "table": "a"}))
    with pytest.raises(ValueError, match=r"of another fit \(C differ\): give another folder"):
        Checkpointed(engine, folder, {"C": 2.0, "table": "a"})
    with pytest.raises(ValueError, match=r"of another fit \(C, kernel, table differ\)"):
        Checkpointed(engine, folder, {"table": "b", "kernel": "rbf"})
    checked = Checkpointed(engine, folder, {"C": 1.0, "table": "a"})
    with pytest.raises(ValueError, match=r"pass 0 of the checkpoint .* from other numbers"):
        checked.map_sum(step, {"b": np.ones(3)})
    (folder / "task.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"task.json is damaged .*: remove"):
        Checkpointed(engine, folder, {"C": 1.0, "table": "a"})
    with pytest.raises(FileExistsError, match="is not empty, and no checkpoint"):
        Checkpoint(tmp_path, {})
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file: give a folder"):
        Checkpoint(tmp_path / "file", {})


def test_stages_take_the_place_of_their_passes(engine: Any, tmp_path: Path) -> None:
    def fit(checked: Checkpointed, stop: int | None = None) -> np.ndarray:
        b = checked.stage("search", lambda: {"b": newton(checked, steps=3)})["b"]
        return b + newton(checked, stop)

    straight = newton(engine, steps=3) + newton(engine)
    with pytest.raises(Stop):
        fit(Checkpointed(engine, tmp_path, {}), stop=2)
    assert sorted(p.stem for p in tmp_path.iterdir()) == [
        "pass-000003", "pass-000004", "stage-search", "task",
    ]  # fmt: skip
    again = Checkpointed(engine, tmp_path, {})
    assert fit(again).tobytes() == straight.tobytes()
    assert (again.replayed, again.passes) == (2, 8)
    (tmp_path / "stage-search.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="stage-search"):
        assert fit(Checkpointed(engine, tmp_path, {})).tobytes() == straight.tobytes()


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    state = {
        "Z": np.arange(6.0).reshape(2, 3), "words": np.array(["a", "bc"]), "n": 7,
        "none": None, "far": float("inf"), "deep": {"list": [1.5, np.ones(2)]},
    }  # fmt: skip
    kept = Checkpoint(tmp_path, {})
    assert kept.load("x") is None
    kept.save("x", state)
    found = kept.load("x")
    assert found is not None
    assert digest(found) == digest(state)
    kept.drop("x")
    kept.drop("x")
    assert kept.load("x") is None


@dataclass(frozen=True)
class Slope:
    """A task with a state of its own."""

    at: float

    def __call__(self, block: RowBlock, broadcast: Part) -> Part:
        return {"s": self.at * block.X.sum()}


def test_digests() -> None:
    same = [[Slope(1.0), {"a": np.ones(3), "b": "x"}], [Slope(1.0), {"b": "x", "a": np.ones(3)}]]
    assert digest(same[0]) == digest(same[1])
    others = [
        same[0], [Slope(1.5)], [Slope(1)], 1.0, 1, True, "1", None, step, newton,
        partial(step, b=1), partial(step, b=2), np.ones(3), np.ones((3, 1)),
        np.ones(3, np.float32), RBF(1.0), RBF(2.0),
    ]  # fmt: skip
    assert len({digest(value) for value in others}) == len(others)


def test_contents_tell_tables_apart(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(30, 2)), np.array(["a", "b", "c"] * 10)
    found = contents_of(LocalEngine.of_arrays(X, y, None, size=8))
    assert contents_of(LocalEngine.of_arrays(X.copy(), y, np.ones(30), size=8, workers=2)) == found
    assert contents_of(LocalEngine.of_arrays(X, y[::-1], None, size=8)) != found
    assert contents_of(LocalEngine.of_arrays(X, y, None, size=9)) != found
    X[7, 1] = np.nextafter(X[7, 1], 9)
    assert contents_of(LocalEngine.of_arrays(X, y, None, size=8)) != found
