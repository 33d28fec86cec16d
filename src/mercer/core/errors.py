"""Errors of linear algebra, files, export and of what is no number; where a warning points to."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The kernel matrix plus noise is not positive definite, beyond rounding (a ValueError)."""


class FoundNothingWarning(UserWarning):
    """A machine found nothing but noise, and says the same everywhere."""


class ModelFileError(ValueError):
    """The file is not a model file that this version of mercer can and may load."""


class ExportError(ValueError):
    """A model, or a part of one, that has no form in ONNX; the sentence says which and why."""


def outside() -> int:
    """Return the ``stacklevel`` for :func:`warnings.warn` of the first frame outside the package.

    It counts from the function that calls this one, which is the one that must warn.
    """
    level, frame = 1, sys._getframe(1)
    inside = f"{__name__.partition('.')[0]}."
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(inside):
        level, frame = level + 1, frame.f_back
    return level


def no_number(
    what: str,
    where: str,
    row: int,
    value: Any,
    otherwise: str = "use mercer.fit, which takes tables as they are",
) -> Exception:
    """Return the error for a column (``where``) with ``value``, which is no number, in ``row``."""
    shown = "" if value is None else repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    if what == "complex numbers":
        return ValueError(f"Complex data not supported: {where}, row {row} of X has {shown}")
    if what == "objects":
        return TypeError(
            f"{where}, row {row} of X has an object of type {type(value).__name__}: every argument "
            "must be a string of a number or a number"
        )
    remedy = {
        "dates": "turn them into numbers, e.g. days since the first one",
        "time spans": "turn them into numbers, e.g. seconds",
        "bytes": "decode them into numbers",
    }.get(what, "encode the column, e.g. with sklearn.preprocessing.OneHotEncoder")
    error = ValueError if what == "text" else TypeError
    return error(
        f"{where} of X holds {what}, not numbers: {shown} in row {row} cannot be converted to a "
        f"number; {remedy}, or {otherwise}"
    )


def not_finite(what: str, value: float, where: str, count: int) -> ValueError:
    """Return the error for NaN or infinity in ``what``, one of ``count`` values that are none."""
    kind = "NaN" if np.isnan(value) else "infinity (inf)"
    return ValueError(
        f"Input {what} contains {kind} in {where}"
        f" ({count} value{'s' if count > 1 else ''} not finite in all); drop these rows, or fill "
        "them first, e.g. with sklearn.impute.SimpleImputer in a pipeline"
    )
