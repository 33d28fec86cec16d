"""Bad and awkward input to the kernel classifiers: refused with a sentence, or handled."""

import numpy as np
import pytest

import mercer
from mercer import SVC, SVR, KernelClassifier, NuSVC, NuSVR, OneClassSVM

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


@pytest.mark.parametrize("name", NAMES)
def test_class_weights(name):
    labels = np.array(["no", "yes"])[Y]
    with pytest.raises(
        ValueError, match=r"names the class 'maybe'.*the classes are \['no', 'yes'\]"
    ):
        make(name, class_weight={"yes": 1.0, "maybe": 2.0}).fit(X, labels)
    with pytest.raises(ValueError, match="class_weight must be None, 'balanced' or a dict"):
        make(name, class_weight="even").fit(X, Y)
    with pytest.raises(ValueError, match="class_weight must be None, 'balanced' or a dict"):
        make(name, class_weight=[1.0, 2.0]).fit(X, Y)
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="the weight of class 1 must be finite"):
            make(name, class_weight={1: weight}).fit(X, Y)
    with pytest.raises(ValueError, match=r"one class|weight zero"):
        make(name, class_weight={1: 0.0}).fit(X, Y)


@pytest.mark.parametrize("name", ["SVC", "KernelClassifier"])
def test_a_heavier_class_wins_ground(name):
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


def test_constant_features_without_classes():
    flat, target = np.ones((6, 2)), np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    for machine in (SVR(epsilon=0.5), NuSVR()):
        found = machine.fit(flat, target).predict(flat[:2])
        assert np.all((found >= 2.0) & (found <= 3.0))  # a median of the targets
    assert list(OneClassSVM().fit(flat).predict(flat[:2])) == [1, 1]


@pytest.mark.parametrize("name", ["SVC", "KernelClassifier", "ProbabilisticLeastSquaresClassifier"])
def test_nothing_to_learn_from(name):
    flat = make(name).fit(np.ones((6, 2)), Y)
    assert np.all(np.isfinite(flat.decision_function(np.ones((2, 2)))))
    assert set(flat.predict(np.ones((2, 2)))) <= {0, 1}


@pytest.mark.parametrize(
    ("name", "sentence"), [("NuSVC", "larger nu"), ("LeastSquaresClassifier", "smaller basis")]
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


@pytest.mark.parametrize("machine", [SVR(), NuSVR(), OneClassSVM()])
def test_weights_of_rows_without_classes(machine):
    target = X[:, 0]
    with pytest.raises(ValueError, match="row 5 has -1"):
        machine.fit(X, target, sample_weight=[1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match="row 0 has nan"):
        machine.fit(X, target, sample_weight=[np.nan, 1.0, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="all sample weights are zero"):
        machine.fit(X, target, sample_weight=np.zeros(6))
    assert not hasattr(machine, "support_")


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_weight_zero_say_nothing(name):
    options = {"gamma": 0.5, "tol": 1e-8} if "SVC" in name else {"kernel": mercer.kernels.RBF()}
    odd, label = np.vstack([X, [[2.0, 0.0]]]), np.append(Y, 1)
    with_it = make(name, **options).fit(odd, label, sample_weight=np.append(np.ones(6), 0.0))
    without = make(name, **options).fit(X, Y)
    np.testing.assert_allclose(
        with_it.decision_function(odd), without.decision_function(odd), atol=1e-5
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


def test_a_hard_margin_is_for_classes():
    for machine in (SVR(C=np.inf), NuSVR(C=np.inf)):
        with pytest.raises(ValueError, match="C must be finite"):
            machine.fit(X, X[:, 0])


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
