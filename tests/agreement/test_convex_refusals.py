"""Bad and awkward input to the kernel classifiers: refused with a sentence, or handled."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import SVC, SVR, KernelClassifier, NuSVC, OneClassSVM

NAMES = [
    "SVC",
    "NuSVC",
    "KernelClassifier",
    "LeastSquaresClassifier",
    "ProbabilisticLeastSquaresClassifier",
]
X = np.array([[0.0, 1.0], [1.0, 0.3], [2.0, -0.4], [3.0, 0.8], [4.0, 0.1], [5.0, -1.0]])
Y = np.array([0, 0, 0, 1, 1, 1])


def make(name, **options):
    if name == "NuSVC":
        options.setdefault("nu", 0.3)
    return getattr(mercer, name)(**options)


# ---------------------------------------------------------------------- labels
@pytest.mark.parametrize("name", NAMES)
def test_one_class_is_refused(name):
    with pytest.raises(ValueError, match="class"):
        make(name).fit(X, np.ones(6))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"])[Y],
        Y.astype(bool),
        np.array(["no", "yes"], dtype=object)[Y],
        np.array([-7, 12])[Y],
        np.array([0.0, 1.0])[Y],
    ],
    ids=["text", "bool", "object", "integers", "floats"],
)
def test_labels_of_every_kind(name, labels):
    model = make(name).fit(X, labels)
    assert set(model.classes_) == set(labels)
    assert model.classes_.dtype == np.unique(labels).dtype
    predicted = model.predict(X)
    assert predicted.dtype == model.classes_.dtype
    assert np.mean(predicted == labels) >= 5 / 6


@pytest.mark.parametrize("name", NAMES)
def test_continuous_targets_are_refused(name):
    with pytest.raises(ValueError, match=r"label type|continuous"):
        make(name).fit(X, np.linspace(0.0, 1.0, 6))


@pytest.mark.parametrize("name", ["SVC", "KernelClassifier"])
def test_class_weights(name):
    with pytest.raises(ValueError, match="7"):
        make(name, class_weight={7: 2.0}).fit(X, Y)
    with pytest.raises(ValueError, match="class_weight"):
        make(name, class_weight="even").fit(X, Y)
    heavy = make(name, class_weight={1: 50.0}).fit(X, Y).decision_function(X)
    light = make(name, class_weight={0: 50.0}).fit(X, Y).decision_function(X)
    assert heavy.mean() > light.mean()


# ---------------------------------------------------------------------- numbers
@pytest.mark.parametrize("name", NAMES)
def test_one_row_per_class(name):
    model = make(name).fit(np.array([[0.0], [1.0]]), ["a", "b"])
    assert list(model.predict([[-0.2], [1.2]])) == ["a", "b"]


@pytest.mark.parametrize("name", NAMES)
def test_constant_features(name):
    constant = np.column_stack([X, np.full(6, 3.0)])
    assert np.all(np.isfinite(make(name).fit(constant, Y).decision_function(constant)))


@pytest.mark.parametrize("name", ["SVC", "KernelClassifier", "ProbabilisticLeastSquaresClassifier"])
def test_nothing_to_learn_from(name):
    flat = make(name).fit(np.ones((6, 2)), Y)
    assert np.all(np.isfinite(flat.decision_function(np.ones((2, 2)))))
    assert set(flat.predict(np.ones((2, 2)))) <= {0, 1}


@pytest.mark.parametrize(
    ("name", "sentence"), [("NuSVC", "smaller nu"), ("LeastSquaresClassifier", "smaller basis")]
)
def test_nothing_to_learn_from_is_refused(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(name).fit(np.ones((6, 2)), Y)


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_rows(name):
    with pytest.raises(ValueError, match="weight"):
        make(name).fit(X, Y, sample_weight=[1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match=r"weight|class"):
        make(name).fit(X, Y, sample_weight=np.zeros(6))
    # a class whose rows all have weight zero is not there
    with pytest.raises(ValueError, match=r"weight|class"):
        make(name).fit(X, Y, sample_weight=[1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["SVC", "KernelClassifier"])
def test_rows_of_weight_zero_say_nothing(name):
    options = {"gamma": 0.5} if name == "SVC" else {"kernel": mercer.kernels.RBF()}
    odd, label = np.vstack([X, [[2.0, 0.0]]]), np.append(Y, 1)
    with_it = make(name, **options).fit(odd, label, sample_weight=np.append(np.ones(6), 0.0))
    without = make(name, **options).fit(X, Y)
    np.testing.assert_allclose(
        with_it.decision_function(odd), without.decision_function(odd), atol=1e-3
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_numbers(name, bad):
    holes = X.copy()
    holes[2, 1] = bad
    with pytest.raises(ValueError, match=r"(?i)nan|inf|missing|finite"):
        make(name).fit(holes, Y)
    model = make(name).fit(X, Y)
    with pytest.raises(ValueError, match=r"(?i)nan|inf|missing|finite"):
        model.predict(holes)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, "one"])
def test_impossible_costs(C):
    for machine in (SVC(C=C), SVR(C=C), KernelClassifier(C=C)):
        with pytest.raises((ValueError, TypeError), match="C"):
            machine.fit(X, Y)


@pytest.mark.parametrize("nu", [0.0, 1.5, -0.1, np.nan])
def test_impossible_nu(nu):
    for machine in (NuSVC(nu=nu), OneClassSVM(nu=nu)):
        with pytest.raises(ValueError, match="nu"):
            machine.fit(X, Y)


def test_infeasible_nu():
    y = np.array([0, 0, 0, 0, 0, 1])  # feasible up to 2 min(n+, n-)/n = 1/3
    with pytest.raises(ValueError, match=r"(?s)nu.*0.33|nu.*infeasible|feasible"):
        NuSVC(nu=0.5).fit(X, y)


# ---------------------------------------------------------------------- hard margin
def test_hard_margin():
    hard = SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X, Y)
    margins = np.where(Y == 1, 1.0, -1.0) * hard.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-5)
    soft = SVC(C=1e6, kernel="linear", tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(hard.decision_function(X), soft.decision_function(X), atol=1e-4)


@pytest.mark.timeout(60)
def test_hard_margin_without_a_solution():
    both = np.vstack([X, X[:1]])
    with pytest.raises(ValueError, match=r"(?i)separ|margin|finite C"):
        SVC(C=np.inf).fit(both, np.append(Y, 1))  # one input, two labels


@pytest.mark.slow  # the steps go on until they can no longer be told from rounding
@pytest.mark.timeout(100)
def test_hard_margin_of_interleaved_classes():
    with pytest.raises(ValueError, match=r"(?i)separ|margin|finite C"):
        SVC(C=np.inf, kernel="linear").fit(X[:, 1:], [0, 1, 0, 1, 0, 1])


# ---------------------------------------------------------------------- convergence
@pytest.mark.timeout(60)
def test_kernels_that_are_not_positive():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)

    def sigmoid(P, Q):
        return np.tanh(2.0 * P @ Q.T - 1.0)

    def negative(P, Q):
        return -(P @ Q.T)

    for kernel in (sigmoid, negative):
        for machine in (SVC(kernel=kernel, C=10.0), KernelClassifier(kernel=kernel)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = machine.fit(A, y)
                except ValueError as error:
                    sentence = str(error)
                else:
                    sentence = "positive"
                    assert np.all(np.isfinite(model.decision_function(A)))
            assert "positive" in sentence or "converge" in sentence


@pytest.mark.timeout(60)
def test_tolerance_below_rounding_ends():
    rng = np.random.default_rng(1)
    A, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    exact = SVC(C=10.0, tol=1e-9).fit(A, y).decision_function(A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(C=10.0, tol=1e-300).fit(A, y)
    np.testing.assert_allclose(model.decision_function(A), exact, atol=1e-6)
    with pytest.raises(ValueError, match="tol"):
        SVC(tol=0.0).fit(A, y)


def test_iteration_limit_reports():
    rng = np.random.default_rng(1)
    A, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(C=1e4, max_iter=3).fit(A, y)
    assert not model.report_["converged"]
    assert SVC(C=1e4).fit(A, y).report_["converged"]


# ---------------------------------------------------------------------- probabilities
def test_no_probabilities_unless_asked():
    assert not hasattr(SVC().fit(X, Y), "predict_proba")
    assert not hasattr(mercer.LeastSquaresClassifier().fit(X, Y), "predict_proba")
    assert not hasattr(KernelClassifier(loss="hinge").fit(X, Y), "predict_proba")
    with pytest.raises(ValueError, match="probability"):
        SVC(probability="yes").fit(X, Y)
    with pytest.raises(ValueError, match="probability"):
        SVC(probability=True).fit(X, Y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SVC", {"probability": "loo"}),
        ("SVC", {"probability": "cv"}),
        ("KernelClassifier", {}),
        ("ProbabilisticLeastSquaresClassifier", {}),
    ],
)
def test_probabilities_never_contradict_predict(name, options, classes):
    rng = np.random.default_rng(5)
    A = rng.normal(size=(90, 2))
    y = np.argmax(A @ rng.normal(size=(2, classes)) + 0.5 * rng.normal(size=(90, classes)), axis=1)
    y[y == 0] = np.where(rng.random((y == 0).sum()) < 0.7, 1, 0)  # unbalanced
    model = make(name, **options).fit(A, y)
    Z = rng.normal(size=(2000, 2))
    p = model.predict_proba(Z)
    assert p.shape == (2000, classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])
    if classes == 2:
        np.testing.assert_array_equal(model.decision_function(Z) > 0, p[:, 1] > 0.5)
