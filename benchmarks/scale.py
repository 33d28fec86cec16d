"""Large tables: the collapsed bound, products with a kernel, iterative solutions, landmarks.

The collapsed bound, its memory and what it reaches are measured in ``bound``. The blocks of NumPy
are cdist, exp and a product in single precision. Iterative solutions are of the protein and kin40k
tables, where ``MERCER_DATA`` has them, at hyperparameters of the exact evidence of samples of at
most 4000 rows, whose search is timed apart; the bars are on the time of the solution, on the
certified quantity rho^2, and on the figures of table 7.1 of the method. GPyTorch's conjugate
gradients (its preconditioner of rank 100) get the same hyperparameters and targets, and the
relative residual at which mercer ended, on one thread, in double: in single they end above it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bound import SCALE, D, bound_rows, memory_rows, problem, reached_rows
from landmarks import landmark_rows
from measure import Row, interleaved, serve
from subsets import LABELS, REAL, search_rows
from threads import thread_rows


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
WANTED = {"protein": (0.618, 0.901), "kin40k": (0.079, -1.172)}  # RMSE and NLPD, n = 30 000
POINTS = 256  # new rows whose variances are asked for
PEER_ROWS = 10_000


def iterative_rows(n: int, peers: bool) -> list[Row]:
    """Solve the protein and kin40k tables exactly, in wall time on all cores."""
    folder, rows = os.environ.get("MERCER_DATA"), []
    for name in WANTED:
        table = None if folder is None else _table(Path(folder), name)
        what = f"iterative, {name}, n = {n}"
        if table is None:
            rows.append(Row(what, "mercer", note="MERCER_DATA has no such table"))
            continue
        X, y, Xt, t = _split(*table, n)
        begin = time.perf_counter()
        theta = _theta(X, y)
        rows.append(Row(what, "mercer, search on samples", time.perf_counter() - begin, "s"))
        rows += _iterative(what, name, X, y, Xt, t, theta)
        if peers:
            rows += _peer_rows(name, min(n, PEER_ROWS), theta)
    return rows


def _split(X: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
    """Return n rows and 5000 others, columns and targets standardised by the first."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + 5000]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def _theta(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the hyperparameters that an iterative fit learns from samples; it solves roughly."""
    from mercer import GPRegressor
    from mercer.kernels import RBF
    from mercer.linalg import Iterative

    d = X.shape[1]
    given = {"standardize": False, "gram": Iterative(rank=100, tol=1e12), "random_state": 0}
    kernel = (model := GPRegressor(1.0 * RBF(np.full(d, d**0.5)), **given).fit(X, y)).kernel_
    scales = np.asarray(kernel.kernel.length_scale).tolist()
    return {"scales": scales, "variance": kernel.variance, "noise": float(model.loss_.noise)}


def _given(theta: dict[str, Any]) -> dict[str, Any]:
    from mercer.kernels import RBF
    from mercer.losses import Gaussian

    kernel = theta["variance"] * RBF(np.array(theta["scales"]))
    return {"kernel": kernel, "loss": Gaussian(theta["noise"]), "search": None}


def _iterative(
    what: str,
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    Xt: np.ndarray,
    t: np.ndarray,
    theta: dict[str, Any],
) -> list[Row]:
    from mercer.inference import Exact
    from mercer.linalg.iterative.gram import IterativeGram
    from mercer.process.process import Prior

    given = _given(theta)
    centres = X[np.random.default_rng(1).permutation(len(X))[:2000]]
    begin = time.perf_counter()
    gram = IterativeGram(given["kernel"], X, centres, single=True)
    solution = Exact().solve(gram, y[:, None], given["loss"])
    seconds = time.perf_counter() - begin
    posterior = Prior(given["kernel"]).condition(X, solution, None, gram)
    mean = posterior.mean(Xt)[:, 0]
    begin = time.perf_counter()
    spread = posterior.diag(Xt[:POINTS]) + theta["noise"]
    variances = time.perf_counter() - begin
    few = (mean - t)[:POINTS]
    rmse = float(np.sqrt(np.mean((mean - t) ** 2)))
    nlpd = float(np.mean(0.5 * np.log(2.0 * np.pi * spread) + 0.5 * few**2 / spread))
    low, high = solution.factor.bounds(y[:, None], solution.alpha)
    told = solution.report.details
    quality = {"rho2": told["rho2"], "rounds": solution.report.iterations, "matrix": told["matrix"]}
    quality |= {"evidence from": low, "to": high}
    wanted = WANTED[name]
    return [
        Row(what, "mercer, solution", seconds, "s", "<= 240", None, quality),
        Row(what, "mercer, RMSE", rmse, "standardised", f"<= {1.02 * wanted[0]:.4f}"),
        Row(what, f"mercer, NLPD of {POINTS}", nlpd, "nats", f"<= {wanted[1] + 0.02:.3f}"),
        Row(what, f"mercer, {POINTS} variances", variances, "s"),
    ]


