"""Hostile states: every way to spoil what a record declares, for the tests of model files.

Each entry is left out, of another type, of another shape, out of range or not finite, a part is of
another class, and an unknown entry is added. What is spoilt must be refused, or do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.kinds import Kind, Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows, Texts
from mercer.core.record import Each, EstimatorOf, Fields, Later, Maybe, One, Recorded
from mercer.persist.pipelines import Step

Spoilt = Iterator[tuple[str, Any]]
PARAMS: tuple[Any, ...] = ([1.0], None, "a text", True, 1.5, {"pairs": [1]}, {"part": 1})
STRANGERS = (None, [], {}, [None], "a text", 1, 1.5, True, {"nothing": 1})


def hostile_states(estimator: Any) -> Spoilt:
    """Yield (what is wrong, state) for a fitted estimator with a record."""
    yield from _states(type(estimator), estimator._state())


def _states(estimator: type[Recorded], stored: Mapping[str, Any]) -> Spoilt:
    params = stored["params"]
    yield "without params", _without(stored, "params")
    yield "params a list", {**stored, "params": []}
    yield "params with another", {**stored, "params": params | {"nothing": 1}}
    for name, kinds in estimator._param_types.items():
        for odd in PARAMS:
            if name in params and type(odd) not in kinds:
                yield f"params {name} {odd!r}", {**stored, "params": params | {name: odd}}
    for what, changed in _entries(estimator._record(), _without(stored, "params")):
        yield what, {"params": params, **changed}


def _entries(record: Record, stored: Mapping[str, Any]) -> Spoilt:
    yield "with an unknown entry", {**stored, "nothing_": 1}
    for name, kind in record.items():
        if not isinstance(kind, Later):
            yield f"without {name}", _without(stored, name)
        for what, value in spoilt(kind, stored[name]):
            yield f"{name} {what}", {**stored, name: value}


def _without(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in stored.items() if k != name}


def spoilt(kind: Kind, stored: Any) -> Spoilt:
    """Yield (what is wrong, stored form) of one entry; first values of other types."""
    if isinstance(kind, Maybe):
        yield ("a list", []) if stored is None else ("null", None)
        yield from () if stored is None else spoilt(kind.kind, stored)
        return
    for odd in STRANGERS:
        if type(odd) is not type(stored) or odd == {"nothing": 1}:
            yield repr(odd), odd
    match kind:
        case Numbers():
            yield from _numbers(kind, stored)
        case Plain():
            if kind.kind is float and kind.finite:
                yield "NaN", math.nan
            if kind.low is not None:
                yield "out of range", kind.kind(kind.low if kind.above else kind.low - 1)
            if kind.among is not None:
                yield "none of the list", "nothing known"
            if kind.size is not None:
                yield "a larger size", stored + 1
        case PlainReport():
            yield "with an array", {**stored, "x": np.ones(2)}
        case Texts():
            yield "with a number", [*stored[:-1], 3]
            yield "one more", [*stored, "more"]
        case Labels():
            yield from _labels(stored["dtype"], stored["values"])
        case PartOf():
            yield from _part(stored)
        case Each():
            if stored and (kind.size or kind.least == len(stored)):
                yield "one fewer", stored[:-1]
            if stored and kind.size:
                yield "one more", [*stored, stored[-1]]
            for i in sorted({0, len(stored) - 1} if stored else ()):
                for what, one in spoilt(kind.kind, stored[i]):
                    yield f"{i} {what}", [*stored[:i], one, *stored[i + 1 :]]
        case Fields():
            yield from _entries(kind.record, stored)
        case One():
            ((name, inside),) = stored.items()
            for other in (*kind.kinds, "nothing"):
                if other != name:
                    yield f"as {other}", {other: inside}
            yield "of two forms", {name: inside, "nothing": {}}
            for what, one in spoilt(kind.kinds[name], inside):
                yield what, {name: one}
        case EstimatorOf():
            yield from _states(kind.estimator, stored)
        case Step():
            yield "of no known class", {"machine": "Nothing", "state": {}}
            if kind.whole:
                yield "a word", {"word": "drop"}


def _numbers(kind: Numbers, stored: NDArray[Any]) -> Spoilt:
    """Yield arrays of other types and shapes, with values out of range, and rows out of order."""
    for other in (np.float32, np.float64, np.int64):
        if other is not kind.dtype:
            yield f"of {other.__name__}", np.ones(stored.shape, dtype=other)
    for axis in range(stored.ndim):
        last = stored.take([-1], axis=axis) if stored.shape[axis] else None
        longer = np.zeros([s + (i == axis) for i, s in enumerate(stored.shape)], stored.dtype)
        grown = longer if last is None else np.concatenate([stored, last], axis=axis)
        yield f"longer along axis {axis}", grown
        if stored.shape[axis]:
            yield f"shorter along axis {axis}", np.delete(stored, -1, axis=axis)
    yield "with another axis", stored[..., None]
    if stored.ndim > 1:
        yield "flat", stored.ravel()
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


def _labels(dtype: str, values: list[Any]) -> Spoilt:
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


def _part(stored: Mapping[str, Any]) -> Spoilt:
    params = stored["params"]
    basis = {"class": "basis.PolynomialBasis", "params": {"degree": 0}, "marks": {}}
    gaussian = {"class": "losses.Gaussian", "params": {}, "marks": {}}
    yield "another part", gaussian if stored["class"].startswith("basis.") else basis
    yield "of no known class", {**stored, "class": "os.system"}
    yield "of a class that is not a name", {**stored, "class": 3}
    yield "without params", _without(stored, "params")
    yield "with another parameter", {**stored, "params": params | {"nothing": 1}}
    for name, value in params.items():
        if isinstance(value, np.ndarray):
            yield f"{name} of float32", {**stored, "params": params | {name: value.astype("f4")}}
