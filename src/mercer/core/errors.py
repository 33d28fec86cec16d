"""Errors of mercer: of linear algebra, of model files and of export."""

from __future__ import annotations

import numpy as np


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The kernel matrix plus noise is not positive definite, beyond rounding (a ValueError)."""


class ModelFileError(ValueError):
    """The file is not a model file that this version of mercer can and may load."""


class ExportError(ValueError):
    """A model, or a part of one, that has no form in ONNX; the sentence says which and why."""
