"""Kinds: what an attribute of a fitted estimator is.

A kind writes a value as plain values with arrays among them, checks what was stored, reads it
again, and describes itself for docs/model-files.md; ``persist.hostile`` spoils what it wrote.
Letters are sizes: the same number wherever they stand in a record.
"""

# ruff: noqa: D102  # the methods of a kind are those of Kind, where they are described

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.core.component import Component

Resolve = Callable[[str], type[Component]]
Sizes = dict[str, int]
Record = Mapping[str, "Kind"]

PLAIN = (bool, int, float, str)
_LABELS = "biufUO"  # dtypes of classes
_TOKEN = re.compile(r"(\w+?)(?:([+-])(\w+))?")


class Kind(ABC):
    """What an attribute is: how it is written, checked, read and described."""

    @abstractmethod
    def write(self, value: Any) -> Any:
        """Return the value as plain values and arrays."""

    @abstractmethod
    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        """Refuse what :meth:`write` cannot have written, with a ValueError that names the place."""

    @abstractmethod
    def read(self, stored: Any, resolve: Resolve) -> Any:
        """Return the value of what was checked."""

    @abstractmethod
    def told(self) -> str:
        """Return a phrase for the tables of the documentation."""

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


def _fit_shape(shape: tuple[int, ...], shapes: str, sizes: Sizes, place: str) -> None:
    """Compare a shape with ``n d`` (or several: ``n | n m``); a new letter becomes known."""
    for form in shapes.split("|"):
        tokens = form.split()
        wanted = [_size(token, sizes) for token in tokens]
        if len(wanted) == len(shape) and all(
            w is None or w == s for w, s in zip(wanted, shape, strict=True)
        ):
            known = {t: s for t, s in zip(tokens, shape, strict=True) if t.isalpha()}
            if all(known[t] == s for t, s in zip(tokens, shape, strict=True) if t in known):
                sizes.update(known)
                return
    said = [t if w is None else str(w) for t, w in zip(tokens, wanted, strict=True)]
    expected = f"({', '.join(said)}{',' if len(said) == 1 else ''})"
    raise ValueError(f"{place} has shape {shape}, expected {expected}")


class Numbers(Kind):
    """An array of doubles, in the memory order that it has: BLAS rounds differently for the two.

    Parameters
    ----------
    shape : sizes as in ``"n d"``; forms that are all allowed are separated by ``|``.
    low : the least value; with ``above``, all values are above it.
    finite : whether values must be finite.
    whole : whether they must be whole numbers.
    upper : whether the upper triangle alone is kept.
    diagonal : "positive" or "nonzero" for a triangular factor.
    """

    dtype: ClassVar[Any] = np.float64
    words: ClassVar[str] = "doubles"

    def __init__(
        self,
        shape: str,
        low: float | None = None,
        *,
        above: bool = False,
        finite: bool = True,
        whole: bool = False,
        upper: bool = False,
        diagonal: str | None = None,
    ) -> None:
        self.shape, self.low, self.above = shape, low, above
        self.finite, self.whole, self.upper, self.diagonal = finite, whole, upper, diagonal

    def write(self, value: Any) -> Any:
        array = np.asarray(value, dtype=self.dtype)
        return np.triu(array) if self.upper else array

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if not isinstance(stored, np.ndarray) or stored.dtype != self.dtype:
            raise ValueError(f"{place} is not an array of {self.words}")
        _fit_shape(stored.shape, self.shape, sizes, place)
        if self.finite and not np.isfinite(stored).all():
            raise ValueError(f"{place} holds values that are not finite")
        low = self.low
        if low is not None and not np.all(stored > low if self.above else stored >= low):
            limit = f"{'above' if self.above else 'at least'} {low:g}"
            signs = {True: "be positive", False: "not be negative"}
            raise ValueError(f"{place} must {signs[self.above] if low == 0.0 else f'be {limit}'}")
        if self.diagonal is not None:
            pivots = stored.diagonal()
            if not np.all(pivots > 0.0 if self.diagonal == "positive" else pivots != 0.0):
                raise ValueError(f"the diagonal of {place} must be {self.diagonal}")
        if self.whole and not np.array_equal(stored, np.floor(stored)):
            raise ValueError(f"{place} must be whole numbers")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return stored

    def told(self) -> str:
        words = [f"{self.words} {_told_shape(self.shape)}"]
        if self.low is not None:
            words.append(f"{'above' if self.above else 'at least'} {self.low:g}")
        words += ["whole numbers"] * self.whole + ["need not be finite"] * (not self.finite)
        words += ["upper triangle"] * self.upper
        return ", ".join(words + ([f"diagonal {self.diagonal}"] if self.diagonal else []))


