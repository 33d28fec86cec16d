"""Pipelines in model files: a closed list of scikit-learn's preprocessors before a machine.

A step is one of

    {"machine": name, "state": ...}           an estimator of mercer
    {"own": name, "state": ...}               a transformer of the caller's, passed in by name
    {"sklearn": name, "version": ..., "params": ..., "fitted": ...}     a preprocessor on the list
    {"word": "drop" | "passthrough"}

A preprocessor is its parameters and the attributes that ``fit`` left, public or not: so its output
is the same to the last bit. What these mean was compared between the versions of :data:`KNOWN`.
Values that are not plain are a mapping with a key that names their type, see :func:`from_plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from mercer.core.container import DTYPES
from mercer.core.errors import ModelFileError
from mercer.core.kinds import PLAIN, Kind, Resolve, Sizes, check_type, item
from mercer.persist import check_parts, estimator_class, estimator_name
from mercer.persist.steps import check_step

Own = Mapping[str, type]
Inner = Callable[[Any], Any]
WORDS = ("drop", "passthrough")
KNOWN = ("1.7", "1.8", "1.9")
# parameters that came or went, and the value at which a class with them does as one without
NEUTRAL: dict[str, dict[str, Any]] = {
    "ColumnTransformer": {"force_int_remainder_cols": "deprecated"},  # until 1.8
    "MaxAbsScaler": {"clip": False},  # from 1.8
}
HOMES = {
    "sklearn.compose": "ColumnTransformer",
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.feature_extraction.text": "CountVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.impute": "MissingIndicator SimpleImputer",
    "sklearn.pipeline": "Pipeline",
    # a FunctionTransformer is the identity: no function is written
    "sklearn.preprocessing": "FunctionTransformer MaxAbsScaler MinMaxScaler Normalizer "
    "OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer "
    "RobustScaler StandardScaler",
}
HOMES = dict(sorted((name, home) for home, names in HOMES.items() for name in names.split()))
# what these parameters could do otherwise: keep pickles in a folder, read files named by the data
ONLY = {"memory": None, "input": "content"}
LEFT_OUT = {"_stop_words_id"}  # an address in memory; it only spares a check
TYPES: dict[str, type[np.generic]] = {
    np.dtype(kind).name: kind
    for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_, np.object_)
}
WIDEST = 4096  # characters of a text in an array of texts: a file may not ask for more room


def packed_step(step: Any, own: Own) -> dict[str, Any]:
    """Return a fitted step as plain values with arrays; ``own`` are further classes by name."""
    if isinstance(step, str) and step in WORDS:
        return {"word": step}
    cls = type(step)
    if own.get(cls.__name__) is cls:
        return {"own": cls.__name__, "state": step._state()}
    if hasattr(step, "_state"):
        name = estimator_name(cls)
        if "." in name:
            raise TypeError(
                f"{cls.__name__} is an estimator of your own, and a pipeline in a model file holds "
                "mercer's only; save the last step alone"
            )
        check_parts(step.get_params(deep=False).values())
        return {"machine": name, "state": step._state()}
    name = cls.__name__
    if name not in HOMES or cls is not class_of(name):
        raise TypeError(
            f"a {name} cannot be written to a model file: of scikit-learn these can: "
            f"{', '.join(HOMES)}; do the same with one of them, or before the pipeline"
        )
    params = step.get_params(deep=False)
    _check_params(params)
    fitted = {k: v for k, v in vars(step).items() if k not in params and k not in LEFT_OUT}

    def plain(values: dict[str, Any]) -> dict[str, Any]:
        return {k: to_plain(v, k, lambda inner: packed_step(inner, own)) for k, v in values.items()}

    return {"sklearn": name, "version": version(), "params": plain(params), "fitted": plain(fitted)}


def unpacked_step(stored: Any, own: Own, resolve: Resolve) -> Any:
    """Return the step of :func:`packed_step`, or refuse what it cannot have written."""

    def inner(value: Any) -> Any:
        return unpacked_step(value, own, resolve)

    match stored:
        case {"word": str(word), **rest} if not rest and word in WORDS:
            return word
        case {"own": str(name), "state": dict(state), **rest} if not rest and name in own:
            made: Any = own[name]
            return made._from_state(state, resolve)
        case {"machine": str(name), "state": dict(state), **rest} if not rest and "." not in name:
            return estimator_class(name, {})._from_state(state, resolve)
        case {
            "sklearn": str(name),
            "version": str(written),
            "params": dict(params),
            "fitted": dict(fitted),
            **rest,
        } if not rest:
            params = {k: from_plain(v, inner) for k, v in params.items()}
            fitted = {k: from_plain(v, inner) for k, v in fitted.items()}
            return _built(name, written, params, fitted)
    raise ModelFileError("a step of its pipeline is not one that mercer writes")


class Step(Kind):
    """A step of a pipeline in a record; ``whole``: a pipeline of named steps."""

    def __init__(self, own: Own | None = None, *, whole: bool = False) -> None:
        self.own, self.whole = own or {}, whole

    def write(self, value: Any) -> Any:
        return packed_step(value, self.own)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        check_type(stored, dict, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        step = unpacked_step(stored, self.own, resolve)
        return check_pipeline(step) if self.whole else step

    def told(self) -> str:
        return "a pipeline" if self.whole else "a step of a pipeline"


class StoredPipeline:
    """A scikit-learn pipeline whose steps are all on the list, as a model file sees it."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def _state(self) -> dict[str, Any]:
        return {"pipeline": packed_step(self.pipeline, {})}

    @classmethod
    def _from_state(cls, state: Any, resolve: Resolve) -> Any:
        if set(state) != {"pipeline"}:
            raise ModelFileError("its state does not consist of a pipeline")
        return check_pipeline(unpacked_step(state["pipeline"], {}, resolve))


