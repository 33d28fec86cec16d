"""MEDClassifier: the reference stream, the limit of the SVM, streams, model files, refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as Peer

import mercer
from mercer import MEDClassifier
from mercer.kernels import RBF, Function, Linear
from tests.reference import med


def moons(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0.0, 1, -1)


def stream(model: MEDClassifier, batches: int = 3) -> MEDClassifier:
    for t in range(batches):
        model.partial_fit(*med.batch(t), classes=[-1.0, 1.0])
    return model


def state(model: MEDClassifier) -> bytes:
    return pickle.dumps(sorted(vars(model).items(), key=lambda pair: pair[0]))


# ---------------------------------------------------------------------- values
def test_reference_stream() -> None:
    model = MEDClassifier(10.0, amplitude=1.0, kernel=RBF(1.0), schedule="constant")
    for t, (alpha, bias, value) in enumerate(med.STREAM):
        X, y = med.batch(t)
        before = len(model.support_) if t else 0
        model.partial_fit(X, y, classes=[-1.0, 1.0])
        held = np.flatnonzero(alpha)
        np.testing.assert_array_equal(model.support_[before:], held + 10 * t)
        np.testing.assert_allclose(
            model.dual_coef_[0, before:], (y * np.array(alpha))[held], atol=1e-8
        )
        assert model.intercept_[0] == pytest.approx(bias, abs=1e-10)
        assert model.report_["inference"]["objective"][0] == pytest.approx(value, abs=1e-9)
        assert 0.0 <= abs(model.report_["inference"]["gap"]) < 1e-10
    np.testing.assert_allclose(model.decision_function(med.NEW), med.DECISION, atol=1e-8)


def test_fit_is_the_first_batch() -> None:
    X, y = med.batch(0)
    one = MEDClassifier(kernel=RBF(1.0)).fit(X, y)
    two = MEDClassifier(kernel=RBF(1.0)).partial_fit(X, y, classes=[-1.0, 1.0])
    np.testing.assert_array_equal(one.decision_function(med.NEW), two.decision_function(med.NEW))
    three = stream(MEDClassifier(kernel=RBF(1.0))).fit(X, y)  # fit forgets
    assert state(three) == state(one)


@pytest.mark.parametrize(("C", "agree"), [(1.5, 0.85), (10.0, 0.95), (1000.0, 0.99)])
def test_agrees_with_the_support_vector_machine(
    rng: np.random.Generator, C: float, agree: float
) -> None:
    X, y = moons(rng, 60)
    Z = 2.0 * rng.normal(size=(3000, 2))
    model = MEDClassifier(C, amplitude=1.0, kernel=RBF(1.0)).fit(X, y)
    peer = Peer(C=C, gamma=0.5, tol=1e-8).fit(X, y)
    f, g = model.decision_function(Z), peer.decision_function(Z)
    assert np.mean((f > 0) == (g > 0)) >= agree
    if C == 1000.0:
        assert np.abs(f - g).max() < 0.02 * np.abs(g).max()


def test_amplitude_times_slack_is_the_softness(rng: np.random.Generator) -> None:
    X, y = moons(rng, 100)
    Z = rng.normal(size=(2000, 2))
    model = MEDClassifier(kernel=RBF(1.0)).fit(X, y)  # 0.01 and 100
    peer = Peer(C=1.0, gamma=0.5).fit(X, y)
    assert np.mean(model.predict(Z) == peer.predict(Z)) > 0.97


def test_median_bias_is_the_papers(rng: np.random.Generator) -> None:
    X, y = moons(rng, 80)
    X[y > 0] *= 0.7
    exact = MEDClassifier(1.5, amplitude=1.0, kernel=RBF(1.0)).fit(X, y)
    median = MEDClassifier(1.5, amplitude=1.0, kernel=RBF(1.0), bias_rule="median").fit(X, y)
    np.testing.assert_array_equal(exact.dual_coef_, median.dual_coef_)
    f = median.decision_function(X)[median.support_] - median.intercept_[0]
    expected = np.median(y[median.support_] - f)
    assert median.intercept_[0] == pytest.approx(expected, rel=1e-12)
    assert abs(exact.intercept_[0] - median.intercept_[0]) > 0.01
    assert median.report_["bias"] == "median"


def test_several_classes() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MEDClassifier().fit(X, names)
    assert model.score(X, names) > 0.95
    f = model.decision_function(X)
    assert f.shape == (150, 3)
    for k, name in enumerate(model.classes_):
        alone = MEDClassifier().fit(X, names == name)
        np.testing.assert_allclose(f[:, k], alone.decision_function(X), atol=1e-9)


def test_weights_are_repeated_rows(rng: np.random.Generator) -> None:
    X, y = moons(rng, 40)
    times = rng.integers(0, 4, size=40)
    rows = np.repeat(np.arange(40), times)
    kernel = RBF(1.0)
    one = MEDClassifier(kernel=kernel).fit(X, y, sample_weight=times)
    two = MEDClassifier(kernel=kernel).fit(X[rows], y[rows])
    Z = rng.normal(size=(50, 2))
    np.testing.assert_allclose(one.decision_function(Z), two.decision_function(Z), atol=1e-9)
    three = MEDClassifier(kernel=kernel, class_weight={1: 2.0}).fit(X, y)
    four = MEDClassifier(kernel=kernel).fit(X, y, sample_weight=np.where(y > 0, 2.0, 1.0))
    np.testing.assert_array_equal(three.decision_function(Z), four.decision_function(Z))


def test_precomputed(rng: np.random.Generator) -> None:
    X, y = moons(rng, 50)
    Z = rng.normal(size=(20, 2))
    plain = MEDClassifier(kernel=RBF(1.0)).fit(X, y)
    given = MEDClassifier(kernel="precomputed").fit(RBF(1.0)(X), y)
    f = given.decision_function(RBF(1.0)(Z, X))
    np.testing.assert_allclose(f, plain.decision_function(Z), atol=1e-9)
    with pytest.raises(ValueError, match="rows to come"):
        given.partial_fit(RBF(1.0)(X), y)


# ---------------------------------------------------------------------- streams
def test_slack_falls_and_the_floor_is_told() -> None:
    model = MEDClassifier(2.0, amplitude=1.0, kernel=RBF(1.0))
    slacks = []
    for t in range(5):
        slacks.append(stream(model, 1).report_["C"])
        assert ("schedule" in model.report_) == (t >= 3)
    np.testing.assert_allclose(slacks, [2.0, 2.0 / 2**0.5, 2.0 / 3**0.5, 1.1, 1.1])
    assert "floor 1.1" in model.report_["schedule"]
    low = stream(stream(MEDClassifier(1.05, kernel=RBF(1.0)), 1), 1)
    assert low.report_["C"] == 1.05
    constant = stream(MEDClassifier(2.0, kernel=RBF(1.0), schedule="constant"))
    assert constant.report_["C"] == 2.0


@pytest.mark.parametrize("kernel", ["linear", Linear(weight=[0.5, 2.0]), Linear(centre=[0.3, 1.0])])
@pytest.mark.parametrize("three", [False, True])
def test_linear_stream_keeps_one_vector(kernel: object, three: bool) -> None:
    """The same stream with a kernel that is linear, but not known to be."""
    inner = Linear() if kernel == "linear" else kernel
    known = MEDClassifier(kernel=kernel, amplitude=1.0)
    hidden = MEDClassifier(kernel=Function(inner), amplitude=1.0)
    for t in range(4):
        X, y = med.batch(t)
        y = np.digitize(X[:, 0], [-0.4, 0.4]) if three else y
        for model in (known, hidden):
            model.partial_fit(X, y, classes=[0, 1, 2] if three else [-1.0, 1.0])
        np.testing.assert_allclose(
            known.decision_function(med.NEW), hidden.decision_function(med.NEW), atol=1e-8
        )
        k = 3 if three else 1
        assert known.feature_weights_.shape == (k, 2)
        assert known.support_vectors_.shape == (0, 2)
    assert len(hidden.support_vectors_) > 10
    assert hidden.feature_weights_.shape == (k, 0)


def test_kernel_is_that_of_the_first_batch() -> None:
    model = MEDClassifier().partial_fit(*med.batch(0))
    kernel = repr(model.kernel_)
    X, y = med.batch(1)
    assert repr(model.partial_fit(100.0 * X, y).kernel_) == kernel


def test_one_class_moves_the_bias_only(rng: np.random.Generator) -> None:
    model = MEDClassifier(kernel=RBF(1.0))
    model.partial_fit(med.batch(0)[0][:1], ["a"], classes=["a", "b"])  # nothing to separate yet
    assert len(model.support_) == 0
    assert model.predict([[0.0, 0.0]]) == ["a"]
    X, y = moons(rng, 40)
    model.partial_fit(X, np.where(y > 0, "b", "a"))
    coef, bias = model.dual_coef_.copy(), model.intercept_[0]
    model.partial_fit(X[:5], ["b"] * 5)
    np.testing.assert_array_equal(model.dual_coef_, coef)
    assert model.intercept_[0] >= bias
    assert np.all(model.decision_function(X[:5]) >= 1.0 - 1.0 / model.report_["C"] - 1e-12)


def test_simulation_one() -> None:
    """Accuracy of three streams at t = 20, the published figure being 0.856 (ten streams)."""
    accuracy = []
    for seed in range(3):
        batches, test = med.categorical_stream(seed, 20)
        model = MEDClassifier(kernel="linear")
        for X, y in batches:
            model.partial_fit(X, y, classes=[-1, 1])
        accuracy.append(model.score(*test))
    assert np.mean(accuracy) >= 0.85


# ---------------------------------------------------------------------- model files
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("three", [False, True])
def test_a_saved_stream_continues(tmp_path: object, kernel: str, three: bool) -> None:
    def batch(t: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = med.batch(t)
        return X, (np.digitize(X[:, 0], [-0.4, 0.4]) if three else y)

    model = MEDClassifier(kernel=kernel)
    for t in range(3):
        model.partial_fit(*batch(t))
    path = f"{tmp_path}/stream.mercer"
    mercer.save(model, path)
    again = mercer.load(path)
    np.testing.assert_array_equal(
        again.decision_function(med.NEW), model.decision_function(med.NEW)
    )
    for t in range(3, 5):
        for learner in (model, again):
            learner.partial_fit(*batch(t))
    for name in (
        "support_",
        "support_vectors_",
        "dual_coef_",
        "intercept_",
        "stream_",
        "feature_weights_",
    ):
        assert getattr(again, name).tobytes() == getattr(model, name).tobytes(), name
    assert again.report_ == model.report_
    assert vars(again).keys() == vars(model).keys()


def test_a_file_with_a_strange_stream_is_refused(rng: np.random.Generator) -> None:
    model = stream(MEDClassifier())
    for odd in ([0.0, 3.0], [1.5, 3.0], [1.0], [np.nan, 1.0]):
        model.stream_ = np.array(odd)
        with pytest.raises(ValueError, match="stream_"):
            model._state()


# ---------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"C": 1.0}, "nothing is learned; for a softer margin make the amplitude smaller"),
        ({"C": np.inf}, "C must be a positive finite number"),
        ({"amplitude": 0.0}, "amplitude must be a positive"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"bias_rule": "mean"}, "'exact' or 'median'"),
        ({"schedule": "linear"}, "'sqrt' or 'constant'"),
    ],
)
def test_bad_parameters(options: dict, sentence: str) -> None:
    for learn in ("fit", "partial_fit"):
        model = MEDClassifier(**options)
        with pytest.raises(ValueError, match=sentence):
            getattr(model, learn)(*med.batch(0))
        assert not hasattr(model, "n_features_in_")


X0, Y0 = med.batch(3)
BATCHES = {
    "a new label": (X0, np.full(10, 2.0), {}, "at the first\\s+call of partial_fit"),
    "other classes": (X0, Y0, {"classes": [0, 1]}, "first call"),
    "columns": (X0[:, :1], Y0, {}, "expecting 2 features"),
    "NaN": (np.where(X0 > 0.9, np.nan, X0), Y0, {}, "contains NaN"),
    "empty": (X0[:0], Y0[:0], {}, "0 sample"),
    "lengths": (X0, Y0[:3], {}, "inconsistent"),
    "no weight": (X0, Y0, {"sample_weight": np.zeros(10)}, "all sample weights are zero"),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_bad_batch_changes_nothing(name: str, kernel: str) -> None:
    X, y, options, sentence = BATCHES[name]
    model = stream(MEDClassifier(kernel=kernel))
    before = state(model)
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(X, y, **options)
    assert state(model) == before


def test_balanced_weights_need_all_rows() -> None:
    with pytest.raises(ValueError, match="give a dict"):
        MEDClassifier(class_weight="balanced").partial_fit(*med.batch(0))


def test_fit_needs_two_classes_and_a_first_batch_their_names() -> None:
    X, _ = med.batch(0)
    with pytest.raises(ValueError, match="only one class"):
        MEDClassifier().fit(X, np.ones(10))
    with pytest.raises(ValueError, match=r"classes=\[...\] at the first call"):
        MEDClassifier().partial_fit(X, np.ones(10))


def test_there_are_no_probabilities() -> None:
    model = stream(MEDClassifier())
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        model.predict_proba  # noqa: B018  # the access itself is the test


def test_an_early_end_warns(rng: np.random.Generator) -> None:
    X, y = moons(rng, 300)
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as seen:
        MEDClassifier(1000.0, amplitude=100.0, max_iter=1).fit(X, y)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MEDClassifier(1000.0, amplitude=100.0).fit(X, y)


def test_report_and_summary_say_what_rounding_added():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=40) > 0.0
    plain = MEDClassifier().fit(X, y)
    assert plain.report_["inference"]["jitter"] == 0.0
    assert "diagonal" not in str(plain.summary())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hard margin without a solution
        hard = MEDClassifier(C=1e8, kernel="poly", amplitude=1e8).fit(X, y)
    assert hard.report_["inference"]["jitter"] > 0.0
    assert "added to a diagonal" in str(hard.summary())
