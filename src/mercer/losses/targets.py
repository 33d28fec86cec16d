"""Targets: what y may be for each kind of response, and small examples of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array

Check = Callable[[Array], np.ndarray[Any, np.dtype[np.bool_]]]


def _whole(y: Array) -> Any:
    return y == np.floor(y)


# response: (which entries are right, what they should be, the remedy)
RULES: dict[str, tuple[Check, str, str]] = {
    "real": (np.isfinite, "a finite number", "drop or impute that row"),
    "count": (
        lambda y: (y >= 0) & _whole(y),
        "a count 0, 1, 2, ...",
        "use Gamma for positive or Gaussian for real targets",
    ),
    "positive": (
        lambda y: y > 0,
        "a positive number",
        "use Gaussian for targets of any sign, or Poisson for counts with zeros",
    ),
    "ordinal": (
        lambda y: (y >= 0) & _whole(y),
        "a category 0, 1, 2, ...",
        "number the ordered categories from 0",
    ),
    "binary": (
        lambda y: np.abs(y) == 1,
        "-1 or +1",
        "encode the two classes as -1 and +1 (a classifier does it by itself)",
    ),
    "multiclass": (
        lambda y: (y >= 0) & _whole(y),
        "a class number 0, 1, 2, ...",
        "number the classes from 0 (a classifier does it by itself)",
    ),
}


def checked(y: Any, response: str, who: str) -> Array:
    """Return y as a float64 array (n,), for real responses also (n, m), or refuse it."""
    try:
        values = np.array(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{who} needs numeric targets: {error}") from error
    most = 2 if response == "real" else 1
    if values.ndim == 2 and values.shape[1] == 1 and most == 1:
        values = values[:, 0]
    if not 1 <= values.ndim <= most:
        raise ValueError(
            f"{who} needs targets of shape (n,), and they have shape {values.shape}; "
            "pass one column"
        )
    allowed, what, remedy = RULES[response]
    right = np.isfinite(values)
    right[right] = allowed(values[right])
    refuse_rows(values, right, who, what, remedy)
    return values


def refuse_rows(values: Array, right: Any, who: str, what: str, remedy: str) -> None:
    """Raise a ValueError that names the first row of ``values`` where ``right`` is false."""
    if not np.all(right):
        where = tuple(int(i) for i in np.argwhere(~right)[0])
        raise ValueError(
            f"{who} needs every target to be {what}; row {where[0]} is "
            f"{float(values[where]):g}; {remedy}"
        )


def examples(response: str, rng: np.random.Generator, n: int, classes: int = 3) -> Array:
    """Return n valid targets of the given response; ``classes`` bounds category numbers."""
    draws: dict[str, Callable[[], Any]] = {
        "real": lambda: rng.normal(size=n),
        "count": lambda: rng.poisson(3.0, size=n),
        "positive": lambda: rng.gamma(2.0, 0.7, size=n),
        "ordinal": lambda: rng.integers(0, classes, size=n),
        "binary": lambda: rng.choice([-1.0, 1.0], size=n),
        "multiclass": lambda: rng.integers(0, classes, size=n),
    }
    return np.asarray(draws[response](), dtype=np.float64)
