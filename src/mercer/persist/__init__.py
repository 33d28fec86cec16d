"""Model files: :func:`save` and :func:`load`, without pickle (docs/model-files.md).

A model file is a safetensors file (https://github.com/huggingface/safetensors) with a manifest and
a digest in it. Nothing in it is executed: classes are looked up by name in a closed registry, those
of your own only if they are handed to :func:`load`. All of it is checked before any tensor is
allocated; the digest finds damage, and is not a signature.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from mercer.core import container
from mercer.core.component import Component
from mercer.core.container import check_target, replacing
from mercer.core.errors import ModelFileError
from mercer.persist import format1

__all__ = ["ModelFileError", "check_target", "describe", "load", "replacing", "save"]

FORMAT = 2  # what is written; format 1, of versions before, is read
_FIELDS = {"format": int, "mercer": str, "estimator": str, "state": dict, "fortran": list}
PIPELINE = "Pipeline"  # scikit-learn's, of steps that are on the list
ROOMS = ("kernels", "losses", "inference", "search", "basis", "linalg")


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to ``path``: completely or not at all.

    Parameters
    ----------
    estimator : a fitted mercer estimator, what :func:`mercer.fit` returns, or a scikit-learn
        Pipeline of preprocessors from a closed list (docs/model-files.md) and such an estimator.
        Its parts may be classes of your own (subclasses of Component); a bare function cannot be
        saved.
    path : the file, by convention ``*.mercer``. An existing file is replaced in one step.

    Examples
    --------
    >>> import mercer, numpy as np, tempfile, os
    >>> X = np.linspace(0, 1, 8)[:, None]
    >>> model = mercer.GPRegressor().fit(X, np.sin(6 * X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sine.mercer")
    ...     mercer.save(model, path)
    ...     again = mercer.load(path)
    >>> bool(np.all(again.predict(X) == model.predict(X)))
    True
    """
    from sklearn.utils.validation import check_is_fitted

    stored = storable(estimator)
    check_is_fitted(estimator)
    own = getattr(stored, "_stored_params", None)
    check_parts((estimator.get_params(deep=False) if own is None else own()).values())
    text, rows = laid_out(estimator_name(type(stored)), stored._state())
    with replacing(path) as temporary:
        container.write(temporary, text, rows)


def laid_out(estimator: str, state: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the manifest's text and the tensors of an estimator's name and its state."""
    import mercer

    encoded, rows, fortran = container.laid_out(state)
    manifest = {"format": FORMAT, "mercer": mercer.__version__, "estimator": estimator}
    manifest |= {"state": encoded, "fortran": fortran}
    return json.dumps(manifest, allow_nan=False, separators=(",", ":")), rows


def load(path: str | os.PathLike[str], parts: Iterable[type] = ()) -> Any:
    """Return the estimator written by :func:`save`; its predictions are the same to the last bit.

    Parameters
    ----------
    path : the model file.
    parts : your own classes that the model contains, for example ``[MyKernel]``; they are found by
        class name. A class that is neither mercer's nor given here is refused.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, of another format or version, or names an unknown class.
    """
    own = {part.__name__: part for part in parts}
    try:
        with open(path, "rb") as file:
            contents = container.verified(file)
            manifest = _checked(contents)
            cls = estimator_class(manifest["estimator"], own)
            arrays = container.read(contents)
        for name in manifest["fortran"]:
            arrays[name] = arrays[name].T
        state = container.decode(manifest["state"], arrays)
        if manifest["format"] == 1:
            state = format1.translated(state, arrays)
        if arrays:
            raise ModelFileError(f"the array {min(arrays)[:60]!r} is not part of such a model")
        return cls._from_state(state, lambda name: part_class(name, own))
    except (OSError, MemoryError):
        raise
    except ModelFileError as error:
        raise _unloadable(path, error) from None
    except Exception as error:  # a file's contents may break any constructor
        reason = f"its parts do not fit together ({type(error).__name__}: {error})"
        raise _unloadable(path, reason) from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says of itself, digest verified, without building anything.

    Keys: ``format``, ``mercer`` (the version that wrote it), ``estimator``, ``sha256``, ``bytes``,
    ``tensors`` (name: shape).
    """
    try:
        with open(path, "rb") as file:
            contents = container.verified(file)
            manifest = _checked(contents)
            digest = container.stored_digest(contents).hex()
    except ModelFileError as error:
        raise _unloadable(path, error) from None
    about = {key: manifest[key] for key in ("format", "mercer", "estimator")}
    size = contents.start + max(tensor.end for tensor in contents.table.values())
    shapes = {name: list(t.shape) for name, t in contents.table.items() if name != container.DIGEST}
    return about | {"sha256": digest, "bytes": size, "tensors": shapes}


def _checked(contents: container.Contents) -> Mapping[str, Any]:
    """Return the manifest if its fields are the expected ones."""
    data = container.parse(contents.manifest, "manifest")
    if not isinstance(data, dict) or type(data.get("format")) is not int:
        raise ModelFileError("its manifest has no format number")
    if data["format"] not in (1, FORMAT):
        raise ModelFileError(
            f"it has format {data['format']}, and this version of mercer reads the formats 1 and "
            f"{FORMAT}: use the version that wrote it"
        )
    if set(data) != set(_FIELDS) or any(type(data[k]) is not t for k, t in _FIELDS.items()):
        raise ModelFileError(f"its manifest does not consist of {', '.join(_FIELDS)}")
    tensors = set(contents.table) - {container.DIGEST}
    names = data["fortran"]
    if not all(isinstance(n, str) and n in tensors for n in names) or len(names) != len(set(names)):
        raise ModelFileError("its manifest names a tensor that is not there, or one twice")
    return data


def _unloadable(path: str | os.PathLike[str], reason: object) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)} cannot be loaded: {reason}")


