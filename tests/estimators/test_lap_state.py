"""Model files of LapMEDClassifier: what cannot be is refused before anything is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer import LapMEDClassifier
from mercer.core.component import Component
from mercer.kernels import RBF
from mercer.persist.registry import part_class

Arrays = dict[str, np.ndarray]
HEAD = "extra._memory_"


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


def changed(model: LapMEDClassifier, name: str, change: Any) -> tuple[dict[str, Any], Arrays]:
    manifest, arrays = model._state()
    arrays[name] = np.asarray(change(arrays[name].copy()), dtype=np.float64)
    return manifest, arrays


def first(value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return change


EXACT = [
    ("coef", lambda a: a[1:]),
    ("root", lambda a: a[:, 1:]),
    ("root", first(np.nan)),
    ("extent", lambda a: a[1:]),
    ("extent", lambda a: a[::-1]),
    ("extent", lambda a: a + 0.5),
    ("extent", lambda a: a + 1e6),
    ("data", lambda a: a[1:]),
    ("indices", first(-1.0)),
    ("indices", first(40.0)),
    ("indptr", first(1.0)),
    ("indptr", lambda a: a[:-1]),
    ("indptr", lambda a: np.append(a[:-2], [1e6, a[-1]])),
    ("R", lambda a: np.eye(3)),
    ("h", lambda a: np.eye(3)),
]
LANDMARKS = [
    ("coef", lambda a: a.T),
    ("place", lambda a: np.zeros_like(a)),
    ("place", first(1e4)),
    ("place", lambda a: a[1:]),
    ("R", lambda a: -a),
    ("G", lambda a: a[1:, 1:]),
    ("h", lambda a: a[1:]),
    ("phi", lambda a: a[:, 1:]),
    ("state", first(2.0)),
    ("state", lambda a: a[:1]),
    ("root", lambda a: np.eye(2)),
]


@pytest.mark.parametrize(("name", "change"), EXACT)
def test_exact_memory_is_checked(name: str, change: Any) -> None:
    state = changed(learned(), HEAD + name, change)
    with pytest.raises(ValueError, match=r"memory|coefficient"):
        LapMEDClassifier._from_state(*state, resolve)


@pytest.mark.parametrize(("name", "change"), LANDMARKS)
def test_landmarks_are_checked(name: str, change: Any) -> None:
    state = changed(learned(budget=0, landmarks=5), HEAD + name, change)
    with pytest.raises(ValueError, match=r"memory|coefficient"):
        LapMEDClassifier._from_state(*state, resolve)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("extra.stream_", first(-1.0)),
        ("extra.stream_", lambda a: a[:1]),
        ("extra.waiting_", lambda a: a[:, 1:]),
        ("extra.waiting_", first(np.inf)),
        ("extra.waiting_rows_", first(0.5)),
        ("extra.waiting_rows_", lambda a: a[1:]),
    ],
)
def test_stream_is_checked(name: str, change: Any) -> None:
    state = changed(learned(), name, change)
    with pytest.raises(ValueError, match=r"stream_|wait"):
        LapMEDClassifier._from_state(*state, resolve)


@pytest.mark.parametrize("memory", [{}, {"budget": 0, "landmarks": 5, "residual": False}])
def test_what_is_written_comes_back(memory: dict[str, Any]) -> None:
    model = learned(**memory)
    again = LapMEDClassifier._from_state(*model._state(), resolve)
    assert type(again.memory_) is type(model.memory_)
    for name, array in model.memory_.arrays().items():
        np.testing.assert_array_equal(again.memory_.arrays()[name], array)
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
