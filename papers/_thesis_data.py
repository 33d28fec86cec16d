"""The six sets of Seeger's thesis (table 4.1), standardised and split as in the comparison."""

from __future__ import annotations

import csv
import gzip
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Table = tuple[np.ndarray, np.ndarray]
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Given:
    """How many rows train and test, and how many random splits there are."""

    train: int
    tests: int
    splits: int


SETS = {
    "crabs": Given(80, 120, 10),
    "pima": Given(200, 332, 10),
    "pima-ripley": Given(200, 332, 1),  # Ripley's own 200 and 332 rows, the thesis' split
    "wdbc": Given(300, 269, 10),
    "twonorm": Given(300, 7100, 10),
    "ringnorm": Given(400, 7000, 10),
    "waveform": Given(800, 2504, 5),
}


def folder() -> Path:
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds crabs, pima_ripley, wdbc and the others")
    return Path(named)


def table(path: str, target: str, positive: str, leave: tuple[str, ...] = ()) -> Table:
    """Inputs (n, d) and targets (n,), +1 where the column ``target`` says ``positive``."""
    with gzip.open(folder() / path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in (target, *leave)]
    X = np.array([[float(row[name]) for name in names] for row in rows])
    return X, np.where([row[target] == positive for row in rows], 1.0, -1.0)


def arrays(path: str) -> Table:
    with np.load(folder() / path, allow_pickle=False) as file:
        return file["X"].astype(float), file["t"].astype(float)


def waveform() -> Table:
    """Classes 0 (+1) and 1 (-1) of the three."""
    with gzip.open(folder() / "waveform_uci" / "waveform.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["y"] != "2"]
    X = np.array([[float(v) for name, v in row.items() if name != "y"] for row in rows])
    return X, np.where([row["y"] == "0" for row in rows], 1.0, -1.0)


def read(name: str) -> Table:
    """Inputs, standardised over the whole set as the thesis does, and targets -1 and +1."""
    if name == "crabs":
        X, y = table("crabs/crabs.csv.gz", "sex", "M", leave=("sp", "index"))
    elif name.startswith("pima"):
        parts = [table(f"pima_ripley/pima_{p}.csv.gz", "type", "Yes") for p in ("tr", "te")]
        X, y = (np.concatenate(both) for both in zip(*parts, strict=True))
    elif name == "wdbc":
        X, y = table("wdbc/wdbc.csv.gz", "diagnosis", "M")
    elif name == "twonorm":
        X, y = arrays("twonorm_delve/twonorm.npz")
    elif name == "ringnorm":
        X, y = arrays("raetsch_ringnorm/ringnorm.npz")
    else:
        X, y = waveform()
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def split(name: str, seed: int) -> Split:
    """X, y, X_test, y_test of one split."""
    X, y = read(name)
    n = SETS[name].train
    order = np.arange(len(y))
    if name != "pima-ripley":
        order = np.random.default_rng(1000 + seed).permutation(len(y))
    train, test = order[:n], order[n:]
    return X[train], y[train], X[test], y[test]