def part_class(name: Any, own: Mapping[str, type]) -> type[Component]:
    """Return the class of the part ``name``: mercer's (``kernels.RBF``) or one of ``own``."""
    if not isinstance(name, str):
        raise ModelFileError("its manifest names a class by something that is not text")
    found: Any = _exported(name) if _reserved(name) else own.get(name.rpartition(".")[2])
    if not (isinstance(found, type) and issubclass(found, Component)):
        raise ModelFileError(_unknown("a part", name))
    return found


def estimator_class(name: str, own: Mapping[str, type]) -> Any:
    """Return the estimator's class: one of ``mercer.__all__``, or with a dotted name of ``own``."""
    import mercer

    found: Any = None
    if name == PIPELINE:
        found = import_module("mercer.persist.pipelines").StoredPipeline
    elif "." in name:
        found = own.get(name.rpartition(".")[2])
    elif name in mercer.__all__:
        found = getattr(mercer, name)
    if not (isinstance(found, type) and hasattr(found, "_from_state")):
        raise ModelFileError(_unknown("an estimator", name))
    return found


def storable(estimator: Any) -> Any:
    """Return what can be asked for its state: the estimator, or a pipeline in its stored form."""
    from sklearn.pipeline import Pipeline

    from mercer.persist.pipelines import StoredPipeline

    if type(estimator) is Pipeline:
        return StoredPipeline(estimator)
    if not hasattr(estimator, "_state"):
        inside = "; save its .learner" if hasattr(estimator, "learner") else ""
        raise TypeError(
            f"{type(estimator).__name__} is not a mercer estimator: a model file holds one, or a "
            f"scikit-learn Pipeline that ends in one{inside}"
        )
    return estimator


def estimator_name(cls: type) -> str:
    """Return the name under which :func:`estimator_class` finds ``cls``."""
    import mercer

    if cls.__module__ == "mercer.persist.pipelines":
        return PIPELINE
    name = cls.__name__
    own = name in mercer.__all__ and getattr(mercer, name) is cls
    return name if own else f"{cls.__module__}.{cls.__qualname__}"


def check_parts(values: Iterable[Any]) -> None:
    """Refuse, before writing, bare functions and parts whose name would be another class's."""
    for value in values:
        if isinstance(value, (list, tuple)):
            check_parts(value)
        elif isinstance(value, Component):
            name = value.part_name()
            if _reserved(name) and _exported(name) is not type(value):
                raise TypeError(
                    f"{type(value).__name__} would be written as {name!r}, a name reserved for "
                    "mercer's own parts: define it in a module of another name"
                )
            check_parts(_written(value))
        elif callable(value):
            raise TypeError(
                "a bare function cannot be written to a model file; wrap it in a Component "
                "subclass and pass that class to load(path, parts=[...])"
            )


def _written(part: Component) -> Iterable[Any]:
    """Return the parameters that reach the file; a part may leave functions out of its form."""
    values = part.get_params(deep=False).values()
    try:
        part.to_dict()
    except TypeError:
        return values
    return [v for v in values if isinstance(v, Component) or not callable(v)]


def _reserved(name: str) -> bool:
    return name.partition(".")[0] in ROOMS


def _exported(name: str) -> type[Component] | None:
    room, _, cls = name.partition(".")
    module = import_module(f"mercer.{room}")
    found = getattr(module, cls) if cls in module.__all__ else None
    part = isinstance(found, type) and issubclass(found, Component) and found.part_name() == name
    return found if part else None


def _unknown(what: str, name: str) -> str:
    last = name.rpartition(".")[2][:40]
    return (
        f"it contains {what} {name[:80]!r}, which mercer does not have; "
        f"if it is a class of yours, pass it: load(path, parts=[{last}])"
    )
