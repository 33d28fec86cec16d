"""OnlineLogisticClassifier and bad input: a sentence, and the learner is as it was."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import OnlineLogisticClassifier
from mercer.inference import EP
from mercer.kernels import RBF, White
from tests.estimators.test_online import everything, table
from tests.persist.common import with_manifest

X0, Y0 = table(30)
NAN = X0[:3].copy()
NAN[1, 2] = np.nan
BAD = {
    "empty": ((X0[:0], Y0[:0]), {}, "0 sample"),
    "nan": ((NAN, Y0[:3]), {}, "column 2, row 1"),
    "columns": ((X0[:3, :2], Y0[:3]), {}, "features"),
    "lengths": ((X0[:3], Y0[:2]), {}, "inconsistent"),
    "new class": ((X0[:2], ["c0", "c9"]), {}, "classes=.* at the first call"),
    "other classes": ((X0[:2], Y0[:2]), {"classes": ["c0", "c2"]}, "differ from those"),
    "weights": ((X0[:2], Y0[:2]), {"sample_weight": [1.0, -1.0]}, "not negative"),
    "no weight": ((X0[:2], Y0[:2]), {"sample_weight": [0.0, 0.0]}, "all sample weights are zero"),
}


AT_FIRST = set(BAD) - {"columns", "other classes"}  # with nothing yet to disagree with


@pytest.mark.parametrize(
    ("name", "begun"), [(n, True) for n in BAD] + [(n, False) for n in sorted(AT_FIRST)]
)
def test_bad_batches_leave_the_learner_as_it_was(name, begun):
    (X, y), options, match = BAD[name]
    model = OnlineLogisticClassifier()
    if begun:
        model.partial_fit(X0, Y0)
    elif name == "new class":
        options = {"classes": ["c0", "c1"]}
    before = dict(vars(model))
    with pytest.raises(ValueError, match=match):
        model.partial_fit(X, y, **options)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
    if begun:
        fresh = OnlineLogisticClassifier().partial_fit(X0, Y0)
        np.testing.assert_array_equal(
            everything(model.partial_fit(X0[:5], Y0[:5]), X0),
            everything(fresh.partial_fit(X0[:5], Y0[:5]), X0),
        )


def test_an_error_in_the_middle_changes_nothing(monkeypatch):
    model = OnlineLogisticClassifier().partial_fit(X0, Y0)
    before = everything(model, X0)
    monkeypatch.setattr("mercer.estimators.online.estimator.BLOCK", 10)
    monkeypatch.setattr(
        "mercer.estimators.online.estimator.class_logs",
        lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X0, Y0)
    monkeypatch.undo()
    np.testing.assert_array_equal(everything(model, X0), before)
    fresh = OnlineLogisticClassifier().partial_fit(X0, Y0)
    np.testing.assert_array_equal(
        everything(model.partial_fit(X0, Y0), X0), everything(fresh.partial_fit(X0, Y0), X0)
    )


def test_one_class_batches():
    ones = ["c0"] * 5
    with pytest.raises(ValueError, match=r"classes=\[\.\.\.\] at the first call"):
        OnlineLogisticClassifier().partial_fit(X0[:5], ones)
    with pytest.raises(ValueError, match="one class"):
        OnlineLogisticClassifier().fit(X0[:5], ones)
    model = OnlineLogisticClassifier().partial_fit(X0[:5], ones, classes=["c0", "c1"])
    assert (model.predict_proba(X0[:5])[:, 0] > 0.5).all()
    model.partial_fit(X0[5:], Y0[5:]).partial_fit(X0[:5], ones)
    assert model.report_["rows"] == {"seen": 35, "weight": 35.0, "batches": 3}


def test_repeated_rows_are_fine():
    model = OnlineLogisticClassifier(budget=4)
    for _ in range(10):
        model.partial_fit(np.zeros((5, 2)), np.ones(5), classes=[0, 1])
    assert model.report_["budget"]["points"] == 1
    assert model.predict([[0.0, 0.0]]) == 1


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": 1.1}, "rho"),
        ({"rho": "half"}, "rho"),
        ({"rho": float("nan")}, "rho"),
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"budget": True}, "budget"),
        ({"inference": EP()}, "Bound"),
        ({"kernel": "precomputed"}, "kernel of the inputs"),
        ({"kernel": RBF() + White()}, "kernel of the inputs"),
    ],
)
def test_bad_parameters(params, match):
    for method in ("fit", "partial_fit"):
        model = OnlineLogisticClassifier(**params)
        with pytest.raises((ValueError, TypeError), match=match):
            getattr(model, method)(X0, Y0)
        assert not hasattr(model, "stream_")


@pytest.mark.parametrize(
    "change",
    [
        {"gains": []},
        {"gains": ["0"]},
        {"form": "explicit"},
        {"form": "other"},
        {"prequential": [0.0]},
        {"moved": None},
        {"n_features": 2},
    ],
    ids=str,
)
def test_forged_files_are_refused(change, tmp_path):
    path = tmp_path / "stream.mercer"
    mercer.save(OnlineLogisticClassifier().partial_fit(X0, Y0), path)
    with_manifest(path, lambda manifest: manifest["state"].update(change))
    with pytest.raises(mercer.persist.ModelFileError, match="do not fit together"):
        mercer.load(path)
