"""Kernels for functions that are not smooth: Gaussian processes on 400 rows of the tables.

    MERCER_DATA=<folder> python benchmarks/table_kernels.py [NAME ...] [--kernels NAME ...]

One split of each table of the suite ``tables``, the first 400 of its training rows in random order;
the loss of the test rows in nats (quantities: densities of at most 1 / step), beside that of the
rows left out with hyperparameters kept, and the log evidence. ``--kernels warped_rbf
warped_anova32`` bends skewed columns; ``arcsine``, ``arccosine0``, ``arccosine1`` (networks with
infinitely many units, a weight for each column) and ``forest`` (in how many trees two rows share a
leaf, the trees grown on half of the rows) are of standardised columns and targets, as is ``bent``:
powers of all columns, whether they pay or not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import Any, ClassVar

import numpy as np
from measure import ONE_THREAD
from table_data import TABLES, Task, task_of

from mercer.core.component import POSITIVE
from mercer.kernels import RBF, ArcSine, Kernel, Warped
from mercer.kernels.base import inner, like, other_points, positive
from tables import cut

KERNELS = ("rbf", "matern52", "laplacian", "anova12", "anova32", "anova")
NETWORKS = ("arcsine", "arccosine0", "arccosine1", "forest", "bent")
ROWS = 400
TREES, LEAF = 50, 5


class ArcCosine(Kernel):
    """A layer of infinitely many steps (order 0) or ramps (order 1); Cho and Saul (2009).

    With c = bias + sum_d weight_d x_d z_d, A = c(x, x), B = c(z, z), S = sqrt(AB - c^2) and theta
    the angle between x and z: 1 - theta / pi, or (S + (pi - theta) c) / pi.
    """

    domains: ClassVar = {"weight": POSITIVE, "bias": POSITIVE}

    def __init__(self, order: int = 1, weight: Any = 1.0, bias: float = 1.0) -> None:
        self.order, self.weight, self.bias = order, weight, bias

    def __call__(self, X: Any, Z: Any = None) -> Any:
        c, _, _, S, _, _ = self._forms(X, Z)
        theta = np.arctan2(S, c)
        return 1.0 - theta / np.pi if self.order == 0 else (S + (np.pi - theta) * c) / np.pi

    def diag(self, X: Any) -> Any:
        return np.ones(len(X)) if self.order == 0 else self._squares(np.asarray(X, dtype=float))

    def _value_and_pullback(self, X: Any, Z: Any, Q: Any) -> Any:
        c, A, B, S, X2, Z2 = self._forms(X, Z)
        if self.order == 0:  # dk/dc = 1 / (pi S), dk/dA = -c / (2 pi A S); none where x is z
            apart = 1e-6 * np.sqrt(np.outer(A, B)) < S
            M = np.where(apart, Q / (np.pi * np.where(apart, S, 1.0)), 0.0)
            rows, columns = -0.5 * (M * c).sum(axis=1) / A, -0.5 * (M * c).sum(axis=0) / B
        else:  # dk/dc = 1 - theta / pi, dk/dA = S / (2 pi A)
            M = Q * (1.0 - np.arctan2(S, c) / np.pi)
            rows, columns = 0.5 * (Q * S).sum(axis=1) / A, 0.5 * (Q * S).sum(axis=0) / B
            rows, columns = rows / np.pi, columns / np.pi
        sums = np.einsum("id,id->d", X2, M @ Z2) + rows @ X2**2 + columns @ Z2**2
        bias = float(M.sum() + rows.sum() + columns.sum())
        return inner(Q, self(X, Z)), {"weight": like(self.weight, sums), "bias": bias}

    def _forms(self, X: Any, Z: Any) -> Any:
        X, Z, _ = other_points(X, Z)
        c = (X * positive(self, "weight", X.shape[1])) @ Z.T + positive(self, "bias")
        A, B = self._squares(X), self._squares(Z)
        return c, A, B, np.sqrt(np.maximum(np.outer(A, B) - c * c, 0.0)), X, Z

    def _squares(self, X: Any) -> Any:
        weight = np.broadcast_to(positive(self, "weight", X.shape[1]), X.shape[1])
        return X**2 @ weight + positive(self, "bias")


def network(kernel: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Return the kernel of a name in NETWORKS, for standardised columns X (n, d)."""
    each = np.full(X.shape[1], 1.0 / X.shape[1])
    if kernel == "arcsine":
        return 1.0 * ArcSine(each)
    if kernel == "bent":
        scales, centre = np.full(X.shape[1], X.shape[1] ** 0.5), np.median(X, axis=0)
        return 1.0 * Warped(RBF(scales), np.ones(X.shape[1]), centre, np.full(X.shape[1], 0.7))
    if kernel.startswith("arccosine"):
        return 1.0 * ArcCosine(int(kernel[-1]), each)
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    from mercer.kernels import Function

    half = slice(None, None, 2)
    Forest = RandomForestClassifier if y.dtype.kind == "U" else RandomForestRegressor
    forest = Forest(TREES, min_samples_leaf=LEAF, random_state=0).fit(X[half], y[half])

    def shared(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        ours, others = forest.apply(A), forest.apply(B)
        return np.mean(
            [np.equal.outer(a, b) for a, b in zip(ours.T, others.T, strict=True)], axis=0
        )

    return 1.0 * Function(shared) + 1.0


def standardised(task: Task, rows: np.ndarray) -> tuple[Task, float]:
    """Return the table in deviations of the chosen rows, and the unit of its target."""
    X, y, unit = task.X, task.y, 1.0
    spread = X[rows].std(axis=0)
    X = (X - X[rows].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    if not task.classes:
        unit = float(y[rows].std())
        y = (y - y[rows].mean()) / unit
    return Task(task.name, X, y, task.train, task.test), unit


def measured(name: str, kernel: str) -> str:
    """Fit one kernel to some rows of a table; a line of figures."""
    from mercer import GPClassifier, GPRegressor

    task, began, unit = task_of(name, 0), time.process_time(), 1.0
    rows = np.random.default_rng(0).permutation(task.train)[:ROWS]
    part: Any = kernel
    if kernel in NETWORKS:
        task, unit = standardised(task, rows)
        part = network(kernel, task.X[rows], task.y[rows])
    X, y = task.X[rows], task.y[rows]
    Z, z = task.X[task.test], task.y[task.test]
    if task.classes:
        link = {} if len(np.unique(y)) == 2 else {"loss": "probit", "inference": "ep"}
        model = GPClassifier(part, **link).fit(X, y)
        density = np.log(
            model.predict_proba(Z)[np.arange(len(z)), np.searchsorted(model.classes_, z)]
        )
        left = np.asarray(model.loo_.log_density) if len(model.classes_) == 2 else np.array(np.nan)
    else:
        model = GPRegressor(part).fit(X, y)
        density = cut(model.predictive_log_density(Z, z), z, task.y)
        left = cut(model.loo_.log_density, y, task.y)
    seconds, away = time.process_time() - began, np.log(unit)
    figures = f"test {away - density.mean():8.4f}  left out {away - left.mean():8.4f}"
    evidence = model.log_evidence_ - (0.0 if task.classes else len(y) * away)
    return f"{name:14} {kernel:14} {figures}  evidence {evidence:9.1f}  {seconds:5.1f} s"


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
