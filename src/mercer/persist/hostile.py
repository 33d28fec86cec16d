"""Hostile states: every way to spoil what a record declares, for the tests of model files.

Each entry is left out, of another type, of another shape, out of range or not finite, a part is of
another class, and an unknown entry is added. What is spoilt must be refused, or do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.kinds import Kind, Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows, Texts
from mercer.core.record import Each, EstimatorOf, Fields, Later, Maybe, One, Recorded
from mercer.persist.pipelines import Step

Spoilt = Iterator[tuple[str, Any]]
PARAMS: tuple[Any, ...] = ([1.0], None, "a text", True, 1.5, {"pairs": [1]}, {"part": 1})


def hostile_states(estimator: Any) -> Spoilt:
    """Yield (what is wrong, state) for a fitted estimator with a record."""
    yield from _states(type(estimator), estimator._state())


def _states(estimator: type[Recorded], stored: Mapping[str, Any]) -> Spoilt:
    params = stored["params"]
    yield "without params", {k: v for k, v in stored.items() if k != "params"}
    yield "params a list", {**stored, "params": []}
    yield "params with another", {**stored, "params": params | {"nothing": 1}}
    for name, kinds in estimator._param_types.items():
        for odd in PARAMS:
            if name in params and type(odd) not in kinds:
                yield f"params {name} {odd!r}", {**stored, "params": params | {name: odd}}
    entries = {name: value for name, value in stored.items() if name != "params"}
    for what, changed in _entries(estimator._record(), entries):
        yield what, {"params": params, **changed}


def _entries(record: Record, stored: Mapping[str, Any]) -> Spoilt:
    yield "with an unknown entry", {**stored, "nothing_": 1}
    for name, kind in record.items():
        if not isinstance(kind, Later):
            yield f"without {name}", {k: v for k, v in stored.items() if k != name}
        for what, value in spoilt(kind, stored[name]):
            yield f"{name} {what}", {**stored, name: value}


@singledispatch
def spoilt(kind: Kind, stored: Any) -> Spoilt:
    """Yield (what is wrong, stored form) of one entry; first values of other types."""
    for odd in (None, [], {}, [None], "a text", 1, 1.5, True, {"nothing": 1}):
        if type(odd) is not type(stored) or odd == {"nothing": 1}:
            yield repr(odd), odd


strangers = spoilt.dispatch(object)


@spoilt.register
def _(kind: Numbers, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    for other in (np.float32, np.float64, np.int64):
        if other is not kind.dtype:
            yield f"of {other.__name__}", np.ones(stored.shape, dtype=other)
    yield from _reshaped(stored)
    odd: dict[str, float] = {}
    if kind.finite and kind.dtype is np.float64:
        odd |= {"NaN": np.nan, "infinity": np.inf}
    if kind.low is not None:
        odd["a value out of range"] = kind.low if kind.above else kind.low - 1
    if kind.whole:
        odd["a fraction"] = 1.5
    for what, value in odd.items():
        if stored.size:
            changed = stored.copy(order="K")
            changed.flat[0] = value
            yield f"with {what}", changed
    if kind.diagonal is not None and stored.size:
        yield "of zeros", 0.0 * stored
    if isinstance(kind, Rows) and len(stored) and kind.below is not None:
        yield "beyond the last row", np.concatenate([stored[:-1], [2**40]])
    if isinstance(kind, Rows) and kind.rising and len(stored) > 1:
        yield "in reverse", stored[::-1].copy()


def _reshaped(array: NDArray[Any]) -> Spoilt:
    """Yield the array with each axis longer and shorter by one, with another axis, and flat."""
    for axis in range(array.ndim):
        last = array.take([-1], axis=axis) if array.shape[axis] else None
        longer = np.zeros([s + (i == axis) for i, s in enumerate(array.shape)], array.dtype)
        grown = longer if last is None else np.concatenate([array, last], axis=axis)
        yield f"longer along axis {axis}", grown
        if array.shape[axis]:
            yield f"shorter along axis {axis}", np.delete(array, -1, axis=axis)
    yield "with another axis", array[..., None]
    if array.ndim > 1:
        yield "flat", array.ravel()


@spoilt.register
def _(kind: Plain, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    if kind.kind is float and kind.finite:
        yield "NaN", math.nan
    if kind.low is not None:
        yield "out of range", kind.kind(kind.low if kind.above else kind.low - 1)
    if kind.among is not None:
        yield "none of the list", "nothing known"
    if kind.size is not None:
        yield "a larger size", stored + 1


@spoilt.register
def _(kind: PlainReport, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    yield "with an array", {**stored, "x": np.ones(2)}


@spoilt.register
def _(kind: Texts, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    yield "with a number", [*stored[:-1], 3]
    yield "one more", [*stored, "more"]


@spoilt.register
def _(kind: Labels, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    dtype, values = stored["dtype"], stored["values"]
    wrong: dict[str, Any] = {
        "in reverse": values[::-1],
        "one alone": values[:1],
        "none": [],
        "one fewer": values[:-1],
        "one more": [*values, values[-1] * 2],
        "the same twice": [values[0], *values],
        "a text in place of a list": "ab",
        "a list in place of a label": [[1], *values[1:]],
        "infinity": [*values[:-1], math.inf],
    }
    for what, other in wrong.items():
        if what != "one fewer" or len(values) > 2:
            yield what, {"dtype": dtype, "values": other}
    yield "of dates", {"dtype": "<M8[s]", "values": values}
    yield "of a dtype that is none", {"dtype": "<f4x", "values": values}
    yield "without a dtype", {"values": values}


@spoilt.register
def _(kind: PartOf, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    basis = {"class": "basis.PolynomialBasis", "params": {"degree": 0}, "marks": {}}
    gaussian = {"class": "losses.Gaussian", "params": {}, "marks": {}}
    yield "another part", gaussian if stored["class"].startswith("basis.") else basis
    yield "of no known class", {**stored, "class": "os.system"}
    yield "of a class that is not a name", {**stored, "class": 3}
    yield "without params", {k: v for k, v in stored.items() if k != "params"}
    yield "with another parameter", {**stored, "params": stored["params"] | {"nothing": 1}}
    for name, value in stored["params"].items():
        if isinstance(value, np.ndarray):
            params = {**stored["params"], name: value.astype(np.float32)}
            yield f"{name} of float32", {**stored, "params": params}


@spoilt.register
def _(kind: Maybe, stored: Any) -> Spoilt:
    if stored is None:
        yield "a list", []
        return
    yield "null", None
    yield from spoilt(kind.kind, stored)


@spoilt.register
def _(kind: Each, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    if stored and (kind.size or kind.least == len(stored)):
        yield "one fewer", stored[:-1]
    if stored and kind.size:
        yield "one more", [*stored, stored[-1]]
    for i in sorted({0, len(stored) - 1} if stored else ()):
        for what, one in spoilt(kind.kind, stored[i]):
            yield f"{i} {what}", [*stored[:i], one, *stored[i + 1 :]]


@spoilt.register
def _(kind: Fields, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    yield from _entries(kind.record, stored)


@spoilt.register
def _(kind: One, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    ((name, inside),) = stored.items()
    for other in (*kind.kinds, "nothing"):
        if other != name:
            yield f"as {other}", {other: inside}
    yield "of two forms", {name: inside, "nothing": {}}
    for what, one in spoilt(kind.kinds[name], inside):
        yield what, {name: one}


@spoilt.register
def _(kind: EstimatorOf, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    yield from _states(kind.estimator, stored)


@spoilt.register
def _(kind: Step, stored: Any) -> Spoilt:
    yield from strangers(kind, stored)
    yield "of no known class", {"machine": "Nothing", "state": {}}
    if kind.whole:
        yield "a word", {"word": "drop"}
