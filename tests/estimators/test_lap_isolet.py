"""Isolet, 24 batches of 260 rows with 52 labels: the accuracies to reach, and the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mercer import LapMEDClassifier, LapSVC
from mercer.kernels import RBF

OPTIONS: dict[str, Any] = {"C": 100.0, "beta": 0.5, "kernel": RBF(10.0), "heat": np.inf}
Batches = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def isolet(data_folder: Path) -> tuple[Batches, np.ndarray, np.ndarray]:
    path = data_folder / "isolet" / "isolet.npz"
    if not path.exists():
        pytest.skip("the data folder has no isolet")
    with np.load(path, allow_pickle=False) as file:
        X = file["X10000"] / 1e4
        letter, chunk, speaker = (file[name].astype(int) for name in ("y", "chunk", "speaker"))
    y = np.where(letter - letter.min() < 13, 1.0, -1.0)
    train = chunk <= 4
    number = speaker - speaker[train].min()
    batches = []
    for t in range(24):
        rows = np.flatnonzero(train & (number // 5 == t))
        batches.append((X[rows], np.where(number[rows] % 5 == 0, y[rows], np.nan)))
    return batches, X[chunk == 5], y[chunk == 5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "low", "high"),
    [({"budget": None}, 0.9135, 0.9145), ({"budget": 0}, 0.905, 0.92), ({}, 0.905, 0.92)],
)
def test_stream(isolet: Any, memory: dict[str, Any], low: float, high: float) -> None:
    batches, Z, truth = isolet
    model = LapMEDClassifier(**OPTIONS, **memory)
    for X, y in batches:
        model.partial_fit(X, y)
    assert low <= np.mean(model.predict(Z) == truth) <= high
    if memory == {"budget": 0}:
        assert model.report_["memory"]["landmarks"] == 480


@pytest.mark.slow
def test_all_rows_at_once(isolet: Any) -> None:
    batches, Z, truth = isolet
    X, y = (np.concatenate(part) for part in zip(*batches, strict=True))
    model = LapSVC(**OPTIONS).fit(X, y)
    assert np.mean(model.predict(Z) == truth) == pytest.approx(0.926, abs=0.001)
