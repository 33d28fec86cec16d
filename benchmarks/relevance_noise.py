"""What noise gains in log evidence by relevance vectors: the charge of the null test, again.

``python benchmarks/relevance_noise.py [--tables 200]`` fits pure noise and prints, for tables of n
rows and d columns (an RBF whose length scale is searched) and for designs of m columns, the largest
gain in 95 % of them, the charge of as many functions (mercer.search.relevance.null), and how many
tables kept any function. The last rows are sin(x0) cos(x1) + 0.3 noise: how many were kept there.
"""

from __future__ import annotations

import argparse
import warnings
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    count = parser.parse_args().tables
    warnings.simplefilter("ignore")  # that nothing was found is what is counted
    for n in (40, 80, 200, 400):
        for d in (1, 2, 5, 10):
            for what in (np.float64, np.intp):
                text = kept(
                    lambda rng, n=n, d=d, what=what: (
                        rng.uniform(size=(n, d)),
                        rng.normal(size=n) if what is np.float64 else rng.permutation(n) % 2,
                    ),
                    count if what is np.float64 else count // 4,
                )
                kind = "targets" if what is np.float64 else "labels "
                print(f"noise {kind} n = {n:4d}, d = {d:4d}: {text}", flush=True)
    for n, m in ((40, 10), (40, 200), (60, 2000), (200, 50), (200, 1000)):
        text = kept(
            lambda rng, n=n, m=m: (rng.normal(size=(n, m)), rng.normal(size=n)),
            max(1, count // 4),
            functions="columns",
        )
        print(f"noise, design n = {n:4d}, m = {m:4d}: {text}", flush=True)

    def bumps(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform(-5, 5, (n, 2))
        return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)

    for n in (60, 80, 160):
        text = kept(lambda rng, n=n: bumps(rng, n), count)
        print(f"sin(x0) cos(x1), n = {n:4d}:    {text}", flush=True)


if __name__ == "__main__":
    main()
