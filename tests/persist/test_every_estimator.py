"""Every public estimator is written to a file and read again, to the last bit.

The estimators are found by themselves: a new one is tested with its default parameters as soon as
it is exported. A table is left to one candidate, and judged; with all of them, which end in a
combination, among the slow tests.
"""

from __future__ import annotations

import contextlib
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_classifier, is_regressor

import mercer
from mercer.persist import ModelFileError
from tests.short import SHORT

RNG = np.random.default_rng(5)
X = RNG.normal(size=(45, 2)) * [1.0, 30.0] + [0.0, 200.0]
NEW = RNG.normal(size=(11, 2)) * [1.0, 30.0] + [0.0, 200.0]
TARGET = np.sin(X[:, 0]) + 0.02 * X[:, 1]
LABELS = np.where(X[:, 0] + 0.3 * RNG.normal(size=45) > 0.0, "up", "down")

ESTIMATORS = sorted(
    name
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), BaseEstimator)
)
ONE_COLUMN = {"SmoothingSpline"}
TABLES = ["TableClassifier", "TableRegressor"]
METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "predict_latent",
    "predict_interval",
    "score_samples",
    "transform",
)


@cache
def fitted(name, short):
    model = getattr(mercer, name)(**(SHORT[name] if short and name in TABLES else {}))
    columns = slice(0, 1) if name in ONE_COLUMN else slice(None)
    if is_regressor(model):
        model.fit(X[:, columns], TARGET)
    elif is_classifier(model):
        model.fit(X[:, columns], LABELS)
    else:
        model.fit(X[:, columns])
    return model, NEW[:, columns]


def answers(model, rows):
    """Yield the name and the bytes of everything that the model says of rows."""
    for method in METHODS:
        with contextlib.suppress(AttributeError, ValueError, NotImplementedError):
            found = getattr(model, method)(rows)
            each = found if isinstance(found, tuple) else (found,)
            yield method, [None if a is None else np.asarray(a).tobytes() for a in each]
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        yield "std", [np.asarray(a).tobytes() for a in model.predict(rows, return_std=True)]


def parameters(model):
    """Return the parameters as text; a tuple is read as a list."""
    return repr(model.get_params()).replace("(", "[").replace(")", "]")


def test_there_are_estimators():
    assert {"GPRegressor", "SVC", "RVClassifier", "SmoothingSpline", "LapSVC"} <= set(ESTIMATORS)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        *((name, True) for name in ESTIMATORS),
        *(pytest.param(name, False, marks=pytest.mark.slow) for name in TABLES),
    ],
)
def test_round_trip(name, short, tmp_path):
    model, rows = fitted(name, short)
    path = tmp_path / "model.mercer"
    mercer.save(model, path)
    again = mercer.load(path)
    assert type(again) is type(model)
    said = dict(answers(model, rows))
    assert said
    assert dict(answers(again, rows)) == said
    assert parameters(again) == parameters(model)
    assert again.n_features_in_ == model.n_features_in_
    mercer.save(again, tmp_path / "twice.mercer")
    assert (tmp_path / "twice.mercer").read_bytes() == path.read_bytes()
    assert b"pickle" not in path.read_bytes()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_damaged_file_is_refused(name, tmp_path):
    model, _ = fitted(name, True)
    path = tmp_path / "model.mercer"
    mercer.save(model, path)
    raw = bytearray(path.read_bytes())
    raw[-100] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(ModelFileError, match=r"SHA-256|cannot be loaded"):
        mercer.load(path)
