"""Are the figures of rows left out those of new rows? Left-out estimates against test rows.

    MERCER_DATA=<folder> python benchmarks/honest.py [--tables NAME ...] [--splits 3] [--rows 400]
                         [--budget 60] [--single] [--json FILE]

Every table is split at random several times: 400 rows (at most three fifths) are fitted by
``mercer.fit``, and ``left_out_.score``, the mean log density of rows left out that it reports for
what it chose, is compared with that of up to 3000 rows that nothing has seen. Both have a sampling
error; over tables and splits their difference must vanish. The bar is on the mean of the tables'
mean differences: at most one standard error of it over the tables, in absolute value.

Splits of one table share rows, and are averaged before anything is pooled. A quantity written down
in steps of h has no density above 1/h, in both.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import ONE_THREAD, Row, publish

ROWS, TEST, SPLITS, BUDGET = 400, 3000, 3, 60.0
QUANTITIES = [
    "boston",
    "concrete",
    "wine_red",
    "power",
    "kin8nm",
    "elevators",
    "protein",
    "pumadyn32nm",
    "bike",
]
CLASSES = ["banana", "breast_cancer", "diabetis", "ringnorm", "splice", "titanic", "waveform"]
FILES = {
    **{name: f"{name}/{name}.npz" for name in QUANTITIES},
    **{name: f"raetsch_{name}/{name}.npz" for name in CLASSES},
    "wdbc": "wdbc/wdbc.csv.gz",
}
INPUTS = {"bike": 15}  # the other columns add up to the target


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, d) and targets (n,) of a table: numbers, or text for classes."""
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds the data sets")
    path = Path(named) / FILES[name]
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = list(csv.reader(file))[1:]
        return np.array([line[:-1] for line in lines], dtype=float), np.array(
            [line[-1] for line in lines]
        )
    data = np.load(path)
    y = np.where(data["t"] > 0, "yes", "no") if "t" in data else data["y"].astype(float)
    return data["X"].astype(float)[:, : INPUTS.get(name)], y


def split(
    X: np.ndarray, y: np.ndarray, seed: int, rows: int
) -> tuple[tuple[dict[str, Any], np.ndarray], tuple[dict[str, Any], np.ndarray]]:
    """Return (columns, targets) of training rows and of test rows."""
    order = np.random.default_rng([seed, 11]).permutation(len(X))
    count = min(rows, 3 * len(X) // 5)

    def part(some: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        return {f"x{j}": X[some, j] for j in range(X.shape[1])}, y[some]

    return part(order[:count]), part(order[count : count + TEST])


def log_density(model: Any, columns: dict[str, Any], y: np.ndarray) -> np.ndarray:
    """Return the log density, or log probability, of test rows (m,)."""
    from mercer.plots.rows import recorded

    X = model.encode(columns)
    if model.classes_ is None:
        return recorded(model.machine_.predictive_log_density(X, y), y)
    p = model.machine_.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return np.log(np.maximum(p, np.finfo(float).tiny))


def compared(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fit one split; the estimate, the test figure, and the error of their difference."""
    import mercer
    from mercer.plots.rows import recorded

    X, y = load(name)
    (columns, target), (new, new_y) = split(X, y, seed, options.rows)
    kind = "classification" if y.dtype.kind == "U" else "regression"
    began = time.process_time()
    model = mercer.fit(columns | {"target": target}, "target", kind=kind, single=options.single,
                       time_budget=options.budget)  # fmt: skip
    cpu, left = time.process_time() - began, model.left_out_
    own = left.log_density if left.proba is not None else recorded(left.log_density, left.y)
    test = log_density(model, new, new_y)
    error = np.sqrt(own.var(ddof=1) / len(own) + test.var(ddof=1) / len(test))
    bound = len(model.report_["time"]["bound"])
    figures = {"left out": left.score, "test": float(test.mean()), "error": float(error)}
    return figures | {"cpu": cpu, "machine": model.chosen_.name, "bound": bound}


def honest_rows(options: argparse.Namespace) -> list[Row]:
    """Measure the tables and pool them."""
    rows, each = [], []
    who = "mercer.fit, one machine" if options.single else "mercer.fit"
    for name in options.tables:
        found = []
        for seed in range(options.splits):
            one = compared(name, seed, options)
            found.append(one)
            difference = one["left out"] - one["test"]
            note = (
                f"{one['machine']}; difference {difference:+.4f}, standard error {one['error']:.4f}"
            )
            quality = {"left out": one["left out"], "test": one["test"]}
            rows.append(Row(f"{name}, split {seed}", who, difference, "nats", "", one["cpu"],
                            quality, f"{note}; {one['bound']} things bound by time"))  # fmt: skip
            print(rows[-1].what, quality, rows[-1].note, file=sys.stderr, flush=True)
        each.append(float(np.mean([one["left out"] - one["test"] for one in found])))
        spread = float(np.sqrt(np.mean([one["error"] ** 2 for one in found]) / len(found)))
        rows.append(Row(name, who, each[-1], "nats", quality={"standard error": spread}))
    if len(each) > 1:
        mean, error = float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))
        quality = {"mean": mean, "standard error": error, "median": float(np.median(each))}
        rows.append(Row(f"left out less test, {len(each)} tables", who, abs(mean) / error,
                        "standard errors", "<= 1", quality=quality))  # fmt: skip
    return rows


def arguments(given: list[str] | None) -> argparse.Namespace:
    """Read the command line; with [] these are the defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows, at most")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds for each fit")
    parser.add_argument("--single", action="store_true", help="one machine, no combinations")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(given)


def main() -> int:
    """Print the table and the JSON lines."""
    options = arguments(None)
    return publish(honest_rows(options), options.json)


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
