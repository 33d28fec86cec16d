"""Support vector machines from outside: a generic quadratic program, scikit-learn, KKT."""

import numpy as np
import pytest
from sklearn import svm
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier

from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from tests.reference import convex

SEEDS = range(10)


def problem(seed, n=40, d=3):
    """Return X, labels, targets and new points; settings differ from seed to seed."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(15, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.6 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    t = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, t, Z, rng


def settings(seed):
    """Return parameters that both libraries understand in the same way."""
    return [
        {"C": 1.0},
        {"C": 0.1, "gamma": 0.5},
        {"C": 10.0, "gamma": 0.2},
        {"C": 2.0, "kernel": "linear"},
        {"C": 0.5, "kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0},
        {"C": 100.0, "gamma": "auto"},
        {"C": 1.0, "gamma": 5.0},
        {"C": 3.0, "kernel": "poly", "degree": 3, "coef0": 0.5},
        {"C": 0.01},
        {"C": 1.0, "gamma": 1.0},
    ][seed]


def gram(X, Z, gamma):
    return np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


# ---------------------------------------------------------------------- scikit-learn
@pytest.mark.parametrize("seed", SEEDS)
def test_svc_is_scikit_learns(seed):
    X, y, _, Z, _ = problem(seed, n=80)
    options = settings(seed)
    ours = SVC(tol=1e-6, **options).fit(X, y)
    theirs = svm.SVC(tol=1e-6, **options).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(Z), theirs.decision_function(Z), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
    ours_full, theirs_full = np.zeros(80), np.zeros(80)
    ours_full[ours.support_], theirs_full[theirs.support_] = ours.dual_coef_, theirs.dual_coef_
    if options.get("kernel", "rbf") == "rbf":  # positive definite: the coefficients are unique
        np.testing.assert_allclose(ours_full, theirs_full, atol=2e-3 * options["C"])


@pytest.mark.parametrize("seed", SEEDS)
def test_svr_is_scikit_learns(seed):
    X, _, t, Z, _ = problem(seed, n=80)
    options = settings(seed) | {"epsilon": [0.1, 0.0, 0.3][seed % 3]}
    if options.get("kernel") == "poly":  # a polynomial of raw columns needs no more of C
        options["C"] = 0.1
    ours = SVR(tol=1e-6, **options).fit(X, t)
    theirs = svm.SVR(tol=1e-6, **options).fit(X, t)
    np.testing.assert_allclose(ours.predict(Z), theirs.predict(Z), atol=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_nu_machines_are_scikit_learns(seed):
    X, y, t, Z, _ = problem(seed, n=80)
    gamma, nu = 0.2 + 0.1 * seed, 0.2 + 0.04 * seed
    y = np.where(X[:, 0] + X[:, 1] + 0.5 * np.random.default_rng(seed).normal(size=80) > 0, 1, -1)
    for ours, theirs, target in (
        (NuSVC(nu=nu, gamma=gamma, tol=1e-7), svm.NuSVC(nu=nu, gamma=gamma, tol=1e-7), y),
        (NuSVR(nu=nu, gamma=gamma, tol=1e-7), svm.NuSVR(nu=nu, gamma=gamma, tol=1e-7), t),
        (OneClassSVM(nu=nu, gamma=gamma, tol=1e-7), svm.OneClassSVM(nu=nu, gamma=gamma), None),
    ):
        theirs.set_params(tol=1e-7)
        ours.fit(X, target)
        theirs.fit(X, target)
        name = "predict" if target is t else "decision_function"
        a, b = getattr(ours, name)(Z), getattr(theirs, name)(Z)
        np.testing.assert_allclose(a, b, atol=1e-3 * max(1.0, np.abs(b).max()), err_msg=str(ours))


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_scikit_learns(seed):
    X, y, t, Z, rng = problem(seed, n=80)
    weight = rng.uniform(0.0, 3.0, 80)
    weight[:5] = 0.0
    for class_weight in (None, "balanced", {1.0: 4.0}):
        options = {"class_weight": class_weight, "gamma": 0.3, "tol": 1e-6}
        ours = SVC(**options).fit(X, y, sample_weight=weight)
        if class_weight == "balanced":  # weights count: a row of weight 2 is that row twice
            shares = {
                label: weight.sum() / (2 * weight[y == label].sum()) for label in np.unique(y)
            }
            options["class_weight"] = shares
        theirs = svm.SVC(**options).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(
            ours.decision_function(Z), theirs.decision_function(Z), atol=1e-3
        )
    ours = SVR(gamma=0.3, tol=1e-6).fit(X, t, sample_weight=weight)
    theirs = svm.SVR(gamma=0.3, tol=1e-6).fit(X, t, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(Z), theirs.predict(Z), atol=1e-3)


def test_a_row_of_weight_two_is_two_rows():
    X, y, _, Z, _ = problem(1)
    twice = SVC(tol=1e-8).fit(np.vstack([X, X[:7]]), np.concatenate([y, y[:7]]))
    weight = np.ones(40)
    weight[:7] = 2.0
    weighted = SVC(tol=1e-8).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.decision_function(Z), twice.decision_function(Z), atol=1e-5)


def test_several_classes_are_one_against_the_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)), axis=1)]
    ours = SVC(gamma=0.5, tol=1e-6).fit(X, y)
    theirs = OneVsRestClassifier(svm.SVC(gamma=0.5, tol=1e-6)).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    for wrapper in (OneVsOneClassifier, OneVsRestClassifier):
        assert wrapper(SVC(gamma=0.5)).fit(X, y).score(X, y) > 0.9
    code = OutputCodeClassifier(SVC(gamma=0.5), code_size=3.0, random_state=0).fit(X, y)
    assert code.score(X, y) > 0.85


# ---------------------------------------------------------------------- a generic program
@pytest.mark.parametrize("seed", SEEDS)
def test_svc_is_the_quadratic_program(seed):
    X, y, _, Z, rng = problem(seed)
    C, gamma = 10.0 ** rng.uniform(-1, 1.5), 10.0 ** rng.uniform(-0.7, 0.5)
    coef, offset = convex.svc(gram(X, X, gamma), y, C)
    model = SVC(C=C, gamma=gamma, tol=1e-8).fit(X, y)
    expected = gram(Z, X, gamma) @ coef + offset
    free = (np.abs(coef) > 1e-7) & (np.abs(coef) < C - 1e-7)
    found = model.decision_function(Z)
    if not free.any():  # the offset fills an interval: compare what is unique
        found, expected = found - found.mean(), expected - expected.mean()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_svr_is_the_quadratic_program(seed):
    X, _, t, Z, rng = problem(seed)
    C, gamma = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-0.7, 0.5)
    epsilon = rng.uniform(0.02, 0.3)
    coef, offset = convex.svr(gram(X, X, gamma), t, C, epsilon)
    model = SVR(C=C, gamma=gamma, epsilon=epsilon, tol=1e-7).fit(X, t)
    np.testing.assert_allclose(model.predict(Z), gram(Z, X, gamma) @ coef + offset, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_nu_machines_are_the_quadratic_program(seed):
    X, _, t, Z, _ = problem(seed)
    K, Kz = gram(X, X, 0.5), gram(Z, X, 0.5)
    c, b, tube = convex.nu_svr(K, t, 2.0, 0.4)
    model = NuSVR(C=2.0, nu=0.4, gamma=0.5, tol=1e-8).fit(X, t)
    np.testing.assert_allclose(model.predict(Z), Kz @ c + b, atol=1e-5)
    outside = np.abs(t - model.predict(X)) > tube + 1e-5
    assert outside.mean() <= 0.4 <= (np.abs(c) > 1e-7).mean() + 1e-12  # what nu means
    a, rho = convex.one_class(K, 0.3)
    found = OneClassSVM(nu=0.3, gamma=0.5, tol=1e-8).fit(X).decision_function(Z)
    np.testing.assert_allclose(found, Kz @ a + rho, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_nu_svc_is_the_quadratic_program(seed):
    X, y, _, Z, _ = problem(seed)
    a, b = convex.nu_svc(gram(X, X, 0.5), y, 0.4)
    found = NuSVC(nu=0.4, gamma=0.5, tol=1e-9).fit(X, y).decision_function(Z)
    np.testing.assert_allclose(found, gram(Z, X, 0.5) @ a + b, atol=1e-4)


# ---------------------------------------------------------------------- optimality
@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
def test_kkt_conditions_and_gap(C):
    X, y, _, _, _ = problem(3, n=120)
    gamma = 0.4
    model = SVC(C=C, gamma=gamma, tol=1e-7).fit(X, y)
    lam = np.zeros(120)
    lam[model.support_] = np.abs(model.dual_coef_).ravel()
    signed = np.zeros(120)
    signed[model.support_] = model.dual_coef_.ravel()
    margin = y * model.decision_function(X)
    assert np.all(lam * y == signed)  # the sign is the label's
    assert abs(signed.sum()) < 1e-9 * C * 120
    assert np.all((lam >= 0.0) & (lam <= C))
    assert np.all(margin[lam == 0.0] >= 1.0 - 1e-6)
    assert np.all(margin[lam == C] <= 1.0 + 1e-6)
    np.testing.assert_allclose(margin[(lam > 0) & (lam < C)], 1.0, atol=1e-6)
    K = gram(X, X, gamma)
    quadratic = 0.5 * signed @ K @ signed
    primal = quadratic + C * np.maximum(1.0 - margin, 0.0).sum()
    dual = lam.sum() - quadratic
    assert 0.0 <= primal - dual + 1e-9 * primal <= 1e-5 * primal


def test_optimality_of_regression():
    X, _, t, _, _ = problem(5, n=100)
    C, epsilon = 2.0, 0.15
    model = SVR(C=C, epsilon=epsilon, gamma=0.5, tol=1e-7).fit(X, t)
    c = np.zeros(100)
    c[model.support_] = model.dual_coef_.ravel()
    residual = t - model.predict(X)
    assert abs(c.sum()) < 1e-9 * C * 100
    assert np.all(np.abs(residual[c == 0.0]) <= epsilon + 1e-6)
    assert np.all(c * residual >= -1e-9)
    edge = (np.abs(c) > 0) & (np.abs(c) < C)
    np.testing.assert_allclose(np.abs(residual[edge]), epsilon, atol=1e-6)
    assert np.all(np.abs(residual[np.abs(c) == C]) >= epsilon - 1e-6)


def test_fits_repeat_and_do_not_depend_on_the_order():
    X, y, _, Z, rng = problem(2, n=100)
    first = SVC(tol=1e-8).fit(X, y).decision_function(Z)
    assert np.array_equal(first, SVC(tol=1e-8).fit(X, y).decision_function(Z))
    order = rng.permutation(100)
    other = SVC(tol=1e-8).fit(X[order], y[order]).decision_function(Z)
    np.testing.assert_allclose(other, first, atol=1e-6)
    flipped = SVC(tol=1e-8).fit(X, -y).decision_function(Z)
    np.testing.assert_allclose(flipped, -first, atol=1e-6)


def test_callable_kernels_are_the_same_machine():
    X, y, _, Z, _ = problem(6)
    plain = SVC(gamma=0.5, tol=1e-8).fit(X, y).decision_function(Z)
    called = SVC(kernel=lambda A, B: gram(A, B, 0.5), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(called.decision_function(Z), plain, atol=1e-6)
