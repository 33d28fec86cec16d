"""The O(n) algebra of every rational spectrum on a line, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import process
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference import EP, Exact, Laplace
from mercer.kernels import (
    RBF,
    Constant,
    Cosine,
    Matern,
    Operator,
    OrnsteinUhlenbeck,
    Periodic,
    White,
)
from mercer.kernels.markov import MarkovProcess, StateSpace, matern_block, process_of
from mercer.kernels.operators.factor import factored
from mercer.linalg import DenseGram
from mercer.linalg.line import Line, LineGram
from mercer.losses import Gaussian, Poisson, Probit
from mercer.testing import check_gram

KERNELS = {
    "operator": Operator(np.array([1.0, 2.0, 0.5, 0.1])),
    "waves": 2.0 * Operator(np.array([4.0, -3.2, 1.0])),
    "triple root": Operator(np.array([1.0, 3.0, 3.0, 1.0])),
    "far roots": Operator(np.array([25.0, 9.0, 0.05])),
    "smooth": 1.5 * Matern(nu=4.5, length_scale=1.3),
    "quasi-periodic": 1.3 * (Matern(nu=1.5, length_scale=2.0) * Cosine(period=0.9)),
    "level": Matern(nu=1.5, length_scale=0.6) + 3.0,
    "product": Matern(nu=0.5) * Matern(nu=2.5, length_scale=0.7),
    "of sums": (Matern(nu=0.5) + Cosine(period=2.0)) * (0.5 * Matern(nu=1.5) + Constant(0.4)),
    "power": (0.8 * Matern(nu=0.5, length_scale=3.0) + Constant(0.3)) ** 2,
    "three factors": Matern(nu=1.5) * OrnsteinUhlenbeck(0.4) * Cosine(period=3.0),
    "operator and ou": Operator(np.array([1.0, 0.3, 0.2])) + OrnsteinUhlenbeck(rate=2.0),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


def points(n=30, seed=0):
    x = np.random.default_rng(seed).uniform(0.0, 6.0, n)
    x[3] = x[11]  # a tie
    return x[:, None]


def test_contract(kernel):
    assert isinstance(process_of(kernel, 1), MarkovProcess)
    check_gram(LineGram(kernel, points()))


@pytest.mark.parametrize("gaps", [1e-9, 1e-3, 0.3, 50.0, 1e6])
def test_products_and_solutions_at_any_spacing(kernel, gaps):
    X = gaps * points(25)
    line, dense = LineGram(kernel, X), DenseGram(kernel, X)
    V = np.random.default_rng(1).standard_normal((25, 3))
    size = float(kernel.diag(X[:1])[0])
    size = 1e-10 * max(1.0, size) + 1e-14 * gaps  # of a wave only the phase is known
    np.testing.assert_allclose(line @ V, dense @ V, rtol=0, atol=size)
    W = np.random.default_rng(2).uniform(0.5, 50.0, 25)
    a, b = line.factor(W), dense.factor(W)
    np.testing.assert_allclose(a.solve(V), b.solve(V), rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.cov_diag(), b.cov_diag(), rtol=1e-8)
    np.testing.assert_allclose(a.logdet(), b.logdet(), rtol=1e-9, atol=1e-11)


def test_matern_is_the_same_by_both_recursions():
    """The closed forms of Matern 1/2, 3/2, 5/2 against the general process."""
    X, W = points(40), np.random.default_rng(2).uniform(0.5, 50.0, 40)
    V = np.random.default_rng(1).standard_normal((40, 2))
    kernel = 0.7 * Matern(nu=0.5) + 2.0 * Matern(nu=1.5, length_scale=0.3) + Matern(nu=2.5)
    states, general = kernel.state_space(), kernel.markov_process()
    assert isinstance(states, StateSpace)
    one, two = Line(states, X), Line(general, X)
    np.testing.assert_allclose(one.times(V), two.times(V), atol=1e-12)
    for a, b in zip(one.smooth(W, V), two.smooth(W, V), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    first = one.pullback(kernel, W, -0.7, V, V[:, ::-1])
    second = two.pullback(kernel, W, -0.7, V, V[:, ::-1])
    assert first.keys() == second.keys()
    for path in first:
        np.testing.assert_allclose(second[path], first[path], rtol=1e-9, atol=1e-10)


def test_a_spectral_factor_has_stable_roots_and_the_right_square():
    a = np.array([2.0, -1.0, 3.0, 0.7, 0.2])
    unit, c = factored(a)
    assert (np.roots(np.append(c, 1.0)[::-1]).real < 0.0).all()
    w = np.linspace(0.0, 5.0, 11)
    d = np.polynomial.polynomial.polyval(1j * w / unit, np.append(c, 1.0))
    square = a[-1] * unit**8 * np.abs(d) ** 2
    np.testing.assert_allclose(square, np.polynomial.polynomial.polyval(w**2, a), rtol=1e-13)


def test_matern_blocks_are_those_of_the_book():
    """P of Matern 5/2 in units of the rate: variances of f, f', f'' (GPML appendix B.2)."""
    P = matern_block(3).P
    wanted = [[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]]
    np.testing.assert_allclose(P, wanted, atol=1e-14)


