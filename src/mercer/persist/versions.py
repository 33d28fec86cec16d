"""What changed on the preprocessors between minor versions of scikit-learn, for files of others.

The fitted attributes of every class on the list were compared between these versions, and files of
each are read by each in the tests; there is no promise for a version that is not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.persist.errors import ModelFileError

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