class Flags(Numbers):
    """An array of booleans."""

    dtype: ClassVar[Any] = np.bool_
    words: ClassVar[str] = "booleans"


class Rows(Numbers):
    """Numbers of rows or places (an index array), at least 0; ``rising``: each above the last.

    ``below`` is a size that all of them stay below.
    """

    dtype: ClassVar[Any] = np.int64
    words: ClassVar[str] = "row numbers"

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


class Plain(Kind):
    """One int, float, bool or str; ``low`` (``above``) as for :class:`Numbers`; ``among`` a list.

    ``size`` is a letter that the number gives a value.
    """

    def __init__(
        self,
        kind: Any,
        low: float | None = None,
        *,
        above: bool = False,
        finite: bool = True,
        among: tuple[Any, ...] | None = None,
        size: str | None = None,
    ) -> None:
        self.kind, self.low, self.above, self.finite = kind, low, above, finite
        self.among, self.size = among, size

    def write(self, value: Any) -> Any:
        if self.kind is str and not isinstance(value, str):
            raise TypeError(f"{value!r:.60} is not a text and cannot be written to a model file")
        return self.kind(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not self.kind:
            raise ValueError(f"{place} is a {type(stored).__name__}")
        if self.kind is float and self.finite and not math.isfinite(stored):
            raise ValueError(f"{place} is not a finite number")
        low = self.low
        if low is not None and not (stored > low if self.above else stored >= low):
            raise ValueError(f"{place} must be {'above' if self.above else 'at least'} {low:g}")
        if self.among is not None and stored not in self.among:
            raise ValueError(f"{place} is none of {', '.join(map(str, self.among))}")
        if self.size is not None and sizes.setdefault(self.size, stored) != stored:
            raise ValueError(f"{place} is {stored}, expected {sizes[self.size]}")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return stored

    def told(self) -> str:
        words = [
            {int: "whole number", float: "number", bool: "true or false"}.get(self.kind, "text")
        ]
        if self.low is not None:
            words.append(f"{'above' if self.above else 'at least'} {self.low:g}")
        if self.among is not None:
            words.append("one of " + ", ".join(map(str, self.among)))
        return ", ".join(words + ([] if self.size is None else [f"the size {self.size}"]))


class PlainReport(Kind):
    """Nested plain values, for reading only; numbers that are not finite are written as null."""

    def write(self, value: Any) -> Any:
        return finite(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict:
            raise ValueError(f"{place} is a {type(stored).__name__}")
        if not _is_plain(stored):
            raise ValueError(f"{place} holds more than plain values")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return stored

    def told(self) -> str:
        return "plain values, nested"


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

    def told(self) -> str:
        return "the classes: `dtype` and `values`; c of them, for k functions"


class PartOf(Kind):
    """A component of a certain class: a kernel, a loss, a basis."""

    def __init__(self, part: type[Component]) -> None:
        self.part = part

    def write(self, value: Any) -> Any:
        return value.to_dict()

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict or set(stored) != {"class", "params", "marks"}:
            raise ValueError(f"{place} is not a part: a class, params and marks")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        part = Component.from_dict(stored, resolve)
        if not isinstance(part, self.part):
            name = self.part.__name__
            raise ValueError(f"a {type(part).__name__} stands where a {name} is wanted")
        return part

    def told(self) -> str:
        return f"a {self.part.__name__.lower()}"


class Maybe(Kind):
    """What may be missing: None is written as null.

    ``absent``: an attribute that is not there is written as null, and not set when it is read.
    """

    def __init__(self, kind: Kind, *, absent: bool = False) -> None:
        self.kind, self.absent = kind, absent

    def write(self, value: Any) -> Any:
        return None if value is None else self.kind.write(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if stored is not None:
            self.kind.check(stored, sizes, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return None if stored is None else self.kind.read(stored, resolve)

    def told(self) -> str:
        return f"{self.kind.told()}; or null"

    def entries(self) -> Record:
        return self.kind.entries()


class Later(Maybe):
    """An entry that older files do not have: there it has the default."""

    def __init__(self, kind: Kind, default: Any = None) -> None:
        super().__init__(kind)
        self.default = default

    def told(self) -> str:
        return self.kind.told()


class Each(Kind):
    """A list (``make``: or tuple) of one kind, as many as the size says, at least ``least``."""

    def __init__(
        self, kind: Kind, size: str = "", *, least: int = 0, make: Callable[[Any], Any] = list
    ) -> None:
        self.kind, self.size, self.least, self.make = kind, size, least, make

    def write(self, value: Any) -> Any:
        return [self.kind.write(one) for one in value]

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not list or len(stored) < self.least:
            raise ValueError(f"{place} is not a list of at least {self.least}")
        if self.size:
            _fit_shape((len(stored),), self.size, sizes, place)
        for i, one in enumerate(stored):
            self.kind.check(one, sizes, f"{place}.{i}")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self.make([self.kind.read(one, resolve) for one in stored])

    def told(self) -> str:
        return f"list{f' of {self.size}' if self.size else ''}: {self.kind.told()}"

    def entries(self) -> Record:
        return self.kind.entries()


class Fields(Kind):
    """An object by its attributes: those of a dataclass, or of a class that is made of them.

    Parameters
    ----------
    make : the class, called with the values by name; or any function of them.
    record : the kinds of the attributes.
    own : letters that are sizes of this object alone.
    parts : value -> mapping, where the entries are not attributes by these names.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        record: Record,
        *,
        own: str = "",
        parts: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        self.make, self.record, self.own, self.parts = make, record, own.split(), parts

    def write(self, value: Any) -> Any:
        values = self.parts(value) if self.parts else None
        return {
            name: kind.write(getattr(value, name) if values is None else values[name])
            for name, kind in self.record.items()
        }

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        inside = {k: v for k, v in sizes.items() if k not in self.own}
        check_entries(self.record, stored, inside, place)
        sizes.update({k: v for k, v in inside.items() if k not in self.own})

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self.make(**read_entries(self.record, stored, resolve))

    def told(self) -> str:
        return "the entries below it" if self.record else "empty"

    def entries(self) -> Record:
        return self.record


class One(Kind):
    """One of several kinds; ``name`` says which, by default the name of the value's class."""

    def __init__(self, kinds: Record, name: Callable[[Any], str] | None = None) -> None:
        self.kinds = kinds
        self.name = name or (lambda value: type(value).__name__)

    def write(self, value: Any) -> Any:
        name = self.name(value)
        if name not in self.kinds:
            raise TypeError(f"a {type(value).__name__} cannot be written to a model file")
        return {name: self.kinds[name].write(value)}

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict or len(stored) != 1 or not set(stored) <= set(self.kinds):
            raise ValueError(f"{place} is none of {', '.join(self.kinds)}")
        ((name, inside),) = stored.items()
        self.kinds[name].check(inside, sizes, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        ((name, inside),) = stored.items()
        return self.kinds[name].read(inside, resolve)

    def told(self) -> str:
        return "one of the forms below it, by name"

    def entries(self) -> Record:
        return self.kinds


# ---------------------------------------------------------------------- entries by name
def check_entries(record: Record, stored: Any, sizes: Sizes, place: str) -> None:
    """Refuse other entries than those of the record, or wrong ones."""
    if not isinstance(stored, Mapping):
        raise ValueError(f"{place or 'the state'} is a {type(stored).__name__}")
    needed = {name for name, kind in record.items() if not isinstance(kind, Later)}
    if not needed <= set(stored) <= set(record):
        odd = sorted((needed - set(stored)) | (set(stored) - set(record)), key=str)[0]
        word = "is missing" if odd in needed else "is not part of such a model"
        raise ValueError(
            f"{place or 'the state'} does not consist of {', '.join(record)}: {odd!s:.60} {word}"
        )
    for name, kind in record.items():
        if name in stored:
            kind.check(stored[name], sizes, f"{place}.{name}" if place else name)


def read_entries(record: Record, stored: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return the values of checked entries, with the defaults of those that are not there."""
    found = {}
    for name, kind in record.items():
        if name not in stored:
            assert isinstance(kind, Later)
            found[name] = kind.default
        elif stored[name] is not None or not (isinstance(kind, Maybe) and kind.absent):
            found[name] = kind.read(stored[name], resolve)
    return found


# ---------------------------------------------------------------------- plain values
def finite(value: Any) -> Any:
    """Plain values for strict JSON: numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(k) is str and _is_plain(v) for k, v in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in PLAIN


def _told_shape(shape: str) -> str:
    return " or ".join(f"({', '.join(form.split())})" for form in shape.split("|"))
