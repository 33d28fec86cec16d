"""Rows that may be sparse: read, checked and merged as dense ones are."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import validate_data

from mercer.arrays import Array, Index
from mercer.estimators.sv_base import merged
from mercer.estimators.table import read_inputs, read_rows
from mercer.kernels.mapped import is_sparse


def read_any_rows(machine: Any, X: Any, y: Any, *, sparse: bool, reset: bool) -> tuple[Any, Any]:
    """Return X (n, d) and y as :func:`read_rows` does; a sparse X stays so if ``sparse`` allows."""
    if not (sparse and is_sparse(X)):
        return read_rows(machine, X, y, reset=reset)
    X, y = validate_data(machine, X, y, reset=reset, **_OPTIONS)
    return _canonical(X), y


def read_any_inputs(machine: Any, X: Any, *, sparse: bool) -> Any:
    """Return X (q, d) for predictions, as :func:`read_inputs` does; sparse if that is allowed."""
    if not (sparse and is_sparse(X)):
        return read_inputs(machine, X)
    return _canonical(validate_data(machine, X, reset=False, **_OPTIONS))


_OPTIONS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": False,  # checked here, where the sentence can name row and column
}


def _canonical(X: Any) -> Any:
    """Return X with sorted columns, none twice, no stored zeros and no value that is not finite."""
    X = csr_array(X)
    bad = np.flatnonzero(~np.isfinite(X.data))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        kind = "NaN" if np.isnan(X.data[bad[0]]) else "infinity (inf)"
        raise ValueError(
            f"Input X contains {kind} in column {X.indices[bad[0]]}, row {row} "
            f"({len(bad)} values not finite in all); drop these rows, or fill them first"
        )
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()  # the user's matrix stays as it is
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def merged_rows(X: Any, labels: Index, weights: Array) -> tuple[Index, Array]:
    """Merge equal rows with equal labels: (a row of each, total weights), by first occurrence.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> X = csr_array(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 2.0]]))
    >>> merged_rows(X, np.array([0, 1, 0]), np.ones(3))
    (array([0, 1]), array([2., 1.]))
    """
    if not is_sparse(X):
        first, total = merged(X, labels.astype(np.float64), weights)
        order = np.argsort(first)
        return first[order], total[order]
    found: dict[tuple[int, bytes, bytes], int] = {}
    firsts: list[int] = []
    totals: list[float] = []
    for i in np.flatnonzero(weights > 0.0):
        held = slice(X.indptr[i], X.indptr[i + 1])
        key = (int(labels[i]), X.indices[held].tobytes(), X.data[held].tobytes())
        place = found.setdefault(key, len(firsts))
        if place == len(firsts):
            firsts.append(int(i))
            totals.append(0.0)
        totals[place] += float(weights[i])
    return np.array(firsts, dtype=np.intp), np.array(totals)
