"""The contract of a model file: the same predictions to the last bit, and no harm by bad files."""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.persist import ModelFileError, container, laid_out, load, save
from mercer.persist.hostile import hostile_states
from mercer.testing.clauses import holds

METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "predict_latent",
    "predict_interval",
    "score_samples",
)
WRONG: tuple[Any, ...] = (None, "a text", -1, 0.5, [], {}, [None])


def check_record(
    estimator: Any, X: Array, parts: Iterable[type] = (), variants: int = 120
) -> tuple[int, int]:
    """A fitted estimator in a file and back: the same to the last bit; bad files do no harm.

    Hostile files are made of the good one: entries of the manifest left out or of another type,
    arrays left out, of another shape or type, with NaN in them, each with a digest that fits; and
    every entry of its record spoilt by its kind (:mod:`mercer.persist.hostile`). Every
    one must be refused with ModelFileError, or be harmless: the same predictions.

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
    own = list(parts)
    said = dict(answers(estimator, X))
    holds("record", said, "the estimator must predict")
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
        return _check_hostile(estimator, path, twin, own, X, said, variants)


def answers(estimator: Any, X: Array) -> Iterator[tuple[str, Any]]:
    """Yield the name and the bytes of everything that a fitted estimator says of rows."""
    quiet = contextlib.suppress(AttributeError, ValueError, TypeError, NotImplementedError)
    for method in METHODS:
        with quiet:
            yield method, _bytes(getattr(estimator, method)(X))
    with quiet:
        yield "predict with return_std", _bytes(estimator.predict(X, return_std=True))


def _bytes(found: Any) -> list[Any]:
    each = found if isinstance(found, tuple) else (found,)
    return [None if a is None else (np.shape(a), np.asarray(a).tobytes()) for a in each]


def _check_hostile(
    estimator: Any,
    good: Path,
    bad: Path,
    own: list[type],
    X: Array,
    said: dict[str, Any],
    variants: int,
) -> tuple[int, int]:
    with open(good, "rb") as file:
        contents = container.verified(file)
        manifest, arrays = json.loads(contents.manifest), container.read(contents)
    every = [*_manifests(manifest), *_arrays(arrays), *_declared(estimator, manifest["estimator"])]
    order = np.random.default_rng(0).permutation(len(every))[:variants]
    refused = 0
    for i in order:
        what, change = every[int(i)]
        data, tensors = copy.deepcopy(manifest), dict(arrays)
        change(data, tensors)
        container.write(str(bad), json.dumps(data), tensors)
        refused += _outcome(what, bad, own, X, said)
    return refused, len(order) - refused


def _outcome(what: str, path: Path, own: list[type], X: Array, said: dict[str, Any]) -> bool:
    """Return whether the file was refused; raise if it was neither refused nor harmless."""
    try:
        found = load(path, parts=own)
    except ModelFileError:
        return True
    except Exception as error:
        raise AssertionError(
            f"hostile record: {what}: ModelFileError is expected, not {type(error).__name__}: "
            f"{error}"
        ) from error
    try:
        here = dict(answers(found, X))
    except Exception as error:
        raise AssertionError(
            f"hostile record: {what}: accepted, and a prediction fails with "
            f"{type(error).__name__}: {error}"
        ) from error
    for method, wanted in said.items():
        text = f"{what}: accepted, and {method} differs; it must be refused or harmless"
        holds("hostile record", here.get(method) == wanted, text)
    return False


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def _declared(estimator: Any, name: str) -> Iterator[tuple[str, Change]]:
    """Yield what the record of the estimator says to be wrong, if it has one."""
    for what, state in hostile_states(estimator) if hasattr(estimator, "_record") else ():

        def put(data: dict[str, Any], tensors: dict[str, Any], state: Any = state) -> None:
            text, rows = laid_out(name, state)
            data.update(json.loads(text))
            tensors.clear()
            tensors.update(rows)

        yield what, put


def _manifests(manifest: dict[str, Any]) -> Iterator[tuple[str, Change]]:
    for place in _places(manifest["state"], ("state",)):
        name = ".".join(map(str, place))

        def left_out(data: dict[str, Any], _: dict[str, Any], place: Any = place) -> None:
            del _at(data, place[:-1])[place[-1]]

        if isinstance(place[-1], str):  # a list without an entry is another list
            yield f"{name} is left out", left_out
        for wrong in WRONG:

            def other(
                data: dict[str, Any], _: dict[str, Any], place: Any = place, wrong: Any = wrong
            ) -> None:
                _at(data, place[:-1])[place[-1]] = wrong

            if _sort(wrong) != _sort(_at(manifest, place)):
                yield f"{name} is {wrong!r}", other


def _sort(value: Any) -> str:
    """Return the sort of a value: a number in place of a number is another model, no mistake."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every entry, at any depth; of long lists the first and the last."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list) and value:
        keys = sorted({0, len(value) - 1})
    for key in keys:
        yield (*place, key)
        yield from _places(value[key], (*place, key))


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key]
    return data


def _arrays(arrays: dict[str, Any]) -> Iterator[tuple[str, Change]]:
    changes: dict[str, Callable[[Any], Any]] = {
        "is a row longer": lambda a: np.concatenate([a, a[-1:]]) if a.ndim else a[None],
        "is a row shorter": lambda a: a[:-1] if a.ndim else a[None],
        "has a dimension more": lambda a: a[..., None],
        "is flat": lambda a: a.ravel() if a.ndim > 1 else a[None],
        "holds NaN": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
        "holds infinity": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.inf, a),
        "is of single precision": lambda a: a.astype(np.float32),
        "is whole numbers": lambda a: np.zeros(a.shape, np.int64),
    }
    for name, array in arrays.items():

        def gone(data: dict[str, Any], tensors: dict[str, Any], name: str = name) -> None:
            del tensors[name]
            data["fortran"] = [n for n in data["fortran"] if n != name]

        yield f"array {name} is left out", gone
        for what, made in changes.items():
            new = made(array)
            if new.shape == array.shape and new.dtype == array.dtype and _same(new, array):
                continue

            def put(
                data: dict[str, Any], tensors: dict[str, Any], name: str = name, new: Any = new
            ) -> None:
                tensors[name] = new

            yield f"array {name} {what}", put


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b))
