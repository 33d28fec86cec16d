"""The contract of a model file: the same predictions to the last bit, and no harm by bad files."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core import container
from mercer.core.arrays import Array
from mercer.core.kinds import Kind, Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows, Texts
from mercer.core.record import Each, EstimatorOf, Fields, Later, Maybe, One, Recorded
from mercer.core.triangle import Triangle
from mercer.persist import ModelFileError, laid_out, load, save
from mercer.persist.pipelines import Step
from mercer.testing.clauses import holds

METHODS = """predict predict_proba predict_log_proba decision_function predict_latent
predict_interval score_samples transform"""
WRONG: tuple[Any, ...] = (None, "a text", -1, 0.5, [], {}, [None])
PREPROCESSOR = ".step.fitted."  # in the place of what a step of scikit-learn has learned
GONE = object()  # in place of a value: the entry is left out
Spoilt = Iterator[tuple[str, Any]]
PARAMS: tuple[Any, ...] = ([1.0], None, "a text", True, 1.5, {"pairs": [1]}, {"part": 1})
STRANGERS: tuple[Any, ...] = (None, [], {}, [None], "a text", 1, 1.5, True, {"nothing": 1})


def check_record(
    estimator: Any, X: Array, parts: Iterable[type] = (), variants: int = 120
) -> tuple[int, int]:
    """A fitted estimator in a file and back: the same to the last bit; bad files do no harm.

    Hostile files are made of the good one: entries of the manifest left out or of another type,
    arrays left out, of another shape or type, with NaN in them, each with a digest that fits; and
    every entry of its record spoilt by its kind (:func:`hostile_states`). Every one must
    be refused with ModelFileError, or be harmless: the same predictions. What a preprocessor of
    scikit-learn has learned is not mercer's to judge: a file with other numbers there is of another
    model.

    Parameters
    ----------
    estimator : a fitted estimator.
    X : (n, d) rows to predict.
    parts : classes of your own that it contains, itself included.
    variants : how many hostile files are tried at most.

    Returns
    -------
    How many hostile files were refused, and how many were harmless.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: record, or hostile record.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> X = np.linspace(0, 1, 8)[:, None]
    >>> refused, harmless = check_record(GPRegressor().fit(X, X[:, 0]), X, variants=10)
    >>> refused + harmless
    10
    """
    own, said = list(parts), dict(answers(estimator, X))
    holds("record", said, "the estimator must predict or transform")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        save(estimator, path)
        again = load(path, parts=own)
        holds("record", type(again) is type(estimator), f"a {type(estimator).__name__} comes back")
        for method, found in answers(again, X):
            text = f"{method} must be the same to the last bit after save and load"
            holds("record", found == said.get(method), text)
        holds("record", again.n_features_in_ == estimator.n_features_in_, "n_features_in_ is kept")
        twin = Path(folder) / "twin.mercer"
        save(again, twin)
        same = twin.read_bytes() == path.read_bytes()
        holds("record", same, "a file of what was loaded must be the same file")
        files, refused = list(_hostile(estimator, path)), 0
        order = np.random.default_rng(0).permutation(len(files))[:variants]
        for what, made in (files[int(i)] for i in order):
            container.write(str(twin), *made())
            refused += _outcome(what, twin, own, X, said)
        return refused, len(order) - refused


def answers(estimator: Any, X: Array) -> Iterator[tuple[str, Any]]:
    """Yield the name and the bytes of everything that a fitted estimator says of rows."""
    quiet = contextlib.suppress(AttributeError, ValueError, TypeError, NotImplementedError)
    for method in METHODS.split():
        with quiet:
            yield method, _bytes(getattr(estimator, method)(X))
    with quiet:
        yield "predict with return_std", _bytes(estimator.predict(X, return_std=True))


def _bytes(found: Any) -> list[Any]:
    each = found if isinstance(found, tuple) else (found,)
    return [None if a is None else (np.shape(a), np.asarray(a).tobytes()) for a in each]


def _hostile(estimator: Any, good: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is wrong with a file, and how its manifest and arrays are made."""
    with open(good, "rb") as file:
        contents = container.verified(file)
        manifest, arrays = json.loads(contents.manifest), container.read(contents)
    state = manifest["state"]
    for what, place, new in [*_manifests(state, ("manifest", "state")), *_arrays(arrays)]:
        yield what, partial(_changed, manifest, arrays, place, new)
    for what, spoilt in hostile_states(estimator) if hasattr(estimator, "_record") else ():
        yield what, partial(laid_out, manifest["estimator"], spoilt)


