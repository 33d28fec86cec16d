"""Errors of linear algebra, of model files and of export; and the line that a warning points to."""

from __future__ import annotations

import sys

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
