"""Landmark machines: the hinge on few points beside libsvm on all rows, and how time grows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, interleaved, peak_growth, serve

D, M, C, SCALE = 22, 500, 4.0, 4.0
TEST = 10_000
SECONDS, GAP = 0.8, 1e-3
LARGE_BARS = {1_000_000: ("<= 600", "<= 1")}


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 22) and labels, one in ten positive: five columns matter, and chance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    f = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * X[:, 4] ** 2
    f += 0.3 * rng.normal(size=n)
    return X, np.where(f > np.quantile(f, 0.9), 1, 0)


def machine(name: str) -> Any:
    """Return the machine of a library, not fitted."""
    if name == "scikit-learn":
        from sklearn.svm import SVC

        return SVC(C=C, gamma=0.5 / SCALE**2, cache_size=1000)
    import mercer
    from mercer.kernels import RBF
    from mercer.linalg import Inducing

    gram = "auto" if name == "mercer, all rows" else Inducing(m=M)
    return mercer.SVC(C=C, kernel=RBF(SCALE), gram=gram)


def landmark_task(name: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: one fit, its error on rows that it has not seen."""
    X, y = problem(n + TEST)

    def one(turn: int) -> dict[str, Any]:
        model = machine(name).fit(X[:n], y[:n])
        if turn:  # the error once
            return {}
        found = {"error %": 100.0 * (1.0 - model.score(X[n:], y[n:]))}
        if name == "mercer":
            ended = model.report_["inference"]
            found |= {"steps": ended["iterations"], "gap": ended["gap"] / ended["objective"]}
        return found

    return one


def landmark_rows(n: int, repeats: int, large: list[int]) -> list[Row]:
    """Time the hinge at n rows; time and memory at the sizes ``large``."""
    names = ["mercer", "mercer, all rows", "scikit-learn"]
    found = interleaved({k: ["landmarks.py", k, str(n)] for k in names}, repeats)
    what, rows = f"hinge, n = {n}, {M} landmarks", []
    for name in names:
        row = Row(what, name, seconds=found[name]["seconds"], quality=found[name]["result"])
        if name == "mercer":
            row.value, row.unit, row.bar = row.seconds, "s", f"<= {SECONDS}"
        rows.append(row)
    rows.append(Row(what, "mercer, gap", rows[0].quality["gap"], "of the objective", f"<= {GAP}"))
    for size in large:
        one = in_fresh_process(["landmarks.py", "large", str(size)])
        what, bars = f"hinge, n = {size}, {M} landmarks", LARGE_BARS.get(size, ("", ""))
        quality = {key: one[key] for key in ("steps", "gap")}
        rows.append(Row(what, "mercer", one["seconds"], "s", bars[0], one["seconds"], quality))
        rows.append(Row(what, "mercer", one["bytes"] / 1e9, "GB beyond X", bars[1]))
    return rows


def large(n: int) -> dict[str, Any]:
    """Fit once; return CPU seconds and the memory beyond X."""
    X, y = problem(n)
    model, begin = machine("mercer"), time.process_time()
    grown = peak_growth(lambda: model.fit(X, y))
    ended = model.report_["inference"]
    spent = time.process_time() - begin
    found = {"steps": ended["iterations"], "gap": ended["gap"] / ended["objective"]}
    return {"seconds": spent, "bytes": grown} | found


if __name__ == "__main__":
    if sys.argv[1] == "large":
        print(json.dumps(large(int(sys.argv[2]))))
    else:
        serve(landmark_task(sys.argv[1], int(sys.argv[2])))
