"""Searches that begin on some of the rows beside those on all: evidence and CPU time.

Tables under ``MERCER_DATA``, 2500 rows of each. The bar on the
time is for the tables of eight columns; that on the evidence is for all.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import Row

REAL = ("kin8nm", "kin40k", "elevators", "protein", "bike", "pol", "power", "naval", "pumadyn32nm")
LABELS = ("ringnorm", "twonorm", "waveform", "splice", "banana")
NATS, RATIO, COLUMNS = 0.05, 0.35, 8


def table(name: str, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return X (n, d), standardised, and targets or labels (n,); None: there is no such table."""
    folder = f"raetsch_{name}" if name in LABELS else name
    path = Path(os.environ.get("MERCER_DATA", "")) / folder / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as held:
        X, y = np.asarray(held["X"], dtype=float), np.ravel(held["t" if "t" in held else "y"])
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[chosen], y[chosen]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), y


def search_rows(n: int, names: Sequence[str] = REAL + LABELS) -> list[Row]:
    """Fit each table twice, on one thread if the environment says so."""
    import mercer
    from mercer.search import Optimize

    rows = []
    for name in names:
        held = table(name, n)
        if held is None:
            rows.append(Row(f"search, {name}", "mercer", note="MERCER_DATA has no such table"))
            continue
        X, y = held
        make = mercer.GPClassifier if name in LABELS else mercer.GPRegressor
        value, seconds = {}, {}
        for subsets in (True, False):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of noise at its bound: the values are compared
                value[subsets] = make(search=Optimize(subsets=subsets)).fit(X, y).log_evidence_
            seconds[subsets] = time.process_time() - began
        what = f"search, {name}, n = {len(X)}, d = {X.shape[1]}"
        lost = max(0.0, value[False] - value[True])
        rows.append(Row(what, "mercer, lost by subsets", lost, "nats", f"<= {NATS}"))
        bar = f"<= {RATIO}" if X.shape[1] == COLUMNS else ""
        ratio, took = seconds[True] / seconds[False], seconds[True]
        rows.append(Row(what, "mercer", ratio, "of the search on all rows", bar, seconds=took))
    return rows
