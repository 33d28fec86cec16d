"""On a GPU: evidence and gradient, a whole fit, EP and Laplace; wall time, on one device.

The bars hold on one NVIDIA H200, and the last row names the device. GPyTorch's exact step
(Cholesky, float64) was measured there once: 0.76 s at 20 000 rows and 5.56 s at 40 000. What is
not built yet (products without the matrix, iterative solutions) is named with its bar and no
figure. Without a GPU one row says so.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import Row
from peers import problem

D = 10
BARS = {20_000: "<= 0.30", 40_000: "<= 1.9", 80_000: "<= 20"}  # seconds
GPYTORCH = {20_000: 0.76, 40_000: 5.56}  # seconds on an H200
FIT_ROWS, LABELS = 30_000, 20_000
MISSING = [
    ("fused product, n = 1e6, d = 16, 16 columns, float32", "<= 2.2"),
    ("alpha, n = 1e5, noise 0.1", "<= 0.6"),
    ("alpha, n = 1e6, d = 8, noise 0.1, rho^2 <= 1e-2", "<= 150"),
    ("recipe with 25 refinement steps, n = 1e6", "<= 3600"),
]


def gpu_rows(sizes: list[int], repeats: int, device: str = "cuda") -> list[Row]:
    """Return all rows; one sentence where the device cannot be had."""
    from mercer.core.device.accelerator import accelerator

    try:
        where = accelerator(device)
    except (ImportError, ValueError) as error:
        return [Row("gpu", device, note=str(error))]
    rows = [row for n in sizes for row in evidence_rows(n, repeats, device)]
    rows += fit_rows(FIT_ROWS, device)
    rows += [row for kind in ("laplace", "ep") for row in label_rows(kind, LABELS, device)]
    rows += [Row(what, "mercer", bar=bar, note="not built yet") for what, bar in MISSING]
    return [*rows, Row("device", "mercer", note="" if where is None else where.name)]


def _timed(task: Callable[[], object]) -> float:
    begin = time.perf_counter()
    task()  # what it returns is in the memory of the CPU: it has ended
    return time.perf_counter() - begin


def evidence_rows(n: int, repeats: int, device: str) -> list[Row]:
    """Time one log evidence with its gradient at n rows, each at other hyperparameters."""
    from mercer.core.device.accelerator import accelerator
    from mercer.inference import Exact
    from mercer.kernels import RBF
    from mercer.linalg.dense.gram import RecycledGrams
    from mercer.losses import Gaussian
    from mercer.search import EvidenceCriterion, Space
    from mercer.search.criteria.evidence import simple_problem

    X, y, theta = problem(n, D)
    where, what = accelerator(device), f"evidence + gradient, n = {n}, d = {D}"
    assert where is not None
    if not where.fits(n, 2):
        return [Row(what, "mercer", bar=BARS.get(n, ""), note="does not fit the device")]
    kernel = float(np.exp(theta[0])) * RBF(np.exp(theta[1:-1]))
    space = Space({"kernel": kernel, "loss": Gaussian(float(np.exp(theta[-1])))})
    grams = RecycledGrams(where)
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact(), grams)
    value, slope = criterion(space.start)
    turns = [_timed(lambda t=t: criterion(space.start + 1e-3 * t)) for t in range(1, repeats + 1)]
    found, quality = statistics.median(turns), {"log evidence": value}
    quality["|gradient|"] = float(np.linalg.norm(slope))
    rows = [Row(what, "mercer", found, "s", BARS.get(n, ""), quality=quality)]
    if n in GPYTORCH:
        unit, note = "x, GPyTorch / mercer", f"GPyTorch: {GPYTORCH[n]} s on an H200"
        rows.append(Row(what, "GPyTorch", GPYTORCH[n] / found, unit, ">= 2.5", note=note))
    return rows


def fit_rows(n: int, device: str) -> list[Row]:
    """Time a whole fit of kin40k, defaults, and score 5000 other rows."""
    from scale import _split, _table

    from mercer import GPRegressor

    folder, what = os.environ.get("MERCER_DATA"), f"fit, kin40k, n = {n}"
    table = None if folder is None else _table(Path(folder), "kin40k")
    if table is None:
        return [Row(what, "mercer", bar="<= 60", note="MERCER_DATA has no such table")]
    X, y, new, t = _split(*table, n)
    model = GPRegressor(device=device, random_state=0)
    took = _timed(lambda: model.fit(X, y))
    mean, std = model.predict(new, return_std=True)
    score = float(np.mean(0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * ((t - mean) / std) ** 2))
    bar = "<= -1.33" if n == FIT_ROWS else ""
    return [
        Row(what, "mercer", took, "s", "<= 60", note=model.report_["device"]),
        Row(f"{what}, 5000 other rows", "mercer", score, "nats, NLPD", bar),
    ]


def label_rows(kind: str, n: int, device: str) -> list[Row]:
    """Time one evaluation with gradient of EP or Laplace, in factorisations of K."""
    from mercer.core.device.accelerator import accelerator
    from mercer.inference import by_name
    from mercer.kernels import RBF, Constant
    from mercer.linalg import DenseGram
    from mercer.losses import Loss

    X, y, _ = problem(n, D)
    inference = by_name(kind).searching()
    loss, labels = Loss.by_name(inference.link).fix(), np.where(y > 0, 1.0, -1.0)[:, None]
    what, where = f"{kind}, evaluation with gradient, n = {n}", accelerator(device)
    assert where is not None
    if not where.fits(n, 4):
        return [Row(what, "mercer", bar="<= 15", note="does not fit the device")]
    kernel = 3.0 * RBF(np.full(D, 3.0)) + Constant(1.0)

    def evaluate() -> object:
        gram = DenseGram(kernel, X, keep=True, scratch=True, device=where)
        found = inference.solve(gram, labels, loss)
        evidence = inference.evidence(gram, labels, loss, found)
        return gram.pullback(found.alpha, found.factor, evidence.U, evidence.V)

    evaluate()
    took = _timed(evaluate)
    gram = DenseGram(kernel, X, keep=True, device=where)
    gram.factor(np.ones(n)).release()  # K is there now
    once = _timed(lambda: gram.factor(np.full(n, 2.0)).logdet())
    note = f"{took:.3g} s, a factorisation {once:.3g} s"
    return [Row(what, "mercer", took / once, "factorisations", "<= 15", note=note)]
