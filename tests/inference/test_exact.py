"""Exact inference against dense formulas: evidence, alpha, coefficients, every kind of noise."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from mercer.inference import Exact, by_name
from mercer.kernels import RBF, Matern, Noise, White
from mercer.linalg import DenseGram
from mercer.losses import Gaussian
from mercer.testing import check_inference
from tests.reference import gp

KERNEL = 1.7 * RBF(np.array([0.8, 1.9]))


def data(rng: np.random.Generator, n: int = 14, m: int = 1) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, :1]) + np.arange(m) + 0.4 * rng.normal(size=(n, m))


@pytest.mark.parametrize("basis", [False, True])
@pytest.mark.parametrize("per_row", [False, True])
def test_evidence_alpha_and_coefficients(
    rng: np.random.Generator, basis: bool, per_row: bool
) -> None:
    X, y = data(rng)
    noise = rng.uniform(0.1, 2.0, 14) if per_row else 0.3
    H = np.column_stack([np.ones(14), X]) if basis else None
    loss, gram = Gaussian(noise=noise), DenseGram(KERNEL, X)
    solution = Exact().solve(gram, y, loss, basis=H)
    Ky = KERNEL(X) + np.diag(np.broadcast_to(noise, 14))
    value = Exact().evidence(gram, y, loss, solution).value
    assert value == pytest.approx(gp.log_evidence(Ky, y[:, 0], H), abs=1e-10)
    if H is None:
        np.testing.assert_allclose(solution.alpha, np.linalg.solve(Ky, y), atol=1e-11)
        assert solution.beta is None
    else:
        A = H.T @ np.linalg.solve(Ky, H)
        beta = np.linalg.solve(A, H.T @ np.linalg.solve(Ky, y))
        np.testing.assert_allclose(solution.beta, beta, atol=1e-10)
        np.testing.assert_allclose(H.T @ solution.alpha, 0.0, atol=1e-12)


@pytest.mark.parametrize("basis", [False, True])
def test_outputs_add_up(rng: np.random.Generator, basis: bool) -> None:
    X, y = data(rng, m=3)
    H = np.column_stack([np.ones(14), X]) if basis else None
    gram, loss = DenseGram(KERNEL, X), Gaussian(noise=0.3)
    together = Exact().evidence(gram, y, loss, Exact().solve(gram, y, loss, basis=H)).value
    single = 0.0
    for column in y.T[:, :, None]:
        solution = Exact().solve(gram, column, loss, basis=H)
        single += Exact().evidence(gram, column, loss, solution).value
    assert together == pytest.approx(single, rel=1e-12)


def test_prior_mean_is_subtracted(rng: np.random.Generator) -> None:
    X, y = data(rng)
    gram, loss = DenseGram(KERNEL, X), Gaussian(noise=0.3)
    mean = 3.0 + X[:, :1]
    moved = Exact().solve(gram, y + mean, loss, mean=mean)
    np.testing.assert_allclose(moved.alpha, Exact().solve(gram, y, loss).alpha, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("basis", [False, True])
def test_merged_duplicates_give_the_evidence_of_all_rows(
    rng: np.random.Generator, m: int, basis: bool
) -> None:
    """methods-gp-relatives 4.5: merged points with the spread within equal the N x N evidence."""
    X = rng.normal(size=(6, 2))
    group = np.array([0, 0, 0, 1, 2, 2, 3, 4, 5, 5, 5, 5])
    rows = np.sin(X[group, :1]) + 0.5 * rng.normal(size=(12, m))
    counts = np.bincount(group).astype(float)
    mean = np.array([rows[group == i].mean(axis=0) for i in range(6)])
    spread = np.array([((rows[group == i] - mean[i]) ** 2).sum(axis=0) for i in range(6)])
    H = np.column_stack([np.ones(6), X]) if basis else None
    gram, loss = DenseGram(KERNEL, X), Gaussian(noise=0.3)
    solution = Exact().solve(gram, mean, loss, basis=H, weights=counts)
    value = Exact().evidence(gram, mean, loss, solution, spread=spread).value
    Ky = KERNEL(X[group], X[group]) + 0.3 * np.eye(12)
    full = [gp.log_evidence(Ky, rows[:, j], None if H is None else H[group]) for j in range(m)]
    assert value == pytest.approx(sum(full), abs=1e-9)


def test_fractional_weights_raise_the_likelihood_to_a_power(rng: np.random.Generator) -> None:
    """E = log int prod N(y_i | f_i, s)^w_i N(f | 0, K) df, by completing the square."""
    X, y = data(rng, 5)
    w, s = np.array([0.3, 1.0, 2.5, 0.7, 4.0]), 0.6
    gram, loss = DenseGram(KERNEL, X), Gaussian(noise=s)
    value = Exact().evidence(gram, y, loss, Exact().solve(gram, y, loss, weights=w)).value
    K, D = KERNEL(X), np.diag(w / s)
    S = np.linalg.inv(np.linalg.inv(K) + D)
    t = D @ y[:, 0]
    expected = 0.5 * t @ S @ t - 0.5 * y[:, 0] @ D @ y[:, 0] - 0.5 * w.sum() * np.log(2 * np.pi * s)
    expected += 0.5 * (np.linalg.slogdet(S)[1] - np.linalg.slogdet(K)[1])
    assert value == pytest.approx(expected, abs=1e-9)


def test_noise_kernels_count_as_noise(rng: np.random.Generator) -> None:
    X, y = data(rng)
    coloured = 0.5 * Matern(nu=0.5, length_scale=0.4)
    kernel = KERNEL + White(0.2) + Noise(coloured)
    gram, loss = DenseGram(kernel, X), Gaussian(noise=0.1)
    value = Exact().evidence(gram, y, loss, Exact().solve(gram, y, loss)).value
    Ky = KERNEL(X) + coloured(X) + 0.3 * np.eye(14)
    assert value == pytest.approx(gp.log_evidence(Ky, y[:, 0]), abs=1e-10)


def test_zero_noise_interpolates(rng: np.random.Generator) -> None:
    X, y = data(rng, 8)
    gram, loss = DenseGram(Matern(nu=0.5), X), Gaussian(noise=0.0)
    solution = Exact().solve(gram, y, loss)
    np.testing.assert_allclose(gram @ solution.alpha, y, atol=1e-11)
    value = Exact().evidence(gram, y, loss, solution).value
    assert value == pytest.approx(gp.log_evidence(Matern(nu=0.5)(X), y[:, 0]), abs=1e-10)
    assert solution.report.details["jitter"] == 0.0


def test_zero_noise_with_repeats_is_refused(rng: np.random.Generator) -> None:
    X, y = data(rng, 8)
    gram, loss = DenseGram(KERNEL, X), Gaussian(noise=0.0)
    solution = Exact().solve(gram, y, loss, weights=np.full(8, 2.0))
    with pytest.raises(ValueError, match="repeated inputs need noise"):
        Exact().evidence(gram, y, loss, solution)


def test_contract_of_the_gradient(rng: np.random.Generator) -> None:
    X, y = data(rng)
    check_inference(Exact(), Gaussian(noise=0.3), X, y, KERNEL)


def test_what_a_loss_lacks_is_named_before_any_work() -> None:
    for name in ("Poisson", "StudentT", "EpsilonInsensitive", "Logistic"):
        with pytest.raises(ValueError, match=f"needs quadratic.*{name} does not offer"):
            Exact().check(getattr(losses, name).example())


def test_unknown_names_list_the_known_ones() -> None:
    assert by_name("exact") == Exact()
    with pytest.raises(ValueError, match=r"no inference 'exactt'; did you mean 'exact'\?"):
        by_name("exactt")
