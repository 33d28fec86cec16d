"""What support vector machines share: kernel, flow of a fit, posterior, report and summary."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index, is_sparse
from mercer.core.errors import outside
from mercer.estimators.shared.labels import decided, one_vs_rest, read_labels
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import (
    check_target,
    check_weights,
    merged,
    read_inputs,
    read_rows,
    restored_on_error,
)
from mercer.estimators.support_vector.record import SupportRecord
from mercer.inference.base import Report, Solution
from mercer.inference.programme import Programme
from mercer.inference.smo import SMO
from mercer.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, as_kernel
from mercer.left_out.figures import LeftOut
from mercer.linalg.operators import ExplicitOperator, PosteriorOperator
from mercer.linalg.rows import RowGram
from mercer.process.process import Posterior, Prior, Process

HARD_MARGIN_STEPS = 1_000_000
NAMED = ("rbf", "linear", "poly", "sigmoid")  # as in scikit-learn
SAMPLE = 200  # points by which a kernel of the user's own is judged
NO_LEFT_OUT = (
    "none: the span of the free vectors, by which SVC leaves out a row without fitting again, is a "
    "rule for its loss; sklearn.model_selection.cross_val_predict fits again"
)


class SupportVectorMachine(SupportRecord, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A function of support vectors, ``dual_coef_ @ k(support_vectors_, x) + intercept_``."""

    support_: Index
    support_vectors_: Array
    dual_coef_: Array
    intercept_: Array
    kernel_: Kernel
    report_: dict[str, Any]
    kernel: Any
    degree: int
    gamma: Any
    coef0: float
    tol: float
    max_iter: int
    _hard_margin: ClassVar[bool] = False  # whether C = inf has a meaning

    def _check_params(self) -> None:
        """Refuse parameters that no fit can have had."""
        for name in ("C", "tol", "cache_size"):
            value = getattr(self, name, 1.0)
            if not (isinstance(value, (int, float, np.number)) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if getattr(self, "C", 1.0) == np.inf and not self._hard_margin:
            raise ValueError("C must be finite: only SVC has a hard margin")
        limit = self.max_iter
        if not isinstance(limit, (int, np.integer)) or limit < -1:
            raise ValueError(f"max_iter must be a number of steps, or -1 for no limit: {limit!r}")

    # ------------------------------------------------------------------ the kernel
    def _resolved(self, X: Array, weights: Array) -> Kernel:
        """The kernel in the user's units, what it takes from data taken from X.

        scikit-learn's names and gamma mean the same; a sparse X has no use for gamma.
        """
        names = getattr(self, "feature_names_in_", None)
        given = self.kernel
        if isinstance(given, str) and given in NAMED:
            gamma = 1.0 if is_sparse(X) else _gamma(self.gamma, X, weights)
            return _by_name(given, gamma, self.degree, self.coef0)
        kernel = as_kernel(given).__sklearn_clone__()
        names = None if names is None else [str(n) for n in names]
        return kernel.resolve(names, X.shape[1]).frozen(X, weights)

    def _precomputed(self) -> bool:
        given = self.kernel
        if isinstance(given, str):
            return given == "precomputed"
        return isinstance(given, Precomputed) and given.pairwise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed()
        return tags

    # ------------------------------------------------------------------ predictions
    @property
    def posteriors_(self) -> list[Process]:
        """The process of what was learned: one entry with k outputs, its mean is f + b.

        The inputs of one with a precomputed kernel are its values with the support vectors.
        """
        check_is_fitted(self, "support_vectors_")
        return [self._posterior(self.intercept_)]

    def _posterior(self, bias: Array | None) -> Process:
        """Formulas (1) and (2), with constants ``bias`` (k,) added to the k functions, or none."""
        single = "float32" in str(getattr(self, "report_", {}).get("precision"))
        return Posterior(
            Prior(self.kernel_, len(self.intercept_), "single" if single else "double"),
            self.support_vectors_,
            self.dual_coef_.T,
            self._operator(),
            beta=None if bias is None else bias[None, :],
            basis=_constant,
        )

    def _operator(self) -> PosteriorOperator:
        """C of formula (2): zero, for a mode without spread."""
        return ExplicitOperator(None)

    def _read_inputs(self, X: Any) -> Array:
        """Return new inputs X (q, d), checked."""
        return read_inputs(self, X)

    def _latent(self, X: Any) -> Array:
        """f + b (q, k) at new inputs X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        return self.posteriors_[0].mean(self._seen(self._read_inputs(X)))

    def _seen(self, X: Array) -> Array:
        """Return what the process sees of X: of kernel values with all rows those it needs."""
        return X[:, self.support_] if self._precomputed() else X

    # ------------------------------------------------------------------ report
    @property
    def left_out_(self) -> LeftOut | None:
        """None; ``report_["left_out"]`` says why."""
        check_is_fitted(self, "support_vectors_")
        return None

    @property
    def loo_(self) -> LeftOut | None:
        """Another name of ``left_out_``."""
        return self.left_out_

    def _warn(self, report: Report) -> None:
        """Warn that the steps ended above the tolerance."""
        params, details = self.get_params(deep=False), report.details
        ended = (
            f"{type(self).__name__} ended after {report.iterations} steps "
            f"(max_iter={params['max_iter']}) with a violation of {details['violation']:.2g}, "
            f"above tol={params['tol']:g}"
        )
        if details["limited"]:
            softer = ", or choose a smaller C" if "C" in params else ""
            remedy = (
                "raise max_iter (-1 is no limit), scale the columns (for example with "
                f"StandardScaler){softer}"
            )
        else:
            ended += ", and no step lowers it further (rounding)"
            double = details["precision"] == "float64"
            exact = "" if double else " or one below 1e-5 (double precision),"
            remedy = f"choose a larger tol,{exact} or scale the columns"
        warnings.warn(f"{ended}: {remedy}", ConvergenceWarning, stacklevel=outside())


class OneAgainstRest(ClassifierMixin, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Several classes are one function each against the rest, all on the same points."""

    classes_: NDArray[Any]
    class_weight: Any

    def _shifted(self, f: Array) -> Array:
        """Return the scores (q, k) by which the classes are decided: f + b itself."""
        return f

    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._shifted(self._latent(X))
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        f = self.decision_function(X)
        return decided(self.classes_, f)


@dataclass(frozen=True)
class Targets:
    """What the rows of a fit are to have.

    Attributes
    ----------
    values : (N,) targets, or classes as numbers: equal rows are merged where these are equal.
    weights : (N,) how often each row counts, class weights included.
    classes : (k,) the labels, or None.
    """

    values: Array
    weights: Array
    classes: NDArray[Any] | None = None

    def columns(self, first: Index) -> Array:
        """The target of each machine at the rows ``first``: (n, 1), or -1 and +1 for k classes."""
        if self.classes is None:
            return self.values[first][:, None]
        Y = one_vs_rest(self.values[first].astype(np.intp), len(self.classes))
        return Y[:, 1:] if len(self.classes) == 2 else Y


@dataclass(frozen=True)
class SupportProblem:
    """A fit with equal rows merged to n points.

    Attributes
    ----------
    X, targets : (N, d) and those of the rows as given.
    first : (n,) a row of each point.
    place : (N,) the point of each row, -1 for one of weight zero.
    total : (n,) total weights.
    Y : (n, k) the target of each machine.
    gram : K on the points.
    """

    X: Array
    targets: Targets
    first: Index
    place: Index
    total: Array
    Y: Array
    gram: RowGram


class DualMachine(SupportVectorMachine):
    """The flow of SVC, SVR, NuSVC, NuSVR and OneClassSVM; a child states its targets and its dual.

    read -> targets -> kernel -> merge -> solve -> condition -> report
    """

    n_iter_: int
    cache_size: float

    # ------------------------------------------------------------------ what a child states
    @abstractmethod
    def _read_targets(self, y: Any, sample_weight: Any, n: int) -> Targets:
        """Return the targets of n rows, checked."""

    @abstractmethod
    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """Return the dual of one machine with targets y (n,)."""

    def _read(self, X: Any, y: Any) -> tuple[Array, Any]:
        """Return the table (N, d) and its targets."""
        return read_rows(self, X, y)

    def _learned_kernel(self, X: Any, y: Any, sample_weight: Any) -> Kernel | None:
        """Return the kernel if it is learned from the table as it was given."""
        return None

    def _function(self, solution: Solution, problem: SupportProblem) -> tuple[Array, Array]:
        """Return the coefficients (k, n) and the biases (k,) of the functions that were found."""
        assert solution.beta is not None
        return solution.alpha.T, solution.beta[0]

    def _conclude(self, problem: SupportProblem, solution: Solution, sample_weight: Any) -> None:
        """Do what is left to do with a fitted machine."""

    # ------------------------------------------------------------------ the flow
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and targets y (n,), which OneClassSVM does not need.

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was.
        """
        with restored_on_error(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        table, labels = self._read(X, y)
        self._check_params()
        targets = self._read_targets(labels, sample_weight, len(table))
        kernel = self._learned_kernel(X, labels, sample_weight)
        kernel = self._resolved(table, targets.weights) if kernel is None else kernel
        first, total, place = merged(table, targets.values, targets.weights)
        gram = _rows_on_demand(kernel, table, first)
        problem = SupportProblem(table, targets, first, place, total, targets.columns(first), gram)
        columns = np.ascontiguousarray(problem.Y.T)
        programmes = [self._programme(column, problem) for column in columns]
        solution = self._solver().ascend(gram, programmes)
        coefficients, bias = self._function(solution, problem)
        if targets.classes is not None:
            self.classes_ = targets.classes
        self._keep_support(kernel, problem, coefficients, bias)
        self.report_ = self._told(problem, solution.report)
        self.n_iter_ = max(1, solution.report.iterations or 0)
        if not solution.report.converged:
            self._warn(solution.report)
        self._conclude(problem, solution, sample_weight)

    def _solver(self) -> SMO:
        limit = self.max_iter
        if getattr(self, "C", 1.0) == np.inf and limit < 0:
            limit = HARD_MARGIN_STEPS  # classes that cannot be separated would climb forever
        return SMO(self.tol, limit, self.cache_size)

    def _keep_support(
        self, kernel: Kernel, problem: SupportProblem, coefficients: Array, bias: Array
    ) -> None:
        """Keep the points with a non-zero coefficient: coefficients (k, n), bias (k,)."""
        support = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        support = support[np.argsort(problem.first[support])]  # by row of the table
        self.kernel_ = kernel
        self.support_ = problem.first[support]
        self.support_vectors_ = np.ascontiguousarray(problem.X[self.support_])
        self.dual_coef_ = np.ascontiguousarray(coefficients[:, support])
        self.intercept_ = np.asarray(bias, dtype=np.float64)

    # ------------------------------------------------------------------ report and summary
    def _told(self, problem: SupportProblem, report: Report) -> dict[str, Any]:
        weights = problem.targets.weights
        told = {
            "rows": {
                "used": int(np.count_nonzero(weights > 0.0)),
                "distinct": len(problem.first),
                "weight": float(problem.total.sum()),
            },
            "standardize": {"on": False},
            "search": None,
            "inference": {"name": "SMO"} | report.plain(),
            "gram": "rows on demand",
            "degrees_of_freedom": None,
            "left_out": NO_LEFT_OUT,
            "precision": report.details["precision"],
        }
        named = isinstance(self.kernel, str) and self.kernel in NAMED
        note = None if named else _indefinite(problem.gram)
        return told if note is None else told | {"kernel": note}

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "support_vectors_")
        report = self.report_
        ended = report.get("inference", report)  # files of version 0.1 have one level less
        rows = [("Data", "columns", str(len(self.support_vectors_.T)))]
        if "rows" in report:
            counts = report["rows"]
            rows.insert(0, ("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct)"))
            if counts["weight"] != counts["used"]:
                rows.append(("Data", "total weight", f"{counts['weight']:.6g}"))
        classes = getattr(self, "classes_", None)
        if classes is not None:
            rows.append(("Data", "classes", ", ".join(str(label) for label in classes)))
        rows.append(("Model", "kernel", repr(self.kernel_)))
        if "kernel" in report:
            rows.append(("Model", "remark on the kernel", report["kernel"]))
        names = [name for name in ("C", "nu", "epsilon") if hasattr(self, name)]
        rows += [("Model", name, f"{getattr(self, name):g}") for name in names]
        rows += self._found()
        free = ""
        if "free" in ended:
            free = f": {_each(ended['free'])} free, {_each(ended['bounded'])} at the bound"
        rows.append(("Model", "support vectors", f"{len(self.support_)}{free}"))
        rows += [("Quality", label, value) for label, value in self._quality()]
        text = "converged" if ended["converged"] else f"not converged ({ended['message']})"
        text += f" after {ended['iterations']} steps, largest violation {ended['violation']:.2g}"
        gap = ended.get("gap")
        rows.append(("Numerics", "SMO", text if gap is None else f"{text}, duality gap {gap:.2g}"))
        rows.append(("Numerics", "rows of the kernel matrix", str(report["precision"])))
        return Summary(type(self).__name__, tuple(rows))

    def _found(self) -> list[tuple[str, str, str]]:
        """Return rows of the summary about further parameters that were found."""
        return []

    def _quality(self) -> list[tuple[str, str]]:
        """Return labels and values of the summary on rows left out."""
        return [("rows left out", str(self.report_.get("left_out", NO_LEFT_OUT)))]


class SupportClassifier(OneAgainstRest, DualMachine):
    """The flow for classes."""

    def _read_targets(self, y: Any, sample_weight: Any, n: int) -> Targets:
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        return Targets(given.codes.astype(np.float64), given.weights, given.classes)


class SupportRegressor(RegressorMixin, DualMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """One function of a real target."""

    def _read(self, X: Any, y: Any) -> tuple[Array, Any]:
        check_target(y)
        return super()._read(X, y)

    def _read_targets(self, y: Any, sample_weight: Any, n: int) -> Targets:
        return Targets(np.asarray(y, dtype=np.float64), check_weights(sample_weight, n))

    def predict(self, X: Any) -> Array:
        """Return f at X (q, d), shape (q,)."""
        return np.asarray(self._latent(X)[:, 0])


def _constant(X: Array) -> Array:
    """The basis of a bias: ones (n, 1)."""
    return np.ones((len(X), 1))


def _rows_on_demand(kernel: Kernel, X: Array, first: Index) -> RowGram:
    """Return K on the points X[first]; a precomputed X becomes a matrix and its row numbers."""
    if not kernel.pairwise:
        return RowGram(kernel, np.ascontiguousarray(X[first]))
    if not isinstance(kernel, Precomputed) or X.shape[1] < len(first):
        raise ValueError(
            "a precomputed kernel needs the square matrix of all training rows as X, and "
            "stands alone; use Precomputed(matrix) inside a composed kernel"
        )
    return RowGram(Precomputed(X), first[:, None].astype(np.float64))


def _each(counts: list[int]) -> str:
    return " + ".join(str(count) for count in counts)


def _indefinite(gram: RowGram) -> str | None:
    """Say that the kernel is not positive semidefinite on some of the points, or None."""
    pick = np.unique(np.linspace(0, len(gram.points) - 1, SAMPLE).astype(np.intp))
    values = np.linalg.eigvalsh(gram.kernel(np.ascontiguousarray(gram.points[pick])))
    if values[0] >= -1e-8 * np.abs(values).max():
        return None
    return (
        f"not positive semidefinite: on {len(pick)} points its eigenvalues reach from "
        f"{values[0]:.3g} to {values[-1]:.3g}, and where the steps ended is not known to be the "
        "optimum"
    )


def _gamma(gamma: Any, X: Array, weights: Array) -> float:
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / float(X.shape[1])
        if gamma == "scale":
            share = weights / weights.sum()
            with np.errstate(over="ignore", invalid="ignore"):
                mean = float(share @ X.mean(axis=1))
                variance = float(share @ ((X - mean) ** 2).mean(axis=1))
            if not np.isfinite(variance):
                raise ValueError("the variance of the columns overflows: scale them")
            return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0
        raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {gamma!r}")
    if not gamma > 0:
        raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {gamma!r}")
    return float(gamma)


def _by_name(name: str, gamma: float, degree: int, coef0: float) -> Kernel:
    if name == "sigmoid":
        raise ValueError(
            "the sigmoid kernel is not positive semidefinite, so the machine has no unique "
            "solution; use kernel=ArcSine() from mercer.kernels, the kernel of a neural network"
        )
    if name == "linear":
        return Linear()
    if name == "poly":
        if coef0 < 0:
            raise ValueError(f"coef0 must not be negative for a polynomial kernel: {coef0!r}")
        return Polynomial(degree=degree, offset=coef0 or None, weight=gamma)
    return RBF(length_scale=float(np.sqrt(0.5 / gamma)))
