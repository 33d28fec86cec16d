"""The collapsed bound: time against the operations it takes, memory, and what it reaches on data.

The floor is 4 n m^2 operations at the rate at which this machine multiplies matrices, measured in
the same run. GPyTorch's and GPflow's SGPR evaluate the same bound and its gradient; GPflow has a
Python of its own, which the environment variable ``MERCER_GPFLOW`` names. What is reached: errors
on 5000 other rows of the protein, kin40k and bike tables, where ``MERCER_DATA`` has them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, interleaved, peak_growth, serve

D = 8
NOISE = 0.05
SCALE = 2.0
BOUND_BARS = {250: "<= 1.5", 500: "<= 1.3", 1000: "<= 1.2"}
POINTS = 1000  # of the memory's row
# RMSE and mean negative log density of standardised targets: what a prototype reached
REACHED = {
    ("protein", 100): (0.747, 1.127),
    ("protein", 250): (0.716, 1.083),
    ("kin40k", 100): (0.302, 0.264),
    ("kin40k", 250): (0.256, 0.083),
    ("bike", 100): (0.250, 0.025),
    ("bike", 250): (0.241, -0.011),
}


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 8) and y (n,) with noise."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.sqrt(NOISE) * rng.normal(size=n)


def bound_rows(n: int, repeats: int, peers: bool = True) -> list[Row]:
    """Time one evaluation of the bound with its gradient, at several numbers of points."""
    rows = []
    for m, bar in BOUND_BARS.items():
        names = ["mercer", "floor", *(["GPyTorch"] if peers else [])]
        workers = {name: ["bound.py", "bound", name, str(n), str(m)] for name in names}
        elsewhere = os.environ.get("MERCER_GPFLOW")
        if peers and elsewhere:
            workers["GPflow"] = [elsewhere, "bound.py", "bound", "GPflow", str(n), str(m)]
        found = interleaved(workers, repeats)
        mine, what = found["mercer"], f"bound and gradient, n = {n}, m = {m}"
        ratio = mine["seconds"] / found["floor"]["seconds"]
        rows.append(Row(what, "mercer", ratio, "x the floor", bar, mine["seconds"], mine["result"]))
        for name in list(workers)[1:]:
            row = Row(what, name, seconds=found[name]["seconds"], quality=found[name]["result"])
            if name != "floor":
                row.value, row.unit = row.seconds / mine["seconds"], "x slower than mercer"
                row.bar = ">= 2"
            rows.append(row)
    if peers and not os.environ.get("MERCER_GPFLOW"):
        note = "not run: MERCER_GPFLOW names no Python that has GPflow, which needs its own"
        rows.append(Row("bound and gradient", "GPflow", note=note))
    return rows


def bound_task(name: str, n: int, m: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker."""
    X, y = problem(n)
    Z = X[:m] + 0.01
    tasks = {"mercer": _bound, "floor": _floor, "GPyTorch": _sgpr, "GPflow": _gpflow}
    return tasks[name](X, y, Z)


def _bound(
    X: np.ndarray, y: np.ndarray, Z: np.ndarray, keep: bool | None = None
) -> Callable[[int], dict[str, Any]]:
    from mercer.inference import Exact
    from mercer.kernels import RBF
    from mercer.linalg import ReducedGram
    from mercer.losses import Gaussian

    room: list[np.ndarray] = []  # as in a search

    def one(turn: int) -> dict[str, Any]:
        kernel = 1.3 * RBF(np.full(D, SCALE + 1e-3 * turn))
        gram = ReducedGram(kernel, X, Z, room=room, keep=keep)
        loss, inference = Gaussian(NOISE), Exact()
        solution = inference.solve(gram, y[:, None], loss)
        evidence = inference.evidence(gram, y[:, None], loss, solution)
        gram.pullback(solution.alpha, solution.factor)
        gram.give_back()
        return {"bound": evidence.value}

    return one


