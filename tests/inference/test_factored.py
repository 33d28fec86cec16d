"""The factor-analysed variational Gaussian against its definition and against the best Gaussian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer import losses
from mercer.inference import Variational
from mercer.inference.sites.base import Task
from mercer.inference.variational.factored import FactoredStart, Family, Precision, at
from mercer.kernels import RBF, Constant, White
from mercer.linalg import DenseGram, NotPositiveDefiniteError
from mercer.linalg.gram import NoSpread
from mercer.search.optimize import bare
from mercer.testing import check_evidence_gradient

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
    found = Precision(d, C)
    sigma = np.diag(d) + C @ C.T
    inverse = np.linalg.inv(sigma)
    assert found.logdet == pytest.approx(np.linalg.slogdet(sigma)[1], abs=1e-12)
    np.testing.assert_allclose(found.level, 1.0 - d * np.diagonal(inverse), atol=1e-12)
    np.testing.assert_allclose(found.solved, inverse @ C, atol=1e-12)
    step, total = np.diag(1.0 / d), np.log(d).sum()
    for c in C.T:
        u = step @ c
        total += np.log1p(c @ u)
        step = step - np.outer(u, u) / (1.0 + c @ u)
    np.testing.assert_allclose(step, inverse, atol=1e-12)
    assert total == pytest.approx(found.logdet, abs=1e-12)


@pytest.mark.parametrize("M", [1, 4, 9])
def test_changes_of_the_precision_by_differences(M) -> None:
    rng = np.random.default_rng(1)
    d, C = rng.uniform(0.1, 2.0, 9), rng.normal(size=(9, M))
    log_d, dC, h = rng.normal(size=9), rng.normal(size=(9, M)), 1e-6
    near = [Precision(d * np.exp(t * log_d), C + t * dC) for t in (h, -h)]
    solved, level = Precision(d, C).change(log_d, dC)
    np.testing.assert_allclose(solved, (near[0].solved - near[1].solved) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(level, (near[0].level - near[1].level) / (2 * h), atol=1e-7)


@pytest.mark.parametrize(
    "loss", [losses.Logistic(), losses.NormalizedHinge(), losses.StudentT(scale=0.5)], ids=repr
)
def test_free_energy_its_gradient_and_its_hessian(loss) -> None:
    """Value by the dense formula (4.7); derivatives by differences, far from any optimum."""
    rng = np.random.default_rng(2)
    X, y = data(loss, n=12)
    w, mean = rng.uniform(0.5, 2.0, 12), rng.normal(size=12)
    task = Task(DenseGram(5.0 * RBF(0.7), X, keep=True), y, loss, w, mean)
    family = Family(task, JITTER, rng.uniform(-0.5, 1.0, 12))
    K = task.gram.matrix + JITTER * 5.0 * np.eye(12)
    np.testing.assert_allclose(
        family.A @ family.A.T, np.linalg.inv(np.linalg.inv(K) + np.diag(family.W)), atol=1e-10
    )
    np.testing.assert_allclose(family.inverse() @ K, np.eye(12), atol=1e-10)
    x, v, h = 0.7 * rng.normal(size=60), rng.normal(size=60), 1e-5
    here, ahead, behind = at(family, x), at(family, x + h * v), at(family, x - h * v)
    assert here is not None
    sigma = np.diag(here.d) + here.loadings @ here.loadings.T
    dense = slow.free_energy(K, y, w, loss, mean, mean + here.shift, sigma)
    assert here.value == pytest.approx(dense, abs=1e-9)
    assert here.gradient @ v == pytest.approx((ahead.value - behind.value) / (2 * h), abs=1e-6)
    change = (ahead.gradient - behind.gradient) / (2 * h)
    np.testing.assert_allclose(here.product(v), change, atol=2e-7 * np.abs(change).max())


def test_where_nothing_is_finite_there_is_no_free_energy() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=5)
    task = Task(DenseGram(RBF(), X, keep=True), y, loss, np.ones(5), np.zeros(5))
    family = Family(task, JITTER, np.ones(5))
    for e in (1e3, -1e3, np.inf):
        assert at(family, np.column_stack([np.ones((5, 2)), np.full(5, e)]).ravel()) is None


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
    assert solution.report.details["jitter"] == JITTER


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Probit(), losses.NormalizedHinge()])
@pytest.mark.parametrize("variance", [0.5, 10.0, 500.0])
def test_n_factors_are_the_best_gaussian_and_fewer_are_worse(loss, variance) -> None:
    X, y = data(loss, n=20)
    gram = DenseGram(variance * RBF(0.8), X, keep=True)
    K = gram.matrix + JITTER * variance * np.eye(20)
    full = Variational()
    best = full.evidence(gram_of(K), y[:, None], loss, full.solve(gram_of(K), y[:, None], loss))
    values = []
    for M in (1, 3, 8, 20, 30):
        solution, evidence = found(gram, y, loss, M)
        assert solution.report.converged, M
        values.append(evidence.value)
    np.testing.assert_allclose(values[3:], best.value, atol=1e-7)
    assert np.all(np.diff(values[:4]) > 0)


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
        losses.StudentT(scale=0.5),
    ],
    ids=repr,
)
def test_gradient_against_differences(loss) -> None:
    """(C.4) for the kernel, the jitter moving with it, and the parameters of the loss."""
    X, y = data(loss, n=16)
    inference = Variational(factors=2, jitter=JITTER, tol=1e-8)
    kernel = 3.3 * RBF([0.7, 1.4]) + 0.5 * Constant()
    check_evidence_gradient(inference, loss, X, y[:, None], kernel, tol=3e-5)


def test_a_warm_start_needs_fewer_evaluations() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=30)
    grams = [DenseGram(v * RBF(0.8), X, keep=True) for v in (5.0, 5.05)]
    inference = Variational(factors=2, jitter=JITTER)
    first = inference.solve(grams[0], y[:, None], loss)
    warm = inference.solve(grams[1], y[:, None], loss, start=first)
    cold = inference.solve(grams[1], y[:, None], loss)
    assert warm.report.converged
    assert cold.report.converged
    assert warm.report.details["factorisations"] == 2  # K and K^-1 + W
    assert warm.report.details["evaluations"] < cold.report.details["evaluations"] < 15
    # a search keeps O(n M) numbers of the last posterior, and begins the next as well
    kept = bare(first)
    assert isinstance(kept.factor, FactoredStart)
    again = inference.solve(grams[1], y[:, None], loss, start=kept)
    np.testing.assert_array_equal(again.alpha, warm.alpha)
    assert type(bare(Variational().solve(grams[0], y[:, None], loss)).factor) is NoSpread
    value = [inference.evidence(grams[1], y[:, None], loss, s).value for s in (warm, cold)]
    assert value[0] == pytest.approx(value[1], abs=1e-5)


def test_every_latent_function_keeps_its_start() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=12)
    gram = DenseGram(5.0 * RBF(0.8), X, keep=True)
    inference = Variational(factors=2, jitter=JITTER)
    first = inference.solve(gram, np.column_stack([y, -y[::-1]]), loss)
    again = inference.solve(gram, np.column_stack([y, -y[::-1]]), loss, start=bare(first))
    for one, other in zip(first.report.columns, again.report.columns, strict=True):
        assert other.details["factorisations"] == 2 < one.details["factorisations"]
        assert other.converged
    np.testing.assert_allclose(again.alpha, first.alpha, atol=1e-6)


def test_a_start_without_own_variances_is_no_trap() -> None:
    """Where d_i is nearly 0, F does not depend on log d_i any more; a start there must recover."""
    loss = losses.Logistic()
    X, y = data(loss, n=25)
    gram = DenseGram(5.0 * RBF(0.3), X, keep=True)
    inference = Variational(factors=2, jitter=JITTER)
    cold = inference.solve(gram, y[:, None], loss)
    lost = FactoredStart(cold.factor.whitened, np.full(25, -20.0))
    again = inference.solve(gram, y[:, None], loss, start=replace(cold, factor=lost))
    assert again.report.converged
    np.testing.assert_allclose(again.factor.d, cold.factor.d, rtol=1e-4)


def test_white_noise_of_the_kernel_is_jitter_enough() -> None:
    """jitter=0 with White is the jitter as a share of a constant diagonal."""
    loss = losses.Logistic()
    X, y = data(loss, n=20)
    plain, noisy = 5.0 * RBF(0.8), 5.0 * (RBF(0.8) + White(JITTER))
    _, one = found(DenseGram(plain, X, keep=True), y, loss, 3)
    inference = Variational(factors=3, jitter=0.0)
    gram = DenseGram(noisy, X, keep=True)
    solution = inference.solve(gram, y[:, None], loss)
    other = inference.evidence(gram, y[:, None], loss, solution)
    assert other.value == pytest.approx(one.value, abs=1e-9)
    assert solution.report.details["jitter"] == 0.0


def test_reports_and_refusals() -> None:
    loss = losses.Logistic()
    X, y = data(loss, n=15)
    gram = DenseGram(5.0 * RBF(0.8), X, keep=True)
    report = found(gram, y, loss, 3, max_iter=1)[0].report
    assert report.converged is False
    assert "raise max_iter" in report.message
    flat = DenseGram(RBF(100.0), X, keep=True)
    with pytest.raises(NotPositiveDefiniteError, match="jitter"):
        Variational(factors=2, jitter=1e-18).solve(flat, y[:, None], loss)
