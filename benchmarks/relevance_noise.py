"""What noise gains in log evidence by relevance vectors: the charge of the null test, again.

``python benchmarks/relevance_noise.py [--tables 100] [--kinds ...]`` fits pure noise and prints,
for tables of n rows and d columns (an RBF whose length scale is searched) and for designs of m
columns, the largest gain in 95 % of them, the charge of as many functions
(mercer.search.relevance.null), and how many tables kept any function. Its power is how many are
kept of sin(x0) cos(x1) + 0.3 noise. It takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np

from mercer import RVClassifier, RVRegressor


def kept(make: Any, tables: int, seed: int = 0, **options: Any) -> str:
    """Fit tables of ``make(rng)``, and say what they gained and needed, and how many were kept."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(tables):
        X, y = make(rng)
        machine = RVRegressor if y.dtype == float else RVClassifier
        model = machine(**options).fit(X, y)
        test = model.report_["machines"][0]["null_model"]
        found.append((test["gain"], test["gain"] - test["needed"], len(model.relevance_rows_) > 0))
    gain, above, alive = np.array(found).T
    high = np.quantile(gain, 0.95), np.quantile(above, 0.95)
    return (
        f"gain {high[0]:7.1f}   less its charge {high[1]:7.1f}   kept {100 * alive.mean():5.1f} %"
    )


def noise(rng: np.random.Generator, n: int, d: int, labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows that say nothing of their targets, or of their labels."""
    return rng.uniform(size=(n, d)), rng.permutation(n) % 2 if labels else rng.normal(size=n)


def design(rng: np.random.Generator, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns that say nothing of their targets."""
    return rng.normal(size=(n, m)), rng.normal(size=n)


def bumps(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A function of many small bumps, with noise."""
    X = rng.uniform(-5, 5, (n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)


KINDS = ("bumps", "targets", "designs", "labels")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    count, few = given.tables, max(1, given.tables // 4)
    warnings.simplefilter("ignore")  # that nothing was found is what is counted
    sizes = [(n, d) for n in (40, 80, 200, 400) for d in (1, 2, 5, 10)]
    widths = [(40, 10), (40, 200), (60, 2000), (200, 50), (200, 1000)]
    for kind in given.kinds:
        if kind == "bumps":
            for n in (60, 80, 160):
                text = kept(partial(bumps, n=n), count)
                print(f"sin(x0) cos(x1), n = {n:4d}:       {text}", flush=True)
        elif kind == "designs":
            for n, m in widths:
                text = kept(partial(design, n=n, m=m), few, functions="columns")
                print(f"noise, design n = {n:4d}, m = {m:4d}:  {text}", flush=True)
        else:
            labels = kind == "labels"
            for n, d in sizes:
                text = kept(partial(noise, n=n, d=d, labels=labels), few if labels else count)
                print(f"noise {kind:7s} n = {n:4d}, d = {d:4d}: {text}", flush=True)


if __name__ == "__main__":
    main()
