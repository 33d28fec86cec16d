"""Exact Gaussian process regression on boston, concrete and wine_red, beside GPy.

(a) The log evidence that mercer and GPy reach with the same model on the same standardised table:
    zero mean, s2 * RBF with one length scale per column, Gaussian noise.
(b) Test negative log predictive density and root mean squared error, in the target's units, on the
    standard train/test splits: mercer's default against GPy's RBF-ARD.

    MERCER_DATA=<folder> python papers/uci_regression.py [--data boston] [--splits 20]

GPy's values come from tests/data/uci_regression_gpy.json; ``--reference`` computes them anew where
they are missing (needs GPy, and about half an hour of CPU for all).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _store
import gpy_reference
import numpy as np
from threadpoolctl import threadpool_limits

DATA = ("boston", "concrete", "wine_red")
STARTS_TABLE = 5
STARTS_SPLIT = {"boston": 2, "concrete": 2, "wine_red": 1}
FROM_TABLE = ("wine_red",)  # GPy starts its splits at its optimum for the whole table: faster
COPIES, NO_COPIES = "splits", "splits without copies"
VIEWS = {"boston": (COPIES,), "concrete": (COPIES,), "wine_red": (COPIES, NO_COPIES)}
FROM = {COPIES: "all records", NO_COPIES: "distinct records"}
COMMAND = "python papers/uci_regression.py --reference"


def read(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X (n, d), y (n,) and the test rows of each split (splits, n_test)."""
    folder = os.environ.get("MERCER_DATA")
    if not folder:
        sys.exit("set MERCER_DATA to the folder that holds boston/boston.npz and the others")
    with np.load(Path(folder) / name / f"{name}.npz", allow_pickle=False) as file:
        return file["X"], file["y"], file["test_idx"].astype(int)