def _peer_rows(name: str, n: int, theta: dict[str, Any]) -> list[Row]:
    """Time the solution alone against GPyTorch's, to the same residual."""
    what = f"iterative, {name}, n = {n}, one thread"
    given = ["scale.py", "solve", "mercer", name, str(n)]
    mine = interleaved({"mercer": [*given, json.dumps(theta)]}, 1)["mercer"]
    theta = theta | {"residual": mine["result"]["residual"]}
    given[2] = "GPyTorch"
    other = interleaved({"GPyTorch": [*given, json.dumps(theta)]}, 1)["GPyTorch"]
    ratio = other["seconds"] / mine["seconds"]
    return [
        Row(what, "mercer", seconds=mine["seconds"], quality=mine["result"]),
        Row(what, "GPyTorch", ratio, "x slower", ">= 3", other["seconds"], other["result"]),
    ]


def solve_task(name: str, table: str, n: int, theta: dict[str, Any]) -> Callable[[int], Any]:
    """Return the task of a worker: (K + noise)^-1 y."""
    found = _table(Path(os.environ["MERCER_DATA"]), table)
    assert found is not None
    X, y, _, _ = _split(*found, n)
    return (_mercer_solves if name == "mercer" else _gpytorch_solves)(X, y, theta)


def _residual(X: np.ndarray, y: np.ndarray, v: np.ndarray, theta: dict[str, Any]) -> float:
    kernel = _given(theta)["kernel"]
    rest = y - kernel.matmul(X, X, v[:, None])[:, 0] - theta["noise"] * v
    return float(np.linalg.norm(rest) / np.linalg.norm(y))


def _mercer_solves(X: np.ndarray, y: np.ndarray, theta: dict[str, Any]) -> Callable[[int], Any]:
    from mercer.linalg.iterative.gram import IterativeGram

    kernel, n = _given(theta)["kernel"], len(X)
    centres = X[np.random.default_rng(1).permutation(n)[: min(2000, n // 10)]]

    def one(turn: int) -> dict[str, Any]:
        factor = IterativeGram(kernel, X, centres, single=True).factor(
            np.full(n, 1 / theta["noise"])
        )
        found = factor.solved(y[:, None])
        residual = np.linalg.norm(found.residual) / np.linalg.norm(y)
        return {
            "rho2": float(found.rho2[0]),
            "rounds": found.rounds,
            "residual": float(residual),
        }

    return one


def _gpytorch_solves(X: np.ndarray, y: np.ndarray, theta: dict[str, Any]) -> Callable[[int], Any]:
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    inputs, targets = (torch.from_numpy(a.astype(float)) for a in (X, y))
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.outputscale = theta["variance"]
    kernel.base_kernel.lengthscale = torch.tensor(theta["scales"], dtype=torch.float64)
    s, rounds = gpytorch.settings, 4000

    def one(turn: int) -> dict[str, Any]:
        with (
            torch.no_grad(),
            s.max_cholesky_size(0),
            s.max_preconditioner_size(100),
            s.min_preconditioning_size(1),
            s.cg_tolerance(theta["residual"]),
            s.max_cg_iterations(rounds),
        ):
            found = kernel(inputs).add_jitter(theta["noise"]).solve(targets[:, None])
        v = found.numpy()[:, 0].astype(float)
        return {"residual": _residual(X, y, v, theta)} if not turn else {}

    return one


def _table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return inputs and targets of a table, all rows, or None."""
    path = folder / name / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as held:
        return np.asarray(held["X"], dtype=float), np.ravel(held["y"]).astype(float)


def scale_rows(
    parts: list[str], n: int, repeats: int, peers: bool, tables: Sequence[str] = ()
) -> list[Row]:
    """Return the rows of the parts that were asked for; of searches, those on some ``tables``."""
    rows: list[Row] = []
    if "bound" in parts:
        rows += bound_rows(n, repeats, peers)
    if "memory" in parts:
        rows += memory_rows(100 * n)
    if "accuracy" in parts:
        rows += reached_rows(n)
    if "product" in parts:
        rows += product_rows(5 * n, repeats)
    if "iterative" in parts:
        rows += iterative_rows(3 * n, peers)
    if "landmarks" in parts:
        rows += landmark_rows(2 * n, repeats, [30 * n, 100 * n])
    if "search" in parts:
        rows += search_rows(n // 4, tables or REAL + LABELS)
    if "threads" in parts:
        rows += thread_rows(n, repeats)
    return rows


if __name__ == "__main__":
    kind, who, *sizes = sys.argv[1:]
    if kind == "solve":
        serve(solve_task(who, sizes[0], int(sizes[1]), json.loads(sizes[2])))
    else:
        serve(product_task(who, *(int(size) for size in sizes)))
