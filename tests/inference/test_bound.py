"""Bound: against EM as printed, reference values, exact integrals; monotone, and a bound always."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mercer.inference.sites.bound as module
from mercer import losses
from mercer.inference import EP, Bound, by_name
from mercer.inference.sites.base import Task
from mercer.kernels import RBF, Constant, Linear
from mercer.linalg import DenseGram
from mercer.testing import check_evidence_gradient, check_inference
from tests.reference import bound as reference
from tests.reference import ep as exact

LOSS = losses.Logistic()
TIGHT = Bound(tol=1e-10)


def twelve():
    """The data of the reference values."""
    i = np.arange(1, 13)
    X = np.column_stack([np.sin(1.1 * i), np.cos(0.7 * i)])
    S = np.where(np.sin(1.1 * i) + 0.5 * np.cos(2.3 * i) > 0, 1.0, -1.0)
    return X, S[:, None], 2.0 * RBF(1.0) + Constant(1.0)


def data(n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.where(f > 0, 1.0, -1.0)[:, None]


def evidence(inference, kernel, X, y, **given):
    gram = DenseGram(kernel, X, keep=True)
    solution = inference.solve(gram, y, LOSS, **given)
    return inference.evidence(gram, y, LOSS, solution).value, solution


def test_reference_values():
    X, S, kernel = twelve()
    value, solution = evidence(TIGHT, kernel, X, S)
    xi = np.sqrt(solution.z[:, 0] ** 2 + solution.factor.cov_diag())
    expected = (
        "1.847710714325 2.142990791225 1.199522979796 1.174956041872 1.024176411007 1.749942619305 "
        "2.131112322042 1.715440108015 1.034385050294 1.211910096753 0.998660535233 1.933536692495"
    )
    np.testing.assert_allclose(xi, np.array(expected.split(), dtype=float), atol=1e-9)
    assert value == pytest.approx(-7.26746298590828, abs=1e-10)
    new = np.array([[0.3, -0.2], [-1.0, 0.5]])
    K = kernel(X, new)
    mean = K.T @ solution.alpha[:, 0]
    variance = kernel.diag(new) - solution.factor.quad_diag(K)
    np.testing.assert_allclose(mean, [1.659324615098, -0.484032570556], atol=1e-9)
    np.testing.assert_allclose(variance, [0.720978128667, 1.097272368379], atol=1e-9)
    np.testing.assert_allclose(
        LOSS.predict(mean, variance), [0.810867989474, 0.402531741789], atol=1e-8
    )


@pytest.mark.parametrize(
    ("load", "target", "scale", "accuracy", "log_loss", "bound"),
    [
        ("load_wine", 1, 26.0, 0.97714, 0.15412, -44.160),
        ("load_breast_cancer", 1, 60.0, 0.97718, 0.11018, -90.363),
    ],
    ids=["wine", "breast cancer"],
)
def test_accuracies(load, target, scale, accuracy, log_loss, bound):
    import sklearn.datasets

    X, labels = getattr(sklearn.datasets, load)(return_X_y=True)
    S = np.where(labels == target, 1.0, -1.0)
    kernel = 4.0 * RBF(np.sqrt(scale / 2.0)) + Constant(1.0)
    fold = np.arange(len(X)) % 5
    hits, logs, bounds = [], [], []
    for k in range(5):
        train, test = fold != k, fold == k
        A, B = X[train], X[test]
        A, B = (A - A.mean(axis=0)) / A.std(axis=0), (B - A.mean(axis=0)) / A.std(axis=0)
        value, solution = evidence(Bound(), kernel, A, S[train, None])
        K = kernel(A, B)
        mean = K.T @ solution.alpha[:, 0]
        p = LOSS.predict(mean, kernel.diag(B) - solution.factor.quad_diag(K))
        hits.append(np.mean(np.where(p > 0.5, 1.0, -1.0) == S[test]))
        logs.append(-np.mean(np.log(np.where(S[test] > 0, p, 1.0 - p))))
        bounds.append(value)
    assert np.mean(hits) == pytest.approx(accuracy, abs=6e-6)
    assert np.mean(logs) == pytest.approx(log_loss, abs=6e-6)
    assert np.mean(bounds) == pytest.approx(bound, abs=6e-4)


@pytest.mark.parametrize("variance", [1.0, 30.0])
def test_agrees_with_em(variance):
    X, S = data(15)
    kernel = variance * RBF(0.8)
    value, solution = evidence(TIGHT, kernel, X, S)
    _, mean, covariance, E = reference.em(kernel(X), S[:, 0])
    assert value == pytest.approx(E, abs=1e-9)
    np.testing.assert_allclose(solution.z[:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(solution.factor.cov_diag(), np.diag(covariance), atol=1e-7)


@pytest.mark.parametrize(
    ("K", "labels"),
    [([[9.0, 7.0], [7.0, 8.0]], [1.0, -1.0]), ([[2.0, 1.0], [1.0, 3.0]], [1.0, 1.0])],
)
def test_below_the_exact_evidence(K, labels):
    K, y = np.array(K), np.array(labels)[:, None]

    class Given(Linear):
        def __call__(self, X, Z=None):
            return K.copy()

        def diag(self, X):
            return np.diag(K)

    value, _ = evidence(Bound(), Given(), np.eye(2), y)
    truth = exact.exact_two(K, y[:, 0], LOSS)
    assert truth - 0.5 < value < truth


@pytest.mark.parametrize("seed", range(4))
def test_order_of_the_evidences(seed):
    """Bound < exact, whatever the number of steps; EP is closer."""
    X, S = data(16, seed)
    kernel = 10.0 * RBF(1.0)
    ep, q = evidence(EP(), kernel, X, S)
    K = kernel(X) + 1e-6 * np.eye(16)
    Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(q.W))
    truth, error = exact.importance(
        K, S[:, 0], LOSS, q.z[:, 0], 0.5 * (Sigma + Sigma.T), np.random.default_rng(seed)
    )
    values = [evidence(Bound().set_params(max_iter=k), kernel, X, S)[0] for k in (0, 1, 2, 100)]
    assert all(value < truth + 4 * error for value in values)
    assert abs(ep - truth) < truth - values[-1]


@pytest.mark.parametrize("variance", [1.0, 100.0, 1e4])
def test_every_step_raises_the_bound(variance, monkeypatch):
    X, S = data(40)
    seen = []
    look = module.look

    def spy(task, x):
        seen.append(look(task, x))
        return seen[-1]

    monkeypatch.setattr(module, "look", spy)
    _, solution = evidence(Bound(), variance * RBF(), X, S)
    kept = [seen[0]]
    for state in seen[1:]:  # a state that is not better was not kept
        if module.better(state, kept[-1]):
            kept.append(state)
    values = np.array([state.value for state in kept])
    assert np.all(np.diff(values) >= -1e-12 * np.abs(values[1:]) - 1e-12)
    assert kept[-1].factor is solution.factor
    assert len(seen) == solution.report.details["factorisations"]


def test_an_accelerated_step_that_fails_becomes_an_em_step(monkeypatch):
    """A mixer that leads astray costs steps, never the bound."""

    class Astray(module.Anderson):
        def step(self, x, r, *given):
            fresh = not self._history
            found = super().step(x, r, *given)
            return found if fresh else x - 3.0 * r

    X, S = data(20)
    record = []
    reference.em(4.0 * RBF()(X), S[:, 0], record=record)
    monkeypatch.setattr(module, "Anderson", Astray)
    value, solution = evidence(TIGHT, 4.0 * RBF(), X, S)
    assert solution.report.converged
    assert value == pytest.approx(record[-1], abs=1e-9)


def test_fewer_factorisations_than_the_double_loop():
    X, S = data(100)
    for variance, most in ((1.0, 17), (10.0, 34), (100.0, 48), (1000.0, 60)):
        _, solution = evidence(Bound(), variance * RBF(1.0), X, S)
        assert solution.report.converged
        assert solution.report.details["factorisations"] <= most


@pytest.mark.parametrize("variance", [3.3, 50.0])
def test_gradient(variance):
    X, S = data()
    check_inference(TIGHT, LOSS, X, S, variance * RBF([0.9, 1.4]), tol=1e-6)


class Scaled(losses.Logistic):
    """The logistic loss of f / s: a bound whose loss has a parameter."""

    abstract = True  # known to this file only
    domains = losses.Probit.domains

    def __init__(self, scale=1.0):
        self.scale = scale

    def phi(self, u):
        return super().phi(u / self.scale)

    def quadratic_bound(self, y, xi):
        lam, z, c = losses.Logistic().quadratic_bound(y, xi / self.scale)
        return lam / self.scale**2, z * self.scale, c


def test_gradient_of_loss_parameters():
    X, S = data()
    check_evidence_gradient(TIGHT, Scaled(scale=0.6), X, S, 3.0 * RBF(), tol=1e-6)


def test_weight_two_is_two_rows():
    X, S = data(14)
    w = np.array([2.0, 3.0] + [1.0] * 12)
    many = np.repeat(np.arange(14), w.astype(int))
    short, a = evidence(TIGHT, 4.0 * RBF(), X, S, weights=w)
    long, b = evidence(TIGHT, 4.0 * RBF(), X[many], S[many])
    assert short == pytest.approx(long, abs=1e-9)
    np.testing.assert_allclose(a.z[many], b.z, atol=1e-8)


def test_prior_mean_is_part_of_f():
    """A mean that the kernel could have learned: one kernel with it as a known direction."""
    X, S = data(12)
    gram, task_mean = DenseGram(3.0 * RBF(), X, keep=True), 0.7 * np.ones((12, 1))
    solution = TIGHT.solve(gram, S, LOSS, mean=task_mean)
    state = module.look(
        Task(gram, S[:, 0], LOSS, np.ones(12), task_mean[:, 0]),
        np.log(np.sqrt(solution.z[:, 0] ** 2 + solution.factor.cov_diag())),
    )
    value = TIGHT.evidence(gram, S, LOSS, solution).value
    assert value == pytest.approx(state.value, abs=1e-10)
    # the same model: constant kernel of tiny width about the mean, by brute force in lam, z, c
    xi = np.exp(state.x)
    lam, z, c = LOSS.quadratic_bound(S[:, 0], xi)
    A = gram.matrix + np.diag(1.0 / (2.0 * lam))
    r = z - 0.7
    dense = -c.sum() - 0.5 * r @ np.linalg.solve(A, r)
    dense += -0.5 * np.linalg.slogdet(A)[1] - 0.5 * np.log(2.0 * lam).sum()
    assert value == pytest.approx(dense, abs=1e-9)


def test_warm_start():
    X, S = data(60)
    _, before = evidence(Bound(), 30.0 * RBF(0.9), X, S)
    gram = DenseGram(33.0 * RBF(1.0), X, keep=True)
    cold, warm = Bound().solve(gram, S, LOSS), Bound().solve(gram, S, LOSS, start=before)
    assert warm.report.details["factorisations"] <= cold.report.details["factorisations"]
    np.testing.assert_allclose(warm.alpha, cold.alpha, atol=1e-5)
    assert Bound().solve(gram, S, LOSS, start=warm).report.iterations <= 1
    wild = Bound().solve(gram, S, LOSS, start=replace(warm, W=1e9 * warm.W))
    np.testing.assert_allclose(wild.alpha, cold.alpha, atol=1e-5)


def test_points_without_prior_variance():
    X, S = np.array([[0.0], [1.0], [-2.0]]), np.array([[1.0], [1.0], [-1.0]])
    value, solution = evidence(TIGHT, Linear(), X, S)
    rest, _ = evidence(TIGHT, Linear(), X[1:], S[1:])
    assert solution.report.converged
    assert value == pytest.approx(rest + np.log(0.5), abs=1e-12)


def test_separable_data_and_one_class():
    X = np.linspace(-2, 2, 40)[:, None]
    for y in (np.where(X > 0.1, 1.0, -1.0), np.ones((40, 1))):
        value, solution = evidence(Bound(), 1e3 * RBF(2.0), X, y)
        assert solution.report.converged
        assert -60.0 < value < 0.0


def test_an_iteration_limit_is_reported():
    X, S = data(40)
    value, solution = evidence(Bound(max_iter=2), 100.0 * RBF(), X, S)
    assert not solution.report.converged
    assert "raise max_iter" in solution.report.message
    assert np.isfinite(value)


def test_what_the_bound_refuses():
    assert isinstance(by_name("bound"), Bound)
    with pytest.raises(ValueError, match="needs quadratic_bound"):
        Bound().check(losses.Probit())


@pytest.mark.parametrize("weight", [1e10, 1e15])
def test_huge_weights_are_not_called_converged(weight):
    """EM steps are then shorter than any tolerance, and thousands of nats from the best bound."""
    X, S = data(20)
    w = np.ones(20)
    w[0] = weight
    gram = DenseGram(4.0 * RBF(), X, keep=True)
    found = Bound().solve(gram, S, LOSS, weights=w)
    # a double knows 1e15 to a tenth, and what is left of it is rounding
    assert found.report.details["residual"] < max(1e-6, 1e-18 * weight)
    assert not found.report.converged
    assert f"{weight:.3g}" in found.report.message
    assert "EP and Laplace" in found.report.message
