"""Relevance vector machines: time to fit, log evidence and test error, beside fastrvm, sklearn-rvm.

Regression is Friedman's first problem (10 columns, 5 of them without effect, noise 1), a kernel RBF
of length scale 1; an easy one is sin(x)/x on (-10, 10) with noise 0.1, length scale 2;
classification a sine times a cosine in two columns with noise, length scale 1.
All libraries have the same kernel and a constant, and learn the rest; several data sets a task. The
evidences are computed here, from the precisions each library ends with, by one formula.
"""

from __future__ import annotations

import importlib.metadata
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, interleaved, serve

# Data sets for evidence and error, and how many of them are timed; fewer from MANY rows on.
SETS, TIMED, MANY = (5, 3), (3, 1), 2000
WHO = {"mercer": "mercer", "fastrvm": "fastrvm", "sklearn-rvm": "sklearn-rvm (EM)"}
BARS = {
    ("regression", "fastrvm"): lambda n: ">= 3",
    ("regression", "sklearn-rvm"): lambda n: ">= 20",
    ("classification", "fastrvm"): lambda n: ">= 20" if n >= 3000 else ">= 10",
    ("sinc", "fastrvm"): lambda n: "<= 1.0",
}
SIZES = {
    "sinc": [200, 800, 2000],
    "regression": [500, 1000, 2000],
    "classification": [1000, 3000],
}
LENGTH = {"sinc": 2.0, "regression": 1.0, "classification": 1.0}
# sklearn-rvm inverts an n x n matrix in each of many steps: minutes for a fit beyond this.
LARGEST = {"sklearn-rvm": 2000}


def sets_of(n: int, task: str = "regression") -> tuple[int, int]:
    """How many data sets of n rows a task has, and how many of them are timed."""
    return (5, 5) if task == "sinc" else (SETS[n >= MANY], TIMED[n >= MANY])


