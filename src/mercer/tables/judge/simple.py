"""The two simplest models of a table: no inputs at all, and a straight line in every input."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from mercer.core.arrays import Array
from mercer.plots.rows import normal_log_density
from mercer.tables.choose.left_out import FOLDS, TINY, LeftOutTable, of_classes, of_quantity
from mercer.tables.data.structure import RowStructure

PENALTIES = np.logspace(-4.0, 6.0, 21)  # of the squared slopes, in units of the noise


class SimpleQuantity(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A Gaussian around the mean, or around a ridge line whose penalty leave-one-out chooses.

    With rows X (n, d) less their mean, weights w and X'wX = V diag(e) V', the hat matrix of the
    penalty a has the diagonal h_i = w_i (1/sum(w) + sum_j (X V)_ij^2 / (e_j + a)), and the residual
    of a row left out is r_i / (1 - h_i); of a weight above one, one copy is left out. The deviation
    is the root mean square of these residuals.

    Attributes
    ----------
    slopes_ : (d,); penalty_ : of their squares, in the unit of squared residuals.
    left_mean_, left_std_ : (n,) what is said of each row by the others, the penalty kept.
    """

    def __init__(self, line: bool = False) -> None:
        self.line = line

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Learn from X (n, d) and y (n,)."""
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        self.x_mean_, self.y_mean_ = np.average(X, 0, w), float(np.average(y, weights=w))
        Z, r = X - self.x_mean_, y - self.y_mean_
        one = np.minimum(w, 1.0)  # what is left out of each row
        base, self.slopes_ = one / w.sum(), np.zeros(X.shape[1])
        left, best = r / np.maximum(1.0 - base, 0.5), np.inf
        if self.line and np.any(Z**2 > 0.0):  # else too small for double precision: no line
            # of X'wX, or of the smaller sqrt(w) X X' sqrt(w), which has the same eigenvalues
            wide = X.shape[1] > len(y)
            root = np.sqrt(w)[:, None] * Z
            e, V = np.linalg.eigh(root @ root.T if wide else root.T @ root)
            e = np.maximum(e, 0.0)
            # sqrt(w) X V, of squared lengths e; the slopes of each direction
            U = V * np.sqrt(e) if wide else root @ V
            along = U.T @ (np.sqrt(w) * r)
            unit = max(float(e.mean()), np.finfo(float).tiny)
            for penalty in PENALTIES * unit:
                c = along / (e + penalty)
                h = np.minimum(base + one / w * (U**2 @ (1.0 / (e + penalty))), 1.0 - 1e-9)
                residuals = (r - U @ c / np.sqrt(w)) / (1.0 - h)
                score = float(w @ residuals**2)
                if score < best:
                    best, left, self.penalty_ = score, residuals, float(penalty)
                    if wide:
                        safe = np.where(e > 1e-12 * e.max(), np.sqrt(e), np.inf)
                        self.slopes_ = root.T @ (V @ (c / safe))
                    else:
                        self.slopes_ = V @ c
        floor = 1e-12 * float(np.average(r**2, weights=w)) or np.finfo(float).tiny
        square = w * left**2
        self.std_ = float(np.sqrt(max(square.sum() / w.sum(), floor)))
        rest = np.maximum(w.sum() - one, floor)
        self.left_mean_ = y - left
        self.left_std_ = np.sqrt(np.maximum((square.sum() - one * left**2) / rest, floor))
        return self

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Return the means of X (q, d), and with ``return_std`` the deviations, (q,) each."""
        mean = self.y_mean_ + (X - self.x_mean_) @ self.slopes_
        return (mean, np.full(len(X), self.std_)) if return_std else mean

    def predictive_log_density(self, X: Array, y: Array) -> Array:
        """Return the log densities of y (q,)."""
        return normal_log_density(y, self.predict(X), self.std_)


class SimpleClasses(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The shares of the classes, or scikit-learn's logistic regression with its own settings.

    ``k`` classes are numbered from zero. Each probability is drawn to the shares, (count + 1) /
    (n + k), as far as one row in n says: a class that no training row has is not impossible.
    """

    def __init__(self, k: int = 2, line: bool = False) -> None:
        self.k, self.line = k, line

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Learn from X (n, d) and the classes y (n,)."""
        codes = np.asarray(y).astype(np.intp)
        counts = np.bincount(codes, sample_weight, self.k)
        self.rows_ = float(counts.sum())
        self.shares_ = (counts + 1.0) / (self.rows_ + self.k)
        self.machine_ = None
        if self.line and np.count_nonzero(counts) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # near enough to compare with
                machine = LogisticRegression(max_iter=200)
                self.machine_ = machine.fit(X, codes, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities of the classes, (q, k)."""
        shares = np.tile(self.shares_, (len(X), 1))
        if self.machine_ is None:
            return shares
        proba = np.zeros_like(shares)
        proba[:, self.machine_.classes_] = self.machine_.predict_proba(X)
        return np.asarray((self.rows_ * proba + shares) / (self.rows_ + 1.0))


def constant(
    y: Array, k: int, weights: Array | None = None, structure: RowStructure | None = None
) -> LeftOutTable:
    """Return what a constant says of each row: the mean of the others, or the class shares.

    One of the rows that a weight above one stands for is left out, and all of a lighter row. With a
    ``structure`` the mean is that of other groups, or of earlier rows.
    """
    n = len(y)
    if structure is not None:
        return _constant_apart(y, k, weights, structure)
    w = np.ones(n) if weights is None else weights
    if k:
        shares = (np.bincount(y.astype(np.intp), w, k) + 1.0) / (w.sum() + k)
        return of_classes(y, np.tile(shares, (n, 1)), "class shares", weights)
    one, centre = np.minimum(w, 1.0), np.average(y, weights=w)
    r = y - centre
    total = w.sum() - one
    mean = -one * r / total
    variance = np.maximum((w @ r**2 - one * r**2) / total - mean**2, TINY)
    std = np.sqrt(np.maximum(variance, 1e-12 * np.average(r**2, weights=w)))
    density = normal_log_density(r, mean, std)
    return of_quantity(y, centre + mean, std, density, "leave-one-out", weights)


def _constant_apart(
    y: Array, k: int, weights: Array | None, structure: RowStructure
) -> LeftOutTable:
    w, seen = np.ones(len(y)) if weights is None else weights, np.zeros(len(y), dtype=bool)
    mean, std, proba = y.astype(np.float64), np.ones(len(y)), np.full((len(y), max(k, 1)), 1.0)
    proba /= max(k, 1)
    for train, test in structure.folds(y, k, 0, FOLDS):
        seen[test] = True
        if k:
            shares = np.bincount(y[train].astype(np.intp), w[train], k) + 1.0
            proba[test] = shares / shares.sum()
        else:
            mean[test] = np.average(y[train], weights=w[train])
            spread = float(np.average((y[train] - mean[test[0]]) ** 2, weights=w[train]))
            std[test] = np.sqrt(max(spread, TINY))
    counts = weights if seen.all() else seen * w
    if k:
        return of_classes(y, proba, "class shares", counts)
    density = normal_log_density(y, mean, std)
    return of_quantity(y, mean, std, density, structure.by, counts)
