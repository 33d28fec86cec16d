"""What machines on partly labelled rows accept, and how they refuse the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer import LapLSClassifier, LapMEDClassifier, LapSVC
from mercer.estimators.shared.labels import merge_vertices, split_labels
from mercer.kernels import RBF, Precomputed

MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]
X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])


# ---------------------------------------------------------------------- labels
@pytest.mark.parametrize(
    ("y", "mark", "known", "labels"),
    [
        (["a", None, "b"], None, [1, 0, 1], ["a", "b"]),
        (["a", np.nan, "b"], None, [1, 0, 1], ["a", "b"]),
        (np.array([1.0, np.nan, 0.0]), None, [1, 0, 1], [1.0, 0.0]),
        ([1, None, 0], None, [1, 0, 1], [1, 0]),
        ([1, pd.NA, 0], None, [1, 0, 1], [1, 0]),
        ([1, -1, 0], None, [1, 1, 1], [1, -1, 0]),
        ([1, -1, 0], -1, [1, 0, 1], [1, 0]),
        (["a", "?", None], "?", [1, 0, 0], ["a"]),
        (pd.Series(["a", None, "b"]), None, [1, 0, 1], ["a", "b"]),
        (pd.Series([1, pd.NA, 0], dtype="Int64"), None, [1, 0, 1], [1, 0]),
        (None, None, [0, 0, 0], []),
        ([None, None, None], None, [0, 0, 0], []),
        ([True, None, False], None, [1, 0, 1], [True, False]),
    ],
)
def test_which_rows_are_labelled(y: Any, mark: Any, known: list[int], labels: list[Any]) -> None:
    found, values = split_labels(y, 3, mark)
    np.testing.assert_array_equal(found, np.array(known, dtype=bool))
    assert values.tolist() == labels
    assert not len(labels) or values.dtype != object


def test_labels_of_an_object_array_without_gaps_stay() -> None:
    _, values = split_labels(np.array(["a", "b"], dtype=object), 2)
    assert values.dtype == object


def test_infinity_is_no_label() -> None:
    with pytest.raises(ValueError, match="infinity in row 2"):
        split_labels([0.0, np.nan, np.inf], 3)


def test_equal_rows_are_one_vertex() -> None:
    table = np.array([[3.0], [1.0], [3.0], [2.0], [1.0], [1.0]])
    known = np.array([True, False, True, True, True, True])
    weights = np.array([1.0, 1.0, 2.0, 0.0, 1.0, 3.0])
    codes = np.array([0, 1, 1, 1, 0])
    found = merge_vertices(table, weights, known, codes, weights[known])
    np.testing.assert_array_equal(found.points[:, 0], [3.0, 1.0])  # 2.0 has no weight
    np.testing.assert_array_equal(found.rows, [0, 1])
    triples = set(zip(found.at.tolist(), found.codes.tolist(), found.weights.tolist(), strict=True))
    assert triples == {(0, 0, 1.0), (0, 1, 2.0), (1, 1, 1.0), (1, 0, 3.0)}


@pytest.mark.parametrize("machine", MACHINES)
def test_minus_one_is_a_label_unless_told(machine: Any) -> None:
    y = [1, -1, -1, -1, -1, 0]
    assert machine(n_neighbors=2).fit(X, y).classes_.tolist() == [-1, 0, 1]
    model = machine(n_neighbors=2, unlabelled=-1).fit(X, y)
    assert model.classes_.tolist() == [0, 1]
    assert model.predict(X).tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_table_with_names(machine: Any) -> None:
    table = pd.DataFrame({"size": X[:, 0]})
    model = machine(n_neighbors=2).fit(table, pd.Series(["a", None, None, None, None, "b"]))
    assert list(model.feature_names_in_) == ["size"]
    assert model.predict(table).tolist() == ["a"] * 3 + ["b"] * 3
    assert "size" not in str(model.summary())
    assert "edges" in str(model.summary())


# ---------------------------------------------------------------------- refusals
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"C": 0.0}, "C must be"),
    ({"beta": -1.0}, "beta must be"),
    ({"beta": np.inf}, "beta must be"),
    ({"beta": "1"}, "beta must be"),
    ({"gamma_A": 0.1}, "both or none"),
    ({"gamma_I": 0.1}, "both or none"),
    ({"gamma_A": 0.0, "gamma_I": 0.1}, "gamma_A must be"),
    ({"n_neighbors": 0}, "n_neighbors must be"),
    ({"n_neighbors": 2.5}, "n_neighbors must be"),
    ({"heat": 0.0}, "heat must be"),
    ({"heat": -np.inf}, "heat must be"),
    ({"kernel": "precomputed"}, "needs the rows themselves"),
    ({"kernel": Precomputed()}, "needs the rows themselves"),
    ({"class_weight": {"c": 2.0}}, "does not occur"),
    ({"gamma": -1.0}, "gamma must be"),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("given", "words"), WRONG)
def test_wrong_parameters(machine: Any, given: dict[str, Any], words: str) -> None:
    model = machine(**given)
    with pytest.raises(ValueError, match=words):
        model.fit(X, ["a", None, None, None, None, "b"])
    assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"C": 1.0}, "C must be above 1"),
        ({"amplitude": 0.0}, "amplitude must be"),
        ({"budget": -1}, "budget must be"),
        ({"budget": 2.5}, "budget must be"),
        ({"landmarks": -1}, "landmarks must be"),
        ({"max_support": None}, "max_support must be"),
        ({"merge": 0}, "merge must be"),
        ({"residual": "yes"}, "residual must be"),
        ({"residual": False, "landmarks": 0}, "nothing would be kept"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": -2}, "max_iter must be"),
    ],
)
def test_wrong_parameters_of_a_stream(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LapMEDClassifier(**given).partial_fit(X, ["a", None, None, None, None, "b"])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([None] * 6, "no row has a label"),
        (["a"] + [None] * 5, "only one class"),
        (["a", 1, None, None, None, None], "no order|kinds"),
        (["a", "b"], "one for each"),
        ([0.5, 0.2, np.nan, 0.1, 0.3, 0.7], "continuous|Unknown label"),
    ],
)
def test_wrong_labels(machine: Any, y: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        machine().fit(X, y)


@pytest.mark.parametrize("machine", MACHINES)
def test_labels_without_weight(machine: Any) -> None:
    y = ["a", "b", None, None, None, "b"]
    with pytest.raises(ValueError, match="one class"):
        machine().fit(X, y, sample_weight=[0, 1, 1, 1, 1, 1])


def test_first_batch_without_labels() -> None:
    with pytest.raises(ValueError, match=r"classes=\[...\]"):
        LapMEDClassifier().partial_fit(X)
    with pytest.raises(ValueError, match="leave it out of classes"):
        LapMEDClassifier(unlabelled=-1).partial_fit(X, [1, -1, -1, -1, -1, 0], classes=[-1, 0, 1])
    with pytest.raises(ValueError, match="needs all rows at once"):
        LapMEDClassifier(class_weight="balanced").partial_fit(X, [1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("machine", MACHINES)
def test_no_probabilities(machine: Any) -> None:
    model = machine(n_neighbors=2).fit(X, ["a", None, None, None, None, "b"])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        _ = model.predict_proba


def test_steps_that_run_out_are_said(rng: np.random.Generator) -> None:
    table = rng.normal(size=(300, 2))
    y = np.where(table[:, 0] * table[:, 1] + 0.4 * rng.normal(size=300) > 0.0, 1.0, -1.0)
    with pytest.warns(ConvergenceWarning, match="LapMEDClassifier ended after 1 steps") as seen:
        LapMEDClassifier(100.0, kernel=RBF(1.0), max_iter=1).fit(table, y)
    assert seen[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="LapMEDClassifier ended after 1 steps") as seen:
        LapMEDClassifier(kernel=RBF(1.0), max_iter=1).partial_fit(table, y)
    assert seen[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="LapSVC ended after 2 steps"):
        LapSVC(100.0, kernel=RBF(0.3), max_iter=2).fit(table, y)


def test_amplitude_is_a_factor_of_the_kernel(rng: np.random.Generator) -> None:
    table = rng.normal(size=(40, 2))
    y = np.where(np.arange(40) < 15, np.sign(table[:, 0]), np.nan)
    one = LapMEDClassifier(amplitude=0.3, kernel=RBF(1.0)).fit(table, y)
    two = LapMEDClassifier(kernel=0.3 * RBF(1.0)).fit(table, y)
    np.testing.assert_array_equal(one.decision_function(table), two.decision_function(table))


@pytest.mark.parametrize("steps", [0, 2])
def test_summary_of_a_stream(rng: np.random.Generator, steps: int) -> None:
    model = LapMEDClassifier(budget=0, heat=np.inf)
    model.partial_fit(rng.normal(size=(3, 2)), classes=["a", "b"])
    for _ in range(steps):
        model.partial_fit(rng.normal(size=(20, 2)), ["a", "b"] * 4 + [None] * 12)
    text = str(model.summary())
    assert ("landmarks" in text) == (steps > 0)
    assert ("wait" in text) == (steps == 0)
