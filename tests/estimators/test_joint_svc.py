"""SVC(multi_class=...): one hinge over all classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import SVC
from mercer.kernels import RBF, Constant, Linear

RNG = np.random.default_rng(5)
CODES = np.r_[np.arange(4), RNG.integers(0, 4, 76)]
X = RNG.normal(size=(80, 3)) + 1.2 * RNG.normal(size=(4, 3))[CODES]
Y = np.array(["ash", "beech", "cedar", "date"])[CODES]
JOINT = ("crammer_singer", "weston_watkins")


@parametrize_with_checks([SVC(multi_class=way) for way in JOINT])
def test_conventions(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_kernel_is_the_linear_machine_of_scikit_learn(bias) -> None:
    ours = SVC(0.3, kernel="linear", multi_class="crammer_singer", bias=bias, tol=1e-9).fit(X, Y)
    theirs = LinearSVC(
        C=0.3, multi_class="crammer_singer", fit_intercept=bias, tol=1e-10, max_iter=100_000
    ).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    best = np.sort(ours.decision_function(X), axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-5  # the optimum holds wrong classes at equal values
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    assert clear.mean() > 0.9


@pytest.mark.parametrize("way", JOINT)
def test_two_classes_are_one_against_the_rest_at_twice_the_C(way) -> None:
    y = Y > "b"
    joint = SVC(0.4, multi_class=way, kernel=RBF(), tol=1e-9).fit(X, y)
    plain = SVC(0.8, kernel=RBF() + Constant(1.0), bias=False, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(joint.decision_function(X), plain.decision_function(X), atol=1e-7)
    assert joint.decision_function(X).shape == (80,)
    assert joint.dual_coef_.shape == (1, len(joint.support_))


@pytest.mark.parametrize("way", JOINT)
def test_what_is_told(way) -> None:
    model = SVC(multi_class=way).fit(X, Y)
    ended = model.report_["inference"]
    assert (ended["name"], ended["converged"]) == ("JointHinge", True)
    assert ended["violation"] <= 1e-3
    assert 0.0 <= ended["gap"] <= 1e-3 * 80 * 3
    assert "penalised" in model.report_["bias"]
    assert model.left_out_ is None
    assert "joint hinge" in model.report_["left_out"]
    assert "JointHinge" in str(model.summary())
    assert f"one hinge over all of them ({way})" in str(model.summary())
    with pytest.raises(ValueError, match="at least five rows"):
        SVC(multi_class=way, probability="cv").fit(X[:8], Y[:8])
    (posterior,) = model.posteriors_
    np.testing.assert_allclose(posterior.mean(X), model.decision_function(X))
    assert model.decision_function(X).shape == (80, 4)
    assert model.score(X, Y) > 0.75


@pytest.mark.parametrize("way", JOINT)
def test_weights_are_repeated_rows(way) -> None:
    times = RNG.integers(0, 3, 80)
    weighted = SVC(multi_class=way, tol=1e-8, gamma=0.3).fit(X, Y, times)
    repeated = SVC(multi_class=way, tol=1e-8, gamma=0.3).fit(X.repeat(times, 0), Y.repeat(times))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )
    classes = SVC(multi_class=way, tol=1e-8, class_weight={"ash": 3.0}).fit(X, Y)
    by_row = SVC(multi_class=way, tol=1e-8, gamma=classes.kernel_.length_scale**-2 / 2)
    by_row.fit(X, Y, np.where(Y == "ash", 3.0, 1.0))
    np.testing.assert_allclose(classes.decision_function(X), by_row.decision_function(X), atol=1e-6)


def test_a_class_whose_rows_do_not_count_keeps_its_column() -> None:
    model = SVC(multi_class="crammer_singer").fit(X, Y, np.where(Y == "date", 0.0, 1.0))
    assert model.decision_function(X).shape == (80, 4)
    assert "date" not in model.predict(X)


@pytest.mark.parametrize("way", JOINT)
def test_precomputed_values_are_the_kernel(way) -> None:
    K = Linear()(X)
    given = SVC(multi_class=way, kernel="precomputed", tol=1e-8).fit(K, Y)
    plain = SVC(multi_class=way, kernel="linear", tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(given.decision_function(K), plain.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("way", JOINT)
def test_files_hold_it(way, tmp_path) -> None:
    model = SVC(multi_class=way, probability="cv").fit(X, Y)
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.multi_class == way
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(again.left_out_, None)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"multi_class": "ovo"}, "OneVsOneClassifier"),
        ({"multi_class": "crammer_singer", "C": np.inf}, "choose a finite C"),
        ({"multi_class": "crammer_singer", "inference": "ep"}, "leave inference=None"),
        ({"multi_class": "weston_watkins", "probability": "loo"}, "probability='cv'"),
        ({"multi_class": "weston_watkins", "gram": "inducing"}, "no landmarks"),
    ],
)
def test_what_does_not_go_together_is_refused(parameters, words) -> None:
    with pytest.raises(ValueError, match=words):
        SVC(**parameters).fit(X, Y)


def test_too_few_steps_are_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = clone(SVC(multi_class="crammer_singer", max_iter=3)).fit(X, Y)
    assert not model.report_["inference"]["converged"]
    assert "iteration limit" in str(model.summary())
