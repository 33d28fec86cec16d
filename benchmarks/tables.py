"""``mercer.fit`` with its defaults against scikit-learn's machines on ten tables.

    MERCER_DATA=<folder> python benchmarks/tables.py [NAME ...] [--json FILE] [--peers FILE]

A table of at most 2000 training rows is fitted with the defaults; the log loss (classes) or the
negative log predictive density (a quantity), both in nats per test row, is compared with the best
of scikit-learn's Gaussian process, support vector machine with calibration, and logistic or ridge
regression. The bar: at most 0.01 nats worse on at least eight tables, within a minute each. The
peers get standardised columns and are not held to a time. ``--peers`` keeps their figures in a
file, so that a second run need not fit them again.

``--large`` fits tables that no exact fit can take (kin40k, protein, bike, elevators, ringnorm, and
a synthetic one of a million rows) with the defaults, and prints RMSE and NLPD, or error and log
loss, of 5000 test rows, with the form in which the rows are known.

A density can be as high as a machine dares where rows repeat and the quantity is written down in
steps of h. Where any machine states more than 1/h, all are compared a second time with densities
of at most 1/h: the probability of a step is at most one.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import ONE_THREAD, Row, publish

BAR, MINUTE, NEEDED = 0.01, 60.0, 8


@dataclass(frozen=True)
class Task:
    """A table, split: columns by name, the target y (text for classes)."""

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


def _stored(name: str, path: str, rows: int | None = None) -> Task:
    data = np.load(folder() / path)
    X, n = data["X"].astype(float), len(data["X"])
    if "t" in data:
        train = data["train_seeded"][0].astype(int)
        train = train - train.min() if train.max() == n else train
        y = np.where(data["t"] > 0, "yes", "no")
    else:
        y = data["y"].astype(float)
        train = np.setdiff1d(np.arange(n), data["test_idx"][0].astype(int))
    test = np.setdiff1d(np.arange(n), train)
    if rows is not None:
        train = np.sort(np.random.default_rng(0).permutation(train)[:rows])
    return Task(name, X, y, train, test[:4000])


def _csv(name: str, path: str, target: str, rows: int, more: str | None = None) -> Task:
    """Read one file and draw training rows, or a second file with the test rows."""
    first = _read(path)
    every = first if more is None else first + _read(more)
    names = [k for k in first[0] if k != target]
    X = np.array([[float(r[k]) for k in names] for r in every])
    y = np.array([r[target] for r in every])
    order = np.arange(len(every))
    if more is None:
        order = np.random.default_rng(0).permutation(len(every))
    else:
        rows = len(first)
    return Task(name, X, y, np.sort(order[:rows]), np.sort(order[rows:])[:4000])


def _read(path: str) -> list[dict[str, str]]:
    with gzip.open(folder() / path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


TASKS = {
    "boston": lambda: _stored("boston", "boston/boston.npz"),
    "concrete": lambda: _stored("concrete", "concrete/concrete.npz"),
    "wine red": lambda: _stored("wine red", "wine_red/wine_red.npz"),
    "power": lambda: _stored("power", "power/power.npz", 2000),
    "kin8nm": lambda: _stored("kin8nm", "kin8nm/kin8nm.npz", 2000),
    "pima": lambda: _csv("pima", "pima_ripley/pima_tr.csv.gz", "type", 0,
                         "pima_ripley/pima_te.csv.gz"),
    "wdbc": lambda: _csv("wdbc", "wdbc/wdbc.csv.gz", "diagnosis", 400),
    "banana": lambda: _stored("banana", "raetsch_banana/banana.npz"),
    "splice": lambda: _stored("splice", "raetsch_splice/splice.npz"),
    "waveform, 3 classes": lambda: _csv("waveform, 3 classes", "waveform_uci/waveform.csv.gz",
                                        "y", 1000),
}  # fmt: skip


def ours(task: Task) -> dict[str, Any]:
    """Fit with the defaults; the loss on the test rows, wall seconds, and what was chosen."""
    import mercer

    began, cpu = time.perf_counter(), time.process_time()
    given = task.columns(task.train) | {"target": task.y[task.train]}
    model = mercer.fit(given, "target", kind="classification" if task.classes else "regression")
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    X, y = model.encode(task.columns(task.test)), task.y[task.test]
    if task.classes:
        loss = [log_loss(model.machine_.predict_proba(X), y, model.classes_)] * 2
    else:
        loss = losses_of(model.machine_.predictive_log_density(X, y), y)
    left = -model.left_out_.score
    others = {r.name: r.loss for r in model.ranking_}
    return {"loss": loss[0], "recorded": loss[1], "seconds": seconds, "cpu": cpu,
            "machine": model.chosen_.name, "left_out": left, "ranking": others}  # fmt: skip


def log_loss(p: np.ndarray, y: np.ndarray, classes: np.ndarray) -> float:
    own = p[np.arange(len(y)), np.searchsorted(classes, y)]
    return -float(np.mean(np.log(np.maximum(own, np.finfo(float).tiny))))


def losses_of(density: np.ndarray, y: np.ndarray) -> list[float]:
    """The mean loss of log densities (n,) as they are, and with none above 1 / step of y (n,)."""
    from mercer.plots.rows import recorded

    return [-float(np.mean(density)), -float(np.mean(recorded(density, y)))]


def peers(task: Task) -> dict[str, list[float]]:
    """The losses of scikit-learn's machines, by name: as they are, and as recorded."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = {}
    for name, make in (_classifiers() if task.classes else _regressors(task)).items():
        machine = make_pipeline(StandardScaler(), make())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence at a bound: theirs to judge
            machine.fit(task.X[task.train], task.y[task.train])
        y = task.y[task.test]
        if task.classes:
            p = machine.predict_proba(task.X[task.test])
            found[name] = [log_loss(p, y, machine.classes_)] * 2
        else:
            mean, std = machine.predict(task.X[task.test], return_std=True)
            z = (y - mean) / std
            found[name] = losses_of(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi), y)
    return found


