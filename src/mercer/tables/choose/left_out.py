"""LeftOutTable: rows predicted from others, what that is worth, and rows that are repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from mercer.core.arrays import Array, Index, group_rows
from mercer.estimators.shared.labels import binary_targets, one_vs_rest
from mercer.estimators.shared.predictions import log_probabilities
from mercer.left_out.figures import class_error, coverage, interval_error
from mercer.left_out.together import left_out_together
from mercer.losses import Gaussian
from mercer.plots.rows import normal_log_density, recorded
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.weights import fitted
from mercer.tables.quality import quality

FOLDS = 5
Folds = list[tuple[Index, Index]]  # rows to learn from, and rows to predict
TINY = float(np.finfo(float).tiny)
EPSILON = float(np.finfo(float).epsneg)


@dataclass(frozen=True)
class LeftOutTable:
    """Predictions of rows by machines that did not see them.

    Attributes
    ----------
    y : (n,) the targets, or the codes of the classes.
    log_density : (n,) the log density, or log probability, of each target.
    mean, std : (n,) of a quantity, None for classes.
    proba : (n, k) of classes, None for a quantity.
    by : "leave-one-out", from one fit with its hyperparameters kept; "leave-one-out, nested", by
        hyperparameters that other rows have found; or "5 folds".
    weights : (n,) how often each row counts in the figures; None: once.
    same : (n,) of classes: equal numbers for rows of equal inputs; None: all inputs are different.
    charge : nats per row that the score is less than the mean of ``log_density``, since the machine
        was tuned on these rows too; 0 where the figures are free of that.
    below : (n,) P(Y <= y) of a quantity whose distribution is not that of mean and std; else None.
    """

    y: Array
    log_density: Array
    mean: Any
    std: Any
    proba: Any
    by: str
    weights: Array | None = None
    same: Index | None = None
    charge: float = 0.0
    below: Array | None = None

    @property
    def codes(self) -> Index:
        """The class of each row as a whole number, (n,)."""
        return self.y.astype(np.intp)

    @property
    def folds(self) -> int:
        """In how many folds the figures were made; 0: in some other way."""
        count, _, how = self.by.partition(" ")
        return int(count) if how.startswith("folds") else 0

    @property
    def score(self) -> float:
        """The mean log predictive density, less what is charged: greater is better.

        That of a quantity is none above what the steps allow in which it was written down.
        """
        whole = self.proba is None
        each = recorded(self.log_density, self.y) if whole else self.log_density
        return self._mean(each) - self.charge

    @property
    def error(self) -> float:
        """Root mean squared error, or the share of wrong classes."""
        if self.proba is None:
            return float(np.sqrt(self._mean((self.y - self.mean) ** 2)))
        return self._mean(self.proba.argmax(axis=1) != self.y)

    @property
    def calibration(self) -> float:
        """By how much stated and observed frequencies differ, on average; 0 is honest.

        Quantities: over the central intervals of levels 0.1 to 0.9. Classes: the probability of
        the predicted class against how often it is right, in ten groups of like weight; rows of
        equal inputs are judged together, as new rows with these inputs would be.
        """
        if self.proba is None:
            return interval_error(*self.normal, self.weights)
        return class_error(self.proba, self.codes, self.weights, self.same)

    @property
    def quality(self) -> dict[str, float]:
        """The figures of :func:`mercer.tables.quality.quality`; classes have none."""
        if self.proba is not None:
            return {}
        found = quality(self.y, self.mean, self.std, self.log_density, self.weights)
        share = float(coverage(*self.normal, np.array([0.9]), self.weights)[0])
        return found | {"coverage90": share, "log_density": self.score}

    @property
    def normal(self) -> tuple[Array, Array, Array]:
        """What is inside which central interval, as y, mean and std of normal distributions."""
        if self.below is None:
            return self.y, self.mean, self.std
        z = ndtri(np.clip(self.below, TINY, 1.0 - EPSILON))
        return z, np.zeros(len(z)), np.ones(len(z))

    def _mean(self, values: Array) -> float:
        return float(np.average(values, weights=self.weights))


def of_quantity(
    y: Array, mean: Any, std: Any, log_density: Any, by: str, weights: Array | None = None
) -> LeftOutTable:
    """Return the figures of a quantity."""
    density, mean, std = (np.asarray(a) for a in (log_density, mean, std))
    return LeftOutTable(y, density, mean, std, None, by, weights)


def of_classes(
    codes: Array, proba: Array, by: str, weights: Array | None = None, X: Array | None = None
) -> LeftOutTable:
    """Return the figures of classes, ``codes`` (n,) and ``proba`` (n, k), at inputs X (n, d)."""
    chosen = proba[np.arange(len(codes)), codes.astype(np.intp)]
    density, same = np.log(np.maximum(chosen, TINY)), None
    if X is not None:
        first, group = group_rows(X)
        same = group if len(first) < len(X) else None
    return LeftOutTable(codes, density, None, None, proba, by, weights, same)


def own_left_out(
    machine: Any,
    X: Array,
    y: Array,
    k: int,
    weights: Array | None = None,
    structure: RowStructure | None = None,
) -> LeftOutTable | None:
    """Return what a fitted machine says of its rows left out, or None if it says nothing.

    X (n, d) are its inputs, y (n,) the targets or the codes of k classes, ``weights`` (n,) those
    of the fit, all positive: of a row of weight 2, one of the two is left out. Rows with a
    ``structure`` are left out by groups, exactly where noise and posterior are Gaussian.
    """
    if structure is not None:
        apart = k or structure.groups is None
        return None if apart else _together(machine, X, y, structure, weights)
    by = "leave-one-out"
    if hasattr(machine, "held_out_proba"):
        proba, by = machine.held_out_proba(y)
        return of_classes(y, proba, by, weights, X if len(X) == len(y) else None)
    loo = getattr(machine, "loo_", None)
    # relevance vectors: the figures hold the functions that the rows themselves have chosen
    if loo is None or hasattr(machine, "relevance_rows_"):
        return None
    if k == 0:
        return of_quantity(y, loo.mean, loo.std, loo.log_density, by, weights)
    proba, codes = getattr(loo, "proba", None), y.astype(np.intp)
    if proba is None and getattr(loo, "cavity", None) is not None:  # margins y f
        Y = binary_targets(codes)[:, None] if k == 2 else one_vs_rest(codes, k)
        proba = np.exp(log_probabilities(machine.loss_, loo.cavity * Y, None))
    elif proba is None and getattr(loo, "log_density", None) is not None:
        # of each label against the others, by least squares
        own = np.reshape(loo.log_density, (len(y), -1))
        proba = np.where(np.arange(k) == codes[:, None], np.exp(own), -np.expm1(own))
        proba = proba if k == 2 else proba / proba.sum(axis=1, keepdims=True)
    return None if proba is None else of_classes(y, proba, by, weights, X)


def by_folds(
    machine: Any,
    X: Array,
    labels: Any,
    y: Array,
    k: int,
    seed: int,
    folds: int = FOLDS,
    weights: Array | None = None,
    structure: RowStructure | None = None,
) -> LeftOutTable:
    """Return predictions of each fifth of the rows by a machine fitted to the others.

    Folds of rows with a ``structure`` are groups of them, or stretches of time after the others;
    the first stretch has nothing before it, and no weight.
    """
    if structure is not None:
        pairs = structure.folds(y, k, seed, folds)
        left = in_pairs(lambda a, b: _part(machine, X, labels, weights, a, b), y, k, pairs, weights)
        how = f"{len(pairs)} folds of groups" if structure.groups is not None else structure.by
        return replace(left, by=how)
    folds = min(folds, len(y) if k == 0 else int(np.bincount(y.astype(np.intp), minlength=k).min()))
    if folds < 2:
        raise ValueError("a class has one row only: it cannot be left out")

    def part(train: Index, test: Index) -> tuple[Any, Array]:
        return _part(machine, X, labels, weights, train, test)

    left = in_turn(part, y, k, seed, folds, weights)
    return of_classes(y, left.proba, left.by, weights, X) if k else left


def _part(
    machine: Any, X: Array, labels: Any, weights: Array | None, train: Index, test: Index
) -> tuple[Any, Array]:
    """Return a machine fitted to some rows, and the inputs of others."""
    counts = None if weights is None else weights[train]
    return fitted(clone(machine), X[train], labels[train], counts), X[test]


def _together(
    machine: Any, X: Array, y: Array, structure: RowStructure, weights: Array | None
) -> LeftOutTable | None:
    """Return every row from those of other groups, by the blocks of one inverse; or None."""
    posteriors, report = getattr(machine, "posteriors_", None), getattr(machine, "report_", None)
    loss, units = getattr(machine, "loss_", None), getattr(machine, "units_", None)
    if not posteriors or len(posteriors) > 1 or type(loss) is not Gaussian or units is None:
        return None
    if "inducing" in (report or {}) or (report or {}).get("gram") == "iterative":
        return None
    posterior, inside = posteriors[0], units.standardised(X)
    values = units.y_standardised(y[:, None])[:, 0]
    scale = float(units.y_scale[0])
    noise = float(loss.noise) / scale**2
    middle = float(np.average(values, weights=weights))
    assert structure.groups is not None
    mean, variance = left_out_together(
        np.asarray(posterior.parent(inside)),
        values,
        noise,
        structure.groups,
        weights=weights,
        basis=None if posterior.basis is None else np.asarray(posterior.basis(inside)),
        centred=abs(middle) < 1e-9 and float(units.y_shift[0]) != 0.0,
    )
    if not (np.all(variance > 0.0) and np.all(np.isfinite(mean))):
        return None
    mean, std = units.y_in_user_units(mean[:, None])[:, 0], scale * np.sqrt(variance)
    return of_quantity(y, mean, std, normal_log_density(y, mean, std), structure.by, weights)


def in_turn(
    part: Callable[..., Any], y: Array, k: int, seed: int, folds: int, weights: Array | None
) -> LeftOutTable:
    """Return predictions of each fold of y (n,): ``part(train, test)`` is a machine, its inputs."""
    return in_pairs(part, y, k, folds_of(y, k, seed, folds), weights)


def folds_of(y: Array, k: int, seed: int, folds: int) -> Folds:
    """Return folds of y (n,), numbers, or codes of k classes of which each fold has its share."""
    kind = StratifiedKFold if k else KFold
    return list(kind(folds, shuffle=True, random_state=seed).split(y, y))


def in_pairs(
    part: Callable[..., Any],
    y: Array,
    k: int,
    pairs: Sequence[tuple[Index, Index]],
    weights: Array | None,
) -> LeftOutTable:
    """Return predictions of y (n,), for pairs of rows to learn from and rows to predict.

    ``part(train, test)`` is a machine and its inputs. Rows that are never predicted have no weight;
    a class that the rows to learn from do not have counts as one of them, and one more.
    """
    mean, std, density = y.astype(np.float64), np.ones(len(y)), np.zeros(len(y))
    proba = np.full((len(y), max(k, 1)), 1.0 / max(k, 1))
    seen = np.zeros(len(y), dtype=bool)
    for train, test in pairs:
        machine, X = part(train, test)
        seen[test] = True
        if k:
            there = np.unique(y[train]).astype(np.intp)
            found = np.zeros((len(test), k))
            found[:, there] = np.asarray(machine.predict_proba(X))
            if len(there) < k:
                new = 1.0 / (len(train) + k)
                found *= 1.0 - new * (k - len(there))
                found[:, np.setdiff1d(np.arange(k), there)] = new
            proba[test] = found
        else:
            left = predicted_by(machine, X, y[test], k)
            mean[test], std[test], density[test] = left.mean, left.std, left.log_density
    by = f"{len(pairs)} folds"
    if not seen.all():
        weights = seen * (np.ones(len(y)) if weights is None else weights)
    if k:
        return of_classes(y, proba, by, weights)
    return of_quantity(y, mean, std, density, by, weights)


def trimmed(left: LeftOutTable, rows: Index) -> tuple[LeftOutTable, Index]:
    """Return the figures and numbers (n,) of the rows that have a weight."""
    if left.weights is None or np.all(left.weights > 0.0):
        return left, rows
    kept = left.weights > 0.0
    weights = None if np.all(left.weights[kept] == 1.0) else left.weights[kept]
    names = ("y", "log_density", "mean", "std", "proba", "same", "below")
    each: Any = {n: None if (v := getattr(left, n)) is None else v[kept] for n in names}
    return replace(left, weights=weights, **each), rows[kept]


def predicted_by(
    machine: Any, X: Array, y: Array, k: int, weights: Array | None = None
) -> LeftOutTable:
    """Return the figures of rows X (n, d) that a fitted machine did not see."""
    by = f"{len(y)} rows held out"
    if k:
        return of_classes(y, np.asarray(machine.predict_proba(X)), by, weights, X)
    mean, std = machine.predict(X, return_std=True)
    if not np.all(np.isfinite(std)):
        std = machine.predict_spread(X)
    return of_quantity(y, mean, std, machine.predictive_log_density(X, y), by, weights)


CHECKED = 500  # rows at most on which a machine must be able to predict


def check_predictions(machine: Any, X: Array, k: int) -> None:
    """Refuse a fitted machine that cannot predict its own rows X (n, d), of k classes or none.

    Means and intervals, or probabilities, must be finite: whatever a fit returns can predict.
    """
    some = X[:: -(-len(X) // CHECKED)]
    if k:
        found = np.atleast_2d(machine.predict_proba(some))
        fine = np.isfinite(found).all(axis=1) & (np.abs(found.sum(axis=1) - 1.0) < 1e-6)
    else:
        mean, (low, high) = machine.predict(some), machine.predict_interval(some)
        fine = np.isfinite(mean) & np.isfinite(low) & np.isfinite(high) & (low <= high)
    if not np.all(fine):
        raise ValueError(f"{int((~fine).sum())} of its own rows have no finite prediction")


def repeated(X: Array) -> int:
    """Return how many rows of X (n, d) have the inputs of an earlier one."""
    return len(X) - len(group_rows(X)[0])


def note_of_repeats(left: LeftOutTable, X: Array) -> list[str]:
    """Return what to expect of new inputs; ``left`` are the figures of the rows X (n, d)."""
    _, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    new: NDArray[np.bool_] = counts[place.ravel()] == 1
    if not new.any() or new.all():
        return []
    score = float(np.mean(recorded(left.log_density, left.y)[new]))
    return [
        f"{int((~new).sum())} rows share their inputs with another and are predicted from it; the "
        f"score of the {int(new.sum())} others is {score:.4g}: that is what to expect of new inputs"
    ]
