"""Labels: classes as integer codes and as -1 / +1 targets, and what each row counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.arrays import Array, Index
from mercer.estimators.table import check_weights


@dataclass(frozen=True)
class Labelled:
    """The labels of a fit.

    Attributes
    ----------
    classes : (k,) the labels that occur, sorted.
    codes : (n,) the class of each row as 0 .. k-1.
    rows, weights : (n,) the sample weights, and these times the class weights.
    """

    classes: NDArray[Any]
    codes: Index
    rows: Array
    weights: Array

    def check_two(self) -> None:
        """Refuse rows that all belong to one class once those of weight zero are left out."""
        if len(np.unique(self.codes[self.weights > 0.0])) < 2:
            raise ValueError("all rows of positive weight belong to one class; two are needed")

    def check_present(self) -> None:
        """Refuse a class whose rows all have weight zero: nothing is known about it."""
        present = np.bincount(self.codes, self.weights, len(self.classes))
        if np.any(present == 0.0):
            absent = self.classes.tolist()[int(np.argmin(present))]
            raise ValueError(f"all rows of the class {absent!r} have weight zero: drop them")


def read_labels(y: Any, class_weight: Any, sample_weight: Any) -> Labelled:
    """Return what the labels y (n,) say, with :func:`row_weights`; refuse fewer than two classes.

    Examples
    --------
    >>> read_labels(["no", "yes", "no"], {"yes": 2.0}, None).weights
    array([1., 2., 1.])
    """
    classes, codes = encode(y)
    weights = row_weights(class_weight, classes, codes, sample_weight)
    return Labelled(classes, codes, check_weights(sample_weight, len(codes)), weights)


def encode(y: Any) -> tuple[NDArray[Any], Index]:
    """Return (classes, codes): the sorted classes (k,) and the class of each row as 0 .. k-1.

    Examples
    --------
    >>> encode(["no", "yes", "no"])
    (array(['no', 'yes'], dtype='<U3'), array([0, 1, 0]))
    """
    labels = column_or_1d(y, warn=True)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise TypeError(
            "labels are sorted, and those of y are of kinds that have no order among each other: "
            f"{', '.join(kinds)}; make them all strings or all numbers, e.g. y.astype(str)"
        ) from error
    check_classification_targets(labels)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes.tolist()[0]!r}: a classifier needs rows of at least "
            "two classes"
        )
    return classes, np.asarray(codes, dtype=np.intp)


def binary_targets(codes: Index) -> Array:
    """Return -1 for the first class and +1 for the second, shape (n,)."""
    return np.where(codes == 1, 1.0, -1.0)


def one_vs_rest(codes: Index, k: int) -> Array:
    """Return +1 in the column of each row's class and -1 elsewhere, shape (n, k)."""
    return np.where(codes[:, None] == np.arange(k), 1.0, -1.0)


def decided(classes: NDArray[Any], f: Array) -> NDArray[Any]:
    """Return the class of each row: by the sign of f (q,), or the largest of f (q, k)."""
    index = (f > 0.0).astype(np.intp) if f.ndim == 1 else f.argmax(axis=1)
    return np.asarray(classes[index])


def row_weights(
    class_weight: Any, classes: NDArray[Any], codes: Index, sample_weight: Any = None
) -> Array:
    """Return sample weight times class weight of each row, shape (n,).

    ``class_weight`` is None, "balanced" (n / (k * rows of the class), as in scikit-learn) or a
    mapping from class to weight, 1 where a class is missing; a class that does not occur is
    refused.
    """
    weights = check_weights(sample_weight, len(codes))
    if class_weight is None:
        return weights
    k = len(classes)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be None, 'balanced' or a dict: {class_weight!r}")
        by_class = len(codes) / (k * np.bincount(codes, minlength=k))
        return np.asarray(weights * by_class[codes])
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict: {class_weight!r}")
    known = dict(zip(classes.tolist(), range(k), strict=True))
    by_class = np.ones(k)
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
