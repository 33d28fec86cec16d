"""Quantities from streams: what OnlineRegressor foresees beside river, and what a row costs.

The tables are read in the order of their files from ``MERCER_DATA``. Every learner predicts a row
before it learns it, with its defaults; of river's models, on standardised columns, a Gaussian with
the running variance of their own errors is the prediction. Rows count from the 500th on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, resident_bytes
from stream_peers import available

TABLES = ("kin40k", "protein", "bike", "elevators")
PEERS = ("river KNN", "river ARF", "river Bayesian linear")
FIRST, BATCH, BUDGET, MANY = 500, 50, 300, 1000
MORE = f"mercer, {MANY} points"
COST_BAR, MEMORY_BAR, LEAD_BAR = "<= 30", "<= 1.05", ">= 0"
PRODUCT = 1000  # rows of the matrices whose product says how fast the machine is at the moment


def quantity_rows(n: int, parts: list[str], long: int) -> list[Row]:
    """Run the parts: n rows of each table, or all of them, and a stream of ``long`` rows."""
    rows: list[Row] = []
    if "quantities" in parts:
        for name in TABLES:
            rows += table_rows(name, n)
    if "cost" in parts:
        rows += cost_rows(long)
    return rows


def table_rows(name: str, n: int) -> list[Row]:
    """NLPD of mercer and of each peer on the first n rows of a table."""
    what = f"NLPD before each update, {name}"
    if not (Path(os.environ.get("MERCER_DATA", "")) / name / f"{name}.npz").exists():
        return [Row(what, "mercer", note="MERCER_DATA has no such table")]
    n = len(table(name, n)[1])
    what += f", first {n} rows"
    if not available():
        return [Row(what, "river", note="not installed: skipped"), *_scored(what, name, n, ())]
    return _scored(what, name, n, PEERS)


def _scored(what: str, name: str, n: int, peers: tuple[str, ...]) -> list[Row]:
    rows, mine, best = [], float("nan"), float("inf")
    for who in ("mercer", *peers, MORE):
        found = in_fresh_process(["quantities.py", "foresee", name, who, str(n)])
        quality = {"NLPD": found["nlpd"], "RMSE": found["rmse"]}
        row = Row(what, who, seconds=found["seconds"], quality=quality)
        if who == "mercer":
            mine = found["nlpd"]
        elif who != MORE:
            row.value, row.unit, row.bar = found["nlpd"] - mine, "mercer's lead", LEAD_BAR
            best = min(best, found["nlpd"])
        elif peers:
            row.value, row.unit, row.bar = best - found["nlpd"], "its lead over river", LEAD_BAR
        rows.append(row)
    return rows


def cost_rows(n: int) -> list[Row]:
    """A stream of n rows with 300 points: the cost of a row, memory, and the factor at the end."""
    found = in_fresh_process(["quantities.py", "cost", str(n)])
    what = f"{BUDGET} points, batches of {BATCH}, to t = {n}"
    note = (
        f"median of the batches; fastest tenth {found['low']:.1f} us, mean {found['mean']:.1f} us"
    )
    rate = f"{found['rate']:.3g} GFLOP/s in products meanwhile"
    return [
        Row(what, "a row", found["median"], "us", COST_BAR, note=f"{note}; {rate}"),
        Row(what, "resident memory", found["memory"], "x that at a tenth", MEMORY_BAR),
        Row(what, "least diagonal of R", found["least"], "", ">= 0.999", note="1 is the prior's"),
    ]


def table(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n rows of a table, in the order of its file."""
    stored = np.load(Path(os.environ["MERCER_DATA"]) / name / f"{name}.npz", allow_pickle=False)
    X, y = stored["X"][:n].astype(float), stored["y"][:n].astype(float)
    return np.ascontiguousarray(X[:, :15] if name == "bike" else X), y  # it tells the sum's parts


def foresee(name: str, who: str, n: int) -> dict[str, float]:
    """Return NLPD, RMSE and CPU seconds of one learner on one table."""
    X, y = table(name, n)
    begin = time.process_time()
    mine = {"mercer": BUDGET, MORE: MANY}
    means, logs = _mercer(X, y, mine[who]) if who in mine else _river(who, X, y)
    seconds = time.process_time() - begin
    error = (y - means)[FIRST:]
    return {
        "nlpd": -float(np.mean(logs[FIRST:])),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "seconds": seconds,
    }


def _mercer(X: np.ndarray, y: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and log densities of batches of fifty, each before it is learned."""
    from mercer import OnlineRegressor

    model, means, logs = OnlineRegressor(budget=budget), np.zeros(len(y)), np.zeros(len(y))
    for i in range(0, len(y), BATCH):
        part = slice(i, i + BATCH)
        if i:
            means[part] = model.predict(X[part])
            logs[part] = model.predictive_log_density(X[part], y[part])
        model.partial_fit(X[part], y[part])
    return means, logs


def _river(who: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of one row at a time, and log densities by the variance of the errors so far."""
    from river import forest, linear_model, neighbors, preprocessing

    model: Any = {
        "river KNN": lambda: neighbors.KNNRegressor(n_neighbors=5),
        "river ARF": lambda: forest.ARFRegressor(n_models=10, seed=0),
        "river Bayesian linear": lambda: linear_model.BayesianLinearRegression(),
    }[who]()
    model = preprocessing.StandardScaler() | model
    means, logs, squares = np.zeros(len(y)), np.zeros(len(y)), 0.0
    for i, (row, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row))
        means[i] = model.predict_one(x) or 0.0
        if i and squares:
            variance = squares / i
            logs[i] = -0.5 * (np.log(2 * np.pi * variance) + (target - means[i]) ** 2 / variance)
        squares += (target - means[i]) ** 2
        model.learn_one(x, target)
    return means, logs


def _batches(n: int, d: int = 8) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(0, n, BATCH):
        X = rng.normal(size=(BATCH, d))
        yield X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=BATCH)


def cost(n: int) -> dict[str, float]:
    """Microseconds of CPU for each row, memory along the stream, the diagonal of R at its end."""
    from mercer import OnlineRegressor

    model, spent, memory, rates = OnlineRegressor(budget=BUDGET), [], 1, []
    square = np.random.default_rng(0).normal(size=(PRODUCT, PRODUCT))
    for i, (X, y) in enumerate(_batches(n)):
        begin = time.process_time()
        model.partial_fit(X, y)
        spent.append((time.process_time() - begin) / BATCH * 1e6)
        if i % max(1, n // BATCH // 10) == 0:
            begin = time.process_time()
            square @ square
            rates.append(2e-9 * PRODUCT**3 / (time.process_time() - begin))
        if i == n // BATCH // 10:
            memory = resident_bytes()
    full = np.array(spent[min(len(spent) // 2, 1500 // BATCH) :])  # the kernel is learned
    return {
        "median": float(np.median(full)),
        "mean": float(full.mean()),
        "low": float(np.quantile(full, 0.1)),
        "memory": resident_bytes() / memory,
        "least": float(np.abs(np.diag(model.stream_.R)).min()),
        "rate": float(np.median(rates)),
    }


if __name__ == "__main__":
    task, *given = sys.argv[1:]
    answer = (
        foresee(given[0], given[1], int(given[2])) if task == "foresee" else cost(int(given[0]))
    )
    print(json.dumps(answer))
