"""The closed list of scikit-learn's classes that a model file may hold, and their fitted state.

A preprocessor is its parameters and the attributes that ``fit`` left, public or not: so its output
is the same to the last bit. Attributes that are not public may change their meaning between
versions of scikit-learn, so a file is read by the minor version that wrote it, and by those that
:mod:`mercer.persist.preprocessors` knows to mean the same.

What changed on the preprocessors between minor versions of scikit-learn, for files of others.

The fitted attributes of every class on the list were compared between these versions, and files of
each are read by each in the tests; there is no promise for a version that is not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from mercer.core.errors import ModelFileError

KNOWN = ("1.7", "1.8", "1.9")
# parameters that came or went, and the value at which a class with them does as one without
NEUTRAL: dict[str, dict[str, Any]] = {
    "ColumnTransformer": {"force_int_remainder_cols": "deprecated"},  # until 1.8
    "MaxAbsScaler": {"clip": False},  # from 1.8
}


def carried(
    name: str,
    written: str,
    installed: str,
    wanted: Iterable[str],
    params: dict[str, Any],
    fitted: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes as the installed version has them.

    ``written`` is the version of the file, ``wanted`` are the parameters that the class has today;
    refuse what the file is not known to mean today.
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


HOMES = {
    "ColumnTransformer": "sklearn.compose",
    "CountVectorizer": "sklearn.feature_extraction.text",
    "FunctionTransformer": "sklearn.preprocessing",  # the identity: no function is written
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "MissingIndicator": "sklearn.impute",
    "Normalizer": "sklearn.preprocessing",
    "OneHotEncoder": "sklearn.preprocessing",
    "OrdinalEncoder": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "Pipeline": "sklearn.pipeline",
    "PolynomialFeatures": "sklearn.preprocessing",
    "PowerTransformer": "sklearn.preprocessing",
    "QuantileTransformer": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "SimpleImputer": "sklearn.impute",
    "StandardScaler": "sklearn.preprocessing",
    "TfidfTransformer": "sklearn.feature_extraction.text",
    "TfidfVectorizer": "sklearn.feature_extraction.text",
    "TruncatedSVD": "sklearn.decomposition",
}
# what these parameters could do otherwise: keep pickles in a folder, read files named by the data
ONLY = {"memory": None, "input": "content"}
LEFT_OUT = {"_stop_words_id"}  # an address in memory; it only spares a check


def class_of(name: str) -> Any:
    """Return the class of this name, if it is on the list."""
    if name not in HOMES:
        raise ModelFileError(f"it contains a preprocessor {name[:60]!r}, which is not on the list")
    return getattr(import_module(HOMES[name]), name)


def name_of(step: Any) -> str:
    """Return the name of a step on the list; refuse any other, before anything is written."""
    name = type(step).__name__
    if name in HOMES and type(step) is class_of(name):
        return name
    raise TypeError(
        f"a {name} cannot be written to a model file: of scikit-learn these can: "
        f"{', '.join(HOMES)}; do the same with one of them, or before the pipeline"
    )


def version() -> str:
    """Return major and minor version of scikit-learn."""
    import sklearn

    return ".".join(sklearn.__version__.split(".")[:2])


def parts_of(step: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a step and what its ``fit`` left."""
    params: dict[str, Any] = step.get_params(deep=False)
    _check_params(params)
    fitted = {k: v for k, v in vars(step).items() if k not in params and k not in LEFT_OUT}
    return params, fitted


def built(name: str, written: str, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """Return the step with these parameters and what its ``fit`` had left."""
    cls = class_of(name)
    wanted = set(cls._get_param_names())
    if written != version():
        params, fitted = carried(name, written, version(), wanted, params, fitted)
    if set(params) != wanted:
        raise ModelFileError(f"the parameters are not those of a {name}")
    try:
        _check_params(params)
    except TypeError as error:
        raise ModelFileError(str(error)) from None
    step = cls(**params)
    for attribute, value in fitted.items():
        if not attribute.isidentifier() or attribute[:2] == "__" or hasattr(cls, attribute):
            raise ModelFileError(f"a {name} has no fitted attribute {attribute[:60]!r}")
        setattr(step, attribute, value)
    return step


def _check_params(params: dict[str, Any]) -> None:
    for name, only in ONLY.items():
        if params.get(name, only) != only:
            raise TypeError(
                f"{name}={params[name]!r:.60} cannot be part of a model file: use {only!r}"
            )
