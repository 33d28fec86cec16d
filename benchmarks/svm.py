"""Support vector machines: fit and prediction against scikit-learn and scikit-learn-intelex."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, interleaved, peak_bytes, serve

D = 20
# task: (C, gamma) -> bars by n and peer; the second settings ask for 4x scikit-learn
SETTINGS = [(1.0, "scale"), (100.0, "scale"), (1.0, "1.0")]
FIT_BARS = {
    "svc": {
        5000: {"scikit-learn": ">= 8", "intelex": ">= 5"},
        10000: {"scikit-learn": ">= 8", "intelex": ">= 5"},
        20000: {"scikit-learn": ">= 5", "intelex": ">= 2.5"},
    },
    "svr": {5000: {"scikit-learn": ">= 8"}, 10000: {"scikit-learn": ">= 6"}},
}
PREDICT_BAR = ">= 15"
MEMORY_BAR = "<= 4"


def peers() -> list[str]:
    """Return the libraries that are installed, mercer first."""
    return ["mercer", "scikit-learn", *(["intelex"] if find_spec("sklearnex") else [])]


def problem(kind: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X (n, 20), targets and 5000 test inputs: nonlinear, 12 % of the labels flipped."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n + 5000, D))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 - 0.5
    if kind == "svr":
        return X[:n], (f + 0.3 * rng.normal(size=n + 5000))[:n], X[n:]
    y = np.where(f > 0, 1, -1) * np.where(rng.uniform(size=n + 5000) < 0.12, -1, 1)
    return X[:n], y[:n], X[n:]


def svm_rows(kind: str, n: int, repeats: int) -> list[Row]:
    """Time fit + predict, and predict alone, of each library; ratios to mercer's."""
    rows: list[Row] = []
    for C, gamma in SETTINGS:
        first = (C, gamma) == SETTINGS[0]
        for part in ("fit", "predict") if first else ("fit",):
            workers = {w: ["svm.py", w, kind, str(n), str(C), gamma, part] for w in peers()}
            found = interleaved(workers, repeats)
            mine = found["mercer"]["seconds"]
            what = f"{kind} {part if part == 'predict' else 'fit + predict'}, n = {n}"
            what += "" if first else f", C = {C:g}, gamma = {gamma}"
            for who, entry in found.items():
                row = Row(what, who, seconds=entry["seconds"], quality=entry["result"])
                row.note = f"system {entry['system']:.2g} s"
                if who != "mercer":
                    row.value, row.unit = entry["seconds"] / mine, "x slower than mercer"
                    row.bar = _bar(kind, part, n, who, first)
                rows.append(row)
    if not find_spec("sklearnex"):
        rows.append(Row("peer", "scikit-learn-intelex", note="not installed: skipped"))
    return rows


def memory_rows(kind: str, n: int) -> list[Row]:
    """Peak resident memory of a whole process that fits n points, libraries and data included."""
    found = in_fresh_process(["svm.py", "mercer", kind, str(n), "1.0", "scale", "memory"])
    full = 8.0 * n * n / 2**30
    note = f"the Gram matrix in doubles is {full:.1f} GiB; {found['rows']} rows of it computed"
    gib = found["bytes"] / 2**30
    what, quality = f"{kind} peak memory, n = {n}", {"violation": found["violation"]}
    return [Row(what, "mercer", gib, "GiB", MEMORY_BAR, found["seconds"], quality, note)]


def thread_rows(kind: str, n: int, repeats: int) -> list[Row]:
    """Wall-clock seconds of fit + predict with one and two threads, taking turns."""
    given = ["svm.py", "mercer", kind, str(n), "1.0", "scale", "wall"]
    turns = [
        [in_fresh_process(given, threads)["wall"] for threads in (1, 2)] for _ in range(repeats)
    ]
    one, two = np.median(turns, axis=0)
    note = f"wall-clock seconds {one:.3g} and {two:.3g}"
    what = f"{kind} fit + predict, n = {n}, two threads"
    return [Row(what, "mercer", float(one / two), "x faster than with one", note=note)]


def _bar(kind: str, part: str, n: int, who: str, first: bool) -> str:
    if part == "predict":
        return PREDICT_BAR if who == "scikit-learn" else ""
    if not first:
        return ">= 4" if who == "scikit-learn" else ""
    return FIT_BARS[kind].get(n, {}).get(who, "")


def machine(who: str, kind: str, C: float, gamma: Any) -> Any:
    """Return the unfitted machine of a library."""
    options = {"C": C, "gamma": gamma, "tol": 1e-3, "cache_size": 2000}
    if who == "mercer":
        from mercer import SVC, SVR
    elif who == "intelex":
        from sklearnex.svm import SVC, SVR
    else:
        from sklearn.svm import SVC, SVR
    return SVC(**options) if kind == "svc" else SVR(**options)


def objective(model: Any, kind: str, X: np.ndarray, y: np.ndarray, gamma: Any) -> float:
    """The dual objective of a fitted machine, in double precision, in blocks."""
    coef, support = np.ravel(model.dual_coef_), np.asarray(model.support_)
    width = gamma if gamma != "scale" else 1.0 / (D * X.var())
    Z, total = X[support], 0.0
    squares = (Z**2).sum(axis=1)
    for i in range(0, len(Z), 1000):
        s = squares[i : i + 1000, None] + squares - 2.0 * Z[i : i + 1000] @ Z.T
        total += coef[i : i + 1000] @ (np.exp(-width * s) @ coef)
    linear = float(coef @ y[support])
    return linear - (0.1 * float(np.abs(coef).sum()) if kind == "svr" else 0.0) - 0.5 * total


def task(who: str, kind: str, n: int, C: float, gamma: Any, part: str) -> Callable[[int], Any]:
    """Return what a worker does in each turn."""
    X, y, Z = problem(kind, n)
    fitted = machine(who, kind, C, gamma).fit(X, y)
    value = {"dual objective": objective(fitted, kind, X, y, gamma)}

    def run(turn: int) -> Any:
        if part == "predict":
            fitted.predict(Z)
        else:
            machine(who, kind, C, gamma).fit(X, y).predict(Z)
        return value

    return run


def once(who: str, kind: str, n: int, C: float, gamma: Any, part: str) -> dict[str, Any]:
    """One fit in this process: its peak of memory, or the wall-clock time of the second one."""
    X, y, Z = problem(kind, n)
    begin = time.process_time()
    fitted = machine(who, kind, C, gamma).fit(X, y)
    if part == "memory":
        report, seconds = fitted.report_["inference"], time.process_time() - begin
        facts = {"rows": report["rows_computed"], "violation": report["violation"]}
        return {"bytes": peak_bytes(), "seconds": seconds, **facts}
    start = time.perf_counter()
    machine(who, kind, C, gamma).fit(X, y).predict(Z)
    return {"wall": time.perf_counter() - start}


if __name__ == "__main__":
    who, kind, n, C, gamma, part = sys.argv[1:]
    if part in ("memory", "wall"):
        width = gamma if gamma == "scale" else float(gamma)
        print(json.dumps(once(who, kind, int(n), float(C), width, part)))
        sys.exit()
    serve(task(who, kind, int(n), float(C), gamma if gamma == "scale" else float(gamma), part))