def check_pipeline(step: Any) -> Any:
    """Return a pipeline of named steps, or refuse what stands in its place."""
    from sklearn.pipeline import Pipeline

    if type(step) is Pipeline and isinstance(step.steps, list) and step.steps:
        steps = [p for p in step.steps if isinstance(p, tuple) and len(p) == 2]
        fine = (isinstance(k, str) and (_is_word(v) or hasattr(v, "get_params")) for k, v in steps)
        if len(steps) == len(step.steps) and all(fine):
            return step
    raise ModelFileError("where a pipeline of named steps is wanted stands something else")


def _is_word(step: Any) -> bool:
    """Whether this stands for a step that does nothing."""
    return step is None or (isinstance(step, str) and step in WORDS)


def carried(
    name: str,
    written: str,
    installed: str,
    wanted: Iterable[str],
    params: dict[str, Any],
    fitted: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes of a file as the installed version has them.

    ``wanted`` are the parameters of the class today; what is not known to mean the same is refused.
    """
    if written not in KNOWN or installed not in KNOWN:
        raise ModelFileError(_remedy(written, installed))
    params, fitted = dict(params), dict(fitted)
    for key, value in NEUTRAL.get(name, {}).items():
        if key in wanted:
            params.setdefault(key, value)
        elif params.pop(key, value) != value:
            raise ModelFileError(f"{_remedy(written, installed)} ({key} is set)")
    kind, constants = fitted.get("_fit_dtype"), fitted.get("statistics_")
    if name == "SimpleImputer" and isinstance(kind, np.dtype) and isinstance(constants, np.ndarray):
        fitted.setdefault("_fill_dtype", kind)  # since 1.8 it stands there twice
        if installed == "1.7" and kind.kind != "O":  # since 1.8 a constant may be an object
            fitted["statistics_"] = constants.astype(kind)
    return params, fitted


def _remedy(written: str, installed: str) -> str:
    return (
        f"its pipeline was written with scikit-learn {written[:20]}, and {installed} is "
        f"installed: install scikit-learn {written[:20]}, or fit again"
    )


def class_of(name: str) -> Any:
    """Return the class of this name, if it is on the list."""
    if name not in HOMES:
        raise ModelFileError(f"it contains a preprocessor {name[:60]!r}, which is not on the list")
    return getattr(import_module(HOMES[name]), name)


def version() -> str:
    """Return major and minor version of scikit-learn."""
    import sklearn

    return ".".join(sklearn.__version__.split(".")[:2])


def _built(name: str, written: str, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    cls = class_of(name)
    wanted = set(cls._get_param_names())
    if written != version():
        params, fitted = carried(name, written, version(), wanted, params, fitted)
    if set(params) != wanted:
        raise ModelFileError(f"the parameters are not those of a {name}")
    _check_params(params, ModelFileError)
    step = cls(**params)
    step._validate_params()
    for attribute, value in fitted.items():
        if not attribute.isidentifier() or attribute[:2] == "__" or hasattr(cls, attribute):
            raise ModelFileError(f"a {name} has no fitted attribute {attribute[:60]!r}")
        setattr(step, attribute, value)
    if fitted:
        check_step(step)
    return check_pipeline(step) if name == "Pipeline" else step


def _check_params(params: dict[str, Any], error: type[Exception] = TypeError) -> None:
    for name, only in ONLY.items():
        if params.get(name, only) != only:
            raise error(f"{name}={params[name]!r:.60} cannot be part of a model file: use {only!r}")


def to_plain(value: Any, place: str, inner: Inner) -> Any:
    """Return ``value`` as plain values; ``inner(step)`` writes a preprocessor inside."""
    value = item(value)
    if value is None or type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return _array(value, place)
    if isinstance(value, np.dtype) and value.name in TYPES:
        return {"dtype": value.name}
    if isinstance(value, type):
        known = issubclass(value, np.generic) or value in (bool, int, float, object)
        if known and np.dtype(value).name in TYPES:
            return {"type": np.dtype(value).name}
    elif isinstance(value, slice):
        return {"slice": [to_plain(v, place, inner) for v in (value.start, value.stop, value.step)]}
    elif isinstance(value, (list, tuple)):
        items = [to_plain(v, place, inner) for v in value]
        return items if isinstance(value, list) else {"tuple": items}
    elif isinstance(value, dict):
        keys = [item(k) for k in value]
        odd = [k for k in keys if type(k) not in (str, int)]
        if odd:
            raise TypeError(
                f"a mapping with the key {odd[0]!r:.40} cannot be written to a model file"
            )
        pairs = zip(keys, value.values(), strict=True)
        return {"pairs": [[k, to_plain(v, place, inner)] for k, v in pairs]}
    elif hasattr(value, "get_params"):
        return {"step": inner(value)}
    raise TypeError(
        f"{place}={value!r:.80} cannot be written to a model file: only plain "
        "values and a closed list of scikit-learn's preprocessors can, no functions"
    )


def from_plain(value: Any, inner: Inner) -> Any:
    """Undo :func:`to_plain`, or refuse what it cannot have written."""
    if value is None or type(value) in PLAIN or isinstance(value, np.ndarray):
        return value
    if isinstance(value, list):
        return [from_plain(v, inner) for v in value]
    match value:
        case {"tuple": list(items), **rest} if not rest:
            return tuple(from_plain(v, inner) for v in items)
        case {"pairs": list(pairs), **rest} if not rest and all(map(_is_pair, pairs)):
            return {k: from_plain(v, inner) for k, v in pairs}
        case {"slice": [_, _, _] as ends, **rest} if not rest and _are(ends, int):
            return slice(*ends)
        case {"type": str(name), **rest} if not rest and name in TYPES:
            return TYPES[name]
        case {"dtype": str(name), **rest} if not rest and name in TYPES:
            return np.dtype(TYPES[name])
        case {"texts": list(words), "width": int(width), **rest} if (
            not rest and 1 <= width <= WIDEST
        ):
            if all(type(w) is str and len(w) <= width for w in words):
                return np.array(words, dtype=f"<U{width}")
        case {"objects": list(items), **rest} if not rest and _are(items, *PLAIN):
            made = np.empty(len(items), dtype=object)
            made[:] = items
            return made
        case {"step": dict(step), **rest} if not rest:
            return inner(step)
    raise ModelFileError("a value of its pipeline is not one that mercer writes")


def _array(value: Any, place: str) -> Any:
    """Return an array: of numbers as it is, of texts and of objects as a list."""
    if value.dtype.newbyteorder("<") in DTYPES.values():
        return value
    if value.ndim == 1 and value.dtype.kind == "U" and value.dtype.itemsize <= 4 * WIDEST:
        return {"texts": value.tolist(), "width": max(1, value.dtype.itemsize // 4)}
    if value.ndim == 1 and value.dtype.kind == "O":
        items = [item(v) for v in value]
        if _are(items, *PLAIN):
            return {"objects": items}
    raise TypeError(
        f"{place}, an array of {value.dtype} with {value.ndim} axes, cannot be "
        "written to a model file: numbers, and one axis of texts and numbers, can"
    )


def _are(values: list[Any], *types: type) -> bool:
    return all(v is None or type(v) in types for v in values)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (str, int)
