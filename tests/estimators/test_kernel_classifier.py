"""KernelClassifier: probabilities, C, weights, leave-one-out by refitting, search, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import mercer
from mercer import KernelClassifier, KernelRegressor, losses
from mercer.kernels import RBF, Constant, Linear
from mercer.search import LooBound

BINARY = ["logistic", "probit", "hinge", "squared_hinge", "margin", "exponential", "laplace_probit"]


def two(n=60, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, "yes", "no")
    y[:2] = "yes", "no"
    return X, y


def three(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, np.array(["a", "b", "c"])[np.digitize(angle, [-1.0, 1.0])]


# ---------------------------------------------------------------------- predictions
@pytest.mark.parametrize("make", [two, three])
@pytest.mark.parametrize("loss", [*BINARY, "softmax", losses.Logistic()], ids=repr)
def test_probabilities_never_contradict_predict(loss, make):
    X, y = make()
    model = KernelClassifier(C=5.0, loss=loss).fit(X, y)
    Z = np.vstack([np.random.default_rng(1).normal(size=(300, 2)), np.zeros((1, 2))])
    assert model.score(X, y) > 0.7
    decision = model.decision_function(Z)
    chosen = decision > 0 if decision.ndim == 1 else decision.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[chosen.astype(int)])
    normalised = model.loss_.normalised
    assert hasattr(model, "predict_proba") == normalised
    if normalised:
        p = model.predict_proba(Z)
        assert p.shape == (301, len(model.classes_))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])
        np.testing.assert_allclose(np.log(p), model.predict_log_proba(Z), atol=1e-9)
    else:
        with pytest.raises(AttributeError, match="predict_proba") as caught:
            model.predict_proba(Z)
        assert "not a likelihood" in str(caught.value.__cause__)


def test_logistic_probability_is_the_sigmoid_of_f():
    X, y = two()
    model = KernelClassifier(C=5.0).fit(X, y)
    f, std = model.predict_latent(X)
    assert std is None
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-f)), rtol=1e-12)


def test_linear_kernel_is_penalised_logistic_regression():
    X, y = two()
    ours = KernelClassifier(Linear(), C=2.0).fit(X, y)
    theirs = LogisticRegression(C=2.0, tol=1e-12, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("C", [0.3, 3.0, 50.0])
def test_hinge_is_a_support_vector_machine(C):
    X, y = two()
    ours = KernelClassifier(RBF(0.7), C=C, loss="hinge").fit(X, y)
    theirs = SVC(C=C, gamma=0.5 / 0.7**2, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-5)


def test_c_is_the_amplitude_of_the_kernel():
    X, y = two()
    one = KernelClassifier(RBF(0.7), C=4.0).fit(X, y)
    other = KernelClassifier(4.0 * RBF(0.7)).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-10)
    assert one.kernel_ == other.kernel_


def test_several_machines_are_each_against_the_rest():
    X, y = three()
    model = KernelClassifier(RBF(0.7), loss="hinge").fit(X, y)
    for j, label in enumerate(model.classes_):
        single = KernelClassifier(RBF(0.7), loss="hinge").fit(X, y == label)
        np.testing.assert_allclose(
            model.decision_function(X)[:, j], single.decision_function(X), atol=1e-7
        )


def test_softmax_of_two_is_logistic_with_twice_the_kernel():
    X, y = two()
    one = KernelClassifier(RBF(0.7), C=3.0, loss="softmax").fit(X, y)
    other = KernelClassifier(RBF(0.7), C=6.0).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)


def test_named_logistic_of_several_classes_is_softmax():
    X, y = three()
    assert KernelClassifier().fit(X, y).loss_ == losses.Softmax()
    assert KernelClassifier(loss=losses.Logistic()).fit(X, y).loss_ == losses.Logistic()


# ---------------------------------------------------------------------- weights
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_weight_two_is_two_rows(loss):
    X, y = two(30)
    many = np.repeat(np.arange(30), np.where(np.arange(30) < 8, 2, 1))
    w = np.where(np.arange(30) < 8, 2.0, 1.0)
    short = KernelClassifier(RBF() + 1.0, loss=loss, basis=None).fit(X, y, sample_weight=w)
    long = KernelClassifier(RBF() + 1.0, loss=loss, basis=None).fit(X[many], y[many])
    np.testing.assert_allclose(short.decision_function(X), long.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(short.loo_.bound[many], long.loo_.bound, atol=1e-7)
    np.testing.assert_allclose(short.loo_.cavity[many], long.loo_.cavity, atol=1e-7)
    assert short.loo_.error_bound == pytest.approx(long.loo_.error_bound)


def test_class_weights_multiply():
    X, y = two()
    given = KernelClassifier(class_weight={"yes": 3.0}, standardize=False).fit(X, y)
    plain = KernelClassifier(standardize=False).fit(
        X, y, sample_weight=np.where(y == "yes", 3.0, 1.0)
    )
    # the default length scale looks at the weights, too
    np.testing.assert_allclose(given.decision_function(X), plain.decision_function(X), atol=1e-10)
    even = KernelClassifier(RBF(), class_weight="balanced").fit(X, y)
    assert abs(even.posteriors_[0].alpha.sum()) < 1e-8


def test_a_row_of_weight_zero_is_not_there():
    X, y = two()
    w = np.ones(60)
    w[10:20] = 0.0
    with_them = KernelClassifier(RBF()).fit(X, y, sample_weight=w)
    without = KernelClassifier(RBF()).fit(X[w > 0], y[w > 0])
    np.testing.assert_array_equal(with_them.decision_function(X), without.decision_function(X))
    margin = np.where(y == "yes", 1.0, -1.0) * without.decision_function(X)
    np.testing.assert_allclose(with_them.loo_.cavity[w == 0, 0], margin[w == 0], atol=1e-12)


# ---------------------------------------------------------------------- leave-one-out
def refitted(model, X, y):
    """Margins of each row left out, by refitting."""
    margins = []
    for t in range(len(y)):
        rest = np.delete(np.arange(len(y)), t)
        f = mercer.KernelClassifier(**model.get_params(deep=False)).fit(X[rest], y[rest])
        margins.append(f.decision_function(X[[t]])[0] * (1.0 if y[t] == "yes" else -1.0))
    return np.array(margins)


@pytest.mark.slow
def test_bound_holds_on_fifty_random_problems(capsys):
    rng = np.random.default_rng(11)
    figures = []
    for problem in range(50):
        n = int(rng.integers(10, 26))
        X, _ = two(n, seed=problem)
        y = np.where(X[:, 0] + rng.uniform(0.0, 1.0) * rng.normal(size=n) > 0, "yes", "no")
        y[:4] = "yes", "no", "yes", "no"
        kernel = 10.0 ** rng.uniform(-1, 1.5) * RBF(10.0 ** rng.uniform(-0.5, 0.5)) + 1.0
        loss = ["logistic", "hinge", "squared_hinge"][problem % 3]
        model = KernelClassifier(kernel, loss=loss, basis=None).fit(X, y)
        true = refitted(model, X, y)
        assert np.all(true >= model.loo_.bound[:, 0] - 1e-7), (problem, loss)
        error = np.mean(true <= 0.0)
        assert model.loo_.error_bound >= error
        figures.append((error, model.loo_.error_bound, model.loo_.cavity_error))
        if loss == "logistic":
            assert np.all(model.loo_.cavity >= model.loo_.bound)
            assert np.mean(np.abs(model.loo_.cavity[:, 0] - true)) < 0.1
    error, bound, cavity = np.mean(figures, axis=0)
    with capsys.disabled():
        print(f"\nleave-one-out error {error:.3f}, bound {bound:.3f}, cavity {cavity:.3f}")
    assert abs(cavity - error) < 0.05


def test_cavity_with_a_free_bias_is_close():
    X, y = two(40)
    model = KernelClassifier(3.0 * RBF()).fit(X, y)
    true = refitted(model, X, y)
    assert np.mean(np.abs(model.loo_.cavity[:, 0] - true)) < 0.02


@pytest.mark.parametrize("bias", [False, True])
def test_cavity_of_the_hinge_is_the_span(bias):
    X, y = two(40)
    S = np.where(y == "yes", 1.0, -1.0)
    basis = "constant" if bias else None
    model = KernelClassifier(3.0 * RBF(), loss="hinge", basis=basis).fit(X, y)
    points, alpha = model.posteriors_[0].points, model.posteriors_[0].alpha[:, 0]
    place = np.array([np.flatnonzero((points == row).all(axis=1))[0] for row in X])
    lam = S * alpha[place]  # the fit has an order of its own
    free = (lam > 1e-9) & (lam < 1.0 - 1e-9)
    K = 3.0 * RBF()(X)
    M = np.ones((free.sum() + bias, free.sum() + bias))
    M[: free.sum(), : free.sum()] = K[np.ix_(free, free)]
    M[free.sum() :, free.sum() :] = 0.0
    inverse = np.linalg.inv(M)
    v = np.vstack([K[free], np.ones((int(bias), 40))])
    span = np.diagonal(K) - np.einsum("ij,ij->j", v, inverse @ v)
    span[free] = 1.0 / np.diagonal(inverse)[: free.sum()]
    margin = S * model.decision_function(X) - np.where(lam > 1e-9, lam, 0.0) * span
    np.testing.assert_allclose(model.loo_.cavity[:, 0], margin, atol=1e-6)


def test_bound_of_several_machines():
    X, y = three(36)
    model = KernelClassifier(4.0 * RBF() + 1.0, loss=losses.Logistic(), basis=None).fit(X, y)
    wrong = 0
    for t in range(36):
        rest = np.delete(np.arange(36), t)
        again = KernelClassifier(4.0 * RBF() + 1.0, loss=losses.Logistic(), basis=None)
        wrong += again.fit(X[rest], y[rest]).predict(X[[t]])[0] != y[t]
    assert model.loo_.error_bound >= wrong / 36
    assert abs(model.loo_.cavity_error - wrong / 36) <= 2 / 36
    assert model.loo_.error_bound < 0.9


def test_refused_figures():
    X, y = two()
    with pytest.raises(ValueError, match="free bias"):
        KernelClassifier().fit(X, y).loo_.error_bound  # noqa: B018  # the access is refused
    A, b = three()
    loo = KernelClassifier().fit(A, b).loo_
    with pytest.raises(ValueError, match="joint model"):
        loo.error_bound  # noqa: B018  # the access is refused
    with pytest.raises(ValueError, match="no cavity"):
        loo.cavity_error  # noqa: B018  # the access is refused


# ---------------------------------------------------------------------- search
@pytest.mark.parametrize("figure", ["bound", "cavity"])
def test_search_by_leave_one_out(figure):
    X, y = two(120, noise=0.3)
    poor = KernelClassifier(0.01 * RBF(30.0) + Constant(1.0).fix(), basis=None).fit(X, y)
    found = KernelClassifier(
        0.01 * RBF(30.0) + Constant(1.0).fix(), basis=None, search=LooBound(figure)
    ).fit(X, y)
    Z, t = two(400, seed=7, noise=0.3)
    assert found.score(Z, t) > poor.score(Z, t) + 0.1
    if figure == "bound":
        assert found.loo_.error_bound < poor.loo_.error_bound
    assert found.report_["search"]["evaluations"] > 10
    assert "basis" not in found.report_


def test_search_replaces_a_free_bias_and_says_so():
    X, y = two()
    model = KernelClassifier(search="loo_bound").fit(X, y)
    assert "Constant" in repr(model.kernel_)
    assert model.basis_ is None
    assert "replaced by a constant" in model.report_["basis"]
    assert model.loo_.error_bound < 0.6
    again = KernelClassifier(search="loo_bound").fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_search_of_several_classes_is_one_against_the_rest():
    X, y = three(60)
    model = KernelClassifier(search="loo_bound").fit(X, y)
    assert model.loss_ == losses.Logistic()
    assert model.loo_.error_bound < 0.6
    with pytest.raises(ValueError, match="one machine per class"):
        KernelClassifier(loss="softmax", search="loo_bound").fit(X, y)


@pytest.mark.parametrize("search", ["evidence", "loo"])
def test_densities_are_no_criterion(search):
    X, y = two()
    with pytest.raises(ValueError, match="finds a mode that has none"):
        KernelClassifier(search=search).fit(X, y)


# ---------------------------------------------------------------------- files and bad input
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "hinge", "basis": None},
        {"class_weight": {"yes": 2.0, "no": 1.0}, "C": 3.0},
        {"search": "loo_bound"},
    ],
    ids=str,
)
def test_model_files(options, tmp_path):
    X, y = two()
    model = KernelClassifier(**options).fit(X, y)
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.loo_.cavity, model.loo_.cavity)
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again.loo_.reason == model.loo_.reason
    assert str(again.summary()) == str(model.summary())


def test_model_file_of_several_classes(tmp_path):
    X, y = three()
    model = KernelClassifier().fit(X, y)
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.classes_.tolist() == ["a", "b", "c"]


X0, Y0 = two()
BAD = {
    "one class": ({}, (X0, np.repeat("yes", 60)), "one class"),
    "loss of numbers": ({"loss": "poisson"}, (X0, Y0), "not for classes"),
    "C": ({"C": 0.0}, (X0, Y0), "C must be a positive number"),
    "C infinite": ({"C": np.inf}, (X0, Y0), "C must be a positive number"),
    "absent class": ({"class_weight": {"maybe": 2.0}}, (X0, Y0), "maybe"),
    "class of weight zero": ({"class_weight": {"no": 0.0}}, (X0, Y0), "weight zero"),
    "negative weight": ({}, (X0, Y0, -np.ones(60)), "not negative"),
    "nan": ({}, (np.where(np.arange(120).reshape(60, 2) == 5, np.nan, X0), Y0), "row 2"),
    "kinks for newton": ({"loss": "hinge", "inference": "newton"}, (X0, Y0), "dual"),
    "precomputed": ({"kernel": "precomputed"}, (X0 @ X0.T, Y0, np.arange(60) > 0), "its column"),
    "no convexity": ({"loss": "normalized_hinge"}, (X0, Y0), "neither smooth nor convex"),
    "separable basis": (
        {"basis": "linear"},
        (X0, np.where(X0[:, 0] > 0, "yes", "no")),
        "grow without bound",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    options, arguments, match = BAD[name]
    model = KernelClassifier()
    model.fit(X0, Y0)
    before = model.decision_function(X0)
    with pytest.raises((ValueError, TypeError), match=match):
        model.set_params(**options).fit(*arguments)
    np.testing.assert_array_equal(
        model.set_params(**KernelClassifier().get_params(deep=False)).decision_function(X0), before
    )


def test_labels_of_every_kind():
    X, y = two()
    plain = KernelClassifier().fit(X, y)
    for labels in (y == "yes", np.where(y == "yes", 7, 3), np.array(y, dtype=object)):
        model = KernelClassifier().fit(X, labels)
        assert set(model.predict(X).tolist()) <= set(np.unique(labels).tolist())
        np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))


def test_one_row_of_each_class_and_constant_columns():
    model = KernelClassifier().fit([[0.0, 5.0], [1.0, 5.0]], [0, 1])
    np.testing.assert_array_equal(model.predict([[0.1, 5.0], [0.9, 5.0]]), [0, 1])


def test_the_same_input_with_both_labels():
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    for loss in ("logistic", "hinge"):
        model = KernelClassifier(100.0 * RBF(), loss=loss).fit(X, [0, 1, 1, 1])
        assert model.report_["inference"]["converged"]
        assert abs(model.decision_function([[0.0]])[0]) < 1.0 + 1e-6


def test_precomputed_kernel():
    X, y = two()
    kernel = 3.0 * RBF(0.8)
    ours = KernelClassifier("precomputed", C=3.0).fit(RBF(0.8)(X), y)
    same = KernelClassifier(kernel).fit(X, y)
    Z = np.random.default_rng(3).normal(size=(5, 2))
    np.testing.assert_allclose(
        ours.decision_function(RBF(0.8)(Z, X)), same.decision_function(Z), atol=1e-9
    )


# ---------------------------------------------------------------------- regression at a mode
REGRESSION = [
    (losses.Poisson(), lambda r: r.poisson(4.0, 40)),
    (losses.NegativeBinomial(size=3.0), lambda r: r.poisson(4.0, 40)),
    (losses.Gamma(shape=2.0), lambda r: r.gamma(2.0, 3.0, 40)),
    (losses.Ordinal([-1.0, 1.0]), lambda r: r.integers(0, 3, 40)),
    (losses.Huber(noise=0.3), lambda r: r.normal(size=40)),
    (losses.StudentT(scale=0.3), lambda r: r.normal(size=40)),
    (losses.EpsilonInsensitive(C=3.0), lambda r: r.normal(size=40)),
    (losses.LaplaceNoise(scale=0.3), lambda r: r.normal(size=40)),
    (losses.Pinball(level=0.8, scale=0.3), lambda r: r.normal(size=40)),
]


@pytest.mark.parametrize(
    ("loss", "draw"), REGRESSION, ids=[type(v[0]).__name__ for v in REGRESSION]
)
def test_regression_with_other_losses(loss, draw, tmp_path):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 2)), np.asarray(draw(rng), dtype=float)
    model = KernelRegressor(loss=loss, search=None, basis="constant").fit(X, y)
    f, std = model.predict_latent(X)
    assert std is None
    wanted = f if isinstance(loss, losses.Pinball) else loss.moments(f)[0]  # the quantile itself
    np.testing.assert_allclose(model.predict(X), wanted, atol=1e-12)
    assert model.log_evidence_ is None
    with pytest.raises(ValueError, match="no spread"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="no spread"):
        model.predict_interval(X)
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(X), model.predict(X))
    assert "mode" in str(model.summary())


def test_leave_one_out_of_counts_is_close_to_refitting():
    rng = np.random.default_rng(4)
    X = np.linspace(0, 6, 30)[:, None]
    y = rng.poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
    options = {"kernel": 2.0 * RBF(1.5), "loss": "poisson", "search": None, "basis": "constant"}
    model = KernelRegressor(**options).fit(X, y)
    true = [
        KernelRegressor(**options).fit(np.delete(X, t, axis=0), np.delete(y, t)).predict(X[[t]])[0]
        for t in range(30)
    ]
    np.testing.assert_allclose(model.loo_.mean, true, rtol=0.15)
    assert np.mean(np.abs(model.loo_.mean / true - 1.0)) < 0.02


def test_repeated_counts_are_merged_only_if_equal():
    rng = np.random.default_rng(5)
    X = np.repeat(np.arange(6.0), 5)[:, None]
    y = rng.poisson(3.0, 30).astype(float)
    options = {"kernel": 2.0 * RBF(1.5), "loss": "poisson", "search": None}
    table = KernelRegressor(**options).fit(X, y)
    pairs, counts = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    short = KernelRegressor(**options).fit(pairs[:, :1], pairs[:, 1], sample_weight=counts)
    np.testing.assert_allclose(table.predict(X), short.predict(X), rtol=1e-9)
    np.testing.assert_allclose(
        np.bincount(X[:, 0].astype(int), y) / 5, table.predict(X)[::5], rtol=0.4
    )


def test_a_mode_is_not_searched_by_evidence():
    X, y = np.arange(10.0)[:, None], np.arange(10.0)
    with pytest.raises(ValueError, match=r"finds a mode that has none; give search=None"):
        KernelRegressor(loss="poisson").fit(X, y)
    with pytest.raises(ValueError, match="KernelRegressor"):
        mercer.GPRegressor(loss="poisson", inference="newton", search=None).fit(X, y)


def test_targets_with_several_columns():
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    both = KernelRegressor(2.0 * RBF(), loss=losses.Huber(), search=None).fit(X, Y)
    for j in range(2):
        one = KernelRegressor(2.0 * RBF(), loss=losses.Huber(), search=None).fit(X, Y[:, j])
        np.testing.assert_allclose(both.predict(X)[:, j], one.predict(X), atol=1e-9)
