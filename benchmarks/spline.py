"""Smoothing splines: the smoothing found by evidence, and error bars at all points.

csaps is given the smoothing parameter and returns the curve at all points: neither a choice nor an
error bar. SciPy chooses by generalised cross-validation; on unevenly spaced points it raises or
returns a flat line at this size, so that it is timed on even ones.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, interleaved, peak_growth, serve

LAM = 0.01  # what the evidence finds on these data, to two digits: the same problem for csaps
AUTOMATIC = 10_000  # largest n at which SciPy's search is run: it takes seconds there
BARS = {100_000: "<= 1.15", 1_000_000: "<= 1"}
PEERS = {"csaps": "csaps", "scipy": "scipy"}


def problem(n: int, even: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return x (n,) ascending on [0, 10] and y = sin(3 x) + 0.3 noise."""
    rng = np.random.default_rng(n)
    x = np.linspace(0.0, 10.0, n) if even else np.sort(rng.uniform(0.0, 10.0, n))
    return x, np.sin(3.0 * x) + 0.3 * rng.standard_normal(n)


def version(name: str) -> str | None:
    """Return the installed version of a library, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def spline_rows(n: int, repeats: int) -> list[Row]:
    """Time fit and error bars at n points beside csaps, and beside SciPy up to ``AUTOMATIC``."""
    rows = _compared(n, "uneven", "csaps", repeats)
    if n <= AUTOMATIC:
        rows += _compared(n, "even", "scipy", repeats)
    return rows


def _compared(n: int, design: str, peer: str, repeats: int) -> list[Row]:
    what = f"spline through {n} {design} points"
    names = ["mercer", peer] if version(PEERS[peer]) else ["mercer"]
    found = interleaved({name: ["spline.py", name, design, str(n)] for name in names}, repeats)
    rows = []
    for name, entry in found.items():
        row = Row(what, name, seconds=entry["seconds"], quality=entry["result"])
        row.note = f"system {entry['system']:.2g} s"
        rows.append(row)
    if peer not in found:
        return [*rows, Row(what, peer, note="not installed: skipped")]
    mine, theirs = found["mercer"]["seconds"], found[peer]["seconds"]
    if peer == "csaps":
        rows[0].value, rows[0].unit, rows[0].bar = mine / theirs, "x csaps", BARS.get(n, "")
    else:
        rows[1].value, rows[1].unit, rows[1].bar = theirs / mine, "x slower than mercer", ">= 300"
    return rows


def growth_row(rows: list[Row]) -> list[Row]:
    """Time per point of the largest size over that of the smallest."""
    seconds = {
        int(row.what.split()[2]): row.seconds
        for row in rows
        if row.who == "mercer" and row.what.endswith("uneven points")
    }
    low, high = min(seconds), max(seconds)
    if low == high:
        return []
    ratio = seconds[high] / high / (seconds[low] / low)
    what = f"time per point, n = {high} over {low}"
    return [Row(what, "mercer", value=ratio, unit="x", bar="<= 1.2")]


def memory_rows(n: int) -> list[Row]:
    """Peak of resident memory beyond the data, of fit and error bars."""
    grown = in_fresh_process(["spline.py", "memory", "uneven", str(n)])["bytes"] / 2**20
    bar = "<= 400" if n >= 1_000_000 else ""
    return [Row(f"memory, {n} points", "mercer", value=grown, unit="MiB", bar=bar)]


def _mercer(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from mercer import SmoothingSpline

    X = x[:, None]
    return SmoothingSpline().fit(X, y).predict(X, return_std=True)[0]


def _csaps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from csaps import csaps

    return csaps(x, y, x, smooth=1.0 / (1.0 + LAM))


def _scipy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from scipy.interpolate import make_smoothing_spline

    return make_smoothing_spline(x, y)(x)


def task_of(name: str, design: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: one table, the targets scaled by the turn."""
    run = {"mercer": _mercer, "csaps": _csaps, "scipy": _scipy}[name]
    x, y = problem(n, design == "even")
    truth = np.sin(3.0 * x)

    def task(turn: int) -> dict[str, Any]:
        scale = 1.0 + 1e-3 * turn  # so that nothing is answered from a cache
        error = run(x, scale * y) / scale - truth
        return {"RMSE": float(np.sqrt(np.mean(error**2)))}

    return task


if __name__ == "__main__":
    name, design, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if name == "memory":
        _mercer(*problem(1000))
        x, y = problem(n)
        print(json.dumps({"bytes": peak_growth(lambda: _mercer(x, y))}))
    else:
        serve(task_of(name, design, n))
