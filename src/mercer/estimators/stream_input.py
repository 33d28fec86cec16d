"""What a learner of a stream accepts: classes known from the start, and its own parameters."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.arrays import Array, Index
from mercer.kernels.base import Kernel

LARGEST = 1e18  # prior variance of f of which double precision still has a posterior one


def is_plain(machine: Any, X: Any, y: Any) -> bool:
    """Return whether X and y are arrays as they are used, so that nothing is to be converted.

    X is (n, d) doubles, all finite, with the columns of a machine that learned without names, and
    y (n,). scikit-learn's validation of a batch takes as long as a tenth of learning it.
    """
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.dtype == np.float64
        and X.shape == (len(y), machine.n_features_in_)
        and y.ndim == 1
        and len(y) > 0
        and y.dtype.kind in "biuU"
        and not hasattr(machine, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def require_moderate(kernel: Kernel, X: Array, most: float = LARGEST) -> None:
    """Refuse rows X (b, d) at which the prior variance v of f is not finite, or beyond doubles.

    A posterior variance is the difference of two numbers of the size of v. It falls to the order of
    sqrt(v), since a bound at xi has a variance of 2 xi or more: beyond 1e18 rounding reaches it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(kernel.diag(X).max())
    if not largest <= most:
        raise ValueError(
            f"the kernel reaches {largest:.3g} on these rows, a variance of f that leaves nothing "
            "but rounding: scale the columns, make the amplitude smaller, or use a kernel that is "
            "bounded"
        )


def check_forgetting(rho: Any) -> float:
    """Return rho if it is a number in (0, 1]."""
    real = isinstance(rho, numbers.Real) and not isinstance(rho, bool)
    if not real or not 0.0 < float(rho) <= 1.0:
        raise ValueError(f"rho must be a number in (0, 1], 1 to forget nothing, not {rho!r}")
    return float(rho)


def check_budget(budget: Any) -> int | None:
    """Return the number of points to keep; None or infinity keeps all."""
    if budget is None or (isinstance(budget, float) and budget == np.inf):
        return None
    if isinstance(budget, bool) or not isinstance(budget, numbers.Integral) or budget < 1:
        raise ValueError(f"budget must be a count of points, at least 1, or None, not {budget!r}")
    return int(budget)


def first_classes(y: Any, classes: Any, known: NDArray[Any] | None) -> NDArray[Any]:
    """Return the sorted classes of a stream.

    ``known`` are those of a stream already begun, with which ``classes`` must agree; without
    either, the classes are those of the first batch y.

    Examples
    --------
    >>> first_classes(["b"], ["b", "a"], None)
    array(['a', 'b'], dtype='<U1')
    """
    if known is not None:
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes={list(classes)!r} differ from those of the first call, "
                f"{known.tolist()}; start another learner for them"
            )
        return known
    if classes is not None:
        found = _distinct(column_or_1d(classes))
        if len(found) < 2:
            raise ValueError("classes must name at least two labels")
        return found
    values = column_or_1d(y, warn=True)
    found = _distinct(values)
    check_classification_targets(values)
    if len(found) < 2:
        raise ValueError(
            f"the first batch has only one class, {found.tolist()[0]!r}: give all labels of the "
            "stream as classes=[...] at the first call of partial_fit"
        )
    return found


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the labels among the values, each once, sorted; refuse what is no label."""
    gaps = [v for v in values.tolist() if v is None or (isinstance(v, float) and v != v)]
    if gaps:
        raise ValueError(f"{gaps[0]!r} is no label: it cannot be among the classes of a stream")
    try:
        return np.unique(values)
    except TypeError:
        raise TypeError(
            "the labels are texts and numbers, and have no order: give all of them as texts, or "
            "all as numbers"
        ) from None


def known_codes(y: Any, classes: NDArray[Any]) -> Index:
    """Return the class of each label of y (b,) as 0 .. k-1; refuse one that is not in classes.

    Examples
    --------
    >>> import numpy as np
    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
    mixed = classes.dtype == object  # such labels need not have an order among themselves
    if isinstance(y, np.ndarray) and y.dtype == classes.dtype and y.ndim == 1 and not mixed:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        if (classes[codes] == y).all():
            return codes
    number = {label: i for i, label in enumerate(classes.tolist())}
    values = column_or_1d(y, warn=True).tolist()
    odd = [value for value in values if value not in number]
    if odd:
        raise ValueError(
            f"y has the label {odd[0]!r}, which is none of the classes {classes.tolist()} known "
            "since the first call; name all classes of the stream in classes=[...] at the first "
            "call of partial_fit"
        )
    return np.array([number[value] for value in values], dtype=np.intp)
