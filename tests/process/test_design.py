"""What observations would say, against determinants, quadrature, Monte Carlo and refits."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from mercer import GPClassifier, GPRegressor, OnlineLogisticClassifier
from mercer.inference import Exact
from mercer.kernels import RBF, Linear, White
from mercer.linalg import DenseGram
from mercer.losses import Gaussian, Logistic, Poisson, Probit, Softmax
from mercer.process.design import (
    Prospects,
    class_draws,
    expected_precision,
    gain,
    label_information,
    log_improvement,
)
from mercer.process.process import Prior

NOISE = 0.3


def posterior(n=12, basis=None, kernel=None):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    kernel = 1.5 * RBF(0.8) if kernel is None else kernel
    H = None if basis is None else basis(X)
    solution = Exact().solve(DenseGram(kernel, X), y, Gaussian(NOISE), basis=H)
    return Prior(kernel).condition(X, solution, basis)


def ones(X):
    return np.column_stack([np.ones(len(X)), X[:, 0]])


@pytest.mark.parametrize("basis", [None, ones])
def test_columns_and_downdates_are_those_of_the_whole_matrix(basis):
    process = posterior(basis=basis)
    X = np.random.default_rng(2).normal(size=(9, 2))
    pool = Prospects(process, Gaussian(NOISE), X)
    S = process.cov(X)
    picked = [4, 0, 7, 4]
    for k, i in enumerate(picked):
        A = picked[:k]
        known = S
        if A:
            K = S[np.ix_(A, A)] + NOISE * np.eye(k)
            known = S - S[:, A] @ np.linalg.solve(K, S[A])
        np.testing.assert_allclose(pool.column(i)[:, 0, 0], known[:, i], atol=1e-12)
        np.testing.assert_allclose(pool.variance[:, 0], np.diag(known), atol=1e-12)
        pool.observe(i)


def test_information_of_a_batch_is_half_a_log_determinant():
    process = posterior()
    X = np.random.default_rng(3).normal(size=(8, 2))
    pool, S, total = Prospects(process, Gaussian(NOISE), X), process.cov(X), 0.0
    for k, i in enumerate([3, 5, 1], start=1):
        total += pool.information()[i]
        A = [3, 5, 1][:k]
        brute = 0.5 * np.linalg.slogdet(np.eye(k) + S[np.ix_(A, A)] / NOISE)[1]
        assert total == pytest.approx(brute, abs=1e-12)
        pool.observe(i)


def test_noise_parts_of_the_kernel_are_noise_of_the_observation():
    process = posterior(kernel=1.5 * RBF(0.8) + White(0.2))
    X = np.random.default_rng(3).normal(size=(5, 2))
    v = process.var(X)
    np.testing.assert_allclose(
        Prospects(process, Gaussian(NOISE), X).information(), 0.5 * np.log1p(v / (NOISE + 0.2))
    )


@pytest.mark.parametrize("gap", [-45.0, -8.0, -1.0, 0.0, 2.0])
def test_expected_improvement_is_the_integral(gap):
    value = log_improvement(np.array([gap]), np.array([1.3]))[0]
    u = gap / 1.3
    if u > -10:
        brute = quad(lambda z: (gap + 1.3 * z) * norm.pdf(z), -u, 40.0, epsabs=0, epsrel=1e-12)[0]
        assert np.exp(value) == pytest.approx(brute, rel=1e-9)
    else:  # pdf(u) / u^2 to a third of a per cent
        assert value == pytest.approx(np.log(1.3) + norm.logpdf(u) - 2 * np.log(-u), abs=3e-3)


def test_expected_improvement_of_a_sure_value_and_far_below():
    np.testing.assert_allclose(
        np.exp(log_improvement(np.array([2.0, -1.0]), np.zeros(2))), [2.0, 0.0]
    )
    far = log_improvement(np.array([-290.0, -310.0, -1e9]), np.ones(3))
    assert np.all(np.isfinite(far))
    assert np.all(np.diff(far) < 0)
    inside = log_improvement(np.array([-299.999, -300.001]), np.ones(2))
    assert inside[0] - inside[1] == pytest.approx(0.6, rel=1e-2)  # no step where the form changes


@pytest.mark.parametrize("loss", [Logistic(), Probit()])
@pytest.mark.parametrize(("m", "v"), [(0.0, 1.0), (1.5, 4.0), (-3.0, 400.0)])
def test_bald_of_two_classes_against_monte_carlo(loss, m, v):
    rng = np.random.default_rng(0)
    f = m + np.sqrt(v) * rng.normal(size=200_000)
    p = np.exp(-loss.value(np.ones_like(f), f))

    def entropy(p):
        p = np.clip(p, 1e-300, 1 - 1e-16)
        return -p * np.log(p) - (1 - p) * np.log1p(-p)

    brute = entropy(p.mean()) - entropy(p).mean()
    assert label_information(loss, np.array([m]), np.array([v]))[0] == pytest.approx(
        brute, abs=4e-3
    )


def test_bald_of_several_classes_against_monte_carlo():
    rng = np.random.default_rng(0)
    m, A = np.array([[0.5, -1.0, 0.2]]), rng.normal(size=(3, 3))
    V = (A @ A.T)[None]
    f = rng.multivariate_normal(m[0], V[0], size=100_000)
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    q = p.mean(axis=0)
    brute = -(q * np.log(q)).sum() + (p * np.log(p)).sum(axis=1).mean()
    draws = class_draws(Softmax(), m, V)[0]
    found = -(draws.mean(axis=0) * np.log(draws.mean(axis=0))).sum()
    found += (draws * np.log(draws)).sum(axis=1).mean()
    assert found == pytest.approx(brute, abs=0.02)


@pytest.mark.parametrize("loss", [Logistic(), Probit()])
def test_precision_of_a_label_leaves_the_expected_posterior_variance(loss):
    m, v = 0.7, 2.5
    f = np.linspace(m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), 20_001)
    prior = norm.pdf(f, m, np.sqrt(v))
    expected = 0.0
    for y in (-1.0, 1.0):
        w = prior * np.exp(-loss.value(np.full(f.shape, y), f))
        Z = np.trapezoid(w, f)
        mean = np.trapezoid(w * f, f) / Z
        expected += Z * np.trapezoid(w * (f - mean) ** 2, f) / Z
    W = expected_precision(loss, np.array([m]), np.array([v]))[0]
    assert 1.0 / (1.0 / v + W) == pytest.approx(expected, rel=1e-6)


def test_precision_of_other_losses():
    np.testing.assert_allclose(expected_precision(Gaussian(0.25), np.zeros(3), np.ones(3)), 4.0)
    # of counts about E exp(f), less where f is uncertain
    W = expected_precision(Poisson(), np.array([0.0, 2.0]), np.array([1e-4, 1e-4]))
    np.testing.assert_allclose(W, np.exp([0.0, 2.0]), rtol=0.02)


def test_gain_is_the_root_of_the_inverse_sum():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 3, 3))
    W, V = A @ A.T, B @ B.T
    U = gain(W, V)
    np.testing.assert_allclose(U @ U.T, np.linalg.inv(np.linalg.inv(W) + V), atol=1e-12)
    p = np.array([0.2, 0.5, 0.3])
    W = np.diag(p) - np.outer(p, p)  # singular, as of a softmax
    U = gain(W, V)
    np.testing.assert_allclose(U @ U.T, W @ np.linalg.inv(np.eye(3) + V @ W), atol=1e-12)
    assert gain(np.full((1, 1), np.inf), np.full((1, 1), 4.0)) == 0.5
    assert gain(np.full((1, 1), np.inf), np.zeros((1, 1))) == 0.0


def test_covariances_of_several_classes_with_one_point():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=30), [-0.5, 0.5])
    Z = rng.normal(size=(4, 2))
    for loss in (None, "logistic"):
        process = GPClassifier(2.0 * RBF(1.0), search=None, loss=loss).fit(X, y).posteriors_[0]
        for i in range(4):
            np.testing.assert_allclose(
                process.cross_blocks(Z, Z[i : i + 1])[i], process.blocks(Z)[i], atol=1e-10
            )
        a, b = (process.cross_blocks(Z, Z[i : i + 1]) for i in (0, 1))
        np.testing.assert_allclose(a[1], b[0].T, atol=1e-10)


def test_covariances_of_a_stream_with_one_point():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Z = rng.normal(size=(4, 2))
    two = OnlineLogisticClassifier().partial_fit(X, X[:, 0] > 0).posteriors_[0]
    np.testing.assert_allclose(two.cross(Z, Z[:2]), two(Z)[:, :2], atol=1e-10)
    several = OnlineLogisticClassifier().partial_fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    process = several.posteriors_[0]
    for i in range(4):
        found = process.cross_blocks(Z, Z[i : i + 1])[i]
        np.testing.assert_allclose(found, process.blocks(Z)[i], atol=1e-10)


@pytest.mark.parametrize("kind", ["inducing", "markov", "linear"])
def test_covariances_in_other_representations(kind):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 6, size=(60, 1)), axis=0)
    y, Z = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60), rng.uniform(0, 6, size=(5, 1))
    given = {
        "inducing": {"gram": "inducing", "search": None},
        "markov": {"kernel": "matern32", "gram": "markov", "search": None},
        "linear": {"kernel": Linear(), "search": None},
    }[kind]
    process = GPRegressor(**given).fit(X, y).posteriors_[0]
    np.testing.assert_allclose(process.cross(Z, Z[:2]), process(Z)[:, :2], atol=1e-9)
