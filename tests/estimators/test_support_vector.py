"""Support vector machines: scikit-learn's answers, leave-one-out, probabilities, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm as sk

import mercer
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.kernels import RBF, Matern, Precomputed


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
    assert model.report_["inference"]["rows_computed"] <= 200


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
    signs = np.where(y == 1, 1.0, -1.0)
    refit = np.empty(40)
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        part = SVC(C=1.0, gamma=0.5, bias=bias, tol=1e-9).fit(X[rest], y[rest])
        refit[i] = signs[i] * part.decision_function(X[i : i + 1])[0]
    assert np.median(np.abs(left - refit)) < 0.02
    assert np.mean((left <= 0) == (refit <= 0)) > 0.9
    brute = np.mean(refit <= 0)
    assert model.loo_.error_bounds["support"][0] >= brute
    assert model.loo_.error_bounds["xi_alpha"][0] >= brute
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


def machines() -> list:
    return [
        SVC(C=2.0),
        SVC(tol=1e-8, kernel=RBF(1.0) + 0.5 * Matern()),
        SVC(probability="loo"),
        SVR(epsilon=0.05),
        SVR(kernel="linear", bias=False),
        NuSVC(nu=0.3),
        NuSVR(),
        OneClassSVM(nu=0.2),
    ]


@pytest.mark.parametrize("model", machines(), ids=repr)
@pytest.mark.parametrize("k", [2, 3])
def test_everything_is_predicted_by_the_one_posterior(model, k, tmp_path) -> None:
    X, y, Z = classes(6, 60, k)
    model.fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    single = type(model.posteriors_[0].parent.kernel) is RBF and model.tol > 1e-5
    for one in (model, mercer.load(tmp_path / "m.mercer")):
        (process,) = one.posteriors_
        assert not process.has_spread
        mean = process.mean(Z)
        f = one.kernel_(Z, one.support_vectors_) @ one.dual_coef_.T + one.intercept_
        np.testing.assert_allclose(mean, f, rtol=0.0, atol=1e-5 if single else 1e-12)
        if getattr(one, "probability", None) is None:
            predict = getattr(one, "decision_function", one.predict)
            np.testing.assert_array_equal(predict(Z), mean[:, 0] if mean.shape[1] == 1 else mean)


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed()])
def test_a_precomputed_kernel(kernel) -> None:
    X, y, Z = classes(7, 50)
    X = np.vstack([X, X[:3]])
    y = np.append(y, y[:3])
    matrix, rows = RBF(1.0)(X), RBF(1.0)(Z, X)
    for model, plain in (
        (SVC(kernel=kernel, tol=1e-9, probability="loo"), SVC(kernel=RBF(1.0), tol=1e-9)),
        (SVR(kernel=kernel, tol=1e-9), SVR(kernel=RBF(1.0), tol=1e-9)),
    ):
        model.fit(matrix, y)
        plain.fit(X, y)
        latent = getattr(model, "predict_latent", model.predict)(rows)
        np.testing.assert_allclose(
            latent, getattr(plain, "predict_latent", plain.predict)(Z), atol=1e-7
        )
        np.testing.assert_array_equal(
            model.posteriors_[0].mean(rows[:, model.support_])[:, 0], latent
        )
        if isinstance(model, SVC):
            np.testing.assert_allclose(model.left_out_.margin, plain.left_out_.margin, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_rows_left_out_come_in_the_order_of_fit(k: int) -> None:
    X, y, _ = classes(8, 60, k)
    weights = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    model = SVC(gamma=0.4, tol=1e-9).fit(X, y, weights)
    turn = np.random.default_rng(1).permutation(60)
    turned = SVC(gamma=0.4, tol=1e-9).fit(X[turn], y[turn], weights[turn])
    figures, other = model.left_out_, turned.left_out_
    assert figures.margin.shape == (60, 1 if k == 2 else 3)
    np.testing.assert_allclose(other.margin, figures.margin[turn], rtol=1e-12)
    np.testing.assert_array_equal(other.codes, figures.codes[turn])
    np.testing.assert_array_equal(figures.codes, y)
    np.testing.assert_array_equal(figures.weights, weights)
    assert model.loo_.error == figures.error == other.error
    # rows of weight zero are predicted by all others, repeated rows are one point
    f = model.decision_function(X).reshape(60, -1)
    signs = np.where(y[:, None] == (np.array([1]) if k == 2 else np.arange(3)), 1.0, -1.0)
    unused = weights == 0.0
    np.testing.assert_allclose(figures.margin[unused], (signs * f)[unused], atol=1e-9)
    assert np.all(figures.margin[~unused] <= (signs * f)[~unused] + 1e-6)
    counts = weights.astype(int)
    repeated = SVC(gamma=0.4, tol=1e-9).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    np.testing.assert_allclose(
        repeated.left_out_.margin, np.repeat(figures.margin, counts, 0), atol=1e-6
    )
    assert repeated.left_out_.error == pytest.approx(figures.error)


def test_probabilities_of_rows_left_out() -> None:
    X, y, _ = classes(5, 80, 3)
    figures = SVC(probability="loo").fit(X, y).left_out_
    np.testing.assert_allclose(figures.proba.sum(axis=1), 1.0)
    assert figures.error == np.mean(figures.proba.argmax(axis=1) != y)
    assert SVC().fit(X, y).left_out_.proba is None


@pytest.mark.parametrize("model", machines(), ids=repr)
def test_summary_and_report(model, tmp_path) -> None:
    X, y, _ = classes(9, 60)
    model.fit(X, y)
    report = model.report_
    assert report["rows"] == {"used": 60, "distinct": 60, "weight": 60.0}
    ended = report["inference"]
    assert ended["name"] == "SMO"
    assert ended["converged"]
    assert ended["gap"] >= -1e-9
    assert ended["iterations"] == model.n_iter_
    assert sum(ended["free"]) + sum(ended["bounded"]) == np.count_nonzero(model.dual_coef_)
    assert all(" " not in key for key in (*report, *ended))
    sections = {section for section, _, _ in model.summary().rows()}
    assert sections == {"Data", "Model", "Quality", "Numerics"}
    text = str(model.summary())
    assert "support vectors" in text
    assert repr(model.kernel_) in text
    for name in ("C", "nu", "epsilon"):
        assert (("Model", name, f"{getattr(model, name, 0.0):g}") in model.summary().rows()) == (
            name in model.get_params()
        )
    if isinstance(model, SVC):
        assert f"{model.left_out_.error:.4f}" in text
        assert "bound on it by share of support vectors" in text
    else:
        assert model.left_out_ is model.loo_ is None
        assert report["left_out"] in text
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.left_out_ is None
    assert isinstance(again.report_["left_out"], str)
    assert "not part of a model file" in str(again.summary()) or not isinstance(model, SVC)


def test_nothing_is_there_before_fit() -> None:
    for model in machines():
        for name in ("posteriors_", "left_out_", "loo_"):
            assert not hasattr(model, name)
