"""weigh: medians and scales of a fitted encoder, with every row counted by its weight.

scikit-learn's imputer knows no weights, and its column transformer hands none on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from mercer.arrays import Array
from mercer.tables.dates import DateFeatures
from mercer.tables.weights import middle


def weigh(encoder: ColumnTransformer, matrix: Any, weights: Array) -> None:
    """Set what the fitted encoder of ``matrix`` (n, d) has learned from it anew, with weights (n,).

    It becomes the encoder of a matrix in which each row is repeated as often as its weight says.
    """
    for name, pipeline, where in encoder.transformers_:
        if name not in ("numeric", "date"):
            continue
        A = np.asarray(matrix[:, where], dtype=np.float64)
        for _, step in pipeline.steps:
            if isinstance(step, SimpleImputer):
                step.statistics_ = _middles(A, weights)
            elif isinstance(step, DateFeatures):
                step.middle_ = _middles(A, weights)
            elif isinstance(step, StandardScaler):
                step.fit(A, sample_weight=weights)
            A = step.transform(A)


def _middles(A: Array, weights: Array) -> Array:
    """Return the weighted median of each column of A (n, d), NaN left out; NaN of nothing."""
    pairs = [(a[~np.isnan(a)], weights[~np.isnan(a)]) for a in A.T]
    return np.array([middle(a, w) if len(a) else np.nan for a, w in pairs])