def _floor(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Callable[[int], dict[str, Any]]:
    n, m = len(X), len(Z)
    rng = np.random.default_rng(0)
    A, B, out = rng.normal(size=(n, m)), rng.normal(size=(m, m)), np.zeros((n, m))

    def one(turn: int) -> dict[str, Any]:
        for _ in range(2):  # 2 n m^2 operations each; fresh memory is not what is measured
            np.matmul(A, B, out=out)
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


def _gpflow(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Callable[[int], dict[str, Any]]:
    import gpflow
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    kernel = gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=np.full(D, SCALE))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, Z, noise_variance=NOISE)
    gpflow.set_trainable(model.inducing_variable, False)

    @tf.function
    def both() -> Any:
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, model.trainable_variables)

    def one(turn: int) -> dict[str, Any]:
        kernel.lengthscales.assign(np.full(D, SCALE + 1e-3 * turn))
        return {"bound": float(both()[0])}

    return one


# ---------------------------------------------------------------------- memory
def memory_rows(n: int) -> list[Row]:
    """Peak memory beyond X of one evaluation with gradient, features not kept."""
    found = in_fresh_process(["bound.py", "memory", "mercer", str(n), str(POINTS)])
    what = f"bound and gradient, memory beyond X, n = {n}, m = {POINTS}"
    note = "features are formed again in the second pass"
    return [Row(what, "mercer", found["MB"], "MB", "<= 200", found["seconds"], note=note)]


def memory_task(n: int, m: int) -> dict[str, Any]:
    """Evaluate once; return the peak in MB and the CPU seconds."""
    import mercer.inference.exact  # noqa: F401  # code is loaded before anything is measured

    X, y = problem(n)
    Z = X[:m] + 0.01
    _bound(X[:1000], y[:1000], Z[:10])(0)
    begin = time.process_time()
    used = peak_growth(lambda: _bound(X, y, Z, keep=False)(0))
    return {"MB": used / 1e6, "seconds": time.process_time() - begin}


# ---------------------------------------------------------------------- what is reached
def table(name: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Return inputs and targets of n rows and of 5000 others, standardised; None: no such table."""
    path = Path(os.environ.get("MERCER_DATA", "")) / name / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as held:
        X, y = np.asarray(held["X"], dtype=float), np.ravel(held["y"]).astype(float)
    if name == "bike":  # parts of the target
        X = np.delete(X, [15, 16], axis=1) if X.shape[1] > 15 else X
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + 5000]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def reached(name: str, m: int, n: int, **options: Any) -> dict[str, float] | None:
    """Fit a table with m points; return RMSE and mean negative log density, and the bound."""
    from mercer import GPRegressor
    from mercer.kernels import RBF
    from mercer.linalg import Inducing

    held = table(name, n)
    if held is None:
        return None
    X, y, A, b = held
    given = Inducing(m, rows=2000, max_iter=200, **options)
    kernel = 1.0 * RBF(np.ones(X.shape[1]))
    model = GPRegressor(kernel, search="evidence", gram=given).fit(X, y)
    mean, deviation = model.predict(A, return_std=True)
    var = deviation**2  # of new observations
    return {
        "RMSE": float(np.sqrt(np.mean((mean - b) ** 2))),
        "NLPD": float(0.5 * np.mean(np.log(2.0 * np.pi * var) + (mean - b) ** 2 / var)),
        "bound": float(model.log_evidence_),
    }


def reached_rows(n: int) -> list[Row]:
    """Errors after fitting with moved points, beside those of the prototype."""
    rows = []
    for (name, m), (rmse, nlpd) in REACHED.items():
        what, begin = f"moved points, {name}, n = {n}, m = {m}", time.process_time()
        found = reached(name, m, n)
        if found is None:
            rows.append(Row(what, "mercer", note="MERCER_DATA has no such table"))
            continue
        note = f"prototype: RMSE {rmse}, NLPD {nlpd}"
        share, spent = found["RMSE"] / rmse, time.process_time() - begin
        rows.append(Row(what, "mercer", share, "x its RMSE", "<= 1.02", spent, found, note))
    return rows


if __name__ == "__main__":
    kind, who, *sizes = sys.argv[1:]
    given = [int(size) for size in sizes]
    if kind == "memory":
        print(json.dumps(memory_task(*given)))
    else:
        serve(bound_task(who, *given))
