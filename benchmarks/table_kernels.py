"""Kernels for functions that are not smooth: Gaussian processes on 400 rows of the tables.

    MERCER_DATA=<folder> python benchmarks/table_kernels.py [NAME ...] [--kernels NAME ...]

One split of each table of the suite ``tables``, the first 400 of its training rows in random order;
the loss of the test rows in nats (quantities: densities of at most 1 / step), beside that of the
rows left out with hyperparameters kept, and the log evidence.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings

import numpy as np
from measure import ONE_THREAD
from table_data import TABLES, task_of

from tables import cut

KERNELS = ("rbf", "matern52", "laplacian", "anova12", "anova32", "anova")
ROWS = 400


def measured(name: str, kernel: str) -> str:
    """Fit one kernel to some rows of a table; a line of figures."""
    from mercer import GPClassifier, GPRegressor

    task, began = task_of(name, 0), time.process_time()
    rows = np.random.default_rng(0).permutation(task.train)[:ROWS]
    X, y = task.X[rows], task.y[rows]
    Z, z = task.X[task.test], task.y[task.test]
    if task.classes:
        link = {} if len(np.unique(y)) == 2 else {"loss": "probit", "inference": "ep"}
        model = GPClassifier(kernel, **link).fit(X, y)
        density = np.log(
            model.predict_proba(Z)[np.arange(len(z)), np.searchsorted(model.classes_, z)]
        )
        left = np.asarray(model.loo_.log_density) if len(model.classes_) == 2 else np.array(np.nan)
    else:
        model = GPRegressor(kernel).fit(X, y)
        density = cut(model.predictive_log_density(Z, z), z, task.y)
        left = cut(model.loo_.log_density, y, task.y)
    seconds = time.process_time() - began
    figures = f"test {-density.mean():8.4f}  left out {-left.mean():8.4f}"
    return f"{name:14} {kernel:10} {figures}  evidence {model.log_evidence_:9.1f}  {seconds:5.1f} s"


def main() -> int:
    """Print a line for each table and kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TABLES])
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of noise at its bound: the densities are compared
    for name in options.names or list(TABLES):
        for kernel in options.kernels:
            print(measured(name, kernel), flush=True)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
