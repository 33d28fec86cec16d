"""Where the searches on four fifths of the rows begin, and what that does to rows left out.

    MERCER_DATA=<folder> python benchmarks/nesting.py [NAME ...] [--splits 3] [--rows 300]

Four figures for each machine of a table, in nats per row, means of the splits: of the rows left out
by hyperparameters of all rows ("kept"); by those of searches on the other four fifths that begin at
what all rows found ("resumed"); by those of searches that begin as the first one did ("afresh",
what ``mercer.fit`` goes by); and of the test rows. Test rows of a split are harder or easier than
its training rows for all machines alike: "linear" has three hyperparameters and says by how much.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import Any

import numpy as np
from measure import ONE_THREAD
from table_data import TABLES, task_of

NAMES = ("pima", "breast cancer", "banana")
MACHINES = (
    "linear",
    "least squares",
    "Gaussian process",
    "Gaussian process, edges",
    "Gaussian process, interactions",
)


def measured(name: str, split: int, rows: int) -> dict[str, list[float]]:
    """{machine: [kept, resumed, afresh, test]} of one split of a table of classes."""
    from mercer.tables import as_frame
    from mercer.tables.choose import honest
    from mercer.tables.choose.candidates import candidates_for
    from mercer.tables.choose.resume import Resumed
    from mercer.tables.choose.screen import Clock, screen
    from mercer.tables.data.target import read_target

    task = task_of(name, split)
    train = np.random.default_rng(split).permutation(task.train)[:rows]
    X, y = task.X[train], task.y[train]
    target = read_target(as_frame({"t": y}), "t", "classification")
    every = candidates_for(target.kind, X, False, target.k)
    tried = screen([c for c in every if c.name in MACHINES], X, target, Clock(1e9), 1.0, 0).tried
    codes = np.searchsorted(np.unique(y), task.y[task.test])

    def resumed(candidate: Any, found: Any, options: Any) -> Resumed:
        return Resumed(found, candidate.criterion, **options)

    afresh, figures = honest._afresh, {}
    for one in tried:
        nested = []
        for begin in (resumed, afresh):
            honest._afresh = begin
            left = honest.nested_left_out(one.machine, one.candidate, X, target, 0)
            assert left is not None
            nested.append(left.score)
        p = one.machine.predict_proba(task.X[task.test])[np.arange(len(codes)), codes]
        figures[one.candidate.name] = [one.score, *nested, float(np.log(p).mean())]
    return figures


def main() -> int:
    """Print a table for each name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], help=f"default: {NAMES}")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=300, help="training rows, at most")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.names or NAMES:
        print(f"{name:34}    kept  resumed   afresh     test")
        each = [measured(name, split, given.rows) for split in range(given.splits)]
        for machine in MACHINES:
            mean = np.mean([one[machine] for one in each], axis=0)
            print(f"  {machine:32}" + "".join(f"{-value:8.4f} " for value in mean), flush=True)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
