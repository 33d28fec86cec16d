"""Gaussian process regression: one evidence and gradient, its memory, and a full fit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, interleaved, peak_growth, serve
from peers import PEERS, problem, version

D = 8
EVIDENCE_BARS = {"scikit-learn": ">= 7", "GPy": ">= 2.2", "GPyTorch": ">= 4"}
FLOOR_BAR, MEMORY_BAR, FIT_BAR = "<= 1.2", "<= 3", ">= 4"
WARM_UP = 200  # points of the evaluation that loads libraries before memory is measured


def present(names: list[str]) -> tuple[list[str], list[Row]]:
    """Split names into those installed and rows that say which are not."""
    found = [name for name in names if version(name) is not None]
    missing = [
        Row("peer", name, note="not installed: skipped") for name in names if name not in found
    ]
    return found, missing


# ---------------------------------------------------------------------- one evaluation
def evidence_rows(n: int, names: list[str], repeats: int) -> list[Row]:
    """Time one evidence and gradient at n points; ratios to mercer's."""
    found = interleaved({name: ["gpr.py", "evidence", name, str(n)] for name in names}, repeats)
    mine, what = found["mercer"]["seconds"], f"evidence + gradient, n = {n}"
    rows = []
    for name, entry in found.items():
        row = Row(what, name, seconds=entry["seconds"], quality=entry["result"])
        row.note = f"system {entry['system']:.2g} s"
        if name == "floor":
            row.value, row.unit, row.bar = mine / row.seconds, "x, mercer / floor", FLOOR_BAR
            row.note += "; one Gram matrix + potrf + potri"
        elif name != "mercer":
            row.value, row.unit = row.seconds / mine, "x slower than mercer"
            row.bar = EVIDENCE_BARS[name]
        rows.append(row)
    _check_agreement(rows)
    return rows


def evaluation_of(name: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: an evaluation at hyperparameters that differ by the turn."""
    X, y, theta = problem(n, D)
    model = PEERS[name](X, y)

    def task(turn: int) -> dict[str, Any]:
        answer = model(theta + 1e-3 * turn)  # another point each turn: no answer from a cache
        if answer is None:
            return {}
        value, gradient = answer
        return {"log evidence": float(value), "|gradient|": float(np.linalg.norm(gradient))}

    return task


def _check_agreement(rows: list[Row]) -> None:
    """Mark rows whose evidence or gradient differs from mercer's by more than 1e-5 relative."""
    reference = next(row for row in rows if row.who == "mercer").quality
    for row in rows:
        for key, value in row.quality.items():
            if abs(value - reference[key]) > 1e-5 * abs(reference[key]):
                row.note += f"; DISAGREES in {key}"


def memory_rows(n: int, names: list[str]) -> list[Row]:
    """Measure the growth of peak resident memory of one evaluation, each in a fresh process."""
    rows = []
    for name in names:
        grown = in_fresh_process(["gpr.py", "memory", name, str(n)])["bytes"] / (8.0 * n * n)
        bar = MEMORY_BAR if name == "mercer" else ""
        rows.append(Row(f"peak extra memory, n = {n}", name, grown, "n^2 doubles", bar))
    return rows


def memory_of(name: str, n: int) -> int:
    """Bytes that one evaluation at n points adds to the peak, libraries loaded before."""
    X, y, theta = problem(WARM_UP, D)
    PEERS[name](X, y)(theta)
    X, y, theta = problem(n, D)

    def task() -> None:
        PEERS[name](X, y)(theta)

    return peak_growth(task)


# ---------------------------------------------------------------------- a whole fit
def fit_rows(n: int, restarts: int, repeats: int) -> list[Row]:
    """Time whole fits with ``restarts`` random starts besides the first, same model, same data."""
    names = ("mercer", "scikit-learn")
    workers = {name: ["gpr.py", "fit", name, str(n), str(restarts)] for name in names}
    what = f"fit, n = {n}, d = {D}, {restarts} restarts"
    rows = [
        Row(what, name, seconds=entry["seconds"], quality=entry["result"])
        for name, entry in interleaved(workers, repeats).items()
    ]
    rows[1].value = rows[1].seconds / rows[0].seconds  # type: ignore[operator]
    rows[1].unit, rows[1].bar = "x slower than mercer", FIT_BAR
    gain = rows[0].quality["log evidence"] - rows[1].quality["log evidence"]
    rows.append(Row(what, "mercer - scikit-learn", gain, "nats of log evidence", ">= -0.01"))
    return rows


def fit_of(name: str, n: int, restarts: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: a fit whose random starts differ by the turn."""
    X, y, _ = problem(n, D)
    fit = {"mercer": _fit_mercer, "scikit-learn": _fit_sklearn}[name]
    return lambda turn: fit(X, y, restarts, turn)


def _fit_mercer(X: np.ndarray, y: np.ndarray, restarts: int, seed: int) -> dict[str, Any]:
    from mercer import GPRegressor
    from mercer.kernels import RBF
    from mercer.losses import Gaussian
    from mercer.search import Optimize

    model = GPRegressor(
        1.0 * RBF(length_scale=np.ones(X.shape[1])),
        loss=Gaussian(noise=1.0),
        search=Optimize(restarts=restarts),
        random_state=seed,
    ).fit(X, y)
    report = model.report_["search"]
    return {"log evidence": model.log_evidence_, "evaluations": report["evaluations"]}


def _fit_sklearn(X: np.ndarray, y: np.ndarray, restarts: int, seed: int) -> dict[str, Any]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(
        kernel, alpha=0.0, n_restarts_optimizer=restarts, normalize_y=True, random_state=seed
    )
    model.fit(X, y)
    return {"log evidence": float(model.log_marginal_likelihood_value_)}


if __name__ == "__main__":
    _, part, peer, *sizes = sys.argv
    numbers = [int(size) for size in sizes]
    if part == "memory":
        print(json.dumps({"bytes": memory_of(peer, *numbers)}))
    else:
        serve({"evidence": evaluation_of, "fit": fit_of}[part](peer, *numbers))
