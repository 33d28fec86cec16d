"""Leave-one-out without refitting, against a generic program that is solved without each row."""

import numpy as np
import pytest

from mercer import SVC, KernelClassifier
from mercer.kernels import RBF, Constant, Linear
from tests.reference import convex


def problem(seed, n=24):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.7 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    y[:4] = 1.0, -1.0, 1.0, -1.0
    return X, y, 10.0 ** rng.uniform(-0.5, 1.0), 10.0 ** rng.uniform(-0.7, 0.5)


def gram(X, gamma):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def refitted(K, y, C, offset=True):
    """Return the margins of left-out rows (n,) and the coefficients without them (n, n)."""
    n = len(y)
    margins, coefficients = np.empty(n), np.zeros((n, n))
    for i in range(n):
        rest = np.arange(n) != i
        if offset:
            a, b = convex.svc(K[np.ix_(rest, rest)], y[rest], C)
        else:
            a, b = convex.svc_without_offset(K[np.ix_(rest, rest)], y[rest], C), 0.0
        margins[i] = y[i] * (K[i, rest] @ a + b)
        coefficients[i, rest] = a
    return margins, coefficients


def state(a, C):
    """Return 0, 1 or 2 for each coefficient: zero, free, at the bound."""
    return (np.abs(a) > 1e-6).astype(int) + (np.abs(a) > C - 1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_margins_of_the_support_vector_machine(seed, bias):
    X, y, C, gamma = problem(seed)
    K = gram(X, gamma)
    true, without = refitted(K, y, C, offset=bias)
    full = convex.svc(K, y, C)[0] if bias else convex.svc_without_offset(K, y, C)
    model = SVC(C=C, gamma=gamma, tol=1e-9, bias=bias).fit(X, y)
    found = model.loo_.margin[:, 0]
    exact = 0
    for i in range(len(y)):
        same = np.delete(state(full, C) == state(without[i], C), i).all()
        unique = (state(without[i], C) == 1).any() or not bias
        if same and unique:  # no vector changed its kind: the formula is exact
            assert found[i] == pytest.approx(true[i], abs=1e-5)
            exact += 1
    assert exact >= 3
    assert np.median(np.abs(found - true)) < 0.1
    assert abs(np.mean(found <= 0) - np.mean(true <= 0)) <= 5 / 24


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("seed", range(10))
def test_classical_bounds_hold(seed, kernel):
    X, y, C, gamma = problem(seed)
    K = gram(X, gamma) if kernel == "rbf" else X @ X.T
    error = np.mean(refitted(K, y, C)[0] <= 0.0)
    loo = SVC(C=C, kernel=kernel, gamma=gamma, tol=1e-9).fit(X, y).loo_
    assert error <= loo.error_bounds["support"][0] + 1e-12
    assert error <= loo.error_bounds["xi_alpha"][0] + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_lemma_one_for_the_hinge(seed):
    X, y, _, gamma = problem(seed)
    amplitude = 2.0
    kernel = amplitude * RBF(length_scale=float(np.sqrt(0.5 / gamma))) + Constant(1.0)
    K = amplitude * gram(X, gamma) + 1.0
    true, _ = refitted(K, y, 1.0, offset=False)
    model = KernelClassifier(kernel, loss="hinge", basis=None).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), K @ convex.svc_without_offset(K, y, 1.0), atol=2e-3
    )
    assert np.all(model.loo_.bound[:, 0] <= true + 1e-6)
    assert model.loo_.error_bound >= np.mean(true <= 0.0)
    assert model.loo_.error_bound < 1.0


SMOOTH = ["logistic", "squared_hinge", "probit"]
EACH = [
    pytest.param(seed, loss, marks=[] if SMOOTH[seed] == loss else pytest.mark.slow)
    for seed in range(3)
    for loss in SMOOTH
]


@pytest.mark.parametrize(("seed", "loss"), EACH)
def test_lemma_one_for_smooth_losses(seed, loss):
    X, y, _, gamma = problem(seed)
    kernel = 3.0 * RBF(length_scale=float(np.sqrt(0.5 / gamma))) + Constant(1.0)
    model = KernelClassifier(kernel, loss=loss, basis=None).fit(X, y)
    true = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        again = KernelClassifier(kernel, loss=loss, basis=None).fit(X[rest], y[rest])
        true[i] = y[i] * again.decision_function(X[i : i + 1])[0]
    assert np.all(model.loo_.bound[:, 0] <= true + 1e-6)
    # the cavity is far closer, and above the bound
    assert np.all(model.loo_.cavity[:, 0] >= model.loo_.bound[:, 0] - 1e-6)
    near = np.abs(model.loo_.cavity[:, 0] - true).mean()
    assert near < 0.1 * np.abs(model.loo_.bound[:, 0] - true).mean()


def test_a_free_bias_has_no_bound():
    # Jaakkola and Haussler's lemma is false with a free bias: eight points that say so
    x = np.array([-0.81, -0.57, 0.65, -0.16, -0.21, -3.27, -1.30, -0.77])[:, None]
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
    K = gram(x, 1.0)
    a, b = convex.svc(K, y, 2.0)
    false_bound = y[5] * (K[5] @ a + b) - np.abs(a[5]) * K[5, 5]
    true = refitted(K, y, 2.0)[0][5]
    assert false_bound == pytest.approx(0.2578, abs=1e-4)
    assert true == pytest.approx(-0.4575, abs=1e-4)
    model = KernelClassifier(RBF(length_scale=np.sqrt(0.5)), C=2.0, loss="hinge").fit(x, y)
    with pytest.raises(ValueError, match="free bias"):
        model.loo_.error_bound  # noqa: B018  # the access itself is the test


def test_search_by_the_bound_says_what_it_did():
    X, y, _, _ = problem(0, n=60)
    model = KernelClassifier(RBF(), search="loo_bound").fit(X, y)
    plain = KernelClassifier(RBF() + Constant(1.0), basis=None).fit(X, y)
    assert model.loo_.error_bound <= plain.loo_.error_bound
    assert "Constant" in repr(model.kernel_)
    assert "constant" in repr(model.report_).lower()
    linear = KernelClassifier(Linear(), search="loo_bound").fit(X, y)
    assert 0.0 < linear.loo_.error_bound <= 1.0
