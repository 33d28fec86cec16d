"""Whether the time budget of ``mercer.fit`` holds: seconds asked for and used, on hard tables.

The clock is the CPU time of the process, so that what else runs on the computer does not matter.
"""

from __future__ import annotations

import time
from unittest import mock

import numpy as np
from measure import Row

import mercer

WITHIN = 1.1  # of the budget
# rows, columns, classes (0: a quantity), seconds
CASES = (
    (200, 5, 0, 10.0),
    (2000, 10, 0, 20.0),
    (20_000, 10, 0, 30.0),
    (1000, 40, 11, 20.0),
    (2000, 300, 0, 20.0),
    (2000, 10, 60, 20.0),
    (5000, 20, 200, 30.0),
)


def hard_table(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and a rough function of it, or the classes of k clouds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if not k:
        return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    codes = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return X + 0.8 * rng.normal(size=(k, d))[codes], np.array([f"class {c}" for c in codes])


def budget_rows(most: int) -> list[Row]:
    """Fit the tables of at most so many rows, each within its seconds."""
    rows = []
    for n, d, k, seconds in CASES:
        if n > most:
            continue
        X, y = hard_table(n, d, k)
        with mock.patch("time.monotonic", time.process_time):
            began = time.process_time()
            model = mercer.fit(X, y, time_budget=seconds)
            used = time.process_time() - began
        what = f"n = {n}, d = {d}, " + (f"{k} classes" if k else "a quantity")
        bound = len(model.report_["time"]["bound"])
        expected = model.report_["time"]["expected"]
        note = f"{expected:.0f} s announced; {model.chosen_.name}; {bound} things would be "
        note += "otherwise with more time"
        bar = f"<= {WITHIN * seconds:.0f}"
        rows.append(Row(what, f"budget {seconds:.0f} s", used, "s of CPU", bar, note=note))
    return rows