def _regressors(task: Task) -> dict[str, Any]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.linear_model import BayesianRidge

    def process(scale: Any) -> GaussianProcessRegressor:
        kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.1)
        return GaussianProcessRegressor(kernel, normalize_y=True)

    found = {"GPR": lambda: process(1.0), "ridge": BayesianRidge}
    if len(task.train) <= 1000:  # one length scale per column, where it ends within minutes
        found["GPR, ARD"] = lambda: process(np.ones(task.X.shape[1]))
    return found


def _classifiers() -> dict[str, Any]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    return {
        "GPC": lambda: GaussianProcessClassifier(1.0 * RBF(1.0)),
        "SVC, calibrated": lambda: CalibratedClassifierCV(SVC(), ensemble=False, cv=5),
        "SVC C=10, calibrated": lambda: CalibratedClassifierCV(SVC(C=10.0), ensemble=False, cv=5),
        "logistic": lambda: LogisticRegression(max_iter=1000),
    }


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
            loss = log_loss(p, y, model.classes_)
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


def table_rows(names: list[str], stored: Path | None = None) -> list[Row]:
    """Measure the named tables (all by default) and count the bars met."""
    known = json.loads(stored.read_text()) if stored is not None and stored.exists() else {}
    rows, met = [], 0
    for name in names or list(TASKS):
        task = TASKS[name]()
        mine = ours(task)
        if name not in known:
            known[name] = peers(task)
            if stored is not None:
                stored.write_text(json.dumps(known, indent=1))
        plain, capped = ({who: v[i] for who, v in known[name].items()} for i in (0, 1))
        best = min(plain, key=plain.get)
        behind = mine["loss"] - plain[best]
        what = f"{name}: {'log loss' if task.classes else 'NLPD'}, n = {len(task.train)}"
        quality = {"loss": mine["loss"], "left out": mine["left_out"], **plain}
        note = f"{mine['machine']}; best peer {best}; wall {mine['seconds']:.0f} s"
        rows.append(Row(what, "mercer.fit", behind, "nats behind", f"<= {BAR}",
                        seconds=mine["cpu"], quality=quality, note=note))  # fmt: skip
        rows.append(Row(what, "mercer.fit", mine["seconds"], "wall s", f"<= {MINUTE:g}"))
        if mine["recorded"] != mine["loss"] or capped != plain:
            rows.append(Row(what + ", densities at most 1/step", "mercer.fit",
                            mine["recorded"] - min(capped.values()), "nats behind", f"<= {BAR}",
                            quality={"loss": mine["recorded"], **capped}))  # fmt: skip
        met += behind <= BAR
        print(
            what, f"{behind:+.4f} nats behind;", note, mine["ranking"], file=sys.stderr, flush=True
        )
    if not names:
        rows.append(Row("tables within 0.01 nats", "mercer.fit", float(met), "of 10",
                        f">= {NEEDED}"))  # fmt: skip
    return rows


def main() -> int:
    """Print the table and the JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TASKS, *LARGE])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", type=Path)
    options = parser.parse_args()
    large = options.large
    rows = large_rows(options.names) if large else table_rows(options.names, options.peers)
    publish(rows, options.json)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
