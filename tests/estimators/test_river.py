"""RiverClassifier: dicts of features, held examples, and river itself where it is installed."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import mercer
from mercer import SVC, OnlineLogisticClassifier, RiverClassifier
from tests.estimators.test_online import table


def examples(n=120, k=2):
    X, y = table(n, k)
    return [dict(zip("abc", row, strict=True)) for row in X.tolist()], y.tolist(), X, y


def taught(model, n=120, k=2):
    for x, label in zip(*examples(n, k)[:2], strict=True):
        model.learn_one(x, label)
    return model


def test_it_learns_what_partial_fit_learns():
    rows, _, X, y = examples(k=3)
    found = taught(RiverClassifier(OnlineLogisticClassifier(), first=60), k=3)
    expected = OnlineLogisticClassifier().partial_fit(X[:60], y[:60])
    for i in range(60, 120):
        expected.partial_fit(X[i : i + 1], y[i : i + 1])
    p = found.predict_proba_one(rows[0])
    assert list(p) == ["c0", "c1", "c2"]
    np.testing.assert_array_equal(list(p.values()), expected.predict_proba(X[:1])[0])
    assert found.predict_one(rows[0]) == expected.predict(X[:1])[0]
    assert found.features == ["a", "b", "c"]


def test_batches_are_learned_together():
    _, _, X, y = examples()
    found = taught(RiverClassifier(first=50, batch=40))
    expected = OnlineLogisticClassifier(budget=300).partial_fit(X[:50], y[:50])
    expected.partial_fit(X[50:90], y[50:90])
    np.testing.assert_array_equal(
        found.learner.predict_latent(X), expected.predict_latent(X)
    )  # 30 are still held
    assert found.learner.report_["rows"]["seen"] == 90


def test_frames_and_held_examples():
    rows, labels, X, y = examples()
    found, expected = RiverClassifier(first=50), OnlineLogisticClassifier(budget=300)
    for x, label in zip(rows[:10], labels[:10], strict=True):
        found.learn_one(x, label)
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(NotFittedError):
        found.predict_proba_many(frame)
    found.learn_many(frame.iloc[10:, ::-1], pd.Series(y[10:]))  # columns in any order
    expected.partial_fit(X, y)
    p = found.predict_proba_many(frame.iloc[5:9])
    assert p.index.tolist() == [5, 6, 7, 8]
    assert p.columns.tolist() == ["c0", "c1"]
    np.testing.assert_array_equal(p.to_numpy(), expected.predict_proba(X[5:9]))


def test_weights_reach_the_learner():
    rows, labels, X, y = examples(60)
    found = RiverClassifier(OnlineLogisticClassifier(), first=60)
    w = np.linspace(0.5, 2.0, 60)
    for x, label, weight in zip(rows, labels, w, strict=True):
        found.learn_one(x, label, weight)
    expected = OnlineLogisticClassifier().partial_fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(found.learner.predict_latent(X), expected.predict_latent(X))


def test_before_the_first_update():
    model = RiverClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.features is None
    model.learn_one({"a": 1.0}, "yes")
    assert model.predict_proba_one({"a": 1.0}) == {"yes": 1.0}
    named = RiverClassifier(classes=[False, True])
    assert named.predict_proba_one({"a": 0.0}) == {False: 0.5, True: 0.5}


def test_one_class_waits_for_another():
    model = RiverClassifier(first=3)
    for value in range(5):
        model.learn_one({"a": float(value)}, "no")
    assert not hasattr(model.learner, "classes_")
    model.learn_one({"a": 9.0}, "yes")
    assert model.learner.report_["rows"]["seen"] == 6


def test_a_fitted_model_is_continued_and_stays_as_it_was(tmp_path):
    rows, labels, X, y = examples()
    begun = OnlineLogisticClassifier().partial_fit(X[:60], y[:60])
    mercer.save(begun, tmp_path / "begun.mercer")
    found = RiverClassifier(mercer.load(tmp_path / "begun.mercer"))
    for x, label in zip(rows[60:], labels[60:], strict=True):
        found.learn_one(x, label)
    assert begun.report_["rows"]["seen"] == 60
    for i in range(60, 120):
        begun.partial_fit(X[i : i + 1], y[i : i + 1])
    np.testing.assert_array_equal(found.learner.predict_latent(X), begun.predict_latent(X))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": 1.0, "b": 2.0}, "no feature 'c'"),
        ({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, "a feature 'd' that the first"),
        ({"a": 1.0, "b": "red", "c": 3.0}, "'b' is 'red', which is not a number"),
        ({"a": 1.0, "b": None, "c": 3.0}, "'b' is None"),
        ({"a": 1.0, "b": float("nan"), "c": 3.0}, "'b' is nan; fill it"),
    ],
)
@pytest.mark.parametrize("n", [10, 80], ids=["held", "begun"])
def test_bad_examples_change_nothing(x, message, n):
    model = taught(RiverClassifier(), n)
    rows = examples()[0]
    before = model.predict_proba_one(rows[0]), copy.deepcopy(model._held)
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, "c0")
    with pytest.raises(ValueError, match=message):
        model.predict_one(x)
    assert model.predict_proba_one(rows[0]) == before[0]
    assert len(model._held) == len(before[1])
    model.learn_one(rows[0], "c0")


def test_a_new_class_is_refused_and_forgotten():
    model = taught(RiverClassifier(batch=1), 80)
    rows = examples()[0]
    with pytest.raises(ValueError, match="not one of the classes"):
        model.learn_one(rows[0], "c7")
    model.learn_one(rows[0], "c0")


def test_bad_parameters():
    with pytest.raises(ValueError, match="first must be a count"):
        RiverClassifier(first=0)
    with pytest.raises(ValueError, match="batch must be a count"):
        RiverClassifier(batch=2.5)
    with pytest.raises(TypeError, match="no partial_fit"):
        RiverClassifier(SVC())
    with pytest.raises(ValueError, match="no features"):
        RiverClassifier().learn_one({}, "c0")


def test_a_model_without_probabilities_predicts():
    model = taught(RiverClassifier(mercer.MEDClassifier(), classes=["c0", "c1"], batch=10))
    assert model.predict_one(examples()[0][0]) in ("c0", "c1")


def test_in_rivers_pipelines():
    pytest.importorskip("river", reason="river is not installed")
    from river import base, datasets, evaluate, metrics, preprocessing

    model = RiverClassifier(classes=[False, True], first=100, batch=50)
    assert isinstance(model, base.Classifier)
    pipeline = preprocessing.StandardScaler() | model
    score = evaluate.progressive_val_score(
        datasets.Phishing().take(600), pipeline, metrics.Accuracy()
    )
    assert score.get() > 0.8
    again = model.clone()
    assert again.features is None
    assert again.batch == 50


def test_it_answers_what_its_learner_answers():
    model = RiverClassifier(classes=[False, True], first=20)
    with pytest.raises(AttributeError):
        _ = model.posteriors_
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(30, 2)):
        model.learn_one({"a": a, "b": b}, bool(a > b))
    learner = model.learner
    assert model.posteriors_ is learner.posteriors_
    assert model.report_ == learner.report_
    assert model.left_out_ is None
    assert model.loo_ is None
    assert str(model.summary()) == str(learner.summary())