def _outcome(what: str, path: Path, own: list[type], X: Array, said: dict[str, Any]) -> bool:
    """Return whether the file was refused; raise if it was neither refused nor harmless."""
    wrong = f"hostile record: {what}:"
    try:
        found = load(path, parts=own)
    except ModelFileError:
        return True
    except Exception as error:
        text = f"{wrong} ModelFileError is expected, not {type(error).__name__}: {error}"
        raise AssertionError(text) from error
    try:
        here = dict(answers(found, X))
    except Exception as error:
        text = f"{wrong} accepted, and a prediction fails with {type(error).__name__}: {error}"
        raise AssertionError(text) from error
    if PREPROCESSOR in what.replace("/", "."):
        return False  # scikit-learn's: other numbers there are another model
    for method, wanted in said.items():
        text = f"{what}: accepted, and {method} differs; it must be refused or harmless"
        holds("hostile record", here.get(method) == wanted, text)
    return False


# what is wrong, where in the manifest and arrays of a file, and what is put there
Change = tuple[str, tuple[Any, ...], Any]


def _changed(manifest: Any, arrays: Any, place: tuple[Any, ...], new: Any) -> tuple[str, Any]:
    """Return a manifest's text and arrays with ``new`` at a place in them."""
    contents: Any = {"manifest": copy.deepcopy(manifest), "arrays": dict(arrays)}
    inside = contents
    for key in place[:-1]:
        inside = inside[key]
    if new is GONE:
        del inside[place[-1]]
    else:
        inside[place[-1]] = new
    fortran, left = contents["manifest"]["fortran"], contents["arrays"]
    contents["manifest"]["fortran"] = [name for name in fortran if name in left]
    return json.dumps(contents["manifest"]), left


def _manifests(value: Any, place: tuple[Any, ...]) -> Iterator[Change]:
    """Yield changes of every entry, at any depth; of long lists the first and the last."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        keys = sorted({0, len(value) - 1})
    for key in keys:
        here, name = (*place, key), ".".join(map(str, (*place[1:], key)))
        if isinstance(key, str):  # a list without an entry is another list
            yield f"{name} is left out", here, GONE
        for wrong in WRONG:
            if _sort(wrong) != _sort(value[key]):
                yield f"{name} is {wrong!r}", here, wrong
        yield from _manifests(value[key], here)


def _sort(value: Any) -> str:
    """Return the sort of a value: a number in place of a number is another model, no mistake."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


def _arrays(arrays: dict[str, Any]) -> Iterator[Change]:
    for name, a in arrays.items():
        first = np.arange(a.size).reshape(a.shape) == 0
        changes = {
            "is a row longer": np.concatenate([a, a[-1:]]) if a.ndim else a[None],
            "is a row shorter": a[:-1] if a.ndim else a[None],
            "has a dimension more": a[..., None],
            "is flat": a.ravel() if a.ndim > 1 else a[None],
            "holds NaN": np.where(first, np.nan, a),
            "holds infinity": np.where(first, np.inf, a),
            "is of single precision": a.astype(np.float32),
            "is whole numbers": np.zeros(a.shape, np.int64),
        }
        yield f"array {name} is left out", ("arrays", name), GONE
        for what, new in changes.items():
            if new.dtype != a.dtype or not np.array_equal(new, a):
                yield f"array {name} {what}", ("arrays", name), new


def hostile_states(estimator: Any) -> Spoilt:
    """Yield (what is wrong, state): every way to spoil what the record of an estimator declares."""
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
        case Triangle():
            values = stored["packed"]
            yield "one number more", {**stored, "packed": np.append(values, 1.0)}
            yield "a diagonal of zero", {**stored, "packed": 0.0 * values}
            yield "NaN in it", {**stored, "packed": np.nan * values}
            yield "without its order", {"packed": values}
            yield "an order that is none", {**stored, "fortran": 1}
            more = np.concatenate([values, np.ones(int(np.sqrt(2 * len(values))) + 1)])
            yield "of more rows", {**stored, "packed": more}
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
