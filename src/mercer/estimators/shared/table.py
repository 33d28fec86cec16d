"""Tables, dense or sparse: what comes in is checked, named in the error, and merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import validate_data

from mercer.core.arrays import Array, Index, group_rows, is_sparse, merge
from mercer.core.memory import fits, require_memory

# finite numbers are checked here, where the sentence can name row and column
_OPTIONS: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_all_finite": False}


@dataclass(frozen=True)
class Table:
    """A validated table, repeated rows merged; all in the user's units.

    What comes after ``keep`` is about the rows of positive weight.
    """

    X: Array  # (N, d)
    Y: Array  # (N, m)
    weights: Array  # (N,)
    keep: Index  # rows of positive weight
    points: Array  # (n, d) distinct inputs in sorted order (or every row, if rows cannot be merged)
    group: Index  # the point of each kept row
    mean: Array  # (n, m) weighted mean of Y at each point
    total: Array  # (n,) weight of each point
    spread: Array  # (n, m) weighted sum of squares about the mean
    flat: bool  # whether y came as a vector


def build_table(
    X: Array,
    Y: Array,
    weights: Array,
    by_row: bool,
    flat: bool,
    arrays: int = 3,
    alike: bool = False,
) -> Table:
    """Merge repeated rows of X (N, d), unless ``by_row``; with ``alike`` if Y is the same, too.

    Refuse before if the fit, which needs ``arrays`` n x n matrices, does not fit into memory. The
    order of the rows does not matter, and a row of weight two is the same as two rows.
    """
    keep = np.flatnonzero(weights > 0)
    inputs = X if len(keep) == len(X) else X[keep]
    if by_row:
        require_memory(len(keep), arrays)
        first = group = np.arange(len(keep))
    else:
        roomy = fits(len(keep), arrays)  # even if no two rows are equal: nothing more to ask
        if not roomy:  # a lower bound on the number of distinct rows, cheaply
            with np.errstate(over="ignore", invalid="ignore"):
                sums = inputs @ np.sqrt(2.0 + np.arange(inputs.shape[1]))
            require_memory(len(np.unique(sums)), arrays)
        first, group = group_rows(np.column_stack([inputs, Y[keep]]) if alike else inputs)
        if not roomy:
            require_memory(len(first), arrays)
    mean, total, spread = merge(group, len(first), Y[keep], weights[keep])
    points = np.ascontiguousarray(inputs[first])
    return Table(X, Y, weights, keep, points, group, mean, total, spread, flat)


def read_any_inputs(machine: Any, X: Any, *, sparse: bool, reset: bool = False) -> Any:
    """Return X (n, d) as doubles, all finite, and sparse if it was and ``sparse`` allows.

    By scikit-learn's rules, which keep (``reset``) or compare the names of the columns.
    """
    X = validate_data(machine, X, reset=reset, accept_sparse="csr" if sparse else False, **_OPTIONS)
    return _finite(X, machine)


def read_any_rows(
    machine: Any, X: Any, y: Any, *, sparse: bool, reset: bool, **options: Any
) -> tuple[Any, Any]:
    """Return X (n, d) as :func:`read_any_inputs` does, and y with as many rows.

    ``options`` are those of :func:`sklearn.utils.validation.validate_data` for y.
    """
    options |= {"accept_sparse": "csr" if sparse else False, **_OPTIONS}
    X, y = validate_data(machine, X, y, reset=reset, **options)
    return _finite(X, machine), y


def read_inputs(machine: Any, X: Any, *, fitted: bool = True) -> Array:
    """Return X (n, d) as ``machine`` was fitted with; ``fitted=False`` is a first look."""
    return np.asarray(read_any_inputs(machine, X, sparse=False, reset=not fitted))


def read_rows(
    machine: Any, X: Any, y: Any, *, reset: bool = True, **options: Any
) -> tuple[Array, Any]:
    """Return X (n, d) and y with as many rows, at the begin of a fit."""
    return read_any_rows(machine, X, y, sparse=False, reset=reset, **options)


def _finite(X: Any, machine: Any) -> Any:
    """Return X; a sparse one with sorted columns, none twice, and no stored zeros."""
    if not is_sparse(X):
        check_finite(X, "X", getattr(machine, "feature_names_in_", None))
        return X
    X = csr_array(X)
    bad = np.flatnonzero(~np.isfinite(X.data))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        where = f"column {X.indices[bad[0]]}, row {row}"
        raise _not_finite("X", X.data[bad[0]], where, len(bad))
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()  # the user's matrix stays as it is
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def check_finite(A: Array, what: str, names: Any = None) -> None:
    """Refuse NaN and infinity, naming the first row and column."""
    bad = ~np.isfinite(A)
    if not bad.any():
        return
    grid = bad.reshape(len(A), -1)
    row = int(np.flatnonzero(grid.any(axis=1))[0])
    column = int(np.flatnonzero(grid[row])[0])
    where = f"row {row}"
    if A.ndim > 1:
        label = repr(str(names[column])) if names is not None else str(column)
        where = f"column {label}, row {row}"
    raise _not_finite(what, A.reshape(len(A), -1)[row, column], where, int(bad.sum()))


def _not_finite(what: str, value: float, where: str, count: int) -> ValueError:
    kind = "NaN" if np.isnan(value) else "infinity (inf)"
    return ValueError(
        f"Input {what} contains {kind} in {where}"
        f" ({count} value{'s' if count > 1 else ''} not finite in all); drop these rows, or fill "
        "them first, e.g. with sklearn.impute.SimpleImputer in a pipeline"
    )


def check_target(y: Any) -> None:
    """Refuse text, NaN and infinity in y, naming the row; leave the rest to scikit-learn."""
    if y is None or hasattr(y, "toarray"):
        return
    values = np.asarray(y)
    if values.dtype.kind in "OUST":
        for row, value in enumerate(values.reshape(len(values), -1)[:, 0] if values.ndim else ()):
            if isinstance(value, (str, bytes)):
                raise ValueError(
                    f"Input y contains text in row {row}: {str(value)!r}; regression needs numbers"
                )
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            return
    if values.dtype.kind == "f" and values.ndim:
        check_finite(values if values.ndim == 1 or values.shape[1:] != (1,) else values[:, 0], "y")


def check_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights (n,), all one if None; refuse negative, non-finite or all-zero ones."""
    if sample_weight is None:
        return np.ones(n)
    w = np.asarray(sample_weight, dtype=np.float64)
    w = np.full(n, w) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(f"sample_weight has shape {w.shape}, expected ({n},): one weight per row")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        row = int(np.flatnonzero(~np.isfinite(w) | (w < 0))[0])
        raise ValueError(f"sample_weight must be finite and not negative; row {row} has {w[row]}")
    if not np.any(w > 0):
        raise ValueError("all sample weights are zero: nothing is left to learn from")
    return w


