"""``mercer.fit`` with its defaults on tables that no exact fit can take.

    MERCER_DATA=<folder> python benchmarks/table_large.py [NAME ...] [--json FILE]

Tables of 5,400 to 1,000,000 rows (kin40k, protein, bike, elevators, ringnorm, and a synthetic one);
RMSE and NLPD, or error and log loss, of 5000 test rows, with the form in which the rows are known.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from measure import ONE_THREAD, Row, publish
from table_data import Task, folder

LARGE = {
    "kin40k": "kin40k/kin40k.npz",
    "protein": "protein/protein.npz",
    "bike": "bike/bike.npz",
    "elevators": "elevators/elevators.npz",
    "ringnorm": "raetsch_ringnorm/ringnorm.npz",
    "million": "",
}
HELD = 5000


def large(name: str) -> Task:
    """All rows of a table but 5000 (of ringnorm 2000) for training, at random."""
    rng = np.random.default_rng(0)
    if name == "million":
        X = rng.normal(size=(1_000_000 + HELD, 10))
        f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3])
        y = f + 0.3 * rng.normal(size=len(X))
    else:
        data = np.load(folder() / LARGE[name])
        X = data["X"].astype(float)
        y = np.where(data["t"] > 0, "yes", "no") if "t" in data else data["y"].astype(float)
        X = X[:, :15] if name == "bike" else X  # the others add up to the target
    order = rng.permutation(len(X))
    count = len(X) - (2000 if name == "ringnorm" else HELD)
    return Task(name, X, y, order[:count], order[count:])


def large_rows(names: list[str]) -> list[Row]:
    """Fit the named large tables (all by default)."""
    import mercer

    rows = []
    for name in names or list(LARGE):
        task = large(name)
        given = task.columns(task.train) | {"target": task.y[task.train]}
        began, cpu = time.perf_counter(), time.process_time()
        model = mercer.fit(given, "target", kind="classification" if task.classes else "regression")
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        X, y = model.encode(task.columns(task.test)), task.y[task.test]
        if task.classes:
            p = model.machine_.predict_proba(X)
            error = float(np.mean(model.classes_[p.argmax(axis=1)] != y))
            own = p[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            loss = -float(np.mean(np.log(np.maximum(own, np.finfo(float).tiny))))
        else:
            error = float(np.sqrt(np.mean((model.machine_.predict(X) - y) ** 2)))
            loss = -float(np.mean(model.machine_.predictive_log_density(X, y)))
        what = f"{name}: {'error' if task.classes else 'RMSE'}, n = {len(task.train)}"
        how = model.representation_
        note = f"{model.chosen_.name}, {how['form']}, {how['rows']} rows, {how['points']} points"
        quality = {"loss": loss, "held out": -model.left_out_.score}
        row = Row(
            what, "mercer.fit", error, "", None, cpu, quality, f"{note}; wall {seconds:.0f} s"
        )
        rows.append(row)
        print(what, error, quality, note, f"{seconds:.0f} s", file=sys.stderr, flush=True)
    return rows


def main() -> int:
    """Print the table and the JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *LARGE])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    publish(large_rows(options.names), options.json)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
