"""Partly labelled rows: which have a label, and the distinct points that make the graph."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from mercer.arrays import Array, Index
from mercer.estimators.table import group_rows


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
    if values.dtype == object and not known.all() and _alike(labels.tolist()):
        labels = np.array(labels.tolist())  # as they would be without the gaps
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
    if isinstance(value, (float, np.floating)) and value != value:
        return True
    return mark is not None and bool(value == mark)


def _alike(labels: list[Any]) -> bool:
    """Whether labels are all texts or all numbers."""
    return any(all(isinstance(v, kind) for v in labels) for kind in (str, numbers.Real))


@dataclass(frozen=True)
class Vertices:
    """The distinct rows of a partly labelled table.

    Attributes
    ----------
    points, rows : (n, d) the distinct rows, and the first row of the table (n,) equal to each.
    at, codes, weights : (l,) the labels: point, class and total weight. Equal rows with different
        labels are one point with several labels.
    """

    points: Array
    rows: Index
    at: Index
    codes: Index
    weights: Array


def merge_vertices(
    X: Array, weights: Array, known: NDArray[np.bool_], codes: Index, counts: Array
) -> Vertices:
    """Merge the equal rows of X (n, d); rows of weight zero are left out.

    ``weights`` (n,) are the sample weights; ``codes`` and ``counts`` are class and weight of the
    rows that are ``known``, in order. A row without a label counts once whatever its weight, and
    so do its copies: they are one point of the graph.
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
    return Vertices(points, first[order], place[both[:, 0]], both[:, 1], sums)
