"""The encoder: from the columns of a table to the numbers that a kernel machine works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Flags, Numbers, Record
from mercer.core.record import Maybe, Recorded
from mercer.tables.data.columns import Column
from mercer.tables.data.frame import Frame, objects
from mercer.tables.data.weights import middle

YEAR, WEEK = 365.2425, 7.0


SPREAD = 0.005  # circular variance: places within about a twentieth of a cycle are the same


class DateFeatures(TransformerMixin, Recorded, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Turn columns of days since 1970 (n, d), NaN where missing, into numbers.

    Each column gives the day; cosine and sine of its place in the year if the data span one and a
    half years, in the week if they span three weeks, in the day if there are times of day; and an
    indicator of missing values, which count as the median day. A cycle in which all rows have about
    the same place, as every Monday has in the week, says nothing and is left out.

    Attributes
    ----------
    middle_ : (d,) the median day of each column.
    cycles_ : (d, 3) whether the year, the week and the day are used.
    gaps_ : (d,) whether a value was missing in ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> DateFeatures().fit_transform(np.arange(0.0, 30.0, 10.0)[:, None]).shape
    (3, 1)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look which cycles the columns of X (n, d) go through."""
        A = np.asarray(X, dtype=np.float64)
        self.n_features_in_ = A.shape[1]
        self.gaps_: Any = np.isnan(A).any(axis=0)
        self.middle_ = np.nanmedian(A, axis=0)
        span = np.nanmax(A, axis=0) - np.nanmin(A, axis=0)
        part = np.where(np.isnan(A), 0.0, A % 1.0)
        clock = np.any(part != 0.0, axis=0)
        long = np.column_stack([span > 1.5 * YEAR, span > 3 * WEEK, clock])
        turns = (
            np.nanmean(np.exp(2j * np.pi * A / period), axis=0) for period in (YEAR, WEEK, 1.0)
        )
        self.cycles_ = long & (1.0 - np.abs(np.column_stack(list(turns))) > SPREAD)
        return self

    def transform(self, X: Any) -> Array:
        """Return the features of X (n, d), the columns one after the other."""
        check_is_fitted(self)
        A = np.asarray(X, dtype=np.float64)
        found = []
        for j in range(A.shape[1]):
            absent = np.isnan(A[:, j])
            day = np.where(absent, self.middle_[j], A[:, j])
            found.append(day)
            for on, period in zip(self.cycles_[j], (YEAR, WEEK, 1.0), strict=True):
                if on:
                    turn = 2.0 * np.pi * day / period
                    found += [np.cos(turn), np.sin(turn)]
            if self.gaps_[j]:
                found.append(absent.astype(np.float64))
        return np.column_stack(found)

    @classmethod
    def _record(cls) -> Record:
        fitted = {
            "middle_": Numbers("d", finite=False),
            "gaps_": Flags("d"),
            "cycles_": Flags("d 3"),
        }
        return {name: Maybe(kind, absent=True) for name, kind in fitted.items()}

    def _restored(self) -> None:
        if hasattr(self, "middle_"):
            self.n_features_in_ = len(self.middle_)


def weigh(encoder: ColumnTransformer, matrix: Any, weights: Array) -> None:
    """Set what the fitted encoder of ``matrix`` (n, d) has learned from it anew, with weights (n,).

    It becomes the encoder of a matrix in which each row is repeated as often as its weight says:
    scikit-learn's imputer knows no weights, and its column transformer hands none on.
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


RARE = 5  # rows that a category needs for an indicator of its own
TOPICS, WORDS = 30, 5000  # directions and words kept of a text column
FLAT = 1e-6  # directions smaller than this share of the largest are none


def encoder_for(columns: Sequence[Column], rows: int) -> ColumnTransformer:
    """Return the unfitted encoder of a matrix with the used columns, in order.

    Its steps are of a closed list, so that the pipeline can be written to a model file.
    """
    used = [c for c in columns if c.used]
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    kinds = {
        "numeric": Pipeline([("impute", imputer), ("scale", StandardScaler())]),
        "categorical": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        "date": Pipeline([("cycles", DateFeatures()), ("scale", StandardScaler())]),
    }
    where = {kind: [j for j, c in enumerate(used) if c.kind == kind] for kind in (*kinds, "text")}
    steps: list[Any] = [(kind, step, where[kind]) for kind, step in kinds.items() if where[kind]]
    for j in where["text"]:
        words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, min_df=2 if rows > 20 else 1)
        topics = TruncatedSVD(n_components=TOPICS, random_state=0)
        steps.append((f"text{j}", Pipeline([("words", words), ("topics", topics)]), j))
    groups = [j for j, c in enumerate(used) if c.kind == "group"]
    if groups:  # the last column, by which kernels of groups find it
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        steps.append(("group", codes, groups))
    return ColumnTransformer(steps, sparse_threshold=0.0)


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
    return encoder, np.ascontiguousarray(encoder.transform(matrix), dtype=np.float64)


def _matrix(frame: Frame, columns: Sequence[Column]) -> Any:
    used = [c for c in columns if c.used]
    for c in used:
        if c.kind == "group":  # words, however they are written
            own = frame.columns[c.name].tolist() if c.name in frame.columns else [None] * frame.n
            words = objects(None if v is None or v != v else word_of(v) for v in own)
            frame = replace(frame, columns={**frame.columns, c.name: words})
    texts = [c.kind in ("categorical", "text", "group") for c in used]
    return frame.matrix([c.name for c in used], texts)


def word_of(value: Any) -> str:
    """Return a group as text: 7 and 7.0 and "7" are the same."""
    number = isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53
    return str(int(value)) if number else str(value)


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
    return np.ascontiguousarray(encoder.transform(_matrix(frame, columns)), dtype=np.float64)
