"""QueryRule: the share is kept, and the labels that are asked for are worth more."""

import numpy as np
import pytest

from mercer import LapMEDClassifier, MEDClassifier, OnlineLogisticClassifier, QueryRule


def stream(rng, b):
    X = rng.normal(size=(b, 2))
    return X, np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


def learned(rule, batches=25, b=20, model=None):
    rng = np.random.default_rng(0)
    model = OnlineLogisticClassifier(budget=60) if model is None else model
    asked = []
    for _ in range(batches):
        X, y = stream(rng, b)
        ask = rule.asks(model, X)
        asked.append(X[ask])
        if ask.any():
            model = model.partial_fit(X[ask], y[ask], classes=["down", "up"])
    return model, asked


@pytest.mark.parametrize(("share", "b"), [(0.3, 1), (0.1, 20)])
def test_the_share_is_kept(share, b):
    rule = QueryRule(share, "margin")
    learned(rule, batches=100 if b == 1 else 15, b=b)
    first = b  # a learner that knows nothing asks for all
    assert share * rule.seen * 0.5 <= rule.asked <= share * rule.seen + 11 + first


def test_all_rows_are_asked_for_with_share_one():
    rule = QueryRule(1.0, explore=0.0)
    learned(rule, batches=5)
    assert rule.asked > 0.9 * rule.seen
    assert "asked" in repr(rule)


def test_questions_lie_near_the_boundary():
    _, asked = learned(QueryRule(0.15, "margin", explore=0.0))
    late = np.concatenate(asked[10:])
    assert np.abs(late.sum(axis=1)).mean() < 0.5 * np.sqrt(2) * np.sqrt(2 / np.pi)


def test_learners_without_a_spread_and_with_unlabelled_rows_ask_too():
    for model in (MEDClassifier(), LapMEDClassifier()):
        rule = QueryRule(0.2)
        learned(rule, batches=4, model=model)
        assert 0 < rule.asked < rule.seen


def test_a_row_says_less_once_an_equal_one_is_asked_for():
    rng = np.random.default_rng(1)
    X, y = stream(rng, 40)
    model = OnlineLogisticClassifier().partial_fit(X, y)
    found = model.propose(np.array([[3.0, -3.0], [3.0, -3.0], [0.0, 2.5]]), 3, "information")
    assert found.scores[1] < 0.8 * found.alone[1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"share": 0.0}, "share must lie above 0"),
        ({"share": 2}, "share must lie above 0"),
        ({"explore": -0.1}, "explore must lie between 0 and 1"),
        ({"window": 1}, "window must be a number of rows"),
    ],
)
def test_bad_settings_are_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        QueryRule(**given)


def test_no_rows_no_questions():
    assert len(QueryRule().asks(OnlineLogisticClassifier(), np.empty((0, 2)))) == 0
