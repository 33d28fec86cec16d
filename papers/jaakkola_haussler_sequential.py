"""One pass over the data, beside what all data together give, as they arrive.

For pima, banana and twonorm: the sequential posterior of Jaakkola and Haussler (1999), section 3,
in several orders of the same examples, beside the batch version of its bound, Laplace's method and
expectation propagation on the examples seen so far.

    MERCER_DATA=<folder> python papers/jaakkola_haussler_sequential.py
        [--quick] [--orders 10] [--json figures.json] [--page page.md] [--out picture.png]

All have the kernel 4 exp(-|x - z|^2 / (2 d)) + 1 on standardised inputs, and nothing is searched.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from _sequential_page import page, picture
from loo_bound import read
from threadpoolctl import threadpool_limits

from mercer import GPClassifier, OnlineLogisticClassifier
from mercer.kernels import RBF, Constant, Kernel

DATA = ("pima", "banana", "twonorm")
TIMES = (25, 50, 100, 200, 400)
TESTS = 1000  # test examples at most
METHODS = ("sequential", "bound", "Laplace", "EP")
Figures = dict[str, float]


def kernel_of(d: int) -> Kernel:
    return 4.0 * RBF(float(np.sqrt(d))) + Constant(1.0)


def batch(method: str, X: np.ndarray, y: np.ndarray) -> OnlineLogisticClassifier | GPClassifier:
    """Return the classifier of all examples together."""
    kernel = kernel_of(X.shape[1])
    if method == "bound":
        return OnlineLogisticClassifier(kernel).fit(X, y)
    inference = {"Laplace": "laplace", "EP": "ep"}[method]
    return GPClassifier(kernel, loss="logistic", inference=inference, search=None).fit(X, y)


def figures(model: OnlineLogisticClassifier | GPClassifier, Z: np.ndarray, t: np.ndarray) -> dict:
    """Return test error, log loss and evidence, and the latent marginals at the test inputs."""
    p = model.predict_proba(Z)[:, 1]
    seen = np.where(t > 0, p, 1.0 - p)
    mean, std = model.predict_latent(Z)
    return {
        "error": float(np.mean((p > 0.5) != (t > 0))),
        "log_loss": float(-np.log(seen).mean()),
        "evidence": float(model.log_evidence_),
        "latent": (np.ravel(mean), np.ravel(std)),
    }


def divergence(q: tuple, p: tuple) -> float:
    """Return the mean over the test inputs of KL(q(f) | p(f)), both Gaussian."""
    (m, s), (n, r) = q, p
    return float(np.mean(np.log(r / s) + 0.5 * (s**2 + (m - n) ** 2) / r**2 - 0.5))


def arrivals(name: str, orders: int, times: tuple[int, ...]) -> list[dict]:
    """Return one entry for each order, time and method."""
    X, y, Z, t = read(name)
    Z, t = Z[:TESTS], t[:TESTS]
    times = (*(n for n in times if n < len(X)), len(X))
    entries, whole = [], {}
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(X))
        stream, done = OnlineLogisticClassifier(kernel_of(X.shape[1])), 0
        for n in times:
            rows = order[:n]
            stream.partial_fit(X[order[done:n]], y[order[done:n]], classes=[-1.0, 1.0])
            found, done = {"sequential": figures(stream, Z, t)}, n
            if len(set(y[rows])) < 2:
                continue  # a batch needs both classes
            for method in METHODS[1:]:
                if n == len(X) and method in whole:  # the same rows in every order
                    found[method] = whole[method]
                    continue
                found[method] = figures(batch(method, X[rows], y[rows]), Z, t)
                if n == len(X):
                    whole[method] = found[method]
            for method, entry in found.items():
                apart = divergence(entry["latent"], found["EP"]["latent"])
                plain = {k: v for k, v in entry.items() if k != "latent"}
                key = {"data": name, "seed": seed, "n": n, "method": method}
                entries.append(key | plain | {"divergence": apart})
    return entries


def summary(entries: list[dict]) -> list[dict]:
    """Return mean and standard deviation over the orders, for each set, time and method."""
    rows = []
    keys = sorted({(e["data"], e["n"]) for e in entries}, key=lambda k: (DATA.index(k[0]), k[1]))
    for name, n in keys:
        for method in METHODS:
            own = [e for e in entries if (e["data"], e["n"], e["method"]) == (name, n, method)]
            row: dict = {"data": name, "n": n, "method": method, "orders": len(own)}
            for figure in ("error", "log_loss", "evidence", "divergence"):
                values = [e[figure] for e in own]
                row[figure] = [float(np.mean(values)), float(np.std(values))]
            rows.append(row)
    return rows


def main(given: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--orders", type=int, default=10, help="permutations of the examples")
    parser.add_argument("--quick", action="store_true", help="two orders, up to 50 examples")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--page", type=Path, help="write the page of the documentation")
    parser.add_argument("--out", type=Path, help="write a picture")
    options = parser.parse_args(given)
    orders, times = (2, TIMES[:2]) if options.quick else (options.orders, TIMES)
    entries: list[dict] = []
    with threadpool_limits(limits=1):
        for name in options.data:
            entries += arrivals(name, orders, times)
            print(f"{name}: {orders} orders", flush=True)
    rows = summary(entries)
    text = page(rows, options.out.name if options.out else None)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.page:
        options.page.write_text(text)
    if options.out:
        picture(rows, options.out)
    return rows


if __name__ == "__main__":
    main()
