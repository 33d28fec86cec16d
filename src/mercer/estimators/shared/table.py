"""Tables, dense or sparse: what comes in is checked, named in the error, and merged."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from mercer.core.arrays import Array, Index, column_order, group_rows, is_sparse, merge, of_numpy
from mercer.core.device.accelerator import said_of
from mercer.core.errors import no_number, not_finite, outside
from mercer.core.memory import fits, require_memory
from mercer.kernels.base import Kernel

# finite numbers are checked here, where the sentence can name row and column
_OPTIONS: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_all_finite": False}
EXACT = 2**53  # integers up to here are doubles
HEAVIEST = 1e100  # the largest weight of a row; one over it is the smallest
_KINDS = {"M": "dates", "m": "time spans", "S": "bytes", "c": "complex numbers", "V": "records"}


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
    beyond: Callable[[], Sequence[str]] = tuple,
) -> Table:
    """Merge repeated rows of X (N, d), unless ``by_row``; with ``alike`` if Y is the same, too.

    Refuse before if the fit, which needs ``arrays`` n x n matrices, does not fit into memory, with
    what could be given as ``gram`` in place of them: ``beyond``. The order of rows and columns does
    not matter, and a row of weight two is the same as two rows.
    """
    keep = np.flatnonzero(weights > 0)
    inputs = X if len(keep) == len(X) else X[keep]
    if by_row:
        _require(len(keep), arrays, beyond)
        first = group = np.arange(len(keep))
    else:
        roomy = fits(len(keep), arrays)  # even if no two rows are equal: nothing more to ask
        if not roomy:  # a lower bound on the number of distinct rows, cheaply
            with np.errstate(over="ignore", invalid="ignore"):
                sums = inputs @ np.sqrt(2.0 + np.arange(inputs.shape[1]))
            _require(len(np.unique(sums)), arrays, beyond)
        keys = inputs
        if inputs.shape[1] > 1:
            keys = inputs[:, column_order(inputs, Y[keep], weights[keep])]
        first, group = group_rows(np.column_stack([keys, Y[keep]]) if alike else keys)
        if not roomy:
            _require(len(first), arrays, beyond)
    mean, total, spread = merge(group, len(first), Y[keep], weights[keep])
    points = np.ascontiguousarray(inputs[first])
    return Table(X, Y, weights, keep, points, group, mean, total, spread, flat)


def _require(n: int, arrays: int, beyond: Callable[[], Sequence[str]]) -> None:
    if not fits(n, arrays):
        require_memory(n, arrays, beyond=beyond())


def read_any_inputs(machine: Any, X: Any, *, sparse: bool, reset: bool = False) -> Any:
    """Return X (n, d) as doubles, all finite, and sparse if it was and ``sparse`` allows.

    By scikit-learn's rules, which keep (``reset``) or compare the names of the columns.
    """
    X = as_numbers(_read(machine, X))
    known = None if reset or hasattr(machine, "feature_names_in_") else vars(machine)
    if known and _as_wanted(X, 2) and X.shape[1] == known.get("n_features_in_"):
        return _finite(X, machine)  # scikit-learn's look takes as long as predicting a row
    X = validate_data(machine, X, reset=reset, accept_sparse="csr" if sparse else False, **_OPTIONS)
    return _finite(X, machine)


def read_any_rows(
    machine: Any, X: Any, y: Any, *, sparse: bool, reset: bool, **options: Any
) -> tuple[Any, Any]:
    """Return X (n, d) as :func:`read_any_inputs` does, and y with as many rows.

    ``options`` are those of :func:`sklearn.utils.validation.validate_data` for y.
    """
    options |= {"accept_sparse": "csr" if sparse else False, **_OPTIONS}
    y = of_numpy(y, "y")
    if isinstance(y, np.ndarray) or hasattr(y, "dtype"):  # scikit-learn does not name the row
        given = np.asarray(y)
        if given.dtype.kind == "f" and given.ndim:
            check_finite(given if given.shape[1:] != (1,) else given[:, 0], "y")
    if reset and _as_wanted(X, 2) and _as_wanted(y, 1) and len(X) == len(y):
        machine.n_features_in_ = X.shape[1]
        vars(machine).pop("feature_names_in_", None)  # of an earlier fit
    else:
        X = as_numbers(_read(machine, X))
        X, y = validate_data(machine, X, y, reset=reset, **options)
    return _finite(X, machine), y


def _read(machine: Any, X: Any) -> Any:
    """Return X, as rows of numbers where the kernel of the machine is of inputs of another kind."""
    kernel = getattr(machine, "kernel", None)
    return kernel.read(X) if isinstance(kernel, Kernel) else X


def _as_wanted(A: Any, ndim: int) -> bool:
    """Whether scikit-learn would find nothing to convert or to say: most of a small fit's time."""
    plain = type(A) is np.ndarray and A.dtype == np.float64 and A.ndim == ndim
    return plain and A.size > 0 and bool(A.flags.c_contiguous)


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
        raise not_finite("X", X.data[bad[0]], where, len(bad))
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()  # the user's matrix stays as it is
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def as_numbers(X: Any) -> Any:
    """Return the table X, a list as an array; refuse what NumPy would turn into numbers silently.

    Those are dates, time spans, bytes, and integers beyond 2^53 that are different and would be the
    same as doubles. Text passes where every entry reads as a number, as in scikit-learn.
    """
    if isinstance(X, (str, os.PathLike)) or type(X).__module__.startswith("dask"):
        raise TypeError(
            f"X is a {type(X).__name__}, a table that is not in memory: give an array. Of files "
            "and Dask collections learn GPRegressor, GPClassifier, SVC, SVR and others on inducing "
            "points, see mercer.BlockTable"
        )
    X = of_numpy(X, "X")
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError(
                "X is no table: its rows have different lengths; give each one number per column"
            ) from None
    if hasattr(X, "lazy") and hasattr(X, "collect"):
        raise TypeError(f"X is a {type(X).__name__}, which has no rows yet: give X.collect()")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # a data frame, column by column
        for place, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            if getattr(dtype, "kind", "O") not in "bf":
                column = X.iloc[:, place] if hasattr(X, "iloc") else X[name]
                _check_column(np.asarray(column), f"column {str(name)!r}")
    elif is_sparse(X):
        if X.dtype.kind in "iu":
            _check_column(X.tocoo().data, "the matrix")
    elif hasattr(X, "dtype") and getattr(X, "ndim", 0) == 2 and X.dtype.kind not in "bf":
        values = np.asarray(X)
        for place in (
            range(values.shape[1]) if values.dtype.kind not in "iu" or _far(values) else ()
        ):
            _check_column(values[:, place], f"column {place}")
    return X


