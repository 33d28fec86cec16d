"""Least-squares classification: the leave-one-out figures of 20 ridge parameters.

One eigendecomposition serves all of them; the alternative factors the matrix for each. The
RidgeClassifierCV of scikit-learn is given the Cholesky factor of the kernel matrix as features:
with an intercept that is the same problem, and its leave-one-out is closed as well. KernelRidge has
no leave-one-out and no offset: 20 of its fits are a floor for refitting, not the same work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, interleaved, serve

D = 8
LAMS = np.logspace(2.0, -4.0, 20)
WHO = {
    "mercer": "mercer",
    "refit": "mercer, 20 factorisations",
    "scikit-learn": "scikit-learn RidgeClassifierCV",
    "KernelRidge": "scikit-learn KernelRidge x 20",
}
# RidgeClassifierCV decomposes once, too: a tie (differences under 15 %) is what to expect.
BARS = {"refit": ">= 2", "scikit-learn": ">= 0.85"}


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 8) and labels with about 12 % of them flipped."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.6 * rng.normal(size=n)
    return X, np.where(f > 0.0, 1, -1)


def lsc_rows(n: int, repeats: int) -> list[Row]:
    """Time the path of 20 ridge parameters at n points; ratios to mercer's."""
    found = interleaved({name: ["lsc.py", name, str(n)] for name in WHO}, repeats)
    mine, rows = found["mercer"], []
    for name, entry in found.items():
        row = Row(f"LOO of 20 ridge parameters, n = {n}", WHO[name], seconds=entry["seconds"])
        row.quality = entry["result"]
        row.note = f"system {entry['system']:.2g} s"
        if name != "mercer":
            row.value, row.unit = row.seconds / mine["seconds"], "x slower than mercer"
            row.bar = BARS.get(name, "")
        for key, value in row.quality.items():
            if abs(value - mine["result"][key]) > 1e-5 * abs(mine["result"][key]):
                row.note += f"; DISAGREES in {key}"
        rows.append(row)
    return rows


def task_of(name: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: the path at a length scale that differs by the turn."""
    X, y = problem(n)
    run = {
        "mercer": _mercer,
        "refit": _refit,
        "scikit-learn": _ridge_classifier,
        "KernelRidge": _kernel_ridge,
    }[name]
    return lambda turn: run(X, y, 3.0 + 1e-3 * turn)


def _mercer(X: np.ndarray, y: np.ndarray, scale: float) -> dict[str, Any]:
    from mercer import LeastSquaresClassifier
    from mercer.kernels import RBF

    model = LeastSquaresClassifier(RBF(scale), lams=LAMS).fit(X, y)
    return {"lam": model.lam_, "LOO squared error": model.report_["loo"]["squared_error"]}


def _refit(X: np.ndarray, y: np.ndarray, scale: float) -> dict[str, Any]:
    from mercer import LeastSquaresClassifier
    from mercer.kernels import RBF

    fits = [LeastSquaresClassifier(RBF(scale), lam=float(lam)).fit(X, y) for lam in LAMS]
    found = [model.report_["loo"]["squared_error"] for model in fits]
    best = int(np.argmin(found))
    return {"lam": float(LAMS[best]), "LOO squared error": found[best]}


def _ridge_classifier(X: np.ndarray, y: np.ndarray, scale: float) -> dict[str, Any]:
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import RidgeClassifierCV

    K = RBF(scale)(X)
    K.flat[:: len(K) + 1] += 1e-10
    model = RidgeClassifierCV(LAMS, store_cv_results=True).fit(np.linalg.cholesky(K), y)
    errors = model.cv_results_.reshape(len(X), -1).mean(axis=0)
    return {"lam": float(model.alpha_), "LOO squared error": float(errors.min())}


def _kernel_ridge(X: np.ndarray, y: np.ndarray, scale: float) -> dict[str, Any]:
    from sklearn.kernel_ridge import KernelRidge

    for lam in LAMS:
        KernelRidge(alpha=float(lam), kernel="rbf", gamma=0.5 / scale**2).fit(X, y)
    return {}


if __name__ == "__main__":
    serve(task_of(sys.argv[1], int(sys.argv[2])))
