"""What support vector machines share: record, kernel, posterior, report and summary."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index, is_sparse
from mercer.core.errors import outside
from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows
from mercer.core.record import COLUMNS
from mercer.estimators.shared.design.propose import Proposes
from mercer.estimators.shared.labels import decided, one_vs_rest
from mercer.estimators.shared.predictions import ByBlocks
from mercer.estimators.shared.stream import Freezes
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import read_inputs
from mercer.inference.base import Inference, Report
from mercer.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, as_kernel
from mercer.left_out.figures import LeftOut
from mercer.linalg.operators import ExplicitOperator, PosteriorOperator
from mercer.linalg.representation import Inducing
from mercer.process.process import Posterior, Prior, Process
from mercer.search.optimize import Search

NAMED = ("rbf", "linear", "poly", "sigmoid")  # as in scikit-learn
SECTIONS = ("Data", "Model", "Quality", "Numerics")  # of a summary
_NUMBER = (int, float)
_PRECISIONS = ("float32", "float64")


class SupportRecord(Freezes):
    """What a model file holds: k machines (one for two classes) on s support vectors, d columns."""

    support_: Index
    support_vectors_: Array
    dual_coef_: Array
    intercept_: Array
    kernel_: Kernel
    n_features_in_: int
    n_iter_: int
    report_: dict[str, Any]
    classes_: NDArray[Any]  # of classifiers
    stream_: Array  # of streams
    _param_types: ClassVar[dict[str, tuple[type, ...]]] = {
        **dict.fromkeys(("C", "nu", "epsilon", "tol", "cache_size", "coef0", "degree"), _NUMBER),
        "gamma": (str, *_NUMBER),
        "kernel": (str, Kernel),
        "bias": (bool, int),
        "max_iter": (int,),
        **dict.fromkeys(("probability", "calibration"), (str, NoneType)),
        "inference": (str, Inference, NoneType),
        "search": (str, Search, NoneType),
        **dict.fromkeys(("discriminant", "multi_class"), (str,)),
        "class_weight": (str, dict, NoneType),
        "random_state": (int, NoneType),
        "gram": (str, Inducing, NoneType),
    }

    @classmethod
    def _record(cls) -> Record:
        classes: Record = {"classes_": Labels()} if issubclass(cls, ClassifierMixin) else {}
        k = "k" if classes else "1"
        return {
            **COLUMNS,
            **classes,
            "kernel_": PartOf(Kernel),
            "intercept_": Numbers(k),
            "dual_coef_": Numbers(f"{k} s"),
            "support_": Rows("r"),  # as many, or none where landmarks take their place
            "support_vectors_": Numbers("s d"),
            "n_iter_": Plain(int, 1),
            "report_": PlainReport(),
        }


@dataclass(eq=False, repr=False, kw_only=True)
class SupportVectorMachine(ByBlocks, Proposes, SupportRecord, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A function of support vectors, ``dual_coef_ @ k(support_vectors_, x) + intercept_``.

    The fields of a machine and its parents are the parameters of its constructor.
    """

    _no_left_out: ClassVar[str] = (
        "none: the span of the free vectors, by which SVC leaves out a row without fitting again, "
        "is a rule for its loss; sklearn.model_selection.cross_val_predict fits again"
    )
    # scikit-learn's gamma="scale" counts columns that are constant; one of ours leaves them out
    _scale_of_all: ClassVar[bool] = False
    kernel: Any = "rbf"
    degree: int = 3
    gamma: Any = "scale"
    coef0: float = 0.0

    def _check_params(self) -> None:
        """Refuse parameters that no fit can have had."""
        limit = getattr(self, "max_iter", 1)
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < -1:
            raise ValueError(f"max_iter must be a number of steps, or -1 for no limit: {limit!r}")

    # ------------------------------------------------------------------ the kernel
    def _resolved(self, X: Array, weights: Array) -> Kernel:
        """The kernel in the user's units, what it takes from data taken from X.

        scikit-learn's names and gamma mean the same; a sparse X has no use for gamma.
        """
        names = getattr(self, "feature_names_in_", None)
        given = self.kernel
        if isinstance(given, str) and given in NAMED:
            gamma = 1.0
            if not is_sparse(X):
                vary = slice(None) if self._scale_of_all else ~_constant_columns(X, weights)
                gamma = _gamma(self.gamma, X, X[:, vary], weights)
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
    def coef_(self) -> Array:
        """The slopes (k, d) of the k functions; of ``kernel="linear"`` alone."""
        if not (isinstance(self.kernel, str) and self.kernel == "linear"):
            raise AttributeError('only functions of kernel="linear" have coef_')
        return np.asarray(self.dual_coef_ @ self.support_vectors_)

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
            basis=one_constant,
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

    # ------------------------------------------------------------------ report and summary
    @property
    def left_out_(self) -> LeftOut | None:
        """None; ``report_["left_out"]`` says why."""
        check_is_fitted(self, "support_vectors_")
        return None

    @property
    def loo_(self) -> LeftOut | None:
        """Another name of ``left_out_``."""
        return self.left_out_

    def _tell(self, inference: object, report: Report, rows: dict[str, Any], **more: Any) -> None:
        """Set ``report_``, None of a batch without labels; warn if it stopped too early."""
        name = None if inference is None else type(inference).__name__
        self.report_ = {
            "rows": rows,
            "standardize": {"on": False},
            "search": None,
            "inference": {"name": name} | report.plain(),
            "gram": "dense",
            "degrees_of_freedom": None,
            "left_out": self._no_left_out,
            "precision": "float64",
            **more,
        }
        self.n_iter_ = max(1, report.iterations or 0)
        if not report.converged:
            self._warn(report)

    def _warn(self, report: Report) -> None:
        """Warn that the steps ended above the tolerance."""
        params, details = self.get_params(deep=False), report.details
        violation = details.get("violation")  # None of an interior point, judged by its gap
        far = f"duality gap of {report.gap:.2g}"
        if violation is not None:
            far = f"violation of {violation:.2g}, a {far}"
        ended = (
            f"{type(self).__name__} ended after {report.iterations} steps "
            f"(max_iter={params['max_iter']}) with a {far}, above tol={params['tol']:g}"
        )
        softer = ", or choose a smaller C" if "C" in params else ""
        scaled = f"scale the columns (for example with StandardScaler){softer}"
        if violation is None:
            remedy = "raise max_iter, choose a larger tol or scale the columns"
        elif details["limited"]:
            remedy = f"raise max_iter, {scaled}"
        else:
            ended += ", and no step lowers it further (rounding)"
            remedy = f"choose a larger tol, {scaled}"
        warnings.warn(f"{ended}: {remedy}", ConvergenceWarning, stacklevel=outside())

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "support_vectors_")
        rows = sorted(self._summary_rows(), key=lambda row: SECTIONS.index(row[0]))
        return Summary(type(self).__name__, tuple(rows))

    @abstractmethod
    def _summary_rows(self) -> list[tuple[str, str, str]]:
        """Return rows (section, label, value), the sections in any order."""

    # ------------------------------------------------------------------ model files
    def _check_fitted(self) -> None:
        """Refuse a kernel that does not fit the arrays: predict one of the support vectors."""
        self._check_params()
        if not str(self.report_.get("precision")).startswith(_PRECISIONS):
            raise ValueError(f"the precision in the report is none of {', '.join(_PRECISIONS)}")
        if len(self.support_) != len(self.support_vectors_) and "inducing" not in self.report_:
            raise ValueError(
                f"{len(self.support_)} row numbers for {len(self.support_vectors_)} support vectors"
            )
        if self._precomputed():
            if not self.kernel_.pairwise or self.support_.max(initial=-1) >= self.n_features_in_:
                raise ValueError("a precomputed kernel has a column for each training row")
            return
        if self.kernel_.pairwise:
            raise ValueError("the kernel is a precomputed one, and the parameter kernel is not")
        self._check_kernel()

    def _check_kernel(self) -> None:
        some = self.support_vectors_[:: 1 + len(self.support_vectors_) // 8]
        if not np.isfinite(self.posteriors_[0].mean(some)).all():
            raise ValueError("the kernel of the model does not belong to its support vectors")


@dataclass(eq=False, repr=False, kw_only=True)
class OneAgainstRest(ClassifierMixin, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Several classes are one function each against the rest, all on the same points."""

    class_weight: Any = None

    def _signs(self, codes: Index) -> Array:
        """Return the target of each machine as -1 and +1, (n, 1) for two classes or (n, k)."""
        Y = one_vs_rest(codes, len(self.classes_))
        return Y[:, 1:] if len(self.classes_) == 2 else Y

    def _shifted(self, f: Array) -> Array:
        """Return the scores (q, k) by which the classes are decided: f + b itself."""
        return f

    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._shifted(self._latent(X))
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        f = self.decision_function(X)  # which asks first whether there is a fit
        return decided(self.classes_, f)


def check_sigmoid(slope: Array, offsets: Array, k: int, calibrated: bool) -> None:
    """Refuse a slope and offsets of other sizes than those of k calibrated machines."""
    wanted = ((1,), (k,)) if calibrated else ((0,), (0,))
    if (slope.shape, offsets.shape) != wanted:
        raise ValueError(
            f"slope_ and offsets_ have shapes {slope.shape} and {offsets.shape}, expected "
            f"{wanted[0]} and {wanted[1]}"
        )


def require_square(kernel: Kernel, X: Array, n: int) -> None:
    """Refuse values X (n, d) of a precomputed kernel that are not those of all rows."""
    if not isinstance(kernel, Precomputed) or X.shape[1] < n:
        raise ValueError(
            "a precomputed kernel needs the square matrix of all training rows as X, and "
            "stands alone; use Precomputed(matrix) inside a composed kernel"
        )


def one_constant(X: Array) -> Array:
    """The basis of a bias: ones (n, 1)."""
    return np.ones((len(X), 1))


def _constant_columns(X: Array, weights: Array) -> NDArray[np.bool_]:
    """Return which columns of X (n, d) have one value in all rows that count."""
    used = X if np.all(weights > 0.0) else X[weights > 0.0]
    found = np.all(used[:8] == used[0], axis=0)  # few rows tell for most columns
    found[found] = np.all(used[:, found] == used[0, found], axis=0)
    return np.asarray(found)


def describe_constant(X: Array, weights: Array, names: Any) -> dict[str, Any]:
    """Return which columns are constant, by name or number; nothing if none is."""
    found = np.flatnonzero(_constant_columns(X, weights))
    told = [int(j) if names is None else str(names[j]) for j in found]
    return {"constant_columns": told} if told else {}


def _gamma(gamma: Any, X: Array, vary: Array, weights: Array) -> float:
    """gamma in 1 / x^2; "scale" takes the variance of all entries of ``vary`` (n, v)."""
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / float(X.shape[1])
    if isinstance(gamma, str) and gamma == "scale":
        if not vary.shape[1]:
            return 1.0
        X, share = vary, weights / weights.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(share @ X.mean(axis=1))
            variance = float(share @ ((X - mean) ** 2).mean(axis=1))
        if not np.isfinite(variance):
            raise ValueError("the variance of the columns overflows: scale them")
        return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0
    if isinstance(gamma, str) or not gamma > 0:
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
