"""Labels: classes as codes and as -1 / +1 targets, what each row counts, and rows without one."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.core.arrays import Array, Index, group_rows
from mercer.estimators.shared.table import check_weights
from mercer.losses.numbers.averages import log_averaged


@dataclass(frozen=True)
class Labelled:
    """The labels of a fit."""

    classes: NDArray[Any]  # (k,) the labels that occur, sorted
    codes: Index  # (n,) the class of each row as 0 .. k-1
    rows: Array  # (n,) the sample weights
    weights: Array  # (n,) these times the class weights
    of_all: Array | None = None  # (k,) the counts of a table of which these rows are a sample

    @property
    def counts(self) -> Array:
        """The rows (k,) of each class, by sample weight."""
        if self.of_all is not None:
            return self.of_all
        return np.asarray(np.bincount(self.codes, self.rows, len(self.classes)), dtype=np.float64)

    def check_two(self) -> None:
        """Refuse rows that all belong to one class once those of weight zero are left out."""
        if np.count_nonzero(np.bincount(self.codes, self.weights > 0.0)) < 2:
            raise ValueError("all rows of positive weight belong to one class; two are needed")

    def check_present(self) -> None:
        """Refuse a class whose rows all have weight zero: nothing is known about it."""
        present = np.bincount(self.codes, self.weights, len(self.classes))
        if np.any(present == 0.0):
            absent = self.classes.tolist()[int(np.argmin(present))]
            raise ValueError(f"all rows of the class {absent!r} have weight zero: drop them")


NO_LABELS = Labelled(np.empty(0), np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))


def read_labels(y: Any, class_weight: Any, sample_weight: Any) -> Labelled:
    """Return what the labels y (n,) say, with :func:`row_weights`; refuse less than two classes."""
    classes, codes = encode(y)
    weights = row_weights(class_weight, classes, codes, sample_weight)
    return Labelled(classes, codes, check_weights(sample_weight, len(codes)), weights)


def encode(y: Any) -> tuple[NDArray[Any], Index]:
    """Return (classes, codes): the sorted classes (k,) and the class of each row as 0 .. k-1."""
    labels = column_or_1d(y, warn=True)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise TypeError(
            "labels are sorted, and those of y are of kinds that have no order among each other: "
            f"{', '.join(kinds)}; make them all strings or all numbers, e.g. y.astype(str)"
        ) from error
    with np.errstate(invalid="ignore"):  # labels of 1e300 are no integers
        check_classification_targets(labels)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes.tolist()[0]!r}: a classifier needs rows of at least "
            "two classes"
        )
    return classes, np.asarray(codes, dtype=np.intp)


def signed_labels(y: Any) -> Array:
    """Return labels 0 and 1, or -1 and +1, as -1 and +1; for a curve of one probability."""
    given: Array = np.asarray(y, dtype=np.float64)
    if np.all((given == 0.0) | (given == 1.0)):
        return np.where(given == 1.0, 1.0, -1.0)
    if np.all(np.abs(given) == 1.0):
        return given
    raise ValueError(
        "a binary loss needs the labels 0 and 1 (or -1 and +1): encode the two classes so, or use "
        "GPClassifier, which takes any labels"
    )


def binary_targets(codes: Index) -> Array:
    """Return -1 for the first class and +1 for the second, shape (n,)."""
    return np.where(codes == 1, 1.0, -1.0)


def one_vs_rest(codes: Index, k: int) -> Array:
    """Return +1 in the column of each row's class and -1 elsewhere, shape (n, k)."""
    return np.where(codes[:, None] == np.arange(k), 1.0, -1.0)


def decided(classes: NDArray[Any], f: Array) -> NDArray[Any]:
    """Return the class of each row: by the sign of f (q,), or the largest of f (q, k).

    The first of equal ones wins, in ONNX graphs too.
    """
    if f.ndim == 1:
        return np.asarray(classes[(f > 0.0).astype(np.intp)])
    return np.asarray(classes[f.argmax(axis=1)])


def row_weights(
    class_weight: Any, classes: NDArray[Any], codes: Index, sample_weight: Any = None
) -> Array:
    """Return sample weight times class weight of each row, shape (n,).

    ``class_weight`` is None, "balanced" (n / (k * rows of the class), where a row of weight w
    counts as w rows and a class without any weight does not count) or a mapping from classes that
    occur to weights, 1 where a class is missing.
    """
    weights = check_weights(sample_weight, len(codes))
    if class_weight is None:
        return weights
    k = len(classes)
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(codes, weights, k)
        held = np.where(counts > 0.0, counts, np.inf)
        by_class = weights.sum() / (np.count_nonzero(counts) * held)
        return np.asarray(weights * by_class[codes])
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict: {class_weight!r}")
    known, by_class = {label: i for i, label in enumerate(classes.tolist())}, np.ones(k)
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight names the class {label!r}, which does not occur in y; "
                f"the classes are {classes.tolist()}"
            )
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"the weight of class {label!r} must be finite and >= 0: {weight!r}")
        by_class[known[label]] = weight
    return np.asarray(weights * by_class[codes])


def replaced(weights: Array, known: NDArray[np.bool_], counts: Array) -> Array:
    """Return the weights (n,) with the class weights in ``counts``, those of the known rows."""
    total = weights.copy()
    total[known] = counts
    return total


