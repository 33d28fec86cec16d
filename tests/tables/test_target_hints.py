"""Targets that mislead: whole numbers that may be classes, inputs that copy them, names nearby."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.tables import as_frame, infer_columns
from mercer.tables.data.target import copies_of, read_target

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


@pytest.mark.parametrize(
    ("different", "rows", "hinted"), [(5, 30, True), (11, 60, True), (11, 40, False),
                                      (20, 100, True), (21, 500, False)]
)  # fmt: skip
def test_whole_numbers_may_be_classes(different, rows, hinted):
    table = as_frame({"y": [i % different for i in range(rows)]})
    notes = read_target(table, "y").notes
    assert any("different whole numbers" in note for note in notes) == hinted


X = np.random.default_rng(1).normal(size=40)


@pytest.mark.parametrize(
    ("y", "copy", "said"),
    [
        (X, X, True),
        (X, 30.0 - 2.5 * X, True),
        (1e6 + X, X, True),
        (X, X + 1e-4 * np.cos(np.arange(40)), False),
        (X, np.exp(X), False),
        (np.where(X > 0, "yes", "no"), np.where(X > 0, 1.0, 0.0), True),
        (np.where(X > 0, "yes", "no"), np.where(X > 0, "A", "B"), True),
        (np.where(X > 0, "yes", "no"), X, False),
        (np.where(X > 0, "yes", "no"), np.where(X > 0.5, "A", "B"), False),
    ],
)
def test_inputs_that_copy_the_target(y, copy, said):
    frame = as_frame({"y": y, "copy": copy, "other": np.arange(40.0)})
    notes = copies_of(frame, infer_columns(frame, ["copy", "other"]), read_target(frame, "y"))
    assert len(notes) == said
    assert not said or "'copy' says the same as the target 'y' in every row" in notes[0]


def test_a_copy_is_said_of_a_model():
    table = {"y": X, "same": 2.0 * X, "z": np.arange(40.0)}
    model = mercer.fit(table, "y", candidates=["linear"])
    assert any("'same' says the same as the target 'y'" in note for note in model.notes_)


def test_a_name_nearby():
    with pytest.raises(ValueError, match=r"no column 'Y'; did you mean 'y'\?"):
        mercer.fit({"x": X, "y": X}, target="Y")
