"""Searches that run to their end: ``mercer.fit`` with and without what is left of its time.

    MERCER_DATA=<folder> python benchmarks/run_on.py [NAME ...] [--seconds 12] [--rows 400]

One split of each table, some of its training rows. The budget is counted in CPU seconds, whatever
else the computer does. For each of both ways: the loss of the test rows in nats, of the rows left
out, the machine, and which searches were ended by the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from measure import ONE_THREAD
from table_data import task_of

time.monotonic = time.process_time  # before mercer asks what time it is


def measured(name: str, rows: int, seconds: float, on: bool) -> str:
    """Fit a table; a line of figures."""
    import importlib

    import mercer
    from tables import cut

    learn: Any = importlib.import_module("mercer.tables.learn")
    task, kept = task_of(name, 0), learn.carry_on
    chosen = np.random.default_rng(0).permutation(task.train)[:rows]
    kind = "classification" if task.classes else "regression"
    given = task.columns(chosen) | {"target": task.y[chosen]}
    learn.carry_on = kept if on else lambda *_: None
    model = mercer.fit(given, "target", kind=kind, time_budget=seconds, single=True)
    learn.carry_on = kept
    X, y = model.encode(task.columns(task.test)), task.y[task.test]
    if task.classes:
        p = model.machine_.predict_proba(X)
        density = np.log(p[np.arange(len(y)), np.searchsorted(model.classes_, y)])
    else:
        density = cut(model.machine_.predictive_log_density(X, y), y, task.y)
    time_of, who = model.report_["time"], model.chosen_.name
    ended = [line for line in time_of["bound"] if line.endswith(": its search was ended")]
    said = ", ".join(line.split(": its")[0] for line in ended if "folds" not in line) or "none"
    return (
        f"{name:10} {'runs on' if on else 'stopped':8} test {-density.mean():7.4f}  left out "
        f"{-model.left_out_.score:7.4f}  {who}, {time_of['used']:.0f} s; ended: {said}"
    )


def main() -> int:
    """Print two lines for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["wdbc", "splice"])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rows", type=int, default=400)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of searches cut short
    for name in options.names:
        for on in (False, True):
            print(measured(name, options.rows, options.seconds, on), flush=True)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
