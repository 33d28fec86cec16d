"""The tables of the benchmark and how they are split: three times, at random, by their name."""

from __future__ import annotations

import csv
import gzip
import os
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SPLITS, TEST = 3, 1000


@dataclass(frozen=True)
class Task:
    """A table, split: inputs X (n, d), the target y (n,), text for classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @property
    def classes(self) -> bool:
        return self.y.dtype.kind == "U"

    def columns(self, rows: np.ndarray) -> dict[str, Any]:
        return {f"x{j}": self.X[rows, j] for j in range(self.X.shape[1])}


def folder() -> Path:
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds the data sets")
    return Path(named)


def _stored(path: str, columns: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Read the first ``columns`` inputs (default: all) and the target of a file of arrays."""
    data = np.load(folder() / path)
    y = np.where(data["t"] > 0, "yes", "no") if "t" in data else data["y"].astype(float)
    return data["X"].astype(float)[:, :columns], y


def _csv(target: str, *paths: str) -> tuple[np.ndarray, np.ndarray]:
    rows: list[dict[str, str]] = []
    for path in paths:
        with gzip.open(folder() / path, "rt", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    names = [k for k in rows[0] if k != target]
    X = np.array([[float(row[k]) for k in names] for row in rows])
    return X, np.array([row[target] for row in rows])


Read = Callable[[], tuple[np.ndarray, np.ndarray]]
TABLES: dict[str, tuple[Read, int]] = {  # and how many rows are for training
    "boston": (lambda: _stored("boston/boston.npz"), 455),
    "concrete": (lambda: _stored("concrete/concrete.npz"), 927),
    "wine red": (lambda: _stored("wine_red/wine_red.npz"), 1439),
    "power": (lambda: _stored("power/power.npz"), 2000),
    "kin8nm": (lambda: _stored("kin8nm/kin8nm.npz"), 2000),
    "protein": (lambda: _stored("protein/protein.npz"), 2000),
    "elevators": (lambda: _stored("elevators/elevators.npz"), 2000),
    # the other two columns are counts that add up to the target
    "bike": (lambda: _stored("bike/bike.npz", 15), 2000),
    "pol": (lambda: _stored("pol/pol.npz"), 2000),
    "pumadyn32nm": (lambda: _stored("pumadyn32nm/pumadyn32nm.npz"), 2000),
    "pima": (lambda: _csv("type", "pima_ripley/pima_tr.csv.gz", "pima_ripley/pima_te.csv.gz"), 200),
    "wdbc": (lambda: _csv("diagnosis", "wdbc/wdbc.csv.gz"), 400),
    "banana": (lambda: _stored("raetsch_banana/banana.npz"), 400),
    "titanic": (lambda: _stored("raetsch_titanic/titanic.npz"), 150),
    "breast cancer": (lambda: _stored("raetsch_breast_cancer/breast_cancer.npz"), 200),
    "diabetis": (lambda: _stored("raetsch_diabetis/diabetis.npz"), 468),
    "splice": (lambda: _stored("raetsch_splice/splice.npz"), 1000),
    "waveform": (lambda: _csv("y", "waveform_uci/waveform.csv.gz"), 1000),
}  # fmt: skip


def task_of(name: str, split: int) -> Task:
    """Return a table and one of its splits; at most 1000 of the other rows are for testing."""
    read, rows = TABLES[name]
    X, y = read()
    order = np.random.default_rng([zlib.crc32(name.encode()), split]).permutation(len(y))
    return Task(name, X, y, np.sort(order[:rows]), np.sort(order[rows : rows + TEST]))