def standardised(A: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return A with mean and standard deviation (ddof 0) of ``by`` taken out, by column."""
    return (A - by.mean(axis=0)) / by.std(axis=0)


def tables(name: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (label, X, y), standardised: the table, and its distinct records where some repeat.

    240 records of wine_red are copies of others, target included. As the noise goes to zero the
    evidence of such a table grows without bound, so only its distinct records make a comparison.
    """
    X, y, _ = read(name)
    records = np.unique(np.column_stack([X, y]), axis=0)
    yield "all records", standardised(X, X), standardised(y, y)
    if len(records) < len(X):
        X, y = records[:, :-1], records[:, -1]
        yield "distinct records", standardised(X, X), standardised(y, y)


def splits(name: str, count: int, view: str = COPIES) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield X, y, X_test, y_test of the first ``count`` standard splits, in raw units.

    The view without copies keeps one of each record, in training if it occurs there.
    """
    X, y, tests = read(name)
    for test in tests[:count]:
        train = np.setdiff1d(np.arange(len(X)), test)
        if view == NO_COPIES:
            order = np.concatenate([train, test])
            records = np.column_stack([X, y])[order]
            first = np.sort(np.unique(records, axis=0, return_index=True)[1])
            train, test = order[first[first < len(train)]], order[first[first >= len(train)]]
        yield X[train], y[train], X[test], y[test]


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """Mean negative log density of y (m,) under N(mean, std^2), and root mean squared error."""
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((y - mean) / std) ** 2
    return {"nlpd": float(-density.mean()), "rmse": float(np.sqrt(np.mean((y - mean) ** 2)))}


# ---------------------------------------------------------------------- GPy
def make_reference(names: list[str], count: int) -> None:
    """Compute GPy's values that are not stored yet, storing after every fit."""
    stored = gpy_reference.load()
    stored.update(
        made_by=COMMAND,
        versions=gpy_reference.versions(),
        starts={"tables": STARTS_TABLE, "splits": STARTS_SPLIT, "from the table's": FROM_TABLE},
    )
    for name in names:
        entry = stored["data"].setdefault(name, {"tables": {}})
        for label, X, y in tables(name):
            if label not in entry["tables"]:
                entry["tables"][label] = gpy_reference.table(X, y, STARTS_TABLE)
                gpy_reference.store(stored)
                print(name, label, entry["tables"][label]["log_evidence"], flush=True)
    for name, view in [(one, view) for one in names for view in VIEWS[one]]:
        done = stored["data"][name].setdefault(view, [])
        for k, (X, y, X_test, y_test) in enumerate(splits(name, count, view)):
            if k < len(done):
                continue
            inputs = standardised(X, X), standardised(y, y), standardised(X_test, X)
            first = stored["data"][name]["tables"][FROM[view]] if name in FROM_TABLE else None
            mean, var, facts = gpy_reference.split(*inputs, STARTS_SPLIT[name], k, first)
            unit = y.std()
            done.append(scores(y_test, y.mean() + unit * mean, unit * np.sqrt(var)) | facts)
            gpy_reference.store(stored)
            print(name, view, k, done[-1], flush=True)


# ---------------------------------------------------------------------- mercer
def mercer_table(X: np.ndarray, y: np.ndarray, starts: int = STARTS_TABLE) -> dict[str, Any]:
    """Evidence that mercer reaches on a standardised table with GPy's model and first start.

    ``balance=False`` maximises the literal evidence, as GPy does, where records are copied too.
    """
    from mercer import GPRegressor
    from mercer.kernels import RBF
    from mercer.losses import Gaussian
    from mercer.search import Optimize

    began, d = time.process_time(), X.shape[1]
    model = GPRegressor(
        1.0 * RBF(length_scale=np.full(d, np.sqrt(d))),
        loss=Gaussian(noise=0.1),
        search=Optimize(restarts=starts - 1, screen=None, balance=False),
        random_state=0,
    ).fit(X, y)
    return {
        "log_evidence": model.log_evidence_,
        "noise": float(model.loss_.noise),
        "cpu_seconds": time.process_time() - began,
    }


def mercer_split(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, float]:
    """Scores of the default GPRegressor, which is given the raw table."""
    from mercer import GPRegressor

    began = time.process_time()
    model = GPRegressor(random_state=0).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return scores(y_test, mean, std) | {
        "cpu_seconds": time.process_time() - began,
        "noise": float(model.loss_.noise) / y.var(),
    }


def compare(names: list[str], count: int) -> dict[str, Any]:
    """Print evidence and test scores of mercer beside GPy's, and return mercer's and GPy's."""
    stored = gpy_reference.load()
    found: dict[str, Any] = {"tables": {}, "splits": {}}
    if "versions" in stored:
        print("GPy's values:", stored["made_by"], stored["versions"])
    print("\nlog evidence, RBF-ARD, zero mean, standardised columns and target")
    print(f"{'table':<28}{'n':>6}{'mercer':>12}{'GPy':>12}{'noise':>10}{'GPy':>10}{'CPU s':>8}")
    for name in names:
        known = stored["data"].get(name, {}).get("tables", {})
        for label, X, y in tables(name):
            mine, other = mercer_table(X, y), known.get(label, {})
            line = f"{name + ', ' + label:<28}{len(X):>6}{mine['log_evidence']:>12.3f}"
            line += f"{other.get('log_evidence', np.nan):>12.3f}{mine['noise']:>10.3g}"
            line += f"{other.get('noise', np.nan):>10.3g}{mine['cpu_seconds']:>8.1f}"
            noises = [start["noise"] for start in other.get("starts", [])]
            fallen = sum(noise <= gpy_reference.COLLAPSED for noise in noises)
            if fallen:
                line += f"  ({fallen} of GPy's {len(noises)} starts collapsed)"
            print(line, flush=True)
            found["tables"][f"{name}, {label}"] = {
                "n": len(X),
                "log_evidence": mine["log_evidence"],
                "noise": mine["noise"],
                "gpy": other.get("log_evidence"),
                "gpy_noise": other.get("noise"),
            }
    if not count:
        return found
    print("\ntest scores on the standard splits, mean +- standard error; GPy on the same splits")
    print("collapsed: fits of mercer whose noise variance is below 1e-6 of the target's")
    head = f"{'data':<32}{'splits':>7}{'NLPD':>18}{'GPy':>18}{'RMSE':>18}{'GPy':>18}"
    print(head + f"{'collapsed':>11}{'CPU s':>8}")
    for name, view in [(one, view) for one in names for view in VIEWS[one]]:
        mine = [mercer_split(*parts) for parts in splits(name, count, view)]
        other = stored["data"].get(name, {}).get(view, [])[: len(mine)]
        line = f"{name + view.removeprefix(COPIES):<32}{len(mine):>7}"
        for key in ("nlpd", "rmse"):
            line += f"{_mean([m[key] for m in mine]):>18}{_mean([o[key] for o in other]):>18}"
        line += f"{sum(m['noise'] <= gpy_reference.COLLAPSED for m in mine):>11}"
        line += f"{sum(m['cpu_seconds'] for m in mine):>8.1f}"
        if len(other) < len(mine):
            line += f"  (GPy: {len(other)} splits stored)"
        print(line, flush=True)
        whose = {"": mine, "gpy_": other}
        found["splits"][name + view.removeprefix(COPIES)] = {"splits": len(mine)} | {
            head + key: _mean([one[key] for one in rows])
            for head, rows in whose.items()
            for key in ("nlpd", "rmse")
        }
    return found


def _mean(values: list[float]) -> str:
    if not values:
        return "not stored"
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f} +- {error:.3f}"


def main(given: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--splits", type=int, default=20, help="how many of the 20; 0: none")
    parser.add_argument("--reference", action="store_true", help="compute GPy's missing values")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(given)
    with threadpool_limits(limits=1):
        if options.reference:
            make_reference(options.data, options.splits)
        else:
            found = compare(options.data, options.splits)
            if options.json:
                _store.write(options.json, found)


if __name__ == "__main__":
    main()
