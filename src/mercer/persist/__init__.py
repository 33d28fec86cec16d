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
from typing import Any

from mercer.core.errors import ModelFileError
from mercer.persist import container, format1, registry
from mercer.persist.container import check_target, replacing

__all__ = ["ModelFileError", "check_target", "describe", "load", "replacing", "save"]

FORMAT = 2  # what is written; format 1, of versions before, is read
_FIELDS = {"format": int, "mercer": str, "estimator": str, "state": dict, "fortran": list}


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

    stored = registry.storable(estimator)
    if hasattr(estimator, "fit"):  # a table model is made fitted
        check_is_fitted(estimator)
    registry.check_parts(estimator.get_params(deep=False).values())
    text, rows = laid_out(registry.estimator_name(type(stored)), stored._state())
    with replacing(path) as temporary:
        container.write(temporary, text, rows)


def laid_out(estimator: str, state: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the manifest's text and the tensors of an estimator's name and its state."""
    import mercer

    arrays: dict[str, Any] = {}
    encoded = container.encode(state, arrays)
    # a column-major array is stored as its transpose, so that BLAS meets the same layout again
    fortran = sorted(k for k, a in arrays.items() if a.flags.f_contiguous > a.flags.c_contiguous)
    manifest = {"format": FORMAT, "mercer": mercer.__version__, "estimator": estimator}
    manifest |= {"state": encoded, "fortran": fortran}
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":"))
    return text, {name: a.T if name in fortran else a for name, a in arrays.items()}


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
            cls = registry.estimator_class(manifest["estimator"], own)
            arrays = container.read(contents)
        for name in manifest["fortran"]:
            arrays[name] = arrays[name].T
        state = container.decode(manifest["state"], arrays)
        if manifest["format"] == 1:
            state = format1.translated(state, arrays)
        if arrays:
            raise ModelFileError(f"the array {min(arrays)[:60]!r} is not part of such a model")
        return cls._from_state(state, lambda name: registry.part_class(name, own))
    except (ModelFileError, OSError) as error:
        raise _named(error, path) from None
    except Exception as error:  # a file's contents may break any constructor
        reason = f"its parts do not fit together ({type(error).__name__}: {error})"
        raise _named(ModelFileError(reason), path) from error


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
    except (ModelFileError, OSError) as error:
        raise _named(error, path) from None
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


def _named(error: Exception, path: str | os.PathLike[str]) -> Exception:
    if isinstance(error, ModelFileError):
        return ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}")
    return error
