"""Learning from streams: cost of an update, with and without a budget; accuracy beside peers."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, peak_bytes, resident_bytes
from stream_peers import LEARNERS, STREAMS, available, categories, hidden, prequential

D, BATCH, BUDGET = 10, 100, 300
SOLVE_BAR, BATCH_BAR, COST_BAR, SLOPE_BAR, MEMORY_BAR = "<= 3", ">= 5", "<= 60", "<= 1.1", "<= 1.05"
MED_BAR, MED_ACCURACY_BAR, LAP_BAR = ">= 10", "<= 0.015", "<= 4"


def stream_rows(sizes: dict[str, int], parts: list[str], repeats: int) -> list[Row]:
    """Run the parts of the suite; ``sizes`` holds "single", "budget", "accuracy" and "graph"."""
    rows: list[Row] = []
    if "update" in parts:
        rows += single_rows(sizes["single"], repeats) + budget_rows(sizes["budget"], repeats)
    if "accuracy" in parts:
        rows += accuracy_rows(sizes["accuracy"])
    if "med" in parts:
        rows += med_rows(repeats)
    if "memory" in parts:
        rows += graph_rows(sizes["graph"])
    return rows


# ---------------------------------------------------------------------- one update
def single_rows(t: int, repeats: int) -> list[Row]:
    """One example at t, beside one triangular solve of that size, and in a batch of a hundred."""
    found = in_fresh_process(["stream.py", "single", str(t), str(5 * repeats)])
    one, solve, many = found["one"], found["solve"], found["many"] / BATCH
    what = f"update at t = {t}, no budget"
    return [
        Row(what, "one example", one / solve, "x a triangular solve", SOLVE_BAR, one),
        Row(what, "triangular solve", seconds=solve, note="BLAS dtrsv, that size"),
        Row(what, f"batch of {BATCH}, each", one / many, "x cheaper", BATCH_BAR, many),
    ]


def single(t: int, repeats: int) -> dict[str, float]:
    """CPU seconds at t examples of one update, one triangular solve and one batch; medians."""
    from scipy.linalg.blas import dtrsv

    from mercer import OnlineLogisticClassifier

    X, y = hidden(t + repeats * (BATCH + 1) + BATCH, D)
    model = OnlineLogisticClassifier()
    for i in range(0, t, BATCH):
        model.partial_fit(X[i : i + BATCH], y[i : i + BATCH], classes=[0, 1])
    L = np.asfortranarray(np.tril(np.random.default_rng(0).normal(size=(t, t)))) + t * np.eye(t)
    L, b = np.asfortranarray(L), np.ones(t)
    spent: dict[str, list[float]] = {"one": [], "solve": [], "many": []}
    at = t
    for _ in range(repeats):  # taking turns
        for name, size in (("one", 1), ("many", BATCH)):
            part = slice(at, at + size)
            spent[name].append(_cpu(lambda part=part: model.partial_fit(X[part], y[part])))
            at += size
        spent["solve"].append(_cpu(lambda: dtrsv(L, b, lower=1)))
    return {name: statistics.median(values) for name, values in spent.items()}


def budget_rows(n: int, repeats: int) -> list[Row]:
    """A stream of n examples with a budget: cost of an example, its growth, and memory."""
    runs = [in_fresh_process(["stream.py", "budget", str(n)]) for _ in range(repeats)]
    best = min(runs, key=lambda run: run["median"])
    what = f"budget {BUDGET}, batches of {BATCH}, to t = {n}"
    note = f"median of the batches, best of {repeats} runs; fastest batch {best['least']:.1f} us"
    grown = min(run["growth"] for run in runs)
    return [
        Row(what, "an example", best["median"], "us", COST_BAR, quality=best["quality"], note=note),
        Row(what, "last tenth / first", grown, "x the cost", SLOPE_BAR, note="lower quartiles"),
        Row(what, "resident memory", best["memory"], "x that at a tenth", MEMORY_BAR),
    ]


def budget(n: int) -> dict[str, Any]:
    """Microseconds of CPU for each example of a stream of n, growth and memory along it."""
    from mercer import OnlineLogisticClassifier

    X, y = hidden(n, D)
    model, spent, memory = OnlineLogisticClassifier(budget=BUDGET), [], 0
    for i in range(0, n, BATCH):
        part = slice(i, i + BATCH)
        step = lambda part=part: model.partial_fit(X[part], y[part], classes=[0, 1])  # noqa: E731  # timed
        spent.append(_cpu(step) / BATCH * 1e6)
        if i == n // 10 // BATCH * BATCH:
            memory = resident_bytes()
    full = np.array(spent[2 * BUDGET // BATCH :])  # the budget is reached
    tenth = max(1, len(full) // 10)
    low = [float(np.quantile(each, 0.25)) for each in (full[:tenth], full[-tenth:])]
    return {
        "median": float(np.median(full)),
        "least": float(full.min()),
        "growth": low[1] / low[0],
        "memory": resident_bytes() / memory,
        "quality": {"accuracy": model.prequential_.accuracy},
    }


def _cpu(task: Callable[[], Any]) -> float:
    begin = time.process_time()
    task()
    return time.process_time() - begin


# ---------------------------------------------------------------------- accuracy
def accuracy_rows(n: int) -> list[Row]:
    """Prequential accuracy on each stream, mercer's less that of each peer."""
    rows = [Row("peer", "river", note="not installed: skipped")] if not available() else []
    for name in STREAMS:
        found = {}
        for who in LEARNERS:
            if who == "mercer" or who.startswith("SGD") or available():
                found[who] = in_fresh_process(["stream.py", "accuracy", name, who, str(n)])
        mine, what = found["mercer"]["accuracy"], f"prequential, {name}"
        for who, entry in found.items():
            row = Row(what, who, seconds=entry["seconds"], quality={"accuracy": entry["accuracy"]})
            if who != "mercer":
                row.value, row.unit, row.bar = mine - entry["accuracy"], "mercer's lead", ">= 0"
            rows.append(row)
    return rows


