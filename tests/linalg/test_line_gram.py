"""The O(n) algebra of Matern kernels on a line against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import process
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference import EP, Exact, Laplace
from mercer.kernels import RBF, Constant, Matern, White
from mercer.linalg import DenseGram
from mercer.linalg.line import LineGram, state_space_of
from mercer.losses import Gaussian, Poisson, Probit
from mercer.testing import check_gram

KERNELS = {
    "matern12": Matern(nu=0.5, length_scale=0.7),
    "matern32": 2.0 * Matern(nu=1.5, length_scale=1.3),
    "matern52": 0.3 * Matern(nu=2.5, length_scale=np.array([0.4])),
    "sum": 1.5 * Matern(nu=0.5, length_scale=0.2) + Matern(nu=2.5, length_scale=3.0),
    "nine states": Matern(nu=2.5) + 2.0 * Matern(nu=2.5, length_scale=0.3) + Matern(nu=2.5),
    "scaled sum": 0.5 * (Matern(nu=1.5) + 2.0 * Matern(nu=0.5)),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


def points(n=40, seed=0):
    x = np.random.default_rng(seed).uniform(0.0, 6.0, n)
    x[3] = x[11]  # a tie
    return x[:, None]


def test_contract(kernel):
    check_gram(LineGram(kernel, points()))


@pytest.mark.parametrize("gaps", [1e-9, 1e-3, 0.3, 50.0, 1e6])
def test_products_and_solutions_at_any_spacing(kernel, gaps):
    X = gaps * points(25)
    line, dense = LineGram(kernel, X), DenseGram(kernel, X)
    V = np.random.default_rng(1).standard_normal((25, 3))
    np.testing.assert_allclose(line @ V, dense @ V, rtol=0, atol=1e-11)
    W = np.random.default_rng(2).uniform(0.5, 50.0, 25)
    a, b = line.factor(W), dense.factor(W)
    np.testing.assert_allclose(a.solve(V), b.solve(V), rtol=0, atol=1e-9)
    np.testing.assert_allclose(a.cov_diag(), b.cov_diag(), rtol=1e-9)
    np.testing.assert_allclose(a.logdet(), b.logdet(), rtol=1e-11)
    np.testing.assert_allclose(a.logdet_noisy(), b.logdet_noisy(), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(a.cov(), b.cov(), rtol=0, atol=1e-10)


def test_tiny_gaps_keep_their_digits():
    """Two points 1e-7 apart of a smooth kernel: the variance of their difference, by the slope."""
    kernel, d = Matern(nu=2.5), 1e-7
    line = LineGram(kernel, np.array([[0.0], [d]]))
    # observed at both with noise s: var of f(0) is that of a double observation, to O(d^2)
    s = 1e-3
    found = line.factor(np.full(2, 1.0 / s)).cov_diag()
    np.testing.assert_allclose(found, (1.0 / (1.0 + 2.0 / s)), rtol=1e-9)


def test_noise_free_and_weightless_points(kernel):
    X = np.linspace(0.0, 8.0, 12)[:, None]
    W = np.full(12, np.inf)
    W[4] = 0.0
    factor = LineGram(kernel, X).factor(W)
    K = kernel(X)
    keep = W > 0
    C = np.zeros((12, 12))
    C[np.ix_(keep, keep)] = np.linalg.inv(K[np.ix_(keep, keep)])
    V = np.random.default_rng(0).standard_normal((12, 2))
    np.testing.assert_allclose(factor.solve(V), C @ V, rtol=1e-6, atol=1e-6)
    assert factor.cov_diag()[4] > 0.0
    np.testing.assert_allclose(factor.cov_diag()[keep], 0.0, atol=1e-12)


def test_negative_weights_and_their_limit(kernel):
    X = points(15)
    W = np.full(15, 2.0)
    W[6] = -0.05
    K = kernel(X)
    factor = LineGram(kernel, X).factor(W)
    Sigma = K @ np.linalg.inv(np.eye(15) + W[:, None] * K)
    np.testing.assert_allclose(factor.cov_diag(), np.diagonal(Sigma), rtol=1e-9)
    W[6] = -1e6
    with pytest.raises(NotPositiveDefiniteError, match="negative weight"):
        LineGram(kernel, X).factor(W)


@pytest.mark.parametrize(
    ("inference", "loss", "kind"),
    [
        (Exact(), Gaussian(noise=0.2), "real"),
        (Laplace(), Poisson(), "count"),
        (EP(), Probit(), "sign"),
    ],
)
def test_evidence_and_gradient_are_those_of_the_dense_gram(kernel, inference, loss, kind):
    X = points(30)
    rng = np.random.default_rng(3)
    y = {
        "real": rng.standard_normal((30, 1)),
        "count": rng.poisson(3.0, (30, 1)).astype(float),
        "sign": np.where(rng.random((30, 1)) < 0.5, -1.0, 1.0),
    }[kind]
    found = []
    for gram in (LineGram(kernel, X), DenseGram(kernel, X, keep=True)):
        solution = inference.solve(gram, y, loss)
        evidence = inference.evidence(gram, y, loss, solution)
        slopes = gram.pullback(solution.alpha, solution.factor, evidence.U, evidence.V)
        found.append((evidence.value, solution.alpha, slopes))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)
    assert found[0][2].keys() == found[1][2].keys()
    for name, slope in found[1][2].items():
        assert np.shape(found[0][2][name]) == np.shape(slope)
        np.testing.assert_allclose(found[0][2][name], slope, rtol=1e-6, atol=1e-7)


def test_posterior_at_new_points(kernel):
    X, Z = points(30), np.linspace(-3.0, 9.0, 41)[:, None]
    y = np.sin(X)
    posteriors = []
    for gram in (LineGram(kernel, X), DenseGram(kernel, X)):
        solution = Exact().solve(gram, y, Gaussian(noise=0.1))
        posteriors.append(process.Prior(kernel).condition(X, solution))
    line, dense = posteriors
    np.testing.assert_allclose(line.mean(Z), dense.mean(Z), atol=1e-11)
    np.testing.assert_allclose(line.var(Z), dense.var(Z), atol=1e-11)
    np.testing.assert_allclose(line.cov(Z), dense.cov(Z), atol=1e-11)
    np.testing.assert_allclose(line.var(Z[:1]), dense.var(Z[:1]), atol=1e-11)


def test_which_kernels_have_a_state_space():
    assert state_space_of(Matern(nu=1.5), 1) is not None
    assert state_space_of(Matern(nu=1.5), 2) is None
    assert state_space_of(Matern(nu=1.5).on([1]), 2) is not None
    assert state_space_of(Matern(nu=1.5).on([1]) + Matern(nu=0.5).on([0]), 2) is None
    assert state_space_of(Matern(nu=2.0), 1) is None
    assert state_space_of(Matern(nu=1.5) + White(0.1), 1) is None
    for other in (RBF(), Constant(2.0), Matern(nu=0.5) * Matern(nu=0.5)):
        assert state_space_of(other, 1) is None
    ten = sum((Matern(nu=2.5) for _ in range(3)), start=Matern(nu=0.5))
    assert state_space_of(ten, 1) is None
    with pytest.raises(ValueError, match="no state space"):
        LineGram(RBF(), np.zeros((2, 1)))


def test_a_column_of_several():
    X = np.random.default_rng(0).standard_normal((20, 3))
    kernel = 2.0 * Matern(nu=1.5, length_scale=0.6).on([2])
    check_gram(LineGram(kernel, X))
