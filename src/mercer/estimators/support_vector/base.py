"""What support vector machines share: kernels by scikit-learn's names, merged rows, predictions."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._native import machines
from mercer.core.arrays import Array, Index
from mercer.estimators.shared.summary import warn_machine
from mercer.estimators.shared.table import read_inputs, read_rows
from mercer.estimators.support_vector.record import SupportRecord
from mercer.inference.smo import Optimum, Programme, maximise
from mercer.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, as_kernel
from mercer.kernels.features.fourier import is_sparse
from mercer.linalg.rows import RowCache

# Below this tolerance the rows of K are kept in double precision.
SINGLE_TOL = 1e-5
PREDICT_BYTES = 1 << 26
HARD_MARGIN_STEPS = 1_000_000
NAMED = ("rbf", "linear", "poly", "sigmoid")  # as in scikit-learn
SAMPLE = 200  # points by which a kernel of the user's own is judged


class SupportVectorMachine(SupportRecord, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind SVC, SVR and their kin; see there for the parameters."""

    support_: Index
    support_vectors_: Array
    dual_coef_: Array
    intercept_: Array
    kernel_: Kernel
    report_: dict[str, Any]
    _hard_margin: ClassVar[bool] = False  # whether C = inf has a meaning

    # ------------------------------------------------------------------ fit
    def _validated(self, X: Any, y: Any, supervised: bool = True) -> tuple[Array, Any]:
        if supervised:
            X, y = read_rows(self, X, y)
        else:
            X = read_inputs(self, X, fitted=False)
        self._check_params()
        self._table = X
        return X, y

    def _check_params(self) -> None:
        """Refuse parameters that no fit can have had."""
        for name in ("C", "tol", "cache_size"):
            value = getattr(self, name, 1.0)
            if not (isinstance(value, (int, float, np.number)) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if getattr(self, "C", 1.0) == np.inf and not self._hard_margin:
            raise ValueError("C must be finite: only SVC has a hard margin")
        limit = cast(Any, self).max_iter
        if not isinstance(limit, (int, np.integer)) or limit < -1:
            raise ValueError(f"max_iter must be a number of steps, or -1 for no limit: {limit!r}")

    def _resolved(self, X: Array, weights: Array) -> Kernel:
        """The kernel in the user's units, what it takes from data taken from X.

        scikit-learn's names and gamma mean the same; a sparse X has no use for gamma.
        """
        machine = cast(Any, self)
        names = getattr(self, "feature_names_in_", None)
        given = machine.kernel
        if isinstance(given, str) and given in NAMED:
            gamma = 1.0 if is_sparse(X) else _gamma(machine.gamma, X, weights)
            return _by_name(given, gamma, machine.degree, machine.coef0)
        kernel = as_kernel(given).__sklearn_clone__()
        names = None if names is None else [str(n) for n in names]
        return kernel.resolve(names, X.shape[1]).frozen(X, weights)

    def _rows(self, kernel: Kernel, points: Array, first: Index) -> tuple[Kernel, Array, RowCache]:
        """The kernel, its points and its rows; a precomputed X becomes a matrix and its indices."""
        machine = cast(Any, self)
        if kernel.pairwise:
            if not isinstance(kernel, Precomputed) or points.shape[1] < len(points):
                raise ValueError(
                    "a precomputed kernel needs the square matrix of all training rows as X, and "
                    "stands alone; use Precomputed(matrix) inside a composed kernel"
                )
            kernel = Precomputed(self._table)
            points = first[:, None].astype(np.float64)
        single = machine.tol >= SINGLE_TOL
        F = kernel.features(points)  # once for all rows, where the kernel has such a map
        inner, at = (kernel, points) if F is None else (Linear(), np.ascontiguousarray(F))
        return kernel, points, RowCache(inner, at, 1e6 * machine.cache_size, single=single)

    def _climb(self, programme: Programme, rows: RowCache) -> Optimum:
        machine = cast(Any, self)
        limit = machine.max_iter
        if getattr(machine, "C", 1.0) == np.inf and limit < 0:
            limit = HARD_MARGIN_STEPS  # classes that cannot be separated would climb forever
        optimum = maximise(programme, rows, tol=machine.tol, max_iter=limit)
        named = isinstance(machine.kernel, str) and machine.kernel in NAMED
        note = None if named else _indefinite(rows)
        if note is not None:
            optimum.report["kernel"] = note
        return optimum

    def _store(
        self, kernel: Kernel, X: Array, first: Index, coefficients: Array, bias: Array
    ) -> None:
        """Keep the points with a non-zero coefficient: coefficients (k, n), bias (k,)."""
        support = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        order = np.argsort(first[support])  # by row of the table
        support = support[order]
        self.kernel_ = kernel
        self.support_ = first[support]
        self.support_vectors_ = np.ascontiguousarray(X[support])
        if self._precomputed():
            self.kernel_ = Precomputed()
            self.support_vectors_ = np.ascontiguousarray(self._table[self.support_])
        del self._table
        self.dual_coef_ = np.ascontiguousarray(coefficients[:, support])
        self.intercept_ = bias
        self.n_iter_ = max(1, int(self.report_["iterations"]))
        warn_machine(type(self).__name__, self.get_params(deep=False), self.report_)

    def _precomputed(self) -> bool:
        given = cast(Any, self).kernel
        return (
            given == "precomputed"
            if isinstance(given, str)
            else isinstance(given, Precomputed) and given.pairwise
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed()
        return tags

    # ------------------------------------------------------------------ predictions
    def _margins(self, X: Any) -> Array:
        """f (q, k) at new inputs."""
        check_is_fitted(self, "support_vectors_")
        X = read_inputs(self, X)
        if self._precomputed():  # the columns of X are the training rows
            return np.asarray(X[:, self.support_] @ self.dual_coef_.T + self.intercept_)
        return self._expanded(X)

    def _expanded(self, X: Array) -> Array:
        """f (q, k) at points X (q, d)."""
        single = "float32" in self.report_.get("precision", "")
        return expand(self.kernel_, self.support_vectors_, self.dual_coef_, X, single) + (
            self.intercept_
        )


def joined(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One report for several machines: sums, the worst violation, all converged or not."""
    note = {k: v for k, v in reports[0].items() if k == "kernel"}
    return note | {
        "converged": all(r["converged"] for r in reports),
        "message": "; ".join(sorted({r["message"] for r in reports})),
        "iterations": sum(r["iterations"] for r in reports),
        "violation": max(r["violation"] for r in reports),
        "objective": [r["objective"] for r in reports],
        "rows_computed": max(r["rows_computed"] for r in reports),
        "precision": reports[0]["precision"],
    }


def expand(kernel: Kernel, points: Array, coefficients: Array, X: Array, single: bool) -> Array:
    """K(X, points) coefficients' (q, k) in batches; coefficients is (k, n)."""
    result = np.zeros((len(X), len(coefficients)))
    if not len(points):
        return result
    size = max(1, PREDICT_BYTES // (8 * len(points)))
    centre = points.mean(axis=0)
    form = kernel.as_rbf(points, centre) if single else None
    columns = None if form is None else np.ascontiguousarray(form[0].T, dtype=np.float32)
    for start in range(0, len(X), size):
        part = X[start : start + size]
        moved = None if columns is None else kernel.as_rbf(part, centre)
        if columns is None or moved is None:
            result[start : start + size] = kernel(part, points) @ coefficients.T
            continue
        out = np.empty((len(part), len(coefficients)))
        coordinates = np.ascontiguousarray(moved[0], dtype=np.float32)
        machines.rbf_expand(coordinates, columns, coefficients, out)
        result[start : start + size] = moved[1] * out
    return result


def _indefinite(rows: RowCache) -> str | None:
    """Say that the kernel is not positive semidefinite on some of the points, or None."""
    pick = np.unique(np.linspace(0, len(rows.points) - 1, SAMPLE).astype(np.intp))
    values = np.linalg.eigvalsh(rows.kernel(np.ascontiguousarray(rows.points[pick])))
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
