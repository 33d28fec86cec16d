"""Kinds: what an attribute of a fitted estimator is.

A kind writes a value as plain values with arrays among them, checks what was stored, reads it
again, and describes itself. Letters are sizes: the same number wherever they stand in a record.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.core.component import Component

Resolve = Callable[[str], type[Component]]
Sizes = dict[str, int]
Record = Mapping[str, "Kind"]

PLAIN = (bool, int, float, str)
LARGEST = 1e100  # of a stored number: what a fit in any sane unit leaves stays far below, and
# sums of squares and products of such numbers do not overflow
_LABELS = "biufUO"  # dtypes of classes
_TOKEN = re.compile(r"(\w+?)(?:([+-])(\w+))?")


class Kind(ABC):
    """What an attribute is: how it is written, checked, read and described (``words``)."""

    words: ClassVar[str] = ""

    @abstractmethod
    def write(self, value: Any) -> Any:
        """Return the value as plain values and arrays."""

    @abstractmethod
    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        """Refuse what :meth:`write` cannot have written, with a ValueError that names the place."""

    def read(self, stored: Any, resolve: Resolve) -> Any:
        """Return the value of what was checked: what is stored, if a kind does not say more."""
        return stored

    def told(self) -> str:
        """Return a phrase for the tables of the documentation."""
        return self.words

    def entries(self) -> Record:
        """Return the kinds inside, by name."""
        return {}


def _size(token: str, sizes: Sizes) -> int | None:
    """Return the number of a token: ``3``, ``n``, ``n-1``, ``k+2``; None if a letter is unknown."""
    found = _TOKEN.fullmatch(token)
    assert found is not None, token
    first, sign, second = found.groups()
    a, b = (int(t) if t.isdigit() else sizes.get(t) for t in (first, second or "0"))
    return None if a is None or b is None else (a - b if sign == "-" else a + b)


def check_type(stored: Any, kind: type, place: str) -> None:
    """Refuse what is not exactly of this type."""
    if type(stored) is not kind:
        raise ValueError(f"{place} is a {type(stored).__name__}")


def check_size(stored: Any, place: str) -> None:
    """Refuse numbers that are not finite, or so large that predictions would overflow."""
    if not np.isfinite(stored).all():
        raise ValueError(f"{place} holds values that are not finite")
    if np.any(np.abs(stored) > LARGEST):
        raise ValueError(f"{place} holds values beyond {LARGEST:g}; fit in larger units")


def fit_shape(shape: tuple[int, ...], shapes: str, sizes: Sizes, place: str) -> None:
    """Compare a shape with ``n d`` (or several: ``n | n m``); a new letter becomes known."""
    for form in shapes.split("|"):
        tokens = form.split()
        wanted = [_size(token, sizes) for token in tokens]
        if len(wanted) == len(shape):
            known = {t: s for t, s in zip(tokens, shape, strict=True) if t.isalpha()}
            # a letter that stands twice is the same number in both places
            sure = [known.get(t) if w is None else w for t, w in zip(tokens, wanted, strict=True)]
            if all(w in (None, s) for w, s in zip(sure, shape, strict=True)):
                sizes.update(known)
                return
    said = [t if w is None else str(w) for t, w in zip(tokens, wanted, strict=True)]
    expected = f"({', '.join(said)}{',' if len(said) == 1 else ''})"
    raise ValueError(f"{place} has shape {shape}, expected {expected}")


def _limit(kind: Numbers | Plain, stored: Any = -np.inf) -> list[str]:
    """Return the phrase for the range, if there is one and the value is not in it."""
    low = kind.low
    if low is None or np.all(stored > low if kind.above else stored >= low):
        return []
    return [f"{'above' if kind.above else 'at least'} {low:g}"]


@dataclass(eq=False)
class Numbers(Kind):
    """An array of doubles, in the memory order that it has: BLAS rounds differently for the two."""

    dtype: ClassVar[Any] = np.float64
    words = "doubles"

    shape: str  # sizes as in "n d"; forms that are all allowed are separated by |
    low: float | None = None  # the least value
    _: KW_ONLY
    above: bool = False  # whether all values are above ``low``
    finite: bool = True  # whether values must be finite
    whole: bool = False  # whether they must be whole numbers
    upper: bool = False  # whether the upper triangle alone is kept
    diagonal: str | None = None  # "positive" or "nonzero" for a triangular factor

    def write(self, value: Any) -> Any:
        array = np.asarray(value, dtype=self.dtype)
        return np.triu(array) if self.upper else array

    def check_dtype(self, stored: Any, place: str) -> None:
        """Refuse what is not an array of this type."""
        if not isinstance(stored, np.ndarray) or stored.dtype != self.dtype:
            raise ValueError(f"{place} is not an array of {self.words}")

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        self.check_dtype(stored, place)
        fit_shape(stored.shape, self.shape, sizes, place)
        if self.finite:
            check_size(stored, place)
        for limit in _limit(self, stored):
            signs = "be positive" if self.above else "not be negative"
            raise ValueError(f"{place} must {f'be {limit}' if self.low else signs}")
        if self.diagonal is not None:
            pivots = stored.diagonal()
            pivots = pivots if self.diagonal == "positive" else np.abs(pivots)
            if not np.all(pivots >= 1.0 / LARGEST):
                raise ValueError(f"the diagonal of {place} must be {self.diagonal}")
        if self.whole and not np.array_equal(stored, np.floor(stored)):
            raise ValueError(f"{place} must be whole numbers")

    def told(self) -> str:
        words = [f"{self.words} {_told_shape(self.shape)}", *_limit(self)]
        words += ["whole numbers"] * self.whole + ["need not be finite"] * (not self.finite)
        words += ["upper triangle"] * self.upper
        return ", ".join(words + ([f"diagonal {self.diagonal}"] if self.diagonal else []))


class Flags(Numbers):
    """An array of booleans."""

    dtype = np.bool_
    words = "booleans"


class Rows(Numbers):
    """Numbers of rows or places, at least 0, all ``below`` a size; ``rising``: above the last."""

    dtype = np.int64
    words = "row numbers"

    def __init__(self, shape: str = "s", *, rising: bool = True, below: str | None = None) -> None:
        super().__init__(shape, 0)
        self.rising, self.below = rising, below

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        super().check(stored, sizes, place)
        top = None if self.below is None else _size(self.below, sizes)
        if top is not None and np.any(stored >= top):
            raise ValueError(f"{place} must be row numbers below {top}")
        if self.rising and np.any(stored[1:] <= stored[:-1]):
            raise ValueError(f"{place} must be row numbers, each larger than the one before")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return stored.astype(np.intp)

    def told(self) -> str:
        words = [super().told(), *["rising"] * self.rising]
        return ", ".join(words + ([] if self.below is None else [f"below {self.below}"]))


@dataclass(eq=False)
class Plain(Kind):
    """One int, float, bool or str."""

    kind: Any
    low: float | None = None  # as for :class:`Numbers`
    _: KW_ONLY
    above: bool = False
    finite: bool = True
    among: tuple[Any, ...] | None = None  # all values that it may have
    size: str | None = None  # a letter that the number gives a value

    def write(self, value: Any) -> Any:
        if self.kind is str and not isinstance(value, str):
            raise TypeError(f"{value!r:.60} is not a text and cannot be written to a model file")
        return self.kind(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        check_type(stored, self.kind, place)
        if self.kind is float and self.finite:
            check_size(stored, place)
        for limit in _limit(self, stored):
            raise ValueError(f"{place} must be {limit}")
        if self.among is not None and stored not in self.among:
            raise ValueError(f"{place} is none of {', '.join(map(str, self.among))}")
        if self.size is not None and sizes.setdefault(self.size, stored) != stored:
            raise ValueError(f"{place} is {stored}, expected {sizes[self.size]}")

    def told(self) -> str:
        names = {int: "whole number", float: "number", bool: "true or false"}
        words = [names.get(self.kind, "text"), *_limit(self)]
        if self.among is not None:
            words.append("one of " + ", ".join(map(str, self.among)))
        return ", ".join(words + ([] if self.size is None else [f"the size {self.size}"]))


class PlainReport(Kind):
    """Nested plain values, for reading only; numbers that are not finite are written as null."""

    words = "plain values, nested"

    def write(self, value: Any) -> Any:
        return finite(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        check_type(stored, dict, place)
        if not _is_plain(stored):
            raise ValueError(f"{place} holds more than plain values")


class Texts(Kind):
    """Texts, as many as the size says: a list, or an array of objects."""

    def __init__(self, size: str, *, array: bool = False) -> None:
        self.size, self.array = size, array

    def write(self, value: Any) -> Any:
        return [str(text) for text in value]

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        count = _size(self.size, sizes)
        fine = type(stored) is list and all(type(text) is str for text in stored)
        if not fine or count not in (None, len(stored)):
            raise ValueError(f"{place} must be {'' if count is None else f'{count} '}texts")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return np.array(stored, dtype=object) if self.array else list(stored)

    def told(self) -> str:
        return f"texts {_told_shape(self.size)}"


class Labels(Kind):
    """The sorted classes. They give c, their number, and k, that of the functions: 1 for two."""

    words = "the classes: `dtype` and `values`; c of them, for k functions"

    def write(self, value: Any) -> Any:
        values = value.tolist()
        odd = [v for v in values if not isinstance(v, PLAIN)]
        if value.dtype.kind not in _LABELS or odd:
            raise TypeError(
                f"labels of type {type(odd[0]).__name__ if odd else value.dtype} cannot be written "
                "to a model file; use texts, numbers or booleans as labels"
            )
        return {"dtype": value.dtype.str, "values": values}

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        c = len(self._classes(stored))
        if c < 2:
            raise ValueError(f"{place} must be at least two labels")
        for letter, value in {"c": c, "k": 1 if c == 2 else c}.items():
            if sizes.setdefault(letter, value) != value:
                raise ValueError(f"{place} are {c} labels, which the rest of the model has not")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self._classes(stored)

    def _classes(self, stored: Any) -> NDArray[Any]:
        if not isinstance(stored, Mapping) or set(stored) != {"dtype", "values"}:
            raise ValueError("the classes are not a type and values")
        dtype, values = np.dtype(str(stored["dtype"])), stored["values"]
        if dtype.kind not in _LABELS or not isinstance(values, list) or not values:
            raise ValueError("the classes are not labels")
        if any(type(v) not in PLAIN or v != v or v in (math.inf, -math.inf) for v in values):
            raise ValueError("a class is neither a text nor a finite number")
        classes = np.array(values, dtype=dtype)
        if classes.tolist() != values or np.unique(classes).tolist() != values:
            raise ValueError("the classes are not sorted, or one is named twice")
        return classes


class PartOf(Kind):
    """A component of a certain class: a kernel, a loss, a basis."""

    def __init__(self, part: type[Component]) -> None:
        self.part = part

    def write(self, value: Any) -> Any:
        return stored_part(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict or set(stored) != {"class", "params", "marks"}:
            raise ValueError(f"{place} is not a part: a class, params and marks")
        check_doubles(stored, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        part = Component.from_dict(stored, resolve)
        if not isinstance(part, self.part):
            name = self.part.__name__
            raise ValueError(f"a {type(part).__name__} stands where a {name} is wanted")
        return part

    def told(self) -> str:
        return f"a {self.part.__name__.lower()}"


def item(value: Any) -> Any:
    """Return a scalar of NumPy as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def stored_part(part: Component) -> Any:
    """Return the dictionary form of a part; its arrays of numbers are arrays of doubles."""

    def doubles(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: doubles(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [doubles(inner) for inner in value]
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
        return np.asarray(value, dtype=np.float64) if numbers else value

    return doubles(part.to_dict())


def check_doubles(stored: Any, place: str) -> None:
    """Refuse arrays of numbers among nested values that are not of doubles."""
    if isinstance(stored, Mapping):
        for name, inner in stored.items():
            check_doubles(inner, f"{place}.{name}")
    elif isinstance(stored, list):
        for inner in stored:
            check_doubles(inner, place)
    elif isinstance(stored, np.ndarray) and stored.dtype.kind in "fiu":
        Numbers("").check_dtype(stored, place)


def finite(value: Any) -> Any:
    """Plain values for strict JSON: numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    value = item(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(k) is str and _is_plain(v) for k, v in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in PLAIN


def _told_shape(shape: str) -> str:
    return " or ".join(f"({', '.join(form.split())})" for form in shape.split("|"))
