"""Errors of the linear algebra, each a sentence with a remedy."""

from __future__ import annotations

import numpy as np


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The kernel matrix plus noise is not positive definite, beyond rounding (a ValueError)."""
