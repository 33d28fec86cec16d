"""Few labels: do the rows without one help, and do C and beta choose themselves?

    MERCER_DATA=<folder> python benchmarks/few.py [NAME ...] [--seeds 200 206] [--json FILE]

Tables of 300 rows of which 5, 10 or 20 of each class are labelled; the machine is judged on 500
other rows. It chooses C and beta by each of three criteria (``search``), and for comparison C alone
with beta = 0, which ignores the rows without a label; both see the same rows, so that differences
are paired over the seeds. The bar: no data set on which the graph costs more than chance explains
(three standard errors of the paired difference), and none on average. Probabilities are those of
``calibration="sigmoid"``.

The partition function is given C = 100, at which it has something to say: it is smallest where
nothing is learned. The seeds are not those with which the rule was developed (0 to 7, 100 to 107).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import ONE_THREAD, Row, publish

LABELS, ROWS, TEST = (5, 10, 20), 300, 500
SEEDS = range(200, 206)
CHANCE = 3.0  # standard errors of a paired difference over the seeds
Table = tuple[np.ndarray, np.ndarray]


# ---------------------------------------------------------------------- data
def _moons(rng: np.random.Generator, n: int) -> Table:
    side, angle = np.arange(n) % 2, rng.uniform(0.0, np.pi, n)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.where(side[:, None] == 0, upper, [1.0, 0.5] - upper)
    return X + 0.15 * rng.normal(size=(n, 2)), side


def _rings(rng: np.random.Generator, n: int) -> Table:
    side, angle = np.arange(n) % 2, rng.uniform(0.0, 2.0 * np.pi, n)
    radius = 1.0 + side + 0.15 * rng.normal(size=n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), side


def _folder() -> Path:
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds the data sets")
    return Path(named)


def _stored(name: str) -> Table:
    data = np.load(_folder() / f"raetsch_{name}" / f"{name}.npz")
    return data["X"].astype(float), (data["t"] > 0).astype(int)


def _text(paths: list[str], target: str) -> Table:
    X, y = [], []
    for path in paths:
        with gzip.open(_folder() / path, "rt") as file:
            head, *rows = csv.reader(file)
        j = head.index(target)
        X += [[float(v) for i, v in enumerate(row) if i != j] for row in rows]
        y += [row[j] for row in rows]
    return np.array(X), np.unique(y, return_inverse=True)[1]


def _digits() -> Table:
    data = np.load(_folder() / "usps/usps_3v5.npz")
    X, y = (np.concatenate([data[f"{n}_train"], data[f"{n}_test"]]) for n in ("X", "y"))
    return X.astype(float), (y == 5).astype(int)


def _letters() -> Table:
    data = np.load(_folder() / "isolet/isolet.npz")
    keep = np.isin(data["y"], [2, 3, 4, 5, 7])  # B C D E G, which sound alike
    return data["X10000"][keep] / 1e4, np.unique(data["y"][keep], return_inverse=True)[1]


DRAWN = {"two moons": _moons, "two rings": _rings}
READ: dict[str, Callable[[], Table]] = {
    "synthetic (Ripley)": lambda: _text(
        ["synth_ripley/synth_tr.csv.gz", "synth_ripley/synth_te.csv.gz"], "yc"
    ),
    "banana": lambda: _stored("banana"),
    "ringnorm": lambda: _stored("ringnorm"),
    "splice": lambda: _stored("splice"),
    "breast cancer": lambda: _text(["wdbc/wdbc.csv.gz"], "diagnosis"),
    "digits 3, 5": _digits,
    "letters B C D E G": _letters,
}
AS_THEY_ARE = {"digits 3, 5", "letters B C D E G"}  # columns of one unit


def problem(name: str, per_class: int, seed: int, n: int = ROWS) -> tuple[Any, ...]:
    """Return X (n, d), y with None, and other rows with their classes; columns standardised."""
    rng = np.random.default_rng(seed)
    X, y = DRAWN[name](rng, n + TEST) if name in DRAWN else READ[name]()
    order = rng.permutation(len(y))[: n + TEST]
    X, y = X[order], y[order]
    n = min(n, len(y) - 200)
    if name not in AS_THEY_ARE:
        X = (X - X[:n].mean(axis=0)) / np.maximum(X[:n].std(axis=0), 1e-12)
    labels = np.full(n, None)
    for code in np.unique(y):
        rows = np.flatnonzero(y[:n] == code)[:per_class]
        labels[rows] = code
    return X[:n], labels, X[n:], y[n:]


# ---------------------------------------------------------------------- machines
def judged(machine: Any, X: Any, labels: Any, Z: Any, truth: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and calibration error on other rows, and CPU seconds of the fit."""
    from mercer.left_out.figures import class_error

    start = time.process_time()
    machine.fit(X, labels)
    seconds = time.process_time() - start
    p = machine.predict_proba(Z)
    own = np.maximum(p[np.arange(len(truth)), truth], 1e-300)
    right = float(np.mean(machine.predict(Z) == truth))
    off = class_error(p, truth)
    loss = float(-np.log(own).mean())
    found = {"accuracy": right, "log loss": loss, "off": off, "seconds": seconds}
    return found | {"beta": float(machine.report_["beta"])}


