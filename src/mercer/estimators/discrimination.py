"""MEDClassifier: maximum entropy discrimination, at once or batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, Index
from mercer.estimators.labels import one_vs_rest, read_labels, row_weights
from mercer.estimators.stream_input import first_classes, known_codes
from mercer.estimators.sv_base import SupportVectorMachine, expand, merged
from mercer.estimators.table import read_rows
from mercer.inference.med import discriminate
from mercer.kernels import Linear, Precomputed, Scale
from mercer.linalg.memory import require_memory
from mercer.losses.base import is_number

FLOOR = 1.1  # below C = 1 nothing is learned, and just above it hardly anything
OUTSIDE = 4  # frames from here to the user's call


class MEDClassifier(ClassifierMixin, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Maximum entropy discrimination: minimise 1/2 |f|^2 + sum_i w_i g_C(y_i (f(x_i) + b)).

    g_C is :class:`mercer.losses.Margin`; f has the prior of ``amplitude`` times the kernel, b is
    free. The posterior of one batch is the prior of the next (:meth:`partial_fit`). Several
    classes are one machine each against the rest. For large C it is the support vector machine.

    There are no probabilities: the variance of f stays that of the prior, whatever is seen. Wrap
    the machine in scikit-learn's ``CalibratedClassifierCV`` to have some.

    Parameters
    ----------
    C : slack parameter > 1; at C <= 1 no row has any weight, and nothing is learned.
    amplitude : prior variance of f, a factor of the kernel. For a softer margin make it smaller,
        not C: amplitude * C is what C is for ``SVC``, as long as C is large.
    kernel, degree, gamma, coef0 : see :class:`SVC`. What depends on the data (``gamma="scale"``)
        is that of the first batch.
    class_weight : None, "balanced" (in ``fit`` only) or a dict.
    bias_rule : "exact", the optimum, or "median", that of the paper, for comparison.
    schedule : C of batch t in ``partial_fit``: "sqrt" is max(C / sqrt(t), 1.1), which averages over
        the batches; "constant" is C, with which the score keeps following the last batch.
    tol : duality gap at which a batch is solved, relative to the objective.
    max_iter : steps of the interior point at most; reaching it is a ConvergenceWarning.

    Attributes
    ----------
    support_ : rows that are support vectors, counted from the beginning of the stream.
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``. In a stream with a linear
        kernel they are one point for each machine, the sum of all: memory does not grow. A
        precomputed kernel has the amplitude in ``dual_coef_``.
    stream_ : (2,) batches and rows seen.
    kernel_ : the kernel, amplitude included.
    report_ : duality gap, objective (the divergence from the prior), C of the batch.
    classes_, n_features_in_, feature_names_in_

    References
    ----------
    Hou & Hero, Sequential maximum margin classifiers for partially labeled data, 2018, Theorem 1
    and its corollaries, with the exact bias; Jaakkola, Meila & Jebara, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MEDClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = MEDClassifier(kernel="linear").fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[0.2], [2.8]])
    array(['a', 'b'], dtype='<U1')
    >>> model.partial_fit([[1.4]], ["b"]).predict([[1.45]])
    array(['b'], dtype='<U1')
    """

    classes_: NDArray[Any]
    stream_: Array

    def __init__(
        self,
        C: float = 100.0,
        *,
        amplitude: float = 0.01,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        class_weight: Any = None,
        bias_rule: str = "exact",
        schedule: str = "sqrt",
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.amplitude = amplitude
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.bias_rule = bias_rule
        self.schedule = schedule
        self.tol = tol
        self.max_iter = max_iter

    def _check_params(self) -> None:
        for name in ("C", "amplitude", "tol"):
            if not is_number(getattr(self, name), 0.0, np.inf):
                raise ValueError(
                    f"{name} must be a positive finite number, got {getattr(self, name)!r}"
                )
        if self.C <= 1.0:
            raise ValueError(
                f"C must be above 1, got {self.C!r}: at C <= 1 no row has any weight and nothing "
                "is learned; for a softer margin make the amplitude smaller"
            )
        if not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a positive number of steps: {self.max_iter!r}")
        for name, known in (("bias_rule", ("exact", "median")), ("schedule", ("sqrt", "constant"))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be {known[0]!r} or {known[1]!r}, got {getattr(self, name)!r}"
                )

    # ------------------------------------------------------------------ learning
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,) alone, whatever was seen before."""
        before = dict(vars(self))
        try:
            self._check_params()
            X, y = read_rows(self, X, y)
            given = read_labels(y, self.class_weight, sample_weight)
            given.check_two()
            self.classes_ = given.classes
            self._begin(X, given.weights)
            self._absorb(X, given.codes, given.weights, float(self.C))
            return self
        except BaseException:
            self.__dict__ = before
            raise

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch X (n, d), y (n,), which may have rows of one class only.

        ``classes`` are all labels that will ever occur, for the first call: without them they are
        those of its batch. If anything fails, the machine stays as it was.
        """
        before = dict(vars(self))
        try:
            self._check_params()
            first = not hasattr(self, "classes_")
            X, y = read_rows(self, X, y, reset=first)
            if self._precomputed():
                raise ValueError(
                    "a precomputed kernel says nothing of rows to come: give partial_fit the "
                    "kernel itself, or use fit"
                )
            if isinstance(self.class_weight, str):
                raise ValueError(
                    f"class_weight={self.class_weight!r} needs all rows at once: give a dict"
                )
            self.classes_ = first_classes(y, classes, getattr(self, "classes_", None))
            codes = known_codes(y, self.classes_)
            weights = row_weights(self.class_weight, self.classes_, codes, sample_weight)
            if first:
                self._begin(X, weights)
            self._absorb(X, codes, weights, self._slack())
            self._merge()
            return self
        except BaseException:
            self.__dict__ = before
            raise

    def _slack(self) -> float:
        """C of the batch that comes."""
        t = self.stream_[0] + 1.0
        share = 1.0 if self.schedule == "constant" else np.sqrt(t)
        return float(min(self.C, max(self.C / share, FLOOR)))

    def _begin(self, X: Array, weights: Array) -> None:
        """The state before the first batch: the kernel, frozen, and f = 0."""
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        self.kernel_ = kernel if kernel.pairwise else float(self.amplitude) * kernel
        self.support_ = np.zeros(0, dtype=np.intp)
        self.support_vectors_, self.dual_coef_ = np.zeros((0, X.shape[1])), np.zeros((k, 0))
        self.intercept_, self.stream_ = np.zeros(k), np.zeros(2)

    def _absorb(self, X: Array, codes: Index, weights: Array, C: float) -> None:
        """Add one batch: Theorem 1 for each machine, on the same kernel matrix."""
        first, total = merged(X, codes.astype(np.float64), weights)
        order = np.argsort(first)
        first, total = first[order], total[order]
        points = np.ascontiguousarray(X[first])
        require_memory(len(first), 3)
        K = self._gram(X, points, first)
        f0 = np.zeros((len(first), len(self.intercept_)))
        if len(self.support_):
            f0 = expand(self.kernel_, self.support_vectors_, self.dual_coef_, points, False)
        Y = one_vs_rest(codes[first], len(self.classes_))[:, -len(self.intercept_) :]
        coefficients, biases, reports = [], [], []
        for y, f, b in zip(np.ascontiguousarray(Y.T), f0.T, self.intercept_, strict=True):
            found = discriminate(
                K,
                y,
                C,
                weights=total,
                offset=f,
                previous=float(b),
                tol=self.tol,
                max_iter=self.max_iter,
            )
            held = found.alpha > 0.0
            median = self.bias_rule == "median" and held.any()
            coefficients.append(y * found.alpha)
            biases.append(np.median((y - found.latent)[held]) if median else found.bias)
            reports.append(found.report)
        self._append(first, points, np.array(coefficients))
        self.intercept_ = np.array(biases, dtype=np.float64)
        self.stream_ = self.stream_ + np.array([1.0, len(X)])
        self._tell(reports, C)

    def _gram(self, X: Array, points: Array, first: Index) -> Array:
        if not self.kernel_.pairwise:
            return self.kernel_(points)
        if not isinstance(self.kernel_, Precomputed) or X.shape[1] < len(X):
            raise ValueError(
                "a precomputed kernel needs the square matrix of all training rows as X, and "
                "stands alone; use Precomputed(matrix) inside a composed kernel"
            )
        return np.asarray(self.amplitude * X[np.ix_(first, first)])

    def _append(self, first: Index, points: Array, coefficients: Array) -> None:
        """Take the support vectors of a batch into the expansion; coefficients is (k, n)."""
        held = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        if self.kernel_.pairwise:
            coefficients, self.kernel_ = self.amplitude * coefficients, Precomputed()
        self.support_ = np.concatenate([self.support_, first[held] + int(self.stream_[1])])
        self.support_vectors_ = np.concatenate([self.support_vectors_, points[held]])
        self.dual_coef_ = np.column_stack([self.dual_coef_, coefficients[:, held]])

    def _merge(self) -> None:
        """Merge the points of a linear kernel: sum_i c_i k(x_i, .) = k(sum_i c_i x_i, .)."""
        kernel = self.kernel_.kernel if isinstance(self.kernel_, Scale) else self.kernel_
        if not isinstance(kernel, Linear):
            return
        centre = 0.0 if kernel.centre is None else np.asarray(kernel.centre, dtype=np.float64)
        k = len(self.dual_coef_)
        self.support_vectors_ = centre + self.dual_coef_ @ (self.support_vectors_ - centre)
        self.dual_coef_, self.support_ = np.eye(k), np.arange(k, dtype=np.intp)

    def _tell(self, reports: list[dict[str, Any]], C: float) -> None:
        report = {
            "converged": all(r["converged"] for r in reports),
            "iterations": max(r["iterations"] for r in reports),
            "objective": [r["objective"] for r in reports],
            "gap": max(r["gap"] for r in reports),
            "precision": "float64",
            "C": C,
            "batches": int(self.stream_[0]),
            "bias": self.bias_rule,
        }
        if C < self.C and C <= FLOOR:
            report["schedule"] = (
                f"C / sqrt(t) has reached its floor {FLOOR}: from here on every batch counts the "
                "same; start with a larger C and a smaller amplitude for a longer stream"
            )
        self.report_, self.n_iter_ = report, max(1, report["iterations"])
        if not report["converged"]:
            warnings.warn(
                f"MEDClassifier ended after {report['iterations']} steps (max_iter={self.max_iter})"
                f" with a duality gap of {report['gap']:.2g}, above tol={self.tol:g}: raise "
                "max_iter, choose a larger tol or scale the columns",
                ConvergenceWarning,
                stacklevel=OUTSIDE,
            )

    # ------------------------------------------------------------------ predictions
    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._margins(X)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        f = self.decision_function(X)
        index = (f > 0.0).astype(int) if f.ndim == 1 else f.argmax(axis=1)
        return np.asarray(self.classes_[index])

    @property
    def predict_proba(self) -> Any:
        """Absent, with the reason."""
        raise AttributeError(
            "maximum entropy discrimination has no probabilities: its variance does not shrink "
            "with the data; wrap it in sklearn.calibration.CalibratedClassifierCV"
        )

    # ------------------------------------------------------------------ model files
    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        return ("stream_",)

    @classmethod
    def _check_state(cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        super()._check_state(manifest, arrays)
        stream = arrays.get("extra.stream_", np.zeros(0))
        whole = stream.shape == (2,) and np.array_equal(stream, np.floor(stream))
        if not (whole and np.all(stream >= 1.0)):
            raise ValueError("stream_ must be the numbers of batches and rows")
