"""Encoder: from the columns of a table to the numbers that a kernel machine works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer.arrays import Array
from mercer.tables.columns import Column
from mercer.tables.dates import DateFeatures
from mercer.tables.frame import Frame
from mercer.tables.weigh import weigh

RARE = 5  # rows that a category needs for an indicator of its own
TOPICS, WORDS = 30, 5000  # directions and words kept of a text column
FLAT = 1e-6  # directions smaller than this share of the largest are none


def encoder_for(columns: Sequence[Column], rows: int) -> ColumnTransformer:
    """Return the unfitted encoder of a matrix with the used columns, in order.

    All preprocessors are from a closed list, so that the pipeline can be written to a model file:
    SimpleImputer, StandardScaler, OneHotEncoder, DateFeatures, TfidfVectorizer, TruncatedSVD.
    """
    used = [c for c in columns if c.used]
    where = {kind: [j for j, c in enumerate(used) if c.kind == kind] for kind in _KINDS}
    steps: list[tuple[str, Any, Any]] = []
    if where["numeric"]:
        imputer = SimpleImputer(strategy="median", add_indicator=True)
        numbers = Pipeline([("impute", imputer), ("scale", StandardScaler())])
        steps.append(("numeric", numbers, where["numeric"]))
    if where["categorical"]:
        indicators = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps.append(("categorical", indicators, where["categorical"]))
    if where["date"]:
        dates = Pipeline([("cycles", DateFeatures()), ("scale", StandardScaler())])
        steps.append(("date", dates, where["date"]))
    for j in where["text"]:
        words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, min_df=2 if rows > 20 else 1)
        topics = TruncatedSVD(n_components=TOPICS, random_state=0)
        steps.append((f"text{j}", Pipeline([("words", words), ("topics", topics)]), j))
    return ColumnTransformer(steps, sparse_threshold=0.0)


_KINDS = ("numeric", "categorical", "date", "text")


def fit_encoder(
    frame: Frame, columns: Sequence[Column], weights: Array | None = None
) -> tuple[ColumnTransformer, Any]:
    """Return the fitted encoder and the encoded rows (n, d).

    ``weights`` (n,) count in medians, scales and categories as equal rows would; the words of a
    text column are counted by rows.
    """
    matrix = _matrix(frame, columns)
    encoder = encoder_for(columns, frame.n)
    for name, step, where in encoder.transformers:
        if name == "categorical":
            step.set_params(categories=[_categories(matrix[:, j], weights) for j in where])
        elif name.startswith("text"):
            step.set_params(topics__n_components=_topics(step, matrix[:, where]))
    # not fit_transform, whose last bits differ: training rows are encoded as new rows are
    encoder.fit(matrix)
    if weights is not None:
        weigh(encoder, matrix, weights)
    X = encoder.transform(matrix)
    return encoder, np.ascontiguousarray(X, dtype=np.float64)


def _matrix(frame: Frame, columns: Sequence[Column]) -> Any:
    used = [c for c in columns if c.used]
    return frame.matrix([c.name for c in used], [c.kind in ("categorical", "text") for c in used])


def _categories(column: Any, weights: Array | None) -> Any:
    """Return the values that occur often enough, sorted; the others have no indicator."""
    values, place = np.unique(column.astype(str), return_inverse=True)
    counts = np.bincount(place, weights)
    often = values[counts >= RARE] if counts.sum() >= 20 * RARE else values
    return np.array((often if len(often) else values).tolist(), dtype=object)


def _topics(step: Any, texts: Any) -> int:
    """Return how many directions the words of the texts span, at most :data:`TOPICS`.

    A direction of rounding errors must not be one: a machine would standardise it.
    """
    words, topics = step.named_steps["words"], step.named_steps["topics"]
    try:
        counts = words.fit_transform(texts)
    except ValueError as error:
        raise ValueError(f"a text column has no words that occur often enough: {error}") from None
    most = max(1, min(TOPICS, counts.shape[1] - 1, len(texts) - 1))
    sizes = topics.set_params(n_components=most).fit(counts).singular_values_
    return max(1, int(np.sum(sizes > FLAT * sizes[0])))


def encoded(encoder: ColumnTransformer, frame: Frame, columns: Sequence[Column]) -> Any:
    """Return the rows of a table for the machine, (n, d)."""
    X = encoder.transform(_matrix(frame, columns))
    return np.ascontiguousarray(X, dtype=np.float64)
