"""The contract of a model file: the same predictions to the last bit, and no harm by bad files."""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.persist import ModelFileError, container, laid_out, load, save
from mercer.persist.hostile import hostile_states
from mercer.testing.clauses import holds

METHODS = """predict predict_proba predict_log_proba decision_function predict_latent
predict_interval score_samples"""
WRONG: tuple[Any, ...] = (None, "a text", -1, 0.5, [], {}, [None])
GONE = object()  # in place of a value: the entry is left out


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
        files = list(_hostile(estimator, path))
        order = np.random.default_rng(0).permutation(len(files))[:variants]
        refused = 0
        for i in order:
            what, made = files[int(i)]
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
