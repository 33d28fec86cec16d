"""The factor-analysed variational Gaussian against its definition and against the best Gaussian."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from mercer.inference import Variational, factored
from mercer.kernels import RBF, Constant
from mercer.linalg import DenseGram, NotPositiveDefiniteError
from mercer.testing import check_inference

from ..reference import variational as slow
from .test_variational import data, gram_of

JITTER = 1e-3


def found(gram, y, loss, M, **given):
    inference = Variational(factors=M, jitter=JITTER, tol=given.pop("tol", 1e-6), **given)
    solution = inference.solve(gram, y[:, None], loss)
    return solution, inference.evidence(gram, y[:, None], loss, solution)


def test_woodbury_is_the_dense_inverse() -> None:
    """And the rank-one recursion (C.6)-(C.8), one factor at a time."""
    rng = np.random.default_rng(0)
    d, C = rng.uniform(0.1, 2.0, 9), rng.normal(size=(9, 4))
    logdet, diagonal, solved = factored.determined(d, C)
    sigma = np.diag(d) + C @ C.T
    inverse = np.linalg.inv(sigma)
    assert logdet == pytest.approx(np.linalg.slogdet(sigma)[1], abs=1e-12)
    np.testing.assert_allclose(diagonal, np.diagonal(inverse), atol=1e-12)
    np.testing.assert_allclose(solved, inverse @ C, atol=1e-12)
    step, total = np.diag(1.0 / d), np.log(d).sum()
    for c in C.T:
        u = step @ c
        total += np.log1p(c @ u)
        step = step - np.outer(u, u) / (1.0 + c @ u)
    np.testing.assert_allclose(step, inverse, atol=1e-12)
    assert total == pytest.approx(logdet, abs=1e-12)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.NormalizedHinge()], ids=repr)
def test_value_and_operator_are_the_dense_formulas(loss) -> None:
    X, y = data(loss, n=14)
    gram = DenseGram(5.0 * RBF(0.7), X, keep=True)
    K = gram.matrix + JITTER * 5.0 * np.eye(14)
    solution, evidence = found(gram, y, loss, 3)
    factor = solution.factor
    sigma = np.diag(factor.d) + factor.loadings @ factor.loadings.T
    mu, ones = solution.z[:, 0], np.ones(14)
    dense = slow.free_energy(K, y, ones, loss, np.zeros(14), mu, sigma)
    assert -evidence.value == pytest.approx(dense, abs=1e-8)
    inverse = np.linalg.inv(K)
    C = inverse - inverse @ sigma @ inverse
    V = np.random.default_rng(1).normal(size=(14, 2))
    np.testing.assert_allclose(solution.alpha[:, 0], inverse @ mu, atol=1e-7)
    np.testing.assert_allclose(factor.solve(V), C @ V, atol=1e-7)
    np.testing.assert_allclose(factor.quad(V, V), V.T @ C @ V, atol=1e-6)
    np.testing.assert_allclose(factor.quad_diag(V), np.diagonal(V.T @ C @ V), atol=1e-6)
    np.testing.assert_allclose(factor.diag(), np.diagonal(C), atol=1e-7)
    np.testing.assert_allclose(factor.cov(), sigma, atol=1e-12)
    np.testing.assert_allclose(factor.cov_diag(), np.diagonal(sigma), atol=1e-12)
    logdet = np.linalg.slogdet(K)[1] - np.linalg.slogdet(sigma)[1]
    assert factor.logdet() == pytest.approx(logdet, abs=1e-8)
    Q = factor.gradient_weights(solution.alpha, 1.0)
    off = ~np.eye(14, dtype=bool)
    full = 0.5 * (solution.alpha @ solution.alpha.T - C)
    np.testing.assert_allclose(Q[off], full[off], atol=1e-6)
    np.testing.assert_allclose(np.diagonal(Q), (1.0 + JITTER) * np.diagonal(full), atol=1e-6)
    assert solution.report["jitter"] == JITTER


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Probit(), losses.NormalizedHinge()])
def test_n_factors_are_the_best_gaussian(loss) -> None:
    X, y = data(loss, n=20)
    gram = DenseGram(10.0 * RBF(0.8), X, keep=True)
    K = gram.matrix + JITTER * 10.0 * np.eye(20)
    full = Variational()
    best = full.evidence(gram_of(K), y[:, None], loss, full.solve(gram_of(K), y[:, None], loss))
    _, evidence = found(gram, y, loss, 20)
    assert evidence.value == pytest.approx(best.value, abs=1e-3)
    few = [found(gram, y, loss, M)[1].value for M in (1, 3, 8)]
    assert np.all(np.diff([*few, best.value]) > 0)


def test_smooth_kernels_lose_tens_of_nats() -> None:
    """Section 8.5 of the thesis' defect: logit, variance 10, n = 60, d = 5, w = 0.3."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=60))
    gram = DenseGram(10.0 * RBF(np.sqrt(5 / 0.3)) + 1.0 * Constant(), X, keep=True)
    full = Variational()
    best = full.evidence(
        gram, y[:, None], losses.Logistic(), full.solve(gram, y[:, None], losses.Logistic())
    ).value
    one = Variational(factors=1)
    worse = one.evidence(
        gram, y[:, None], losses.Logistic(), one.solve(gram, y[:, None], losses.Logistic())
    ).value
    assert 45 < best - worse < 80


@pytest.mark.parametrize(
    "loss",
    [
        losses.Logistic(),
        pytest.param(losses.NormalizedHinge(C=1.2), marks=pytest.mark.slow),
        pytest.param(losses.StudentT(scale=0.5), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_gradient_against_differences(loss) -> None:
    """(C.4) for the kernel, the jitter moving with it, and the parameters of the loss."""
    X, y = data(loss, n=16)
    inference = Variational(factors=2, jitter=JITTER, tol=3e-7, max_iter=1000)
    kernel = 3.3 * RBF([0.7, 1.4]) + 0.5 * Constant()
    check_inference(inference, loss, X, y[:, None], kernel, tol=3e-4)


def test_a_warm_start_needs_fewer_evaluations() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=30)
    grams = [DenseGram(v * RBF(0.8), X, keep=True) for v in (5.0, 5.05)]
    inference = Variational(factors=2, jitter=JITTER)
    first = inference.solve(grams[0], y[:, None], loss)
    warm = inference.solve(grams[1], y[:, None], loss, start=first)
    cold = inference.solve(grams[1], y[:, None], loss)
    assert warm.report["converged"]
    assert cold.report["converged"]
    assert warm.report["factorisations"] == 1
    assert warm.report["evaluations"] < cold.report["evaluations"]
    value = [inference.evidence(grams[1], y[:, None], loss, s).value for s in (warm, cold)]
    assert value[0] == pytest.approx(value[1], abs=1e-5)


def test_reports_and_refusals() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=15)
    gram = DenseGram(5.0 * RBF(0.8), X, keep=True)
    report = found(gram, y, loss, 3, max_iter=1)[0].report
    assert report["converged"] is False
    assert "raise max_iter" in report["message"]
    flat = DenseGram(RBF(100.0), X, keep=True)
    with pytest.raises(NotPositiveDefiniteError, match="jitter"):
        Variational(factors=2, jitter=1e-18).solve(flat, y[:, None], loss)
