"""Large tables: the collapsed bound, products with a kernel, iterative solutions, landmarks.

The floor of the bound is 4 n m^2 operations at the rate at which this machine multiplies matrices,
measured in the same process. GPyTorch's SGPR evaluates the same bound and its gradient; the blocks
of NumPy are cdist, exp and a product in single precision. Iterative solutions are of the protein
and kin40k tables, where ``MERCER_DATA`` has them, at hyperparameters of the exact evidence of 2000
rows; their bars are on time and on the certified quantity rho^2.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from landmarks import landmark_rows
from measure import Row, interleaved, serve
from threads import thread_rows

D = 8
NOISE = 0.05
SCALE = 2.0
BOUND_BARS = {250: "<= 1.5", 500: "<= 1.3", 1000: "<= 1.2"}


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 8) and y (n,) with noise."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.sqrt(NOISE) * rng.normal(size=n)


# ---------------------------------------------------------------------- the collapsed bound
def bound_rows(n: int, repeats: int, peers: bool = True) -> list[Row]:
    """Time one evaluation of the bound with its gradient, at several numbers of points."""
    rows = []
    for m, bar in BOUND_BARS.items():
        names = ["mercer", "floor", *(["GPyTorch"] if peers else [])]
        workers = {name: ["scale.py", "bound", name, str(n), str(m)] for name in names}
        found = interleaved(workers, repeats)
        mine, what = found["mercer"], f"bound and gradient, n = {n}, m = {m}"
        ratio = mine["seconds"] / found["floor"]["seconds"]
        rows.append(Row(what, "mercer", ratio, "x the floor", bar, mine["seconds"], mine["result"]))
        for name in names[1:]:
            row = Row(what, name, seconds=found[name]["seconds"], quality=found[name]["result"])
            if name == "GPyTorch":
                row.value, row.unit = row.seconds / mine["seconds"], "x slower than mercer"
                row.bar = ">= 2"
            rows.append(row)
    return rows


def bound_task(name: str, n: int, m: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker."""
    X, y = problem(n)
    Z = X[:m] + 0.01
    return {"mercer": _bound, "floor": _floor, "GPyTorch": _sgpr}[name](X, y, Z)


def _bound(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Callable[[int], dict[str, Any]]:
    from mercer.inference import Exact
    from mercer.kernels import RBF
    from mercer.linalg import ReducedGram
    from mercer.losses import Gaussian

    room: list[np.ndarray] = []  # as in a search

    def one(turn: int) -> dict[str, Any]:
        kernel = 1.3 * RBF(np.full(D, SCALE + 1e-3 * turn))
        gram, loss, inference = ReducedGram(kernel, X, Z, room=room), Gaussian(NOISE), Exact()
        solution = inference.solve(gram, y[:, None], loss)
        evidence = inference.evidence(gram, y[:, None], loss, solution)
        gram.pullback(solution.alpha, solution.factor)
        gram.give_back()
        return {"bound": evidence.value}

    return one


def _floor(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Callable[[int], dict[str, Any]]:
    n, m = len(X), len(Z)
    A, B = np.random.default_rng(0).normal(size=(n, m)), np.eye(m)

    def one(turn: int) -> dict[str, Any]:
        (A @ B), (A @ B)  # 2 n m^2 operations each
        return {}

    return one


def _sgpr(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Callable[[int], dict[str, Any]]:
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    inputs, targets, points = (torch.from_numpy(a) for a in (X, y, Z))

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]  # no types
        def __init__(self, likelihood: Any, turn: int) -> None:
            super().__init__(inputs, targets, likelihood)
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=D))
            base.outputscale, base.base_kernel.lengthscale = 1.3, SCALE + 1e-3 * turn
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=points.clone(), likelihood=likelihood
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    def one(turn: int) -> dict[str, Any]:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        likelihood.noise = NOISE
        model = Model(likelihood, turn)
        model.train()
        likelihood.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        value = mll(model(inputs), targets)
        value.backward()
        return {"bound": float(value.detach()) * len(X)}

    return one


