"""Support vector machines: scikit-learn's answers, leave-one-out, probabilities, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm as sk

import mercer
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.kernels import RBF, Matern


def classes(seed: int, n: int = 120, k: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, k) / k))
    return X, y, rng.normal(size=(40, 3))


OPTIONS = [
    {"kernel": "rbf", "C": 1.0},
    {"kernel": "rbf", "C": 100.0, "gamma": 1.0},
    {"kernel": "linear", "C": 0.5},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "C": 1.0},
]


@pytest.mark.parametrize("seed", range(10))
def test_svc_equals_sklearn(seed: int) -> None:
    X, y, Z = classes(seed)
    for options in OPTIONS:
        ours = SVC(**options, tol=1e-8).fit(X, y)
        theirs = sk.SVC(**options, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(
            ours.decision_function(Z), theirs.decision_function(Z), atol=1e-4
        )
        assert set(ours.support_) == set(theirs.support_)
        np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))


@pytest.mark.parametrize("seed", range(10))
def test_svr_equals_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=100)
    Z = rng.normal(size=(30, 2))
    w = rng.uniform(0.1, 3.0, 100)
    for options in ({"C": 1.0}, {"C": 20.0, "epsilon": 0.01}, {"kernel": "linear"}):
        ours = SVR(**options, tol=1e-8).fit(X, y, w)
        theirs = sk.SVR(**options, tol=1e-8).fit(X, y, w)
        if "kernel" not in options:  # gamma="scale" is weighted here, not there
            options = {**options, "gamma": 0.4}
            ours, theirs = SVR(**options, tol=1e-8), sk.SVR(**options, tol=1e-8)
            ours.fit(X, y, w)
            theirs.fit(X, y, w)
        np.testing.assert_allclose(ours.predict(Z), theirs.predict(Z), atol=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_nu_machines_equal_sklearn(seed: int) -> None:
    X, y, Z = classes(seed)
    for nu in (0.2, 0.5):
        ours = NuSVC(nu=nu, tol=1e-8).fit(X, y)
        theirs = sk.NuSVC(nu=nu, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(
            ours.decision_function(Z), theirs.decision_function(Z), rtol=1e-3, atol=1e-3
        )
        t = np.sin(X[:, 0])
        a, b = NuSVR(nu=nu, C=2.0, tol=1e-7).fit(X, t), sk.NuSVR(nu=nu, C=2.0, tol=1e-7).fit(X, t)
        np.testing.assert_allclose(a.predict(Z), b.predict(Z), atol=1e-3)
        one, two = OneClassSVM(nu=nu, tol=1e-9).fit(X), sk.OneClassSVM(nu=nu, tol=1e-9).fit(X)
        np.testing.assert_allclose(
            one.decision_function(Z), two.decision_function(Z), rtol=1e-4, atol=1e-3
        )


def test_several_classes_share_rows() -> None:
    X, y, Z = classes(0, 200, 4)
    model = SVC(tol=1e-8).fit(X, y)
    for c in range(4):
        alone = sk.SVC(tol=1e-8).fit(X, np.where(y == c, 1, 0))
        np.testing.assert_allclose(
            model.decision_function(Z)[:, c], alone.decision_function(Z), atol=1e-4
        )
    assert model.report_["rows_computed"] <= 200


def test_single_precision_is_close() -> None:
    X, y, Z = classes(1, 400)
    fast, exact = SVC().fit(X, y), SVC(tol=1e-8).fit(X, y)
    assert fast.report_["precision"] == "float32"
    assert exact.report_["precision"] == "float64"
    np.testing.assert_allclose(fast.decision_function(Z), exact.decision_function(Z), atol=2e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_leave_one_out_against_refitting(bias: bool) -> None:
    """The span rule is exact while the set of free vectors does not change."""
    X, y, _ = classes(3, 40)
    model = SVC(C=1.0, gamma=0.5, bias=bias, tol=1e-9).fit(X, y)
    left = model.loo_.margin[:, 0]
    order = np.lexsort(np.column_stack([X, y]).T[::-1])
    signs = np.where(y == 1, 1.0, -1.0)
    refit = np.empty(40)
    for place, i in enumerate(order):
        rest = np.delete(np.arange(40), i)
        part = SVC(C=1.0, gamma=0.5, bias=bias, tol=1e-9).fit(X[rest], y[rest])
        refit[place] = signs[i] * part.decision_function(X[i : i + 1])[0]
    assert np.median(np.abs(left - refit)) < 0.02
    assert np.mean((left <= 0) == (refit <= 0)) > 0.9
    brute = np.mean(refit <= 0)
    assert model.loo_.support_bound[0] >= brute
    assert model.loo_.xi_alpha_bound[0] >= brute
    assert model.loo_.jitter == 1e-10


@pytest.mark.parametrize("how", ["loo", "cv"])
@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_never_contradict(how: str, k: int) -> None:
    X, y, _ = classes(5, 200, k)
    Z = np.random.default_rng(0).normal(size=(400, 3))
    model = SVC(probability=how).fit(X, y)
    p = model.predict_proba(Z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(Z))
    if k == 2:
        np.testing.assert_array_equal(p[:, 1] > 0.5, model.decision_function(Z) > 0)


def test_no_probabilities_unless_asked() -> None:
    X, y, _ = classes(0)
    assert not hasattr(SVC().fit(X, y), "predict_proba")


def test_labels_of_any_kind() -> None:
    X, y, Z = classes(0)
    for labels in (y.astype(bool), y.astype(str), np.where(y == 1, "yes", "no").astype(object)):
        model = SVC().fit(X, labels)
        assert set(model.predict(Z)) <= set(np.unique(labels))


def test_class_weights() -> None:
    X, y, Z = classes(2)
    heavy = SVC(class_weight={0: 1.0, 1: 10.0}, gamma=0.3, tol=1e-8).fit(X, y)
    theirs = sk.SVC(class_weight={0: 1.0, 1: 10.0}, gamma=0.3, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(heavy.decision_function(Z), theirs.decision_function(Z), atol=1e-4)
    with pytest.raises(ValueError, match="the class 7"):
        SVC(class_weight={7: 2.0}).fit(X, y)


def test_hard_margin_and_its_infeasible_twin() -> None:
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    model = SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(model.decision_function([[1.0], [3.0]]), [-1.0, 1.0], atol=1e-6)
    with pytest.raises(ValueError, match="hard margin"):
        SVC(C=np.inf, kernel="linear").fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": -1.0}, "C must be a positive"),
        ({"tol": 0.0}, "tol must be a positive"),
        ({"gamma": -2.0}, "gamma must be"),
        ({"gamma": "big"}, "gamma must be"),
        ({"kernel": "sigmoid"}, "not positive semidefinite"),
        ({"kernel": "rfb"}, "no kernel 'rfb'"),
        ({"probability": True}, "probability must be"),
    ],
)
def test_bad_parameters(options: dict, message: str) -> None:
    X, y, Z = classes(0)
    model = SVC().fit(X, y)
    before = model.decision_function(Z)
    with pytest.raises(ValueError, match=message):
        model.set_params(**options).fit(X, y)
    np.testing.assert_array_equal(SVC().fit(X, y).decision_function(Z), before)


def test_one_class_is_refused() -> None:
    X, _, _ = classes(0)
    with pytest.raises(ValueError, match="only one class"):
        SVC().fit(X, np.zeros(120))
    with pytest.raises(ValueError, match="one class"):
        SVC().fit(X, np.arange(120) % 2, sample_weight=np.arange(120) % 2)


def test_infeasible_nu() -> None:
    X, _, _ = classes(0)
    with pytest.raises(ValueError, match=r"infeasible: for these classes at most 0\.1"):
        NuSVC(nu=0.5).fit(X, np.arange(120) < 6)


@pytest.mark.parametrize("kernel", ["rbf", RBF(1.0) + 0.5 * Matern()])
def test_round_trip(kernel: object, tmp_path: object) -> None:
    X, y, Z = classes(0)
    for model in (
        SVC(kernel=kernel, probability="loo", class_weight={0: 2.0}).fit(X, y),
        SVR(kernel=kernel).fit(X, y * 1.0),
        NuSVC(kernel=kernel).fit(X, y),
        NuSVR(kernel=kernel).fit(X, y * 1.0),
        OneClassSVM(kernel=kernel).fit(X),
    ):
        mercer.save(model, tmp_path / "m.mercer")  # type: ignore[operator]
        again = mercer.load(tmp_path / "m.mercer")  # type: ignore[operator]
        np.testing.assert_array_equal(again.predict(Z), model.predict(Z))


def test_nu_weights_equal_repetition_and_labels_may_be_objects() -> None:
    """scikit-learn's checks that NuSVC excludes, on balanced classes."""
    X, y, Z = classes(4, 60)
    counts = np.random.default_rng(0).integers(0, 3, 60)
    repeated = NuSVC(nu=0.2, gamma=0.4).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    weighted = NuSVC(nu=0.2, gamma=0.4).fit(X, y, sample_weight=counts)
    np.testing.assert_allclose(weighted.decision_function(Z), repeated.decision_function(Z))
    assert set(NuSVC().fit(X.astype(object), y).predict(Z)) == {0, 1}
    heavy = NuSVC(nu=0.05, class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    plain = NuSVC(nu=0.05).fit(X, y)
    assert (heavy.predict(Z) == 0).sum() >= (plain.predict(Z) == 0).sum()