def test_tiny_gaps_keep_their_digits():
    """Without noise the innovation over a gap d of Matern 9/2 is of order d^9, and positive."""
    kernel, d = Matern(nu=4.5), 1e-2
    X = d * np.arange(6.0)[:, None]
    factor = LineGram(kernel, X).factor(np.full(6, np.inf))
    assert np.isfinite(factor.logdet_noisy())


def test_negative_weights_and_their_limit(kernel):
    X = points(15)
    W = np.full(15, 2.0)
    W[6] = -0.05 / float(kernel.diag(X[:1])[0])
    K = kernel(X)
    Sigma = K @ np.linalg.inv(np.eye(15) + W[:, None] * K)
    factor = LineGram(kernel, X).factor(W)
    np.testing.assert_allclose(factor.cov_diag(), np.diagonal(Sigma), rtol=1e-7)
    W[6] = -1e8
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
    X, rng = points(25), np.random.default_rng(3)
    y = {
        "real": rng.standard_normal((25, 1)),
        "count": rng.poisson(3.0, (25, 1)).astype(float),
        "sign": np.where(rng.random((25, 1)) < 0.5, -1.0, 1.0),
    }[kind]
    found = []
    for gram in (LineGram(kernel, X), DenseGram(kernel, X, keep=True)):
        solution = inference.solve(gram, y, loss)
        evidence = inference.evidence(gram, y, loss, solution)
        slopes = gram.pullback(solution.alpha, solution.factor, evidence.U, evidence.V)
        found.append((evidence.value, solution.alpha, slopes))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)
    assert found[0][2].keys() == found[1][2].keys()
    for name, slope in found[1][2].items():
        size = 1e-6 * (1.0 + float(np.abs(slope).max()))
        assert np.shape(found[0][2][name]) == np.shape(slope)
        np.testing.assert_allclose(found[0][2][name], slope, rtol=1e-5, atol=size)


@pytest.mark.parametrize("name", ["operator", "quasi-periodic", "matern"])
def test_with_a_basis(name):
    """P, evidence, gradient and posterior with a flat straight line, against the dense ones."""
    kernel = 2.0 * Matern(nu=1.5) if name == "matern" else KERNELS[name]
    X, Z = points(30), np.linspace(-2.0, 9.0, 21)[:, None]
    y = np.sin(X) + 0.3 * X
    found = []

    def basis(T):
        return np.column_stack([np.ones(len(T)), 1e3 * T[:, 0]])

    for gram in (LineGram(kernel, X), DenseGram(kernel, X, keep=True)):
        solution = Exact().solve(gram, y, Gaussian(noise=0.1), basis=basis(X))
        evidence = Exact().evidence(gram, y, Gaussian(noise=0.1), solution)
        factor = solution.factor
        posterior = process.Prior(kernel).condition(X, solution, basis)
        found.append(
            [
                evidence.value,
                solution.alpha,
                solution.beta * np.array([[1.0], [1e3]]),
                factor.diag(),
                factor.cov_diag(),
                factor.logdet(),
                posterior.mean(Z),
                posterior.var(Z),
                posterior.cov(Z),
                evidence.loss_gradient["noise"],
                *gram.pullback(solution.alpha, factor).values(),
            ]
        )
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_posterior_at_new_points(kernel):
    X, Z = points(30), np.linspace(-3.0, 9.0, 41)[:, None]
    posteriors = []
    for gram in (LineGram(kernel, X), DenseGram(kernel, X)):
        solution = Exact().solve(gram, np.sin(X), Gaussian(noise=0.1))
        posteriors.append(process.Prior(kernel).condition(X, solution))
    line, dense = posteriors
    np.testing.assert_allclose(line.mean(Z), dense.mean(Z), atol=1e-8)
    np.testing.assert_allclose(line.var(Z), dense.var(Z), rtol=1e-6, atol=1e-9)


def test_which_kernels_have_a_process():
    for kernel in (Matern(nu=3.5), OrnsteinUhlenbeck(), Operator(np.ones(3)), Cosine() + 1.0):
        assert process_of(kernel, 1) is not None
        assert process_of(kernel.on([1]) + 2.0, 3) is not None
    assert isinstance(process_of(OrnsteinUhlenbeck(), 1), StateSpace)
    for other in (RBF(), Periodic(), Constant(2.0), Matern(nu=1.5) + White(0.1), Matern(nu=8.5)):
        assert process_of(other, 1) is None
    assert process_of(Operator(np.ones(3), dims=2), 1) is None
    assert process_of(Matern(nu=1.5).on([0]) * Matern(nu=1.5).on([1]), 2) is None
    big = Matern(nu=4.5) * Matern(nu=3.5)
    assert process_of(big, 1) is None  # 20 states