def merged(X: Array, labels: Array, weights: Array) -> tuple[Index, Array, Index]:
    """Merge equal rows with equal labels, in canonical order.

    Returns a row of each (n,), their total weights (n,) and the place of each row of X among them
    (N,), -1 for one of weight zero, which is left out.
    """
    keep = np.flatnonzero(weights > 0)
    first, group = group_rows(np.column_stack([X[keep], labels[keep]]))
    # the first row of the table that is equal, whatever the order of sorting
    earliest = np.full(len(first), len(X), dtype=np.intp)
    np.minimum.at(earliest, group, keep)
    place = np.full(len(X), -1, dtype=np.intp)
    place[keep] = group
    total = np.bincount(group, weights[keep], len(first))
    return earliest, np.asarray(total, dtype=np.float64), place


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
        first, total, _ = merged(X, labels.astype(np.float64), weights)
        order = np.argsort(first)
        return first[order], total[order]
    found: dict[tuple[int, bytes, bytes], list[Any]] = {}  # the row and the weight of each
    for i in np.flatnonzero(weights > 0.0):
        held = slice(X.indptr[i], X.indptr[i + 1])
        key = (int(labels[i]), X.indices[held].tobytes(), X.data[held].tobytes())
        found.setdefault(key, [int(i), 0.0])[1] += float(weights[i])
    firsts, totals = ([one[j] for one in found.values()] for j in (0, 1))
    return np.array(firsts, dtype=np.intp), np.array(totals)


@contextmanager
def restored_on_error(machine: Any) -> Iterator[None]:
    """Put all attributes of ``machine`` back if the block ends with an error or is interrupted.

    The attributes themselves are not copied: what the block does to an array in place stays.
    """
    before = dict(vars(machine))
    try:
        yield
    except BaseException:
        vars(machine).clear()
        vars(machine).update(before)
        raise
