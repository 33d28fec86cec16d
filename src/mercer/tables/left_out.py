"""LeftOut: every training row predicted from others, and what these predictions are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from mercer.arrays import Array, Index
from mercer.estimators.class_probabilities import log_probabilities
from mercer.estimators.labels import binary_targets, one_vs_rest
from mercer.estimators.sigmoid import class_probabilities, shifted
from mercer.estimators.sv_base import merged

FOLDS = 5
TINY = float(np.finfo(float).tiny)
LEVELS = np.linspace(0.1, 0.9, 9)


@dataclass(frozen=True)
class LeftOut:
    """Predictions of rows by machines that did not see them.

    Attributes
    ----------
    y : (n,) the targets, or the codes of the classes.
    log_density : (n,) the log density, or log probability, of each target.
    mean, std : (n,) of a quantity, None for classes.
    proba : (n, k) of classes, None for a quantity.
    by : "leave-one-out", from one fit with its hyperparameters kept, or "5 folds".
    """

    y: Array
    log_density: Array
    mean: Array | None
    std: Array | None
    proba: Array | None
    by: str

    @property
    def score(self) -> float:
        """The mean log predictive density: greater is better."""
        return float(np.mean(self.log_density))

    @property
    def error(self) -> float:
        """Root mean squared error, or the share of wrong classes."""
        if self.proba is None:
            assert self.mean is not None
            return float(np.sqrt(np.mean((self.y - self.mean) ** 2)))
        return float(np.mean(self.proba.argmax(axis=1) != self.y))

    @property
    def calibration(self) -> float:
        """By how much stated and observed frequencies differ, on average; 0 is honest.

        Quantities: over the central intervals of levels 0.1 to 0.9. Classes: the probability of
        the predicted class against how often it is right, in ten groups of equal size.
        """
        if self.proba is None:
            assert self.mean is not None
            assert self.std is not None
            far = np.abs(self.y - self.mean) / self.std
            shares = (far[None, :] <= ndtri((1 + LEVELS) / 2)[:, None]).mean(axis=1)
            return float(np.abs(shares - LEVELS).mean())
        best, right = self.proba.max(axis=1), self.proba.argmax(axis=1) == self.y
        groups = np.array_split(np.argsort(best, kind="stable"), min(10, len(best)))
        gaps = [len(g) * abs(best[g].mean() - right[g].mean()) for g in groups]
        return float(sum(gaps) / len(best))


def of_quantity(y: Array, mean: Any, std: Any, log_density: Any, by: str) -> LeftOut:
    """Return the figures of a quantity."""
    return LeftOut(y, np.asarray(log_density), np.asarray(mean), np.asarray(std), None, by)


def of_classes(codes: Array, proba: Array, by: str) -> LeftOut:
    """Return the figures of classes, ``codes`` (n,) and ``proba`` (n, k)."""
    chosen = proba[np.arange(len(codes)), codes.astype(np.intp)]
    return LeftOut(codes, np.log(np.maximum(chosen, TINY)), None, None, proba, by)


def own_left_out(machine: Any, X: Array, y: Array, k: int) -> LeftOut | None:
    """Return what a fitted machine says of its rows left out, or None if it says nothing.

    X (n, d) are its inputs, y (n,) the targets or the codes of k classes.
    """
    by = "leave-one-out"
    given = getattr(machine, "held_out_proba", None)
    if given is not None:
        return of_classes(y, *given(y))
    if hasattr(machine, "_trained"):
        return of_classes(y, _support_proba(machine, X, y.astype(np.intp)), by)
    loo = getattr(machine, "loo_", None)
    if loo is None:
        return None
    if k == 0:
        return of_quantity(y, loo.mean, loo.std, loo.log_density, by)
    if hasattr(loo, "proba"):
        return of_classes(y, loo.proba, by)
    codes = y.astype(np.intp)
    if getattr(loo, "cavity", None) is not None:  # margins y f of a kernel classifier
        Y = binary_targets(codes)[:, None] if k == 2 else one_vs_rest(codes, k)
        return of_classes(y, np.exp(log_probabilities(machine.loss_, loo.cavity * Y, None)), by)
    if hasattr(loo, "log_density") and k == 2:  # of each label, by least squares
        own = np.exp(loo.log_density)
        return of_classes(
            y, np.where(np.arange(2) == codes[:, None], own[:, None], 1 - own[:, None]), by
        )
    return None


def _support_proba(machine: Any, X: Array, codes: Index) -> Array:
    """Return the sigmoid of the left-out outputs of a support vector machine, (n, k)."""
    first, _ = merged(X, codes.astype(np.float64), np.ones(len(X)))
    outputs = machine._trained.left_out(machine.kernel_, machine.bias)
    slope = float(machine.slope_[0])
    d = shifted(outputs, slope, machine.offsets_)
    p = class_probabilities(d[:, 0] if d.shape[1] == 1 else d, slope)
    if len(first) == len(X):
        out = np.empty_like(p)
        out[first] = p
        return out
    place = {(X[i].tobytes(), int(codes[i])): j for j, i in enumerate(first)}
    return np.asarray(p[[place[X[i].tobytes(), int(codes[i])] for i in range(len(X))]])


def by_folds(
    machine: Any, X: Array, labels: Any, y: Array, k: int, seed: int, folds: int = FOLDS
) -> LeftOut:
    """Return predictions of each fifth of the rows by a machine fitted to the others."""
    folds = min(folds, _smallest(y, k))
    if folds < 2:
        raise ValueError("a class has one row only: it cannot be left out")
    kind = KFold if k == 0 else StratifiedKFold
    split = kind(folds, shuffle=True, random_state=seed).split(X, y)
    mean, std, density = (np.empty(len(y)) for _ in range(3))
    proba = np.zeros((len(y), max(k, 1)))
    for train, test in split:
        part = clone(machine).fit(X[train], labels[train])
        if k:
            proba[test] = part.predict_proba(X[test])
            continue
        mean[test], std[test] = part.predict(X[test], return_std=True)
        density[test] = part.predictive_log_density(X[test], y[test])
    by = f"{folds} folds"
    return of_classes(y, proba, by) if k else of_quantity(y, mean, std, density, by)


def _smallest(y: Array, k: int) -> int:
    return len(y) if k == 0 else int(np.bincount(y.astype(np.intp), minlength=k).min())


def constant(y: Array, k: int) -> LeftOut:
    """Return what a constant says of each row: the mean of the others, or the class shares."""
    n = len(y)
    if k:
        shares = (np.bincount(y.astype(np.intp), minlength=k) + 1.0) / (n + k)
        return of_classes(y, np.tile(shares, (n, 1)), "class shares")
    mean = (y.sum() - y) / (n - 1)
    variance = np.maximum(((y**2).sum() - y**2) / (n - 1) - mean**2, TINY)
    variance = np.maximum(variance, 1e-12 * y.var())
    std = np.sqrt(variance)
    density = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    return of_quantity(y, mean, std, density, "leave-one-out")
