"""Candidates: the machines that are tried on a table, each with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import losses
from mercer.core.arrays import Array
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.estimators.graph.classifiers import LapMEDClassifier, LapSVC
from mercer.estimators.kernel.classifier import KernelClassifier
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.least_squares.classifiers import ProbabilisticLeastSquaresClassifier
from mercer.estimators.relevance_vector.classifier import RVClassifier
from mercer.estimators.relevance_vector.regressor import RVRegressor
from mercer.estimators.spline.estimator import SmoothingSpline
from mercer.estimators.support_vector.classifier import SVC
from mercer.kernels import as_kernel
from mercer.kernels.inputs.warp import skewed as skewed_columns
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import repeated

Make = Callable[[Array, Array | None], list[Any]]
SKEWED = 1.25  # how many times further the upper quartile is from the median than the lower
LARGE = 50.0  # a tenth of the counts at least is not beyond it
REPEATED = 5  # rows with the inputs of another one, before they are worth a machine


@dataclass(frozen=True)
class Candidate:
    """A family of machines; the best of them by its rows left out stands for it."""

    name: str
    sentence: str
    make: Make  # unfitted machines for inputs X (n, d) and weights (n,) or None
    criterion: str | None = None  # of their search, which can be cut short and resumed
    unlabelled: bool = False  # rows without a label help
    repeats: bool = False  # repeated rows say how much noise there is, not how much a row counts
    pilot: bool = False  # a fit may take long: fewer rows say first how long
    borrows: bool = False  # the kernel of the process that has predicted best so far
    bends: bool = False  # skewed columns, and is the same as without where that does not pay
    starts: int = 1  # of its search, besides the one at the scale of the data


LENT = ("rbf", "matern52", "anova32", "anova12")  # kernels that other candidates borrow


def lent(candidate: Candidate, tried: Sequence[tuple[float, Any]]) -> Candidate:
    """Return the candidate with the best kernel of machines that were ``tried``: (score, machine).

    A process with Gaussian noise is quick to search and knows which kernel suits the table; one
    with another likelihood need not find that out again.
    """
    kernels = [
        (score, machine.kernel)
        for score, machine in tried
        if (isinstance(machine, GPClassifier) or _plain(machine)) and machine.kernel in LENT
    ]
    if not candidate.borrows or not kernels:
        return candidate
    kernel, make = max(kernels)[1], candidate.make
    kernel = f"warped_{kernel}" if candidate.bends else kernel
    return replace(candidate, make=lambda X, w: [m.set_params(kernel=kernel) for m in make(X, w)])


def _plain(machine: Any) -> bool:
    """Whether it is a process with Gaussian noise and nothing beside it."""
    process = isinstance(machine, GPRegressor)
    return process and machine.loss == "gaussian" and machine.basis is None


def candidates_for(
    kind: str,
    X: Array,
    line: bool,
    k: int,
    weighted: bool = False,
    skewed: bool = False,
    counts: bool = False,
) -> list[Candidate]:
    """Return the candidates, quick ones first.

    ``kind`` is that of the target, X (n, d) are the encoded rows, ``line`` says that the only
    input is one column of numbers without gaps, k the number of classes. Weights say how much a
    row counts, so that repeats of ``weighted`` rows say nothing of the noise. The logarithm and a
    power of a ``skewed`` target, see :func:`is_skewed`, are candidates, and a model of ``counts``,
    see :func:`is_counted`.
    """
    if kind == "regression":
        repeats = repeated(X) >= REPEATED and not weighted
        shaped = ([_LOGARITHM, _POWER] if skewed else []) + ([_COUNTS] if counts else [])
        return _quantities(X, line, repeats) + shaped + _bent(X, GPRegressor)
    graphs = _GRAPHS if kind == "partly" else []
    return _classes(k, X.shape[1]) + graphs + _bent(X, GPClassifier, **_link(k))


def with_kernel(kind: str, kernel: Any, k: int) -> Candidate:
    """Return the Gaussian process with a kernel (or its name) of the caller's choice.

    ``kind`` is that of the target, k the number of classes.
    """
    part = as_kernel(kernel)
    if part.pairwise:
        raise ValueError(
            f"the kernel of a table is a function of its columns; {type(part).__name__} takes "
            "kernel values: fit GPRegressor or GPClassifier to them"
        )
    name = kernel if isinstance(kernel, str) else type(part).__name__
    what = "with error bars" if kind == "regression" else "behind the probabilities"
    sentence = f"a function {what}, with the kernel that was asked for"
    machine, link = (GPRegressor, {}) if kind == "regression" else (GPClassifier, _link(k))
    return _gp(f"Gaussian process, {name}", sentence, machine, kernel, **link)


def is_skewed(y: Array) -> bool:
    """Whether all of y (n,) are positive, and their logarithms are less skewed than they are.

    By the quartiles: the upper two are further apart than the lower two.

    Examples
    --------
    >>> is_skewed(np.array([1.0, 2.0, 4.0, 8.0, 16.0])), is_skewed(np.arange(1.0, 6.0))
    (True, False)
    """
    if not np.all(y > 0.0):
        return False
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    return bool(high - middle > SKEWED * (middle - low))


def is_counted(y: Array) -> bool:
    """Whether y (n,) are whole numbers from zero on that vary as counts do.

    Counts vary at least as much as Poisson's, whose variance is their mean; grades and years vary
    less. Of counts that are all large the steps do not matter.

    Examples
    --------
    >>> is_counted(np.array([0.0, 1.0, 0.0, 4.0, 2.0])), is_counted(np.array([5.0, 6.0, 5.0, 7.0]))
    (True, False)
    """
    if not np.all((y >= 0.0) & (y == np.floor(y))) or len(np.unique(y)) < 3:
        return False
    return bool(np.var(y) > 0.5 * np.mean(y) and np.quantile(y, 0.1) <= LARGE)


def _link(k: int) -> dict[str, Any]:
    """Several classes: one against the rest by EP; a softmax by Laplace is under-confident."""
    return {} if k == 2 else {"loss": "probit", "inference": "ep"}


def _quantities(X: Array, line: bool, repeats: bool) -> list[Candidate]:
    n, d = X.shape
    spline = Candidate("smoothing spline", "a cubic smoothing spline with error bars",
                       lambda X, w: [SmoothingSpline()])  # fmt: skip
    on_top = _gp("line plus process", "a straight line, and a smooth function on top of it",
                 GPRegressor, "rbf", basis="linear")  # fmt: skip
    places = _gp("repeated rows", "a less smooth function, and what every place has of its own",
                 GPRegressor, "matern52_nugget")  # fmt: skip
    # a constant and the indicators of one column are not independent
    rank = np.linalg.matrix_rank(np.column_stack([np.ones(n), X])) if d <= min(30, n // 10) else 0
    return [
        _gp("linear", "a straight line in every input, Bayesian", GPRegressor, "linear"),
        _gp("Gaussian process", "a smooth function with error bars", GPRegressor, "rbf"),
        _gp("Gaussian process, rough", "a less smooth function with error bars (Matern 5/2)",
            GPRegressor, "matern52"),
        *(_separable(GPRegressor, "with error bars") if d > 1 else []),
        *([spline] if line else [on_top] if rank > d else []),
        *([replace(places, repeats=True)] if repeats else []),
        _borrowing("heavy tails", "the best function so far, and noise with real outliers",
                   KernelRegressor, "rbf", loss="student_t", inference="laplace"),
        _borrowing("support vector regression", "the tube of support vectors, as a likelihood",
                   KernelRegressor, "rbf", loss="epsilon_insensitive", inference="variational"),
        Candidate("relevance vectors", "a sum of a few kernel functions, quick to predict",
                  lambda X, w: [RVRegressor()], pilot=True),
    ]  # fmt: skip


def _gp(name: str, sentence: str, machine: Any, *given: Any, **options: Any) -> Candidate:
    """Return the family of one machine whose search maximises the evidence."""
    return Candidate(name, sentence, lambda X, w: [machine(*given, **options)], "evidence")


def _borrowing(name: str, sentence: str, machine: Any, *given: Any, **options: Any) -> Candidate:
    """Return the family of one machine with the kernel that suits the table, and its own loss."""
    return replace(_gp(name, sentence, machine, *given, **options), borrows=True, starts=0)


def _separable(machine: Any, how: str, **options: Any) -> list[Candidate]:
    """Return the processes for functions that are not smooth in all columns together."""
    sums = f"a sum of functions of one, two and more inputs, {how}"
    edges = f"the same with edges, as trees have them, {how}"
    return [
        replace(_gp("Gaussian process, interactions", sums, machine, "anova32", **options),
                starts=0),
        replace(_gp("Gaussian process, edges", edges, machine, "anova12", **options), starts=0),
    ]  # fmt: skip


_LOGARITHM = _borrowing("logarithm", "a function behind the logarithm, for positive skewed targets",
                        GPRegressor, "rbf", loss="log_gaussian")  # fmt: skip
_POWER = _borrowing("power", "a function behind a power of the target (Box and Cox)",
                    GPRegressor, "rbf", loss="box_cox")  # fmt: skip
_COUNTS = _borrowing("counts", "a function behind the mean of counts, negative binomial",
                     GPRegressor, "rbf", loss="negative_binomial")  # fmt: skip


def _bent(X: Array, machine: Any, **options: Any) -> list[Candidate]:
    """Return the process that bends skewed columns, where there are some."""
    sentence = "the best function so far, of columns that are bent where they are skewed"
    made = _borrowing("Gaussian process, bent", sentence, machine, "warped_rbf", **options)
    return [replace(made, bends=True)] if len(skewed_columns(X)) else []


def _logistic(kernel: str | None, *weights: float) -> Make:
    return lambda X, w: [KernelClassifier(kernel, C=C, loss=losses.Logistic()) for C in weights]


def _classes(k: int, d: int) -> list[Candidate]:
    link = _link(k)
    joint = _gp("Gaussian process, joint", "one smooth function for each class, a softmax",
                GPClassifier, "rbf")  # fmt: skip
    return [
        Candidate("logistic", "logistic regression: log-odds that are a straight line",
                  _logistic("linear", 0.01, 0.1, 1.0, 10.0)),
        Candidate("kernel logistic", "logistic regression with a kernel",
                  _logistic(None, 0.1, 1.0, 10.0, 100.0)),
        Candidate("support vectors", "a support vector machine, its outputs made probabilities",
                  _support),
        _gp("linear", "log-odds that are a straight line in every input, Bayesian",
            GPClassifier, "linear", inference="laplace"),
        Candidate("least squares", "regression on the labels with probabilities trained on rows "
                  "left out", lambda X, w: [ProbabilisticLeastSquaresClassifier()], "plsc"),
        _gp("Gaussian process", "a smooth function behind the probabilities",
            GPClassifier, "rbf", **link),
        *(_separable(GPClassifier, "behind the probabilities", **link) if d > 1 else []),
        _gp("Gaussian process, rough", "a less smooth function behind the probabilities",
            GPClassifier, "matern52", **link),
        *([joint] if k > 2 else []),
        Candidate("relevance vectors", "log-odds from a few kernel functions, quick to predict",
                  lambda X, w: [RVClassifier()], pilot=True),
    ]  # fmt: skip


def _support(X: Array, weights: Array | None) -> list[Any]:
    """C and gamma about scikit-learn's "scale", 1 / (d var X)."""
    mean = np.average(X, axis=0, weights=weights).mean()
    variance = float(np.average((X - mean) ** 2, axis=0, weights=weights).mean())
    scale = 1.0 / (X.shape[1] * variance or 1.0)
    grid = [(C, g * scale) for C in (0.3, 3.0, 30.0) for g in (0.2, 1.0, 5.0)]
    return [SVC(C=C, gamma=float(np.round(g, 6)), probability="loo") for C, g in grid]


_GRAPHS = [
    Candidate("manifold support vectors", "support vectors on a graph of all rows, labelled "
              "or not", lambda X, w: [SigmoidClassifier(m) for m in (
                  LapSVC(), LapSVC(1.0, beta=0.5), LapSVC(100.0, beta=0.5))], unlabelled=True),
    Candidate("manifold discrimination", "maximum entropy discrimination on a graph of all "
              "rows", lambda X, w: [SigmoidClassifier(m) for m in (
                  LapMEDClassifier(), LapMEDClassifier(100.0, beta=0.5))], unlabelled=True),
]  # fmt: skip
