"""Ordered classes: one function, learned cut points, probabilities of every grade."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import mercer
from mercer import GPClassifier, GPRegressor
from mercer.inference import EP, Laplace
from mercer.kernels import RBF
from mercer.losses import LearnedOrdinal, Ordinal
from mercer.search import EvidenceCriterion, Space, simple_problem
from tests.reference.gp import slope

GRADES = np.array([10, 20, 30, 50])


@pytest.fixture
def grades():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    f = 2.0 * np.sin(1.5 * X[:, 0])
    return X, GRADES[np.digitize(f + 0.7 * rng.normal(size=60), [-1.2, 0.0, 1.5])]


def test_learned_cut_points_are_those_of_the_given_loss() -> None:
    learned = LearnedOrdinal(-0.7, [0.5, 1.4], "logit")
    given = Ordinal([-0.7, -0.2, 1.2], "logit")
    y, f = np.array([0.0, 1.0, 2.0, 3.0]), np.linspace(-2.0, 2.0, 4)
    np.testing.assert_allclose(learned.value(y, f), given.value(y, f), atol=1e-12)
    assert list(learned.free) == ["first", "gaps"]
    for bad in ({"gaps": [1.0, -1.0]}, {"gaps": []}, {"first": np.nan}, {"link": "cauchit"}):
        with pytest.raises(ValueError, match="LearnedOrdinal"):
            LearnedOrdinal(**bad)


@pytest.mark.parametrize("inference", [EP(tol=1e-9), Laplace()], ids=str)
def test_gradient_in_the_cut_points(inference) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(15, 1)), rng.integers(0, 4, (15, 1)).astype(float)
    space = Space({"kernel": 1.5 * RBF(0.8), "loss": LearnedOrdinal(-0.5, [0.4, 0.9])})
    found = EvidenceCriterion(space, simple_problem(X, y), inference)
    numeric = slope(lambda u: found(u)[0], space.start)
    np.testing.assert_allclose(found(space.start)[1], numeric, rtol=1e-5, atol=1e-6)


def test_the_evidence_chooses_the_cut_points(grades, tmp_path) -> None:
    X, y = grades
    model = GPClassifier(loss="ordinal").fit(X, y)
    np.testing.assert_array_equal(model.classes_, GRADES)
    assert model.report_["search"]["converged"]
    cuts = model.loss_.cuts()
    other = Ordinal(cuts + np.array([0.3, 0.0, 0.0]), "probit")
    worse = GPClassifier(model.kernel_, loss=other, inference="ep", search=None).fit(X, y)
    assert worse.log_evidence_ < model.log_evidence_
    p = model.predict_proba(X)
    assert p.shape == (60, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    mean, std = model.predict_latent(X)
    edge = ndtr((cuts - mean[:, None]) / np.sqrt(1.0 + std[:, None] ** 2))
    padded = np.column_stack([np.zeros(60), edge, np.ones(60)])
    np.testing.assert_allclose(p, np.diff(padded, axis=1), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), GRADES[p.argmax(axis=1)])
    assert model.score(X, y) > 0.6
    assert model.left_out_.proba.shape == (60, 4)
    assert "cut point" in str(model.summary())
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), p)


def test_the_machine_is_that_of_a_regression_with_these_cut_points(grades) -> None:
    X, y = grades
    cuts, kernel = [-1.0, 0.2, 1.3], 2.0 * RBF(0.9)
    make = {"loss": Ordinal(cuts, "probit"), "inference": "ep", "search": None}
    model = GPClassifier(kernel, **make).fit(X, y)
    codes = np.searchsorted(GRADES, y)
    plain = GPRegressor(kernel, **make).fit(X, codes)
    assert model.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(model.predict_proba(X) @ np.arange(4.0), plain.predict(X), atol=1e-8)


def test_weights_and_a_trend(grades) -> None:
    X, y = grades
    w = np.tile([1, 2], 30)
    make = {"kernel": 2.0 * RBF(0.9), "loss": Ordinal([-1.0, 0.2, 1.3]), "search": None}
    weighted = GPClassifier(**make).fit(X, y, w)
    copied = GPClassifier(**make).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)
    trend = GPClassifier(1.0 * RBF(0.9), loss="ordinal", basis=1).fit(X, y)
    assert trend.loss_.mark("first").fixed
    np.testing.assert_allclose(trend.predict_proba(X).sum(axis=1), 1.0)


def test_what_is_not_ordered_is_refused(grades) -> None:
    X, y = grades
    with pytest.raises(ValueError, match=r"must be numbers.*OrdinalEncoder"):
        GPClassifier(loss="ordinal").fit(X, y.astype(str))
    with pytest.raises(ValueError, match="2 cut points are between 3 grades, and y has 4"):
        GPClassifier(loss=Ordinal([0.0, 1.0])).fit(X, y)
    two = GPClassifier(1.0 * RBF(), loss="ordinal", search=None).fit(X, y > 20)
    np.testing.assert_allclose(
        two.predict_proba(X),
        GPClassifier(1.0 * RBF(), loss="probit", search=None).fit(X, y > 20).predict_proba(X),
    )