def problem(task: str, n: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return X, y for training (n rows) and testing (2000 rows)."""
    rng = np.random.default_rng(1000 * seed + n)
    if task == "sinc":
        X = rng.uniform(-10.0, 10.0, size=(n + 2000, 1))
        y = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=len(X))
    elif task == "regression":
        X = rng.uniform(size=(n + 2000, 10))
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
        y = f + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=len(X))
    else:
        X = rng.uniform(-3.0, 3.0, size=(n + 2000, 2))
        f = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=len(X))
        y = np.where(f > 0.0, 1, -1)
    return X[:n], y[:n], X[n:], y[n:]


def rvm_rows(task: str, n: int, repeats: int, peers: list[str]) -> list[Row]:
    """Time a task at n rows; ratios to mercer's."""
    wanted = [name for name in peers if (task, name) in BARS and n <= LARGEST.get(name, n)]
    names = ["mercer", *(name for name in wanted if version(name) is not None)]
    found = interleaved({name: ["rvm.py", name, task, str(n)] for name in names}, repeats)
    each = {name: np.array(entry["result"].pop("each")) for name, entry in found.items()}
    mine, timed, rows = found["mercer"], sets_of(n, task)[1] * turns(task, n), []
    for name, entry in found.items():
        row = Row(f"RVM {task}, n = {n}", WHO[name], seconds=entry["seconds"] / timed)
        row.quality = entry["result"]
        if name != "mercer":
            row.value, row.unit = entry["seconds"] / mine["seconds"], "x slower than mercer"
            if task == "sinc":
                row.value, row.unit = 1.0 / row.value, "of its time is mercer's"
            row.bar = BARS[task, name](n)
            better = entry["result"]["log evidence"] - mine["result"]["log evidence"]
            row.note = f"log evidence {-better:+.1f} for mercer"
            if better > 0.5:
                row.note += "; HIGHER EVIDENCE than mercer"
            more, doubt = _paired(each["mercer"] - each[name])
            row.note += f"; error {more:+.4f} +- {doubt:.4f} for mercer"
            if more > 2.0 * doubt:
                row.note += "; LOWER ERROR than mercer"
        rows.append(row)
    return rows


def turns(task: str, n: int) -> int:
    """How often a data set is fitted in one turn: short fits are timed several times."""
    return max(1, 4000 // n) if task == "sinc" else 1


def _paired(differences: np.ndarray) -> tuple[float, float]:
    """Mean of differences on the same data sets, and its standard error."""
    return float(differences.mean()), float(differences.std(ddof=1) / len(differences) ** 0.5)


def task_of(name: str, task: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: one fit on each data set; the figures after the first turn."""
    warnings.simplefilter("ignore")  # of the peers, about new versions of what they use
    count, timed = sets_of(n, task)
    sets = [problem(task, n, seed) for seed in range(count)]
    fit = {"mercer": _mercer, "fastrvm": _fastrvm, "sklearn-rvm": _sklearn_rvm}[name]

    def run(turn: int) -> dict[str, Any]:
        again = turns(task, n) if turn else 1
        chosen = (sets[:timed] if turn else sets) * again
        models = [fit(task, X, y) for X, y, _, _ in chosen]
        if turn:  # the figures are the same at each turn, and not what is timed
            return {}
        figures = np.array([_figures(task, m, *data) for m, data in zip(models, sets, strict=True)])
        totals = figures.mean(axis=0)
        error = "test error" if task == "classification" else "test RMSE"
        return {
            "log evidence": totals[0],
            error: totals[1],
            "vectors": totals[2],
            "each": figures[:, 1].tolist(),
        }

    return run


def _mercer(task: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from mercer import RVClassifier, RVRegressor
    from mercer.kernels import RBF

    machine = RVClassifier if task == "classification" else RVRegressor
    model = machine(RBF(LENGTH[task])).fit(X, y)
    noise = None if task == "classification" else model.noise_
    return {
        "model": model,
        "centres": model.relevance_vectors_,
        "precisions": model.precisions_[0],
        "stated": None,
        "noise": noise,
    }


def _fastrvm(task: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from fastrvm import RVC, RVR

    machine, gamma = RVC if task == "classification" else RVR, 0.5 / LENGTH[task] ** 2
    model = machine(gamma=gamma, fit_intercept=True).fit(X, y)
    kept = np.ravel(model.relevance_[0] if isinstance(model.relevance_, list) else model.relevance_)
    alpha = model.alpha_[0] if isinstance(model.alpha_, list) else model.alpha_
    noise = None if task == "classification" else 1.0 / model.beta_
    scores = model.scores_[0] if isinstance(model.scores_, list) else model.scores_
    stated = float(np.ravel(scores)[-1])
    if noise is not None:
        stated -= 0.5 * len(y) * np.log(2.0 * np.pi)
    return {
        "model": model,
        "centres": X[kept.astype(int)],
        "precisions": np.ravel(alpha)[: len(kept)],
        "stated": stated,
        "noise": noise,
    }


def _sklearn_rvm(task: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from sklearn_rvm import EMRVR

    model = EMRVR(kernel="rbf", gamma=0.5)
    model.fit(X, y)  # returns nothing
    first = len(model.alpha_) - len(model.relevance_)
    return {
        "model": model,
        "centres": model.relevance_vectors_,
        "precisions": model.alpha_[first:],
        "stated": None,
        "noise": 1.0 / model.beta_,
    }


def _figures(
    task: str,
    fitted: dict[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
) -> tuple[float, float, float]:
    """Log evidence with a flat constant, test error, number of vectors."""
    from mercer.kernels import RBF
    from mercer.losses import Logistic
    from mercer.search.relevance.machines import GaussianMachine, LaplaceMachine
    from mercer.search.relevance.state import Design

    Phi = RBF(LENGTH[task])(X, fitted["centres"])
    design = Design(Phi, np.ones((len(X), 1)), np.ones(len(X)))
    real = task != "classification"
    if real:
        machine = GaussianMachine(design, y.astype(float), noise=fitted["noise"])
    else:
        machine = LaplaceMachine(design, y.astype(float), Logistic())
    prior = fitted["precisions"] / design.lengths**2
    beta = 1.0 / fitted["noise"] if real else 1.0
    places = tuple(range(len(prior)))
    # fastrvm may mean its precisions for columns of unit length, and states its evidence without
    # the constant of the noise: the best reading counts
    readings = (prior, fitted["precisions"]) if fitted["stated"] is not None else (prior,)
    evidence = max(machine.evaluate(places, p, beta).evidence for p in readings)
    evidence = max(evidence, fitted["stated"] or evidence)
    prediction = fitted["model"].predict(X_test)
    if real:
        error = float(np.sqrt(np.mean((prediction - y_test) ** 2)))
    else:
        error = float(np.mean(prediction != y_test))
    return evidence, error, float(len(prior))


def version(name: str) -> str | None:
    """Return the installed version of a library, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    serve(task_of(sys.argv[1], sys.argv[2], int(sys.argv[3])))