def split_labels(y: Any, n: int, mark: Any = None) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which of n rows have a label (n,), and the labels of those.

    None, NaN and ``mark``, if it is not None, stand for no label; y = None for none at all.

    Examples
    --------
    >>> split_labels(["b", None, "a"], 3)
    (array([ True, False,  True]), array(['b', 'a'], dtype='<U1'))
    >>> split_labels([1, -1, 0], 3, mark=-1)
    (array([ True, False,  True]), array([1, 0]))
    """
    if y is None:
        return np.zeros(n, dtype=bool), np.zeros(0)
    values = column_or_1d(_column(y), warn=True)
    if len(values) != n:
        raise ValueError(f"y has {len(values)} entries and X has {n} rows: one for each is needed")
    plain = values.dtype.kind in "biuSU"  # kinds that know no missing value
    if plain and mark is None:
        return np.ones(n, dtype=bool), values
    known = np.array([not _missing(v, mark) for v in values.tolist()], dtype=bool)
    labels = values[known]
    if values.dtype == object and not known.all():
        plain_labels = labels.tolist()
        if any(all(isinstance(v, kind) for v in plain_labels) for kind in (str, numbers.Real)):
            labels = np.array(plain_labels)  # as they would be without the gaps
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(known)[np.argmin(np.isfinite(labels))])
        raise ValueError(f"Input y contains infinity in row {row}: no label; NaN marks no label")
    return known, labels


def _column(y: Any) -> Any:
    """Keep None and NaN in a list what they are: NumPy turns NaN among texts into a text."""
    if isinstance(y, (list, tuple)) and any(_missing(v, None) for v in y):
        values = np.empty(len(y), dtype=object)
        values[:] = y
        return values
    return y


def _missing(value: Any, mark: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    nan = isinstance(value, (float, np.floating)) and bool(value != value)
    return nan or (mark is not None and bool(value == mark))


@dataclass(frozen=True)
class Vertices:
    """The distinct rows of a partly labelled table.

    Equal rows with different labels are one point with several labels.
    """

    points: Array  # (n, d) the distinct rows
    rows: Index  # (n,) the first row of the table equal to each
    at: Index  # (l,) the point of each label
    codes: Index  # (l,) its class
    weights: Array  # (l,) its total weight
    label: Index  # (u,) which of the l labels each known row of the table has, -1: weight zero


def merge_vertices(
    X: Array, weights: Array, known: NDArray[np.bool_], codes: Index, counts: Array
) -> Vertices:
    """Merge the equal rows of X (n, d); rows of weight zero are left out.

    ``weights`` (n,) are the sample weights; ``codes`` and ``counts`` class and weight of the rows
    that are ``known``, in order. The others count once, their copies included: one point each.
    """
    full, total = np.full(len(X), -1, dtype=np.intp), np.zeros(len(X))
    full[known], total[known] = codes, counts
    keep = np.flatnonzero(weights > 0.0)
    _, group = group_rows(X[keep])
    first = np.full(group.max(initial=-1) + 1, len(X), dtype=np.intp)
    np.minimum.at(first, group, keep)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    labelled = np.flatnonzero((full[keep] >= 0) & (total[keep] > 0.0))
    # groups are sorted: in which order a machine sees the labels does not depend on the table
    pairs = np.column_stack([group[labelled], full[keep[labelled]]])
    both, which = np.unique(pairs, axis=0, return_inverse=True)
    sums = np.zeros(len(both))
    np.add.at(sums, which.ravel(), total[keep[labelled]])
    points = np.ascontiguousarray(X[first[order]])
    label = np.full(len(X), -1, dtype=np.intp)
    label[keep[labelled]] = which.ravel()
    return Vertices(points, first[order], place[both[:, 0]], both[:, 1], sums, label[known])


# ---------------------------------------------------------------------- of streams
def class_logs(mean: Array, var: Array) -> Array:
    """Return log probabilities (q, k) of the classes from latent means and variances (q, m).

    One latent function is two classes; of several each is one class against the rest.
    """
    if mean.shape[1] == 1:  # the less probable class first: the other is what is left of one
        less = log_averaged(-np.abs(mean), var)
        more = np.where(mean == 0.0, less, np.log1p(-np.exp(less)))
        return np.hstack([np.where(mean < 0.0, more, less), np.where(mean < 0.0, less, more)])
    log_p = log_averaged(mean, var)
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def unseen(all_p: Array, log_p: Array, seen: NDArray[np.bool_], codes: Any) -> Array:
    """Return log_p (b, k), where a class is new with what a class not seen yet had.

    all_p (b, k + 1) has it last; classes that are new at the same time share it.
    """
    found, fresh = log_p.copy(), ~seen
    rows = fresh[codes]
    found[np.ix_(rows, fresh)] = all_p[rows, -1:] - np.log(max(int(fresh.sum()), 1))
    return found


def signs(codes: Any, k: int, grow: bool = False) -> Array:
    """Return the labels (b, m) as -1 and +1, one column for each latent function.

    If the classes ``grow``, the last is of classes that were not seen: all are -1.
    """
    if grow and k > 2:
        return one_vs_rest(codes, k + 1)
    if grow:
        return np.column_stack([binary_targets(codes), np.full(len(codes), -1.0)])
    return binary_targets(codes)[:, None] if k == 2 else one_vs_rest(codes, k)