def _far(values: NDArray[Any]) -> bool:
    """Return whether integers lie beyond those that are doubles."""
    if values.dtype.itemsize < 8 or not values.size:
        return False
    return int(values.max()) > EXACT or int(values.min()) < -EXACT


def _check_column(values: NDArray[Any], where: str) -> None:
    """Refuse values (n,) that are no numbers, or would not stay the ones they are."""
    kind = values.dtype.kind
    if kind in "MmSV":
        raise no_number(_KINDS[kind], where, 0, str(values[0]) if values.size else None)
    if kind in "OUT":
        for row, value in enumerate(values.tolist() if kind != "O" else values):
            what = _what(value)
            if what is not None:
                raise no_number(what, where, row, values[row] if kind != "T" else str(value))
        whole = [v for v in values if isinstance(v, (int, np.integer))] if kind == "O" else []
        if not any(abs(int(v)) > EXACT for v in whole):
            return
        values = np.array(whole, dtype=object)
    elif kind not in "iu" or not _far(values):
        return
    doubles = values.astype(np.float64)
    if len(np.unique(doubles)) < len(np.unique(values)):
        raise ValueError(
            f"{where} of X has integers beyond 2^53 that are different and would be equal as "
            "floating-point numbers; subtract the smallest one, or encode the column (an "
            "identifier is no number)"
        )
    if any(int(a) != int(b) for a, b in zip(doubles, values, strict=True)):
        warnings.warn(
            f"{where} of X has integers beyond 2^53, which were rounded to floating-point numbers "
            "(they stay different); subtract the smallest one to keep them as they are",
            DataConversionWarning,
            stacklevel=outside(),
        )


