"""Two threads: what fits and predictions gain from a second one, beside what dgemm gains.

Wall time with one thread over wall time with two, taking turns in one process, the least of some
turns each. Results of one and two threads must be the same to the last bit, except where the BLAS
itself (dgemm, dpotrf) sums in another order.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, in_fresh_process

SHARE = 0.8  # of the gain of dgemm
GP_DIMS = 8


def thread_rows(n: int, repeats: int) -> list[Row]:
    """Return the gain of each task, the bar is relative to dgemm's in the same process."""
    found = in_fresh_process(["threads.py", str(n), str(repeats)], threads=2)
    best, rows = found.pop("dgemm"), []
    rows.append(Row(f"two threads, n = {n}", "dgemm", best["gain"], "x", seconds=best["one"]))
    for name, entry in found.items():
        row = Row(f"two threads, n = {n}", name, entry["gain"] / best["gain"], "of dgemm's gain")
        row.bar, row.seconds = f">= {SHARE}", entry["one"]
        row.quality = {"gain": entry["gain"], "same bits": entry["same"]}
        row.note = "seconds are wall time with one thread"
        rows.append(row)
    return rows


def tasks(n: int) -> dict[str, Callable[[], Any]]:
    """Return what is measured: each gives an array, to be compared to the bit."""
    from svm import problem

    from mercer import SVC, SVR, GPRegressor
    from mercer.kernels import RBF

    X, labels, new = problem("svc", n)
    _, y, _ = problem("svr", n)
    V, A = (
        np.random.default_rng(0).normal(size=(n, 4)),
        np.random.default_rng(1).normal(size=(n, 2000)),
    )
    svc, svr = SVC().fit(X, labels), SVR().fit(X, y)
    kernel, inputs = RBF(np.full(GP_DIMS, 2.0)), np.ascontiguousarray(X[:, :GP_DIMS])
    gp = GPRegressor(kernel, search=None).fit(inputs, y)
    return {
        "dgemm": lambda: A[:2000] @ A.T,
        "kernel.matmul": lambda: kernel.matmul(inputs, inputs, V),
        "SVC fit": lambda: SVC().fit(X, labels).dual_coef_,
        "SVC predict": lambda: svc.decision_function(new),
        "SVR fit": lambda: SVR().fit(X, y).dual_coef_,
        "SVR predict": lambda: svr.predict(new),
        "GP fit": lambda: GPRegressor(kernel, search=None).fit(inputs, y).predict(inputs[:50]),
        "GP predict": lambda: gp.predict(new[:, :GP_DIMS], return_std=True)[1],
    }


def measured(n: int, repeats: int) -> dict[str, Any]:
    """Run every task with one and with two threads, in turns."""
    from threadpoolctl import threadpool_limits

    found = {}
    for name, task in tasks(n).items():
        least, results = {1: np.inf, 2: np.inf}, {}
        for _ in range(repeats):
            for threads in (1, 2):
                with threadpool_limits(limits=threads):
                    begin = time.perf_counter()
                    results[threads] = np.asarray(task())
                    least[threads] = min(least[threads], time.perf_counter() - begin)
        same = bool(np.array_equal(results[1], results[2]))
        found[name] = {"one": least[1], "gain": least[1] / least[2], "same": same}
    return found


if __name__ == "__main__":
    print(json.dumps(measured(*map(int, sys.argv[1:]))))
