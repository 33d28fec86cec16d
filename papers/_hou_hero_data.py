"""The streams of Hou & Hero (2018): two simulations, and Isolet.

The paper gives no generators; these are choices that show the behaviour of its figures.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Table = tuple[np.ndarray, np.ndarray]
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # inputs, labels -1 / +1, which are known


@dataclass(frozen=True)
class Stream:
    """Batches in order, and the rows by which every machine is judged."""

    batches: list[Batch]
    test: Table

    def labelled(self, t: int) -> Table:
        """Inputs and labels of the labelled rows of batch t."""
        X, y, known = self.batches[t]
        return X[known], y[known]

    def until(self, t: int, only: bool = False) -> Batch:
        """Batches 0 .. t as one; ``only`` the labelled rows."""
        parts = [np.concatenate(part) for part in zip(*self.batches[: t + 1], strict=True)]
        X, y, known = parts
        return (X[known], y[known], known[known]) if only else (X, y, known)

    def accuracy(self, model: object) -> float:
        Z, truth = self.test
        return float(np.mean(model.predict(Z) == truth))  # type: ignore[attr-defined]  # any classifier


def categorical(rng: np.random.Generator, n: int) -> Table:
    """200 categorical variables: 100 rare, 50 common, 50 that depend on the label."""
    y = np.where(rng.random(n) < 0.5, 1, -1)
    U = rng.random((n, 200))
    high, low = np.array([0.55, 0.20, 0.15, 0.10]), np.array([0.70, 0.15, 0.10, 0.05])
    p = np.empty((n, 200, 4))
    p[:, :100], p[:, 100:150] = [0.94, 0.03, 0.02, 0.01], [0.50, 0.25, 0.15, 0.10]
    up = (y == 1)[:, None, None]
    p[:, 150:175], p[:, 175:] = np.where(up, high, low), np.where(up, low, high)
    X = np.sum(np.cumsum(p, axis=2)[:, :, :3] <= U[:, :, None], axis=2)
    return X.astype(float), y


def ball(rng: np.random.Generator, n: int) -> Table:
    """Points of the unit ball in three dimensions: +1 near the centre, -1 near the sphere."""
    y = np.where(rng.random(n) < 0.5, 1, -1)
    inner, outer = np.abs(0.3 * rng.normal(size=n)), 1.0 - np.abs(0.15 * rng.normal(size=n))
    r = np.where(y == 1, inner, outer)
    r = np.clip(np.where(r > 1.0, 2.0 - r, r), 0.0, 1.0)
    direction = rng.normal(size=(n, 3))
    return r[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True), y


def simulation_1(seed: int, batches: int = 30, tests: int = 1000) -> Stream:
    """About 100 rows in a batch, all labelled."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(97, 104, size=batches)
    drawn = [categorical(rng, n) for n in sizes]
    parts = [(X, y, np.ones(len(y), dtype=bool)) for X, y in drawn]
    return Stream(parts, categorical(rng, tests))


def simulation_2(seed: int, batches: int = 15, tests: int = 1000) -> Stream:
    """About 100 rows in a batch, 10 % labelled, both classes among them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(97, 104, size=batches)
    parts = []
    for n in sizes:
        X, y = ball(rng, n)
        first = [int(np.flatnonzero(y == label)[0]) for label in (1, -1)]
        others = np.setdiff1d(np.arange(n), first)
        known = np.zeros(n, dtype=bool)
        known[first] = True
        known[rng.permutation(others)[: round(0.1 * n) - 2]] = True
        parts.append((X, y, known))
    return Stream(parts, ball(rng, tests))


def isolet(seed: int = 0, batches: int = 24) -> Stream:
    """Spoken letters, the first 13 against the others: groups of five speakers, one labelled."""
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds isolet")
    with np.load(Path(named) / "isolet" / "isolet.npz", allow_pickle=False) as file:
        X = file["X10000"] / 1e4
        letter, chunk, speaker = (file[name].astype(int) for name in ("y", "chunk", "speaker"))
    y = np.where(letter - letter.min() < 13, 1, -1)
    train, test = chunk <= 4, chunk == 5
    numbers = speaker - speaker[train].min()
    parts = []
    for t in range(batches):
        rows = np.flatnonzero(train & (numbers // 5 == t))
        parts.append((X[rows], y[rows], numbers[rows] % 5 == 0))
    return Stream(parts, (X[test], y[test]))


STREAMS = {"1": simulation_1, "2": simulation_2, "3": isolet}