def _what(value: Any) -> str | None:
    """Return what an entry is that is no number; None for a number, a text of one, and a gap."""
    if isinstance(value, (float, int, np.floating, np.bool_)) or value is None:
        return None
    if isinstance(value, (timedelta, np.timedelta64)):
        return "time spans"
    if isinstance(value, (date, time, np.datetime64)):
        return "dates"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return None if type(value).__name__ == "NAType" else "dates"
    if isinstance(value, (complex, np.complexfloating)):
        return "complex numbers"
    try:
        float(value)
    except (TypeError, ValueError):
        return "text" if isinstance(value, str) else "objects"
    return None


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
    raise not_finite(what, A.reshape(len(A), -1)[row, column], where, int(bad.sum()))


def check_target(y: Any) -> None:
    """Refuse text, NaN and infinity in y, naming the row; leave the rest to scikit-learn."""
    if y is None or hasattr(y, "toarray"):
        return
    values = np.asarray(of_numpy(y, "y"))
    if values.dtype.kind in "Mm":
        raise ValueError(
            f"Input y holds {_KINDS[values.dtype.kind]}; regression needs real numbers: turn y "
            "into a number in a unit of your choice"
        )
    if values.dtype.kind in "OUST":
        for row, value in enumerate(values.reshape(len(values), -1)[:, 0] if values.ndim else ()):
            if isinstance(value, (str, bytes)):
                raise ValueError(
                    f"Input y contains text in row {row}: {str(value)!r}; regression needs numbers"
                )
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                "Input y contains objects that are no numbers; regression needs one number for "
                "each row (or one for each output)"
            ) from None
    if values.dtype.kind == "f" and values.ndim:
        check_finite(values if values.ndim == 1 or values.shape[1:] != (1,) else values[:, 0], "y")


def check_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights (n,), all one if None; refuse negative, non-finite or all-zero ones."""
    if sample_weight is None:
        return np.ones(n)
    w = np.asarray(sample_weight)
    try:
        w = np.asarray(w if w.dtype.kind in "biufO" else [""], dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers, one weight per row") from None
    w = np.full(n, w) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(f"sample_weight has shape {w.shape}, expected ({n},): one weight per row")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        row = int(np.flatnonzero(~np.isfinite(w) | (w < 0))[0])
        raise ValueError(f"sample_weight must be finite and not negative; row {row} has {w[row]}")
    if not np.any(w > 0):
        raise ValueError("all sample weights are zero: nothing is left to learn from")
    if w.max() > HEAVIEST or w[w > 0].min() < 1.0 / HEAVIEST:
        raise ValueError(
            f"sample weights must lie between {1.0 / HEAVIEST:g} and {HEAVIEST:g}, where their "
            "products with other numbers can be represented; a weight is a count of rows"
        )
    return w


def merged(X: Array, labels: Array, weights: Array) -> tuple[Index, Array, Index]:
    """Merge equal rows with equal labels, in canonical order.

    Returns a row of each (n,), their total weights (n,) and the place of each row of X among them
    (N,), -1 for one of weight zero, which is left out.
    """
    keep = np.flatnonzero(weights > 0)
    first, group = group_rows(np.column_stack([X[keep], labels[keep]]))
    earliest = keep[first]
    np.minimum.at(earliest, group, keep)  # the first that is equal, however they were sorted
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
    except BaseException as error:
        vars(machine).clear()
        vars(machine).update(before)
        if type(error).__module__.startswith("torch"):
            raise said_of(error, getattr(machine, "device", "")) from error
        raise
