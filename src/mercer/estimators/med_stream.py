"""The stream behind MEDClassifier: what is kept of the rows seen, and one batch more.

Theory (M4).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, Index
from mercer.estimators.frozen import freeze
from mercer.estimators.labels import one_vs_rest
from mercer.estimators.med_batch import MEDBatch
from mercer.estimators.med_calibration import Calibrated
from mercer.estimators.med_report import MEDReport
from mercer.estimators.sparse_rows import merged_rows, read_any_inputs
from mercer.estimators.sv_base import PREDICT_BYTES, SupportVectorMachine, expand
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.mapped import is_sparse, product
from mercer.linalg.memory import require_memory

FLOOR = 1.1  # below C = 1 nothing is learned, and just above it hardly anything


class MEDStream(Calibrated, MEDReport, SupportVectorMachine):
    """f as weights of the kernel's features where it offers some, else as an expansion."""

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "amplitude")
    classes_: NDArray[Any]
    stream_: Array
    feature_weights_: Array
    C: float
    amplitude: float
    bias_rule: str
    schedule: str
    tol: float
    max_iter: int

    def _slack(self) -> float:
        """C of the batch that comes."""
        t = self.stream_[0] + 1.0
        share = 1.0 if self.schedule == "constant" else np.sqrt(t)
        return float(min(self.C, max(self.C / share, FLOOR)))

    def _begin(self, X: Any, weights: Array) -> None:
        """The state before the first batch: the kernel, frozen, and f = 0."""
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        self.kernel_ = kernel if kernel.pairwise else float(self.amplitude) * kernel
        self.support_ = np.zeros(0, dtype=np.intp)
        self.support_vectors_, self.dual_coef_ = np.zeros((0, X.shape[1])), np.zeros((k, 0))
        sample = self.kernel_.features(X[:1])
        self.feature_weights_ = np.zeros((k, 0 if sample is None else sample.shape[1]))
        self.intercept_, self.stream_ = np.zeros(k), np.zeros(2)
        self._begin_calibration(k)
        freeze(self)

    def _absorb(self, X: Any, codes: Index, weights: Array, C: float) -> None:
        """Add one batch: Theorem 1 for each machine, on the same kernel matrix."""
        first, total = merged_rows(X, codes, weights)
        n, m = len(first), self.feature_weights_.shape[1]
        require_memory(n, 3 + -(-m // n) * (not is_sparse(X)))
        points = X[first]
        with np.errstate(over="ignore", invalid="ignore"):  # the solver refuses what is not finite
            F = self.kernel_.features(points) if m else None
            K = product(F, F) if m else self._gram(X, points, first)
        Y = one_vs_rest(codes[first], len(self.classes_))[:, -len(self.intercept_) :]
        batch = MEDBatch(K, Y, total, self._score(points, F), self.intercept_)
        options: dict[str, Any] = {
            "rule": self.bias_rule,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }
        coefficients, biases, reports = batch.solve(C, **options)
        # as long as f is zero its scores say nothing, whatever was seen (a single row, one class)
        fresh = not (len(self.support_) or self.feature_weights_.any())
        left: Array | None = batch.before
        if self.calibration is not None and fresh:
            left = batch.left_out(codes[first], C, **options)
        self._append(first, points, F, coefficients)
        self.intercept_ = biases
        self.stream_ = self.stream_ + np.array([1.0, X.shape[0]])
        held = int(np.count_nonzero(np.any(coefficients != 0.0, axis=0)))
        self._tell(reports, C, held, C < self.C and C <= FLOOR)
        self._calibrate(left, codes[first], total, "folds" if fresh else "scores before each batch")

    def _score(self, points: Any, F: Any) -> Array:
        """Return f without bias (n, k); F are the features of the points, None if there are none.

        Rows of a precomputed kernel come once only: f is zero before them.
        """
        if F is not None:
            return np.asarray(F @ self.feature_weights_.T)
        if not len(self.support_):
            return np.zeros((points.shape[0], len(self.intercept_)))
        return expand(self.kernel_, self.support_vectors_, self.dual_coef_, points, False)

    def _gram(self, X: Array, points: Array, first: Index) -> Array:
        if not self.kernel_.pairwise:
            return self.kernel_(points)
        if not isinstance(self.kernel_, Precomputed) or X.shape[1] < len(X):
            raise ValueError(
                "a precomputed kernel needs the square matrix of all training rows as X, and "
                "stands alone; use Precomputed(matrix) inside a composed kernel"
            )
        return np.asarray(self.amplitude * X[np.ix_(first, first)])

    def _append(self, first: Index, points: Any, F: Any, coefficients: Array) -> None:
        """Take the support vectors of a batch into f; coefficients is (k, n)."""
        if F is not None:  # w = sum_i y_i a_i phi(x_i): memory does not grow
            self.feature_weights_ = self.feature_weights_ + np.asarray(F.T @ coefficients.T).T
            return
        held = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        if self.kernel_.pairwise:
            coefficients, self.kernel_ = self.amplitude * coefficients, Precomputed()
        self.support_ = np.concatenate([self.support_, first[held] + int(self.stream_[1])])
        self.support_vectors_ = np.concatenate([self.support_vectors_, points[held]])
        self.dual_coef_ = np.column_stack([self.dual_coef_, coefficients[:, held]])

    # ------------------------------------------------------------------ predictions
    def _takes_sparse(self) -> bool:
        given = self.kernel
        if isinstance(given, str):
            return given == "linear"
        return isinstance(given, Kernel) and given.takes_sparse

    def _margins(self, X: Any) -> Array:
        """f (q, k) at new inputs, bias included."""
        check_is_fitted(self, "support_vectors_")
        if not self.feature_weights_.shape[1]:
            return super()._margins(X)
        return self._expanded(read_any_inputs(self, X, sparse=self._takes_sparse()))

    def _expanded(self, X: Any) -> Array:
        m = self.feature_weights_.shape[1]
        if not m:
            return super()._expanded(X)
        size = max(1, PREDICT_BYTES // (8 * m))
        starts = range(0, X.shape[0], size)
        parts = [self._score(None, self.kernel_.features(X[i : i + size])) for i in starts]
        return np.concatenate([np.zeros((0, len(self.intercept_))), *parts]) + self.intercept_