# ---------------------------------------------------------------------- discrimination
def med_rows(repeats: int) -> list[Row]:
    """The 30th batch of sequential discrimination, beside a linear SVC of all 30."""
    found = in_fresh_process(["stream.py", "med", str(repeats)])
    what = "sequential MED, batches of 100, d = 200, t = 30"
    ratio, gap = found["theirs"] / found["mine"], found["their_accuracy"] - found["accuracy"]
    return [
        Row(what, "mercer", seconds=found["mine"], quality={"accuracy": found["accuracy"]}),
        Row(
            what,
            "SVC(kernel='linear')",
            ratio,
            "x slower than mercer",
            MED_BAR,
            found["theirs"],
            {"accuracy": found["their_accuracy"]},
            "all data so far",
        ),
        Row(what, "SVC - mercer", gap, "accuracy", MED_ACCURACY_BAR),
    ]


def med(repeats: int) -> dict[str, float]:
    """CPU seconds of the last update and of an SVC on all data; accuracy on 2000 further rows."""
    import copy

    from sklearn.svm import SVC

    from mercer import MEDClassifier

    X, y = categories(5000)
    model = MEDClassifier(kernel="linear")
    for t in range(29):
        part = slice(100 * t, 100 * (t + 1))
        model.partial_fit(X[part], y[part], classes=[-1, 1])
    mine, theirs = [], []
    for _ in range(repeats + 1):
        last, peer = copy.deepcopy(model), SVC(kernel="linear")
        mine.append(_cpu(lambda last=last: last.partial_fit(X[2900:3000], y[2900:3000])))
        theirs.append(_cpu(lambda peer=peer: peer.fit(X[:3000], y[:3000])))
    return {
        "mine": statistics.median(mine[1:]),
        "theirs": statistics.median(theirs[1:]),
        "accuracy": float(last.score(X[3000:], y[3000:])),
        "their_accuracy": float(peer.score(X[3000:], y[3000:])),
    }


def graph_rows(n: int) -> list[Row]:
    """Peak resident memory of a process that fits partly labelled rows of the size of Isolet."""
    found = in_fresh_process(["stream.py", "graph", str(n)])
    what = f"LapMED peak memory, {n} x 617"
    return [Row(what, "mercer", found["bytes"] / 2**30, "GiB", LAP_BAR, found["seconds"])]


def graph(n: int) -> dict[str, float]:
    """Fit n rows of 617 columns in 26 groups, a fifth of them labelled."""
    from mercer import LapMEDClassifier

    rng = np.random.default_rng(0)
    group = rng.integers(26, size=n)
    X = rng.normal(size=(26, 617))[group] * 0.3 + rng.normal(size=(n, 617)) * 0.3
    y = np.where(group < 13, 1.0, 0.0)
    y[rng.random(n) > 0.2] = np.nan
    seconds = _cpu(lambda: LapMEDClassifier().fit(X, y))
    return {"bytes": peak_bytes(), "seconds": seconds}


if __name__ == "__main__":
    task, *given = sys.argv[1:]
    if task == "accuracy":
        answer = prequential(given[0], given[1], int(given[2]))
    else:
        tasks = {"single": single, "budget": budget, "med": med, "graph": graph}
        answer = tasks[task](*map(int, given))
    print(json.dumps(answer))