# ---------------------------------------------------------------------- products
def product_rows(n: int, repeats: int) -> list[Row]:
    """Time k(X, X) V with 16 columns, in single precision."""
    names = {"mercer": "mercer", "numpy": "NumPy, blocks in float32"}
    found = interleaved({k: ["scale.py", "product", k, str(n)] for k in names}, repeats)
    what, rows = f"k(X, X) V, 16 columns, d = {D}, n = {n}", []
    for name, who in names.items():
        row = Row(what, who, seconds=found[name]["seconds"], quality=found[name]["result"])
        if name == "numpy":
            row.value = row.seconds / found["mercer"]["seconds"]
            row.unit, row.bar = "x slower than mercer", ">= 4"
        rows.append(row)
    error = found["mercer"]["result"]["relative error"]
    rows.append(Row(what, "mercer, error against float64", error, "relative", "<= 2e-6"))
    return rows


def product_task(name: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker."""
    from mercer.kernels import RBF

    X, _ = problem(n)
    V, kernel = np.random.default_rng(1).normal(size=(n, 16)), RBF(SCALE)
    few = np.random.default_rng(2).permutation(n)[:200]
    truth = kernel(X[few], X) @ V

    def mercer(turn: int) -> dict[str, Any]:
        found = kernel.matmul(X, X, V + turn, precision="single")
        exact = truth + turn * kernel(X[few], X).sum(axis=1, keepdims=True)
        return {"relative error": float(np.abs(found[few] - exact).max() / np.abs(exact).max())}

    def numpy(turn: int) -> dict[str, Any]:
        from scipy.spatial.distance import cdist

        U, v = (X / SCALE).astype(np.float32), (V + turn).astype(np.float32)
        out = np.empty((n, 16), dtype=np.float32)
        for i in range(0, n, 1024):
            s = cdist(U[i : i + 1024], U, "sqeuclidean").astype(np.float32)
            out[i : i + 1024] = np.exp(-0.5 * s) @ v
        return {"relative error": float(np.abs(out[few] - truth).max() / np.abs(truth).max())}

    return mercer if name == "mercer" else numpy


# ---------------------------------------------------------------------- iterative solutions
def iterative_rows(n: int) -> list[Row]:
    """Solve the protein and kin40k tables exactly, in wall time on all cores."""
    folder, rows = os.environ.get("MERCER_DATA"), []
    for name in ("protein", "kin40k"):
        table = None if folder is None else _table(Path(folder), name)
        what = f"iterative, {name}, n = {n}"
        if table is None:
            rows.append(Row(what, "mercer", note="MERCER_DATA has no such table"))
            continue
        rows.append(_iterative(what, *table, n))
    return rows


def _table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return inputs and targets of a table, all rows, or None."""
    path = folder / name / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as held:
        return np.asarray(held["X"], dtype=float), np.ravel(held["y"]).astype(float)


def _iterative(what: str, X: np.ndarray, y: np.ndarray, n: int) -> Row:
    from mercer import GPRegressor
    from mercer.linalg import Iterative

    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + 5000]
    given = GPRegressor(search="evidence", gram=Iterative(rank=2000, rows=2000))
    begin = time.perf_counter()
    model = given.fit(X[train], y[train])
    seconds = time.perf_counter() - begin
    rmse = float(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)) / y[train].std())
    ended = model.report_["inference"]
    quality = {"rho2": ended["rho2"], "rounds": ended["iterations"], "RMSE": rmse}
    return Row(what, "mercer", seconds, "s, search included", "<= 240", None, quality)


def scale_rows(parts: list[str], n: int, repeats: int, peers: bool) -> list[Row]:
    """Return the rows of the parts that were asked for."""
    rows: list[Row] = []
    if "bound" in parts:
        rows += bound_rows(n, repeats, peers)
    if "product" in parts:
        rows += product_rows(5 * n, repeats)
    if "iterative" in parts:
        rows += iterative_rows(3 * n)
    if "landmarks" in parts:
        rows += landmark_rows(2 * n, repeats, [30 * n, 100 * n])
    if "threads" in parts:
        rows += thread_rows(n, repeats)
    return rows


if __name__ == "__main__":
    kind, who, *sizes = sys.argv[1:]
    given = [int(size) for size in sizes]
    serve(bound_task(who, *given) if kind == "bound" else product_task(who, *given))
