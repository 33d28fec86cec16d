"""The encoder: every kind of column, unseen values, dates and their cycles."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.tables import as_frame, infer_columns
from mercer.tables.data.encode import WEEK, YEAR, DateFeatures, encoded, fit_encoder


def _table(n=120):
    rng = np.random.default_rng(0)
    towns = ["Ulm", "Bonn", "Kiel"]
    days = np.datetime64("2022-01-01") + rng.integers(0, 1000, n).astype("timedelta64[D]")
    return {
        "x": rng.normal(5.0, 3.0, n),
        "gap": [None if i % 10 == 0 else float(i) for i in range(n)],
        "town": [None if i == 7 else towns[i % 3] for i in range(n)],
        "text": [
            f"warm and sunny day number {i}" if i % 2 else "cold wet day of rain" for i in range(n)
        ],
        "day": days,
    }


def test_columns_become_numbers_by_their_rules():
    table = _table()
    frame = as_frame(table)
    columns = infer_columns(frame)
    assert [c.kind for c in columns] == ["numeric", "numeric", "categorical", "text", "date"]
    encoder, X = fit_encoder(frame, columns)
    x = np.array(table["x"])
    np.testing.assert_allclose(X[:, 0], (x - x.mean()) / x.std(), atol=1e-12)
    gaps = np.array([v is None for v in table["gap"]])
    known = np.array([v for v in table["gap"] if v is not None])
    filled = np.array([np.median(known) if v is None else v for v in table["gap"]])
    np.testing.assert_allclose(X[:, 1], (filled - filled.mean()) / filled.std(), atol=1e-12)
    assert len(np.unique(X[gaps, 2])) == 1  # the indicator
    assert len(np.unique(X[:, 2])) == 2
    names = [str(n) for n in encoder.named_transformers_["categorical"].categories_[0]]
    assert names == ["Bonn", "Kiel", "Ulm"]  # one missing value is too rare for an indicator
    again = encoded(encoder, frame, columns)
    np.testing.assert_array_equal(again, X)


def test_new_values_and_gaps_are_no_errors():
    frame = as_frame(_table())
    columns = infer_columns(frame)
    encoder = fit_encoder(frame, columns)[0]
    new = as_frame(
        {"x": [None], "gap": [3.0], "town": ["Rome"], "text": [None], "day": ["nothing"]}
        | {"day": [np.datetime64("NaT")]}
    )
    row = encoded(encoder, new, columns)
    assert np.isfinite(row).all()
    start = 3
    np.testing.assert_array_equal(row[0, start : start + 3], 0.0)


def test_date_cycles_are_used_where_the_data_go_through_them():
    day = np.arange(0.0, 10.0)[:, None]
    assert DateFeatures().fit_transform(day).shape == (10, 1)
    assert DateFeatures().fit_transform(10 * day).shape == (10, 3)  # weeks
    assert DateFeatures().fit_transform(100 * day).shape == (10, 5)  # and years
    assert DateFeatures().fit_transform(100.25 * day).shape == (10, 7)  # and hours
    step = DateFeatures().fit(100 * day)
    A = step.transform(np.array([[100.0], [100.0 + YEAR], [100.0 + WEEK], [np.nan]]))
    np.testing.assert_allclose(A[0, 1:3], A[1, 1:3], atol=1e-9)
    np.testing.assert_allclose(A[0, 3:5], A[2, 3:5], atol=1e-9)
    np.testing.assert_array_equal(A[3], step.transform([[450.0]])[0])  # the median


def test_a_text_column_without_words_is_refused():
    frame = as_frame({"t": [f"- - - {'.' * i} -" for i in range(60)], "x": np.arange(60.0)})
    columns = infer_columns(frame)
    assert columns[0].kind == "text"
    with pytest.raises(ValueError, match="no words"):
        fit_encoder(frame, columns)


@pytest.mark.parametrize(
    ("days", "cycles"),
    [
        (np.arange(0.0, 1000.0, 7.0), [True, False, False]),  # every Thursday
        (np.round(365.25 * np.arange(30.0)), [False, True, False]),  # every first of January
        (np.arange(40.0) + 1 / 3, [False, True, False]),  # every day at eight
        (np.arange(0.0, 1000.0, 1.25), [True, True, True]),
    ],
)
def test_a_cycle_with_one_place_is_left_out(days, cycles):
    """Its cosine varies by rounding alone, and another place would be 1e12 deviations away."""
    step = DateFeatures().fit(days[:, None])
    assert step.cycles_[0].tolist() == cycles
    seen, new = step.transform(days[:, None]), step.transform(days[:, None] + 3.4)
    assert np.all(np.abs((new - seen.mean(axis=0)) / seen.std(axis=0)) < 10.0)


def test_columns_say_which_values_were_seen():
    from mercer.tables import as_frame
    from mercer.tables.data.columns import infer_columns

    table = {"size": [3.0, None, 1.0, 2.0], "town": ["Ulm", "Bonn", "Ulm", None]}
    size, town = infer_columns(as_frame(table))
    assert (size.low, size.middle, size.high) == (1.0, 2.0, 3.0)
    assert town.levels == ["Ulm", "Bonn"]  # the most frequent first
    assert town.low is None
    assert not size.levels
