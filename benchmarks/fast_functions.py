"""Does the default search find functions that vary fast? ``python benchmarks/fast_functions.py``.

Functions of 1 to 15 periods over the range of 1 to 3 columns, n = 100 to 400. Each is fitted by the
default and by 20 random starts that are all run to the end; for several columns also with a length
scale for each of them from the beginning. Printed are the share of functions at which the default
ends within 1 nat of the best, and, with ``--before PYTHON`` (the interpreter of an environment with
an older version), the same for that version and the ratio of the CPU seconds; the two take turns.
The exit status is 1 if the share is below 99 % or the ratio above 1.3.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

SHARE, RATIO, NATS = 0.99, 1.3, 1.0
TASKS = ("gpr", "gpc", "plsc", "smooth")
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def function(seed: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and y (n,), both standardised, or labels; "smooth" has at most one period."""
    rng = np.random.default_rng([7, seed])
    d, n, kind = 1 + seed % 3, int(rng.integers(100, 401)), seed // 3 % 3
    periods = rng.uniform(0.3, 1.0) if task == "smooth" else rng.uniform(1.0, 15.0)
    X = rng.uniform(-0.5, 0.5, (n, d))
    noise, phase, fast = np.exp(rng.uniform(np.log(0.03), 0.0)), rng.uniform(0, 6), rng.integers(d)
    direction = rng.normal(size=d) if kind == 1 else np.eye(d)[fast]  # a plane wave, or one column
    f = np.sin(2 * np.pi * periods * X @ direction / np.linalg.norm(direction) + phase)
    if kind == 2:  # fast in one column, slow in the others
        f *= np.prod(1 + 0.3 * np.sin(2 * np.pi * X), axis=1)
    y = f + noise * rng.normal(size=n)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, (y - y.mean()) / y.std() if task in ("gpr", "smooth") else y > np.median(f)


def fitted(task: str, seed: int, restarts: int, screen: int | None = None) -> dict[str, Any]:
    """Fit; return the value reached, the CPU seconds, and evaluations."""
    import mercer
    from mercer.kernels import RBF
    from mercer.search import Optimize

    X, y = function(seed, task)
    d = X.shape[1]
    criterion = "plsc" if task == "plsc" else "evidence"
    make = {
        "gpc": mercer.GPClassifier,
        "plsc": mercer.ProbabilisticLeastSquaresClassifier,
    }.get(task, mercer.GPRegressor)
    search = {"search": Optimize(criterion, restarts, screen)} if restarts else {}
    began = time.process_time()
    model = make(**search).fit(X, y)
    seconds = time.process_time() - began
    tied = max(model.report_["search"]["start_values"])
    value = tied if task == "plsc" else model.log_evidence_
    if restarts and d > 1 and task != "plsc":  # a length scale each pays only beyond a price
        free = make(1.0 * RBF(np.full(d, np.sqrt(d))), **search).fit(X, y).log_evidence_
        if free - tied > model.report_["ard"]["needed"]:
            value = max(value, free)
    evaluations = model.report_["search"]["evaluations"]
    return {"value": value, "seconds": seconds, "evaluations": evaluations, "d": d, "n": len(X)}


def work() -> None:
    """Answer requests (task, seed, restarts, screen) by a line each, until there are no more."""
    warnings.simplefilter("ignore")  # of noise at its bound: the values are compared
    for line in sys.stdin:
        print(json.dumps(fitted(*json.loads(line))), flush=True)


class Worker:
    """A process with one version of mercer."""

    def __init__(self, python: str) -> None:
        one = os.environ | dict.fromkeys(POOLS, "1")
        if python != sys.executable:
            one.pop("PYTHONPATH", None)  # it would name the version of now
        command = [python, __file__, "--work"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=one)
        self("gpr", 0, 0)  # warm

    def __call__(self, *request: str | int | None) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))


def main() -> int:
    """Measure and print; return how many bars are missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="the interpreter of an environment with an older version")
    parser.add_argument("--functions", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first function")
    parser.add_argument("--tasks", nargs="+", default=["gpr"], choices=TASKS)
    parser.add_argument("--restarts", type=int, default=20, help="0: no more than the defaults")
    parser.add_argument(
        "--screen", type=int, help="run these for so many evaluations, then the best"
    )
    parser.add_argument("--json", help="a file that gets a line for each function")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0
    workers = {"now": Worker(sys.executable)}
    if options.before:
        workers["before"] = Worker(options.before)
    missed = 0
    for task in options.tasks:
        near: dict[str, int] = defaultdict(int)
        seconds: dict[str, float] = defaultdict(float)
        both: dict[str, float] = defaultdict(float)  # where the older version finds it, too
        for seed in range(options.first, options.first + options.functions):
            turns = list(workers)[:: 1 if seed % 2 else -1]
            found = {who: workers[who](task, seed, 0) for who in turns}
            if options.restarts:
                found["restarts"] = workers["now"](task, seed, options.restarts, options.screen)
            best = max(one["value"] for one in found.values())
            for who, one in found.items():
                near[who] += one["value"] >= best - NATS
                seconds[who] += one["seconds"]
                if "before" in found and found["before"]["value"] >= best - NATS:
                    both[who] += one["seconds"]
                if who == "now" and one["value"] < best - NATS:
                    size = f"n = {one['n']}, d = {one['d']}"
                    print(f"{task} {seed}: {best - one['value']:.2f} nats missed, {size}")
            if options.json:
                with open(options.json, "a") as file:
                    file.write(json.dumps({"task": task, "seed": seed, **found}) + "\n")
        missed += near["now"] < SHARE * options.functions
        for who, count in near.items():
            share = f"{count} of {options.functions} within {NATS:g} nat of the best"
            print(f"{task:<8} {who:<9} {share}, {seconds[who]:.1f} CPU seconds")
        if "before" in workers:
            ratio = seconds["now"] / seconds["before"]
            missed += ratio > RATIO
            print(f"{task:<8} CPU seconds now / before: {ratio:.3f}", end="")
            fair = both["now"] / max(both["before"], 1e-9)
            print(f", of the functions that both find: {fair:.3f}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
