"""Model files of LapMEDClassifier: what cannot be is refused before anything is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer import LapMEDClassifier
from mercer.core.component import Component
from mercer.kernels import RBF
from mercer.persist import part_class
from tests.reference import manifold


def learned(**memory: Any) -> LapMEDClassifier:
    rng = np.random.default_rng(0)
    model = LapMEDClassifier(kernel=RBF(1.0), **memory)
    for _ in range(2):
        X = rng.normal(size=(20, 2))
        y = np.where(np.arange(20) < 6, np.sign(X[:, 0]), np.nan)
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    return model.partial_fit(rng.normal(size=(3, 2)))


def resolve(name: str) -> type[Component]:
    return part_class(name, {})


def changed(model: LapMEDClassifier, inside: Any, name: str, change: Any) -> dict[str, Any]:
    state = model._state()
    entries = inside(state)
    entries[name] = np.asarray(change(entries[name].copy()), dtype=entries[name].dtype)
    return state


def first(value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return change


def memory(state: dict[str, Any]) -> dict[str, Any]:
    (form,) = state["memory_"].values()
    return form


def graph(state: dict[str, Any]) -> dict[str, Any]:
    return memory(state)["graph"]


# what belongs together; tests/persist/test_records.py spoils every entry by its kind
EXACT = [
    (memory, "coef", lambda a: a[1:]),
    (memory, "root", lambda a: a[:, 1:]),
    (memory, "extent", lambda a: a[1:]),
    (memory, "extent", lambda a: a[::-1]),
    (memory, "extent", lambda a: a + 10**6),
    (graph, "data", lambda a: a[1:]),
    (graph, "indices", first(-1)),
    (graph, "indices", first(40)),
    (graph, "indptr", first(1)),
    (graph, "indptr", lambda a: a[:-1]),
    (graph, "indptr", lambda a: np.append(a[:-2], [10**6, a[-1]])),
]
LANDMARKS = [
    (memory, "coef", lambda a: a.T),
    (memory, "place", lambda a: np.zeros_like(a)),
    (memory, "place", first(10**4)),
    (memory, "place", lambda a: a[1:]),
    (memory, "R", lambda a: -a),
    (memory, "G", lambda a: a[1:, 1:]),
    (memory, "h", lambda a: a[1:]),
    (memory, "phi", lambda a: a[:, 1:]),
]


@pytest.mark.parametrize(("inside", "name", "change"), EXACT)
def test_exact_memory_is_checked(inside: Any, name: str, change: Any) -> None:
    state = changed(learned(), inside, name, change)
    with pytest.raises(ValueError, match="memory"):
        LapMEDClassifier._from_state(state, resolve)


@pytest.mark.parametrize(("inside", "name", "change"), LANDMARKS)
def test_landmarks_are_checked(inside: Any, name: str, change: Any) -> None:
    state = changed(learned(budget=0, landmarks=5), inside, name, change)
    with pytest.raises(ValueError, match="memory"):
        LapMEDClassifier._from_state(state, resolve)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("stream_", first(-1.0)),
        ("stream_", lambda a: a[:1]),
        ("waiting_", lambda a: a[:, 1:]),
        ("waiting_", first(np.inf)),
        ("waiting_rows_", first(0.5)),
        ("waiting_rows_", lambda a: a[1:]),
    ],
)
def test_stream_is_checked(name: str, change: Any) -> None:
    state = changed(learned(), lambda s: s, name, change)
    with pytest.raises(ValueError, match=r"stream_|wait"):
        LapMEDClassifier._from_state(state, resolve)


@pytest.mark.parametrize("memory", [{}, {"budget": 0, "landmarks": 5, "residual": False}])
def test_what_is_written_comes_back(memory: dict[str, Any]) -> None:
    model = learned(**memory)
    again = LapMEDClassifier._from_state(model._state(), resolve)
    assert type(again.memory_) is type(model.memory_)
    for name, array in manifold.arrays(model.memory_).items():
        np.testing.assert_array_equal(manifold.arrays(again.memory_)[name], array)
    np.testing.assert_array_equal(again.waiting_, model.waiting_)
    assert not [name for name in vars(again) if name.startswith("_memory")]
    assert not [name for name in vars(model) if name.startswith("_memory")]
    assert vars(again).keys() == vars(model).keys()


def test_limits_may_change_on_the_way() -> None:
    model = learned(budget=0, landmarks=5)
    rng = np.random.default_rng(1)
    model.set_params(landmarks=2, residual=False)  # what is begun with a residual goes on with it
    model.partial_fit(rng.normal(size=(20, 2)), [1.0, -1.0] + [None] * 18)
    assert model.report_["memory"]["landmarks"] == 12
    assert model.report_["memory"]["residual"]