def machines() -> dict[tuple[str, str], Any]:
    """By (machine, what it is given); "without" ignores the rows that have no label."""
    import mercer

    told = {"calibration": "sigmoid"}
    found: dict[tuple[str, str], Any] = {}
    for name in ("LapSVC", "LapLSClassifier", "LapMEDClassifier"):
        make = getattr(mercer, name)
        found[name, "left_out"] = make(**told)
        found[name, "without"] = make(beta=0.0, **told)
    make = mercer.LapSVC
    found["LapSVC", "evidence"] = make(search="evidence", **told)
    found["LapSVC", "without, evidence"] = make(search="evidence", beta=0.0, **told)
    found["LapSVC", "partition"] = make(100.0, search="partition", **told)
    found["LapSVC", "without, partition"] = make(100.0, beta=0.0, **told)
    found["LapSVC", "C = 100, beta = 0.5"] = make(100.0, beta=0.5, **told)
    return found


def _paired(with_: np.ndarray, without: np.ndarray) -> tuple[float, float]:
    """Mean difference over the seeds, and in units of its standard error (0 where all are 0)."""
    d = with_ - without
    error = d.std(ddof=1) / np.sqrt(len(d))
    return float(d.mean()), float(d.mean() / error) if error > 0.0 else 0.0


def few_rows(names: list[str], seeds: range, n: int = ROWS) -> list[Row]:
    """Measure the named data sets (all by default)."""
    rows, every = [], []
    for name in names or [*DRAWN, *READ]:
        for per_class in LABELS:
            found: dict[tuple[str, str], list[dict[str, float]]] = {}
            for seed in seeds:
                given = problem(name, per_class, seed, n)
                for key, machine in machines().items():
                    found.setdefault(key, []).append(judged(machine, *given))
            table_ = {
                key: {m: np.array([one[m] for one in runs]) for m in runs[0]}
                for key, runs in found.items()
            }
            every.append(table_)
            rows.append(_row(f"{name}, {per_class} labels a class", table_))
            print(rows[-1].what, rows[-1].value, rows[-1].quality, file=sys.stderr, flush=True)
    return rows + _summary(every)


def _row(what: str, found: dict[Any, dict[str, np.ndarray]]) -> Row:
    mine, without = found["LapSVC", "left_out"], found["LapSVC", "without"]
    _, t = _paired(mine["accuracy"], without["accuracy"])
    quality = {
        "accuracy": float(mine["accuracy"].mean()),
        "without": float(without["accuracy"].mean()),
        "by evidence": float(found["LapSVC", "evidence"]["accuracy"].mean()),
        "by partition": float(found["LapSVC", "partition"]["accuracy"].mean()),
        "C=100 beta=0.5": float(found["LapSVC", "C = 100, beta = 0.5"]["accuracy"].mean()),
        "log loss": float(mine["log loss"].mean()),
        "without, log loss": float(without["log loss"].mean()),
        "graph used": f"{np.mean(mine['beta'] > 0.0):.0%}",
    }
    seconds = float(np.median(mine["seconds"]))
    unit, bar = "standard errors", f">= {-CHANCE:g}"
    return Row(what, "LapSVC, left_out", t, unit, bar, seconds=seconds, quality=quality)


PAIRS = {
    ("LapSVC", "left_out"): "without",
    ("LapLSClassifier", "left_out"): "without",
    ("LapMEDClassifier", "left_out"): "without",
    ("LapSVC", "evidence"): "without, evidence",
    ("LapSVC", "partition"): "without, partition",
    ("LapSVC", "C = 100, beta = 0.5"): "without, partition",
}


def _summary(every: list[dict[Any, dict[str, np.ndarray]]]) -> list[Row]:
    rows = []
    for (machine, by), other in PAIRS.items():
        pairs = [(one[machine, by], one[machine, other]) for one in every]
        found = [_paired(a["accuracy"], b["accuracy"]) for a, b in pairs]
        gain, worst = 100.0 * np.mean([d for d, _ in found]), min(t for _, t in found)
        means = [{m: np.mean([one[m].mean() for one in side]) for m in pairs[0][0]}
                 for side in zip(*pairs, strict=True)]  # fmt: skip
        quality = {
            "accuracy": float(means[0]["accuracy"]),
            "without": float(means[1]["accuracy"]),
            "most above": max(t for _, t in found),
            "most below": worst,
        }
        who, kept = f"{machine}, {by}", by == "left_out"
        rows.append(Row("all, points of accuracy by the graph", who, float(gain), "points",
                        ">= 0" if kept else "", quality=quality))  # fmt: skip
        rows.append(Row("all, worst of the data sets", who, worst, "standard errors",
                        f">= {-CHANCE:g}" if kept else ""))  # fmt: skip
        loss = float(means[0]["log loss"] - means[1]["log loss"])
        quality = {"log loss": float(means[0]["log loss"]),
                   "without": float(means[1]["log loss"]),
                   "calibration error": float(means[0]["off"]),
                   "without, calibration error": float(means[1]["off"])}  # fmt: skip
        rows.append(Row("all, log loss by the graph", who, loss, "nats",
                        "<= 0.01" if kept else "", quality=quality))  # fmt: skip
    return rows


def main() -> int:
    """Print the table and the JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *DRAWN, *READ])
    parser.add_argument("--seeds", nargs=2, type=int, default=[SEEDS.start, SEEDS.stop])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = few_rows(options.names, range(*options.seeds))
    publish(rows, options.json)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
