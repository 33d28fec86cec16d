"""Conjugate gradients with bounds, against the dense answer and stored reference values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.linalg.test_reduced import KERNEL, table

from mercer.core.arrays import Array
from mercer.inference import Exact
from mercer.kernels import RBF, Matern, White
from mercer.kernels.base import Kernel
from mercer.linalg.iterative.determinant import LogDet
from mercer.linalg.iterative.gram import IterativeGram
from mercer.linalg.iterative.probed import ProbedGram
from mercer.losses import Gaussian
from mercer.process.process import Prior
from mercer.search import EvidenceCriterion, Space, simple_problem
from mercer.testing import check_process


def dense(X: Array, noise: float = 0.05) -> Array:
    return KERNEL(X) + noise * np.eye(len(X))


def exact_evidence(X: Array, y: Array, noise: float = 0.05) -> float:
    C = dense(X, noise)
    return float(
        -0.5 * y @ np.linalg.solve(C, y)
        - 0.5 * np.linalg.slogdet(C)[1]
        - len(y) / 2 * np.log(2 * np.pi)
    )


def test_bounds_reference() -> None:
    X, y = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    start = factor.bounds(y, np.zeros_like(y))
    assert start == pytest.approx((-233.7755773992, 23.5758256939), rel=1e-10)
    ten = factor.solved(y, 0.0, limit=10)
    low, high = factor.bounds(y, ten.V)
    assert (low, high) == pytest.approx((-89.5088671540, -28.5756318493), rel=1e-8)
    assert ten.rho2[0] == pytest.approx(0.03566010, rel=1e-6)


def test_every_step_is_bracketed_and_the_end_is_exact() -> None:
    X, y = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    truth = np.linalg.solve(dense(X), y)
    quad, value = float(y[:, 0] @ truth[:, 0]), exact_evidence(X, y[:, 0])
    for k in range(0, 60, 3):
        v = factor.solved(y, 0.0, limit=k).V
        low, high, _ = factor.quadratic_bounds(y[:, 0], v[:, 0])
        assert low - 1e-9 <= quad <= high + 1e-9
        bounds = factor.bounds(y, v)
        assert bounds[0] - 1e-9 <= value <= bounds[1] + 1e-9
    assert pytest.approx(truth, rel=1e-8) == factor.solved(y, 1e-22, limit=300).V


def test_error_of_the_mean_is_certified() -> None:
    X, y = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    truth = np.linalg.solve(dense(X), y)
    new = np.random.default_rng(3).normal(size=(200, 2))
    for k in (1, 5, 20):
        found = factor.solved(y, 0.0, limit=k)
        error = np.abs(KERNEL(new, X) @ (found.V - truth)).max()
        assert error <= np.sqrt(np.exp(0.3) * found.rho2[0])


def test_the_half_and_the_whitened_matrix() -> None:
    X, _ = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    G = factor.half(np.eye(90))
    F = factor.gram.reduced.features(slice(0, 90))
    assert pytest.approx(F @ F.T + 0.05 * np.eye(90), rel=1e-9, abs=1e-11) == G @ G.T
    M = np.linalg.solve(G, np.linalg.solve(G, dense(X)).T)
    assert np.linalg.eigvalsh(0.5 * (M + M.T))[0] >= 1.0 - 1e-9


def test_determinant_is_bracketed_and_estimated() -> None:
    X, _ = table()
    factor = IterativeGram(KERNEL, X, X[:12], probes=64).factor(np.full(90, 20.0))
    truth = np.linalg.slogdet(dense(X))[1]
    found: LogDet = factor.determinant()
    assert found.bracket[1] - found.bracket[0] < 1e-2
    assert np.all(found.pairs[:, 0] <= found.pairs[:, 1])
    assert abs(found.value - truth) <= 4.0 * found.error
    low, high = factor.logdet_bounds()
    assert low <= truth <= high


def test_quadratures_bracket_at_every_length() -> None:
    from mercer.linalg.iterative.determinant import quadrature

    X, _ = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    z = np.random.default_rng(0).choice([-1.0, 1.0], size=(90, 1))
    G = factor.half(np.eye(90))
    M = np.linalg.solve(G, np.linalg.solve(G, dense(X)).T)
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    truth = float((vectors.T @ z)[:, 0] ** 2 @ np.log(values)) / 90.0
    gaps = []
    for k in (1, 2, 4, 8, 16, 30):
        steps = factor._climb(factor.half(z), np.zeros_like(z), 0.0, k).steps
        low, high = quadrature(steps, 0)
        assert low - 1e-10 <= truth <= high + 1e-10
        gaps.append(high - low)
    assert gaps[-1] < 1e-6 < gaps[0]


@pytest.mark.parametrize("single", [False, True])
def test_mean_and_variance_of_a_posterior(single: bool) -> None:
    X, y = table()
    gram = IterativeGram(KERNEL, X, X[:12], tol=1e-10, single=single)
    found = Exact().solve(gram, y, Gaussian(0.05))
    new = np.random.default_rng(3).normal(size=(30, 2))
    C, A = np.linalg.inv(dense(X)), KERNEL(X, new)
    posterior = Prior(KERNEL).condition(X, found)
    assert posterior.mean(new) == pytest.approx(A.T @ C @ y, rel=1e-4, abs=1e-5)
    truth = np.exp(0.3) - np.einsum("ij,ij->j", A, C @ A)
    found_at = posterior.diag(new)
    assert np.all(np.abs(found_at - truth) <= 0.0055 * (truth + 0.05))  # half of the bracket
    assert found.report.converged


def test_a_rough_kernel_with_a_basis_is_refused_and_no_noise_is() -> None:
    X, y = table()
    gram = IterativeGram(1.0 * Matern(nu=0.5), X, X[:5])
    with pytest.raises(ValueError, match="noise in every row"):
        gram.factor(np.full(90, np.inf))
    with pytest.raises(NotImplementedError, match="unpenalised basis"):
        Exact().solve(gram, y, Gaussian(0.05), basis=np.ones((90, 1)))
    assert RBF().features(X) is None


def test_a_posterior_by_solutions_is_a_process() -> None:
    """A Gram by products alone has no diagonal and estimates its determinant: the rest holds."""
    X, y = table()
    gram = IterativeGram(KERNEL, X[:40], X[:8], tol=1e-16)
    V = np.random.default_rng(0).normal(size=(40, 2))
    K, W = KERNEL(X[:40]), np.linspace(5.0, 20.0, 40)
    assert gram @ V == pytest.approx(K @ V, rel=1e-10)
    assert gram.diag() == pytest.approx(np.diagonal(K))
    assert gram.rows(np.array([3, 0])) == pytest.approx(K[[3, 0]])
    solved = np.linalg.solve(K + np.diag(1.0 / W), V)
    assert gram.factor(W).solve(V) == pytest.approx(solved, rel=1e-6, abs=1e-7)
    found = Exact().solve(gram, y[:40], Gaussian(0.05))
    process = Prior(KERNEL).condition(X[:40], found, None, gram)
    process.operator.width = 1e-14
    check_process(process, X[60:66], tol=1e-6)


@pytest.mark.parametrize("alike", [False, True])
def test_columns_that_share_a_space_need_fewer_rounds(alike: bool) -> None:
    X, _ = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    Y = KERNEL(X, X[:20] + 0.3)
    Y[:, 0] = 0.0
    if alike:
        Y[:, 10:] = Y[:, :10]
    alone = factor.solved(Y, 1e-16)
    found = factor.shared(Y, lambda low, rho2: rho2 <= 1e-16)
    assert found.converged
    assert found.rounds < 0.6 * alone.rounds
    assert pytest.approx(np.linalg.solve(dense(X), Y), rel=1e-6, abs=1e-7) == found.V
    low = np.einsum("ij,ij->j", found.V, Y + found.residual)
    truth = np.einsum("ij,ij->j", Y, np.linalg.solve(dense(X), Y))
    assert np.all((low - 1e-9 <= truth) & (truth <= low + found.rho2 + 1e-9))


def test_a_matrix_that_fits_is_held_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    from mercer.linalg.iterative import gram as home

    X, y = table()
    V = np.column_stack([y, 1e-60 * y])
    monkeypatch.setattr(home, "HELD_AFTER", 0)
    held = IterativeGram(KERNEL, X, X[:12], single=True)
    truth = KERNEL(X) @ V
    top = np.abs(truth).max(axis=0)
    assert np.all(np.abs(held.product(V) - truth) <= 1e-6 * top)
    assert held.how.startswith("held in single precision")
    held.let_go()
    monkeypatch.setattr(home, "available_bytes", lambda: 4 * 90 * 90)  # a quarter is not enough
    assert np.all(np.abs(held.product(V) - truth) <= 1e-6 * top)
    assert held.how == "computed anew in single precision"


def test_the_bounds_take_the_residual_that_the_solver_has() -> None:
    X, y = table()
    gram = IterativeGram(KERNEL, X, X[:12], single=True)
    factor = gram.factor(np.full(90, 20.0))
    alpha = factor.solve(y)
    done = gram.products
    own = factor.bounds(y, alpha)
    assert gram.products == done
    assert own == pytest.approx(factor.bounds(y, alpha.copy()), rel=1e-12)
    assert gram.products == done + 1


def test_a_beginning_that_is_worse_than_zero_is_not_taken() -> None:
    X, y = table()
    factor = IterativeGram(KERNEL, X, X[:12]).factor(np.full(90, 20.0))
    near = np.linalg.solve(dense(X), y) * 1.001
    cold = factor._climb(y, None, 1e-8, 200)
    assert factor._climb(y, near, 1e-8, 200).rounds < cold.rounds
    assert factor._climb(y, 1e6 * y, 1e-8, 200).rounds == cold.rounds


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + White(0.03)], ids=["signal", "with noise"])
def test_the_gradient_by_probes_is_unbiased(kernel: Kernel) -> None:
    """Its mean over draws is the exact gradient, of kernel and noise, with weights and outputs."""
    rng = np.random.default_rng(0)
    X, y = table()
    Y, weights = np.hstack([y, y**2]), rng.uniform(0.5, 2.0, 90)
    inference, space = Exact(), Space({"kernel": kernel, "loss": Gaussian(0.05)})
    problem = replace(simple_problem(X, Y), weights=weights, spread=0.01 * np.abs(Y))
    truth = EvidenceCriterion(space, problem, inference)(space.start)
    draws = []
    for _ in range(40):
        gram = ProbedGram(kernel, X, X[:12], tol=1e-10, probes=8, rng=rng)
        one = EvidenceCriterion(space, problem, inference, lambda *_, gram=gram, **__: gram)
        draws.append(one(space.start))
    values, slopes = np.array([v for v, _ in draws]), np.array([g for _, g in draws])
    error = slopes.std(axis=0, ddof=1) / np.sqrt(len(slopes))
    assert np.all(np.abs(slopes.mean(axis=0) - truth[1]) <= 4.0 * error + 1e-8)
    assert abs(values.mean() - truth[0]) <= 4.0 * values.std(ddof=1) / np.sqrt(40)
