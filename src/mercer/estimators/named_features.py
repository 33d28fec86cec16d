"""Examples given as dicts: the features of the first one, in its order, are those of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mercer.arrays import Array


class NamedFeatures:
    """Names in their order; None before the first example.

    Examples
    --------
    >>> names = NamedFeatures().known({"b": 1, "a": 2})
    >>> names.row({"a": 3, "b": 4})
    array([4., 3.])
    """

    def __init__(self, names: Iterable[Any] | None = None) -> None:
        self.names = None if names is None else list(names)

    def known(self, x: Any) -> NamedFeatures:
        """Return the names, those of x if there are none yet; refuse an x with others.

        x is a dict, or a data frame: what matters is its keys.
        """
        given = list(x.keys())
        if self.names is None:
            if not given:
                raise ValueError("the first example has no features; it decides which there are")
            return NamedFeatures(given)
        missing = [name for name in self.names if name not in x]
        if missing:
            raise ValueError(
                f"the example has no feature {missing[0]!r}, which the first one had; give every "
                "feature a value, e.g. with river.preprocessing.StatImputer before the model"
            )
        if len(given) > len(self.names):
            new = next(name for name in given if name not in self.names)
            raise ValueError(
                f"the example has a feature {new!r} that the first one did not have; select the "
                f"features {self.names}, e.g. with river.compose.Select"
            )
        return self

    def row(self, x: Mapping[Any, Any]) -> Array:
        """Return the values of x (d,)."""
        values = np.empty(len(self.names or ()))
        for i, name in enumerate(self.names or ()):
            try:
                values[i] = x[name]
            except (TypeError, ValueError):
                raise ValueError(
                    f"feature {name!r} is {x[name]!r}, which is no number; encode it, e.g. with "
                    "river.preprocessing.OneHotEncoder before the model"
                ) from None
            if not np.isfinite(values[i]):
                raise ValueError(
                    f"feature {name!r} is {x[name]!r}; fill it, e.g. with "
                    "river.preprocessing.StatImputer before the model"
                )
        return values

    def table(self, X: Any) -> Array:
        """Return the values of a data frame X as (b, d)."""
        return np.asarray(X[self.names], dtype=np.float64)
