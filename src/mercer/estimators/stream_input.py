"""What a learner of a stream accepts: classes known from the start, and its own parameters."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.arrays import Index


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
        found = np.unique(column_or_1d(classes))
        if len(found) < 2:
            raise ValueError("classes must name at least two labels")
        return found
    values = column_or_1d(y, warn=True)
    check_classification_targets(values)
    found = np.unique(values)
    if len(found) < 2:
        raise ValueError(
            f"the first batch has only one class, {found[0]!r}: give all labels of the stream as "
            "classes=[...] at the first call of partial_fit"
        )
    return found


def known_codes(y: Any, classes: NDArray[Any]) -> Index:
    """Return the class of each label of y (b,) as 0 .. k-1; refuse one that is not in classes.

    Examples
    --------
    >>> import numpy as np
    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
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
