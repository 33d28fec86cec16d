"""One cell of the thesis' tables: the search for hyperparameters on one split, and its scores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from _thesis_data import Split
from scipy.optimize import Bounds, minimize

from mercer import SVC
from mercer.inference import EP, Dual, Inference, Laplace, Newton, Solution, Variational
from mercer.kernels import BiasedRBF, Kernel, White
from mercer.linalg import DenseGram
from mercer.losses import Hinge, Logistic, Loss, NormalizedHinge, Probit
from mercer.process import Prior
from mercer.search import EvidenceCriterion, LogNormal, Space, simple_problem

JITTER = 1e-6  # in units of C
FACTORED_JITTER = 1e-3  # the same for the factor-analysed class, which depends on it, but for
SMALL_JITTER = ("twonorm", "ringnorm")  # as in the listed figures
BOUNDS = (-12.0, 9.0)  # of every log parameter
INNER = 1e-6  # tolerance of the inner iterations
BOXES, WEIGHTS = 10.0 ** np.arange(-1.0, 4.1, 0.5), 10.0 ** np.arange(-2.0, 1.6, 0.5)
FOLDS = 10


@dataclass(frozen=True)
class Method:
    """An approximation with its noise model; ``mode`` finds the y-hat discriminant."""

    inference: Inference
    loss: Loss
    mode: tuple[Inference, Loss] | None = None


def method(name: str) -> Method:
    """The method by its short name."""
    if name == "lap":
        return Method(Laplace(), Logistic())
    if name == "ep":
        return Method(EP(tol=INNER), Probit(scale=1.0))
    factors = 3 if name.startswith("fa") else None
    inference = Variational(factors, tol=INNER, jitter=0.0)  # the kernel has its own
    if name.endswith("gp"):
        return Method(inference, Logistic(), (Newton(), Logistic()))
    return Method(inference, NormalizedHinge(C=1.0), (Dual(), Hinge(C=1.0)))


def jitter(name: str, data: str) -> float:
    """What the diagonal of K is raised by, in units of C."""
    large = name.startswith("fa") and data not in SMALL_JITTER
    return FACTORED_JITTER if large else JITTER


def kernel(d: int, variant: str, jitter: float = JITTER) -> Kernel:
    """C (exp(-1/(2d) sum_k w_k (x_k - z_k)^2) + v + jitter [x is z]), (4.22), at its start."""
    weight = 1.0 if variant == "iso" else np.ones(d)
    low, high = (float(np.exp(b)) for b in BOUNDS)
    inner = BiasedRBF(weight, bias=0.1, variance=1.0).fix("variance")
    inner = inner.bound(weight=(low, high), bias=(low, high))
    if variant == "ln":
        inner = inner.prior(weight=LogNormal(-3.0, 3.0), bias=LogNormal(-3.0, 3.0))
    whole = (10.0 * (inner + White(jitter).fix())).bound(variance=(low, high))
    return whole.prior(variance=LogNormal(-3.0, 3.0)) if variant == "ln" else whole


class Climb:
    """F and its gradient in gamma = log theta; each solution is the start of the next."""

    def __init__(self, criterion: EvidenceCriterion) -> None:
        self.criterion = criterion
        self.last: Solution | None = None
        self.factorisations: list[int] = []
        self.unconverged = 0

    def __call__(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, solution = self.criterion.evaluate(u, self.last)
        self.last = solution
        self.factorisations.append(int(solution.report.details["factorisations"]))
        self.unconverged += not solution.report.converged
        return -value, -gradient


def learn(
    made: Method, start: Kernel, X: np.ndarray, y: np.ndarray
) -> tuple[Kernel, Solution, dict]:
    """Kernel and posterior at the optimum, and how it was found."""
    space = Space({"kernel": start, "loss": made.loss.fix()})
    climb = Climb(EvidenceCriterion(space, simple_problem(X, y[:, None]), made.inference))
    found = minimize(
        climb,
        space.start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(space.bounds[:, 0], space.bounds[:, 1]),
        options={"maxiter": 100, "ftol": 1e-8, "gtol": 1e-4},
    )
    whole = space.parts_at(found.x)["kernel"]
    gram = DenseGram(whole, X, keep=True)  # the criterion's own may have used up its factor
    solution = made.inference.solve(gram, y[:, None], made.loss, start=climb.last)
    facts = {
        "F": round(float(found.fun), 5),
        "nev": int(found.nfev),
        "factorisations": float(np.median(climb.factorisations)),
        "unconverged": climb.unconverged + (not solution.report.converged),
    }
    return whole, solution, facts


def value_at(name: str, data: str, variant: str, X: np.ndarray, y: np.ndarray, at: dict) -> float:
    """F at given parameters w, v and C: whether two searches climbed the same hill."""
    made = method(name)
    whole = kernel(X.shape[1], variant, jitter(name, data))
    space = Space({"kernel": whole, "loss": made.loss.fix()})
    theta = {"variance": [at["C"]], "weight": at["w"], "bias": [at["v"]]}
    u = np.concatenate([np.log(theta[e.path.rpartition("__")[2]]) for e in space.entries])
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), made.inference)
    return -criterion(u)[0]


def bayesian(name: str, data: str, variant: str, parts: Split) -> dict[str, Any]:
    """Scores of a Gaussian process or Bayesian support vector machine; plain values."""
    X, y, X_test, y_test = parts
    made = method(name)
    began = time.process_time()
    start = kernel(X.shape[1], variant, jitter(name, data))
    whole, solution, facts = learn(made, start, X, y)
    seconds = time.process_time() - began
    process, inner = Prior(whole).condition(X, solution), whole.kernel.parts[0]
    mean, var = process.mean(X_test)[:, 0], process.var(X_test)
    row: dict[str, Any] = {
        **facts,
        "err": wrong(y_test, mean),
        "nlpd": round(-float(made.loss.log_predictive(y_test, mean, var).mean()), 6),
        "C": float(f"{whole.variance:.6g}"),
        "v": float(f"{inner.bias:.6g}"),
        "w": [float(f"{w:.6g}") for w in np.atleast_1d(inner.weight)],
    }
    if made.mode is not None:
        finder, loss = made.mode
        mode = finder.solve(DenseGram(whole, X, keep=True), y[:, None], loss)
        row["err_mode"] = wrong(y_test, Prior(whole).condition(X, mode).mean(X_test)[:, 0])
        row["mode_converged"] = bool(mode.report.converged)
    return row | {"seconds": round(seconds, 2)}


def wrong(y: np.ndarray, discriminant: np.ndarray) -> int:
    return int(np.sum(y * discriminant <= 0.0))


def linear(parts: Split) -> dict[str, Any]:
    """The linear discriminant with the least squared error."""
    X, y, X_test, y_test = parts
    A, B = (np.column_stack([np.ones(len(Z)), Z]) for Z in (X, X_test))
    return {"err": wrong(y_test, B @ np.linalg.lstsq(A, y, rcond=None)[0])}


def svm(seed: int, parts: Split) -> dict[str, Any]:
    """The support vector machine with a bias, C and one w by cross-validation; ties to small C."""
    X, y, X_test, y_test = parts
    d, rng = X.shape[1], np.random.default_rng(seed)
    fold = np.empty(len(y), dtype=int)
    for label in (-1.0, 1.0):  # stratified
        rows = rng.permutation(np.flatnonzero(y == label))
        fold[rows] = np.arange(len(rows)) % FOLDS
    began, best = time.process_time(), (len(y) + 1, 0.0, 0.0)
    for C in BOXES:
        for w in WEIGHTS:
            missed = 0
            for k in range(FOLDS):
                machine = SVC(C, gamma=w / (2 * d)).fit(X[fold != k], y[fold != k])
                missed += wrong(y[fold == k], machine.decision_function(X[fold == k]))
            best = min(best, (missed, C, w), key=lambda found: found[0])
    machine = SVC(best[1], gamma=best[2] / (2 * d)).fit(X, y)
    return {
        "err": wrong(y_test, machine.decision_function(X_test)),
        "C": float(f"{best[1]:.6g}"),
        "w": [float(f"{best[2]:.6g}")],
        "seconds": round(time.process_time() - began, 2),
    }


def fit(name: str, data: str, variant: str, seed: int, parts: Split) -> dict[str, Any]:
    """The scores of one cell."""
    if name == "lin":
        return linear(parts)
    return svm(seed, parts) if name == "svm" else bayesian(name, data, variant, parts)
