"""The stream behind MEDClassifier: what is kept of the rows seen, and one batch more.

Theory (M4).

One batch of maximum entropy discrimination for several machines, and what it says left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_memory
from mercer.estimators.discrimination.calibration import Calibrated
from mercer.estimators.discrimination.report import MEDReport
from mercer.estimators.shared.labels import one_vs_rest
from mercer.estimators.shared.stream import freeze
from mercer.estimators.shared.table import merged_rows, read_any_inputs
from mercer.estimators.support_vector.base import PREDICT_BYTES, SupportVectorMachine, expand
from mercer.inference.med import discriminate
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.features.fourier import is_sparse, product

FOLDS = 5


@dataclass(frozen=True)
class MEDBatch:
    """A batch with the kernel matrix of its rows and the scores before it.

    Attributes
    ----------
    K : (n, n) kernel matrix.
    Y : (n, k) labels -1 and +1, a column for each machine.
    weights : (n,) weights of the rows.
    before : (n, k) f0, the scores before the batch, without bias.
    biases : (k,) the biases before it.
    """

    K: Array
    Y: Array
    weights: Array
    before: Array
    biases: Array

    def solve(
        self, C: float, rule: str, tol: float, max_iter: int
    ) -> tuple[Array, Array, list[dict[str, Any]]]:
        """Return y * alpha (k, n), the biases (k,) and a report for each machine: Theorem 1.

        ``rule`` is "exact", or "median": the paper's bias, that of y - f over the support vectors.
        """
        coefficients, biases, reports = [], [], []
        machines = zip(np.ascontiguousarray(self.Y.T), self.before.T, self.biases, strict=True)
        for y, f, b in machines:
            found = discriminate(
                self.K,
                y,
                C,
                weights=self.weights,
                offset=f,
                previous=float(b),
                tol=tol,
                max_iter=max_iter,
            )
            held = found.alpha > 0.0
            median = rule == "median" and held.any()
            coefficients.append(y * found.alpha)
            biases.append(np.median((y - found.latent)[held]) if median else found.bias)
            reports.append(found.report)
        return np.array(coefficients), np.array(biases, dtype=np.float64), reports

    def left_out(self, codes: Index, C: float, **options: Any) -> Array | None:
        """Return f without bias (n, k) of each row by a machine that has not seen it: five folds.

        The folds are stratified by ``codes`` (n,), fewer where a class has fewer rows; None if one
        has a single row. The scores before the batch are those of all folds.
        """
        counts = np.bincount(codes)
        folds = int(min(FOLDS, counts[counts > 0].min()))
        if folds < 2 or np.count_nonzero(counts) < 2:
            return None
        scores = np.empty(self.Y.shape)
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        for train, test in split.split(codes, codes):
            part = MEDBatch(
                np.ascontiguousarray(self.K[np.ix_(train, train)]),
                self.Y[train],
                self.weights[train],
                self.before[train],
                self.biases,
            )
            coefficients, _, _ = part.solve(C, **options)
            scores[test] = self.before[test] + self.K[np.ix_(test, train)] @ coefficients.T
        return scores


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
