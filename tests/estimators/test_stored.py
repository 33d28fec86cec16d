"""Labels in a model file: what was written comes back; what cannot have been is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mercer.kernels
from mercer import SVC
from mercer.core.kinds import Labels

X = np.arange(6.0)[:, None]


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "bc"]),
        np.array(["a", "bc"], dtype=object),
        np.array([False, True]),
        np.array([-1, 3], dtype=np.int32),
        np.array([0.5, 1.0], dtype=np.float32),
        np.array([1, 2], dtype=object),
    ],
)
def test_classes_come_back(classes):
    again = Labels().read(Labels().write(classes), None)
    assert again.dtype == classes.dtype
    assert again.tolist() == classes.tolist()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"dtype": "<U1", "values": ["b", "a"]}, "sorted"),
        ({"dtype": "<U1", "values": ["a", "a"]}, "twice"),
        ({"dtype": "<U1", "values": ["a", "bb"]}, "sorted"),
        ({"dtype": "<i8", "values": [0, 1.5]}, "sorted"),
        ({"dtype": "<f8", "values": [0.0, float("nan")]}, "finite"),
        ({"dtype": "<f8", "values": [0.0, float("inf")]}, "finite"),
        ({"dtype": "O", "values": [None, "a"]}, "neither a text"),
        ({"dtype": "<M8[s]", "values": [0, 1]}, "not labels"),
        ({"dtype": "<i8", "values": []}, "not labels"),
        ({"dtype": "<i8", "values": {"0": 1}}, "not labels"),
        ({"values": [0, 1]}, "type and values"),
        ([0, 1], "type and values"),
    ],
)
def test_other_classes_are_refused(stored, message):
    with pytest.raises(ValueError, match=message):
        Labels().check(stored, {}, "classes_")


def test_labels_that_json_does_not_know():
    odd = np.empty(1, dtype=object)
    odd[0] = (1, 2)
    with pytest.raises(TypeError, match="tuple cannot be written"):
        Labels().write(odd)


def test_mappings():
    given = {0: 2.0, 1: np.float64(0.5)}
    state = SVC(class_weight=given).fit(X, [0, 0, 0, 1, 1, 1])._state()
    assert (
        SVC._from_state(state, lambda name: getattr(mercer.kernels, name[8:])).class_weight == given
    )
    with pytest.raises(TypeError, match="cannot be written"):
        SVC(class_weight={0: 1.0}).fit(X, [0, 0, 0, 1, 1, 1]).set_params(
            class_weight={0: object()}
        )._state()
    for wrong in ([[0]], [[0, None]], "ab", [["a", [1]]]):
        state["params"]["class_weight"] = {"pairs": wrong}
        with pytest.raises(ValueError, match="plain pairs"):
            SVC._from_state(state, lambda name: getattr(mercer.kernels, name[8:]))
