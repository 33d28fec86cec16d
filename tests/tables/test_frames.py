"""Tables from everywhere become the same frame; kinds and rules of columns."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from mercer.tables import as_frame, infer_columns
from mercer.tables.data.frame import days
from mercer.tables.data.target import read_target

DATA = {
    "size": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "town": ["Ulm", None, "Bonn"],
    "open": [True, False, None],
    "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 2, 1)],
}


def _pandas():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(DATA).astype({"day": "datetime64[ns]"})


def _polars():
    return pytest.importorskip("polars").DataFrame(DATA)


def _pyarrow():
    return pytest.importorskip("pyarrow").table(DATA)


@pytest.mark.parametrize("make", [lambda: DATA, _pandas, _polars, _pyarrow])
def test_every_library_gives_the_same_frame(make):
    frame = as_frame(make())
    assert frame.names == list(DATA)
    assert [frame.kind(n) for n in frame.names] == ["number", "number", "text", "text", "date"]
    np.testing.assert_array_equal(frame.columns["size"], [1.5, np.nan, 3.0])
    assert frame.columns["town"].tolist() == ["Ulm", None, "Bonn"]
    assert frame.columns["open"].tolist() == ["true", "false", None]
    np.testing.assert_array_equal(frame.columns["day"], [19723.0, np.nan, 19754.0])


def test_arrays_and_structured_arrays():
    frame = as_frame(np.arange(6.0).reshape(3, 2))
    assert frame.names == ["x0", "x1"]
    given = np.array([(1, "a"), (2, "b")], dtype=[("n", int), ("t", "U1")])
    assert as_frame(given).columns["t"].tolist() == ["a", "b"]
    times = np.array(["2024-01-01T12:00", "NaT"], dtype="datetime64[ns]")
    np.testing.assert_array_equal(as_frame({"t": times}).columns["t"], [19723.5, np.nan])


def test_days_follow_the_clock_on_the_wall():
    zone = datetime.timezone(datetime.timedelta(hours=5))
    assert days(datetime.datetime(1970, 1, 1, 6, tzinfo=zone)) == 0.25


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([1, 2], TypeError, "a list is not a table"),
        ({"a": [1, 2], "b": [1]}, ValueError, "different lengths"),
        ({"a": [1.0, np.inf]}, ValueError, "'a' holds a number that is not finite"),
        ({"a": [1, 2, "three"]}, ValueError, "'a' holds 'three' among other things"),
        ({"a": [1, {}]}, ValueError, "'a' holds a dict among other things"),
    ],
)
def test_what_is_no_table_is_refused(table, error, message):
    with pytest.raises(error, match=message):
        as_frame(table)


def test_kinds_and_rules():
    n = 40
    frame = as_frame(
        {
            "customer_id": np.arange(n),
            "year": np.arange(n),
            "same": ["x"] * n,
            "empty": [None] * n,
            "name": [f"person{i}" for i in range(n)],
            "note": [f"the {i} quick brown foxes jump over {i % 7}" for i in range(n)],
            "town": [["Ulm", "Bonn", None][i % 3] for i in range(n)],
            "size": [None if i == 3 else float(i % 5) for i in range(n)],
        }
    )
    found = {c.name: c for c in infer_columns(frame)}
    kinds = {name: c.kind for name, c in found.items()}
    assert kinds == {
        "customer_id": "ignored",
        "year": "numeric",
        "same": "ignored",
        "empty": "ignored",
        "name": "ignored",
        "note": "text",
        "town": "categorical",
        "size": "numeric",
    }
    assert "13 missing: a value of their own" in found["town"].rule
    assert found["size"].rule == "standardised; 1 missing: the median, and an indicator"
    assert infer_columns(frame, ["customer_id"], chosen=True)[0].kind == "numeric"


def test_targets():
    frame = as_frame(
        {
            "two": [0, 1, 1, 0, None, 1],
            "five": [1, 2, 3, 3, 2, 1],
            "real": [0.1, 0.2, None, 0.4, 0.5, 0.6],
            "label": ["a", "b", "a", "b", "c", "c"],
            "one": ["a"] * 6,
            "each": list("abcdef"),
            "day": [datetime.date(2024, 1, i + 1) for i in range(6)],
        }
    )
    two = read_target(frame, "two")
    assert (two.kind, two.classes.tolist()) == ("partly", [0, 1])
    assert two.labels(np.arange(6)).tolist() == [0, 1, 1, 0, None, 1]
    five = read_target(frame, "five")
    assert five.kind == "regression"
    assert "ask for classification" in five.notes[0]
    assert read_target(frame, "five", "classification").kind == "multiclass"
    real = read_target(frame, "real")
    assert real.known.tolist() == [True, True, False, True, True, True]
    assert "1 rows have no value" in real.notes[0]
    assert read_target(frame, "label").kind == "multiclass"
    for name, kind, message in [
        ("one", None, "one class only"),
        ("each", None, "too many for classes"),
        ("day", None, "holds dates"),
        ("label", "regression", "holds text, such as 'a'"),
        ("label", "clustering", "kind must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_target(frame, name, kind)
