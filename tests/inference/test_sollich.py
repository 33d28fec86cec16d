"""Sollich's model: brute force, exact limits, and that the data sets it can make sum to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from mercer.inference import sollich_evidence, sollich_sample
from mercer.inference.sollich import hinge_weights, log_mean, square_root
from mercer.kernels import RBF
from mercer.losses.binary.margins import hinge_normaliser


def by_grid(K: np.ndarray, y: np.ndarray, C: float) -> float:
    """log of the integral of e^{-C sum hinge} N(f | 0, K) df for two rows, on a fine grid."""
    L = np.linalg.cholesky(K)
    x = np.linspace(-9, 9, 901)
    e = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    f = e @ L.T
    log = -C * np.maximum(1 - y * f, 0).sum(axis=-1) - 0.5 * (e**2).sum(axis=-1)
    return float(logsumexp(log) + 2 * np.log(x[1] - x[0]) - np.log(2 * np.pi))


@pytest.mark.parametrize("C", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_integral_of_two_rows(C: float, variance: float, label: float) -> None:
    K = variance * np.array([[1.0, 0.8], [0.8, 1.0]])
    y = np.array([1.0, label])
    weights = hinge_weights(square_root(K)[0], y, C, 40_000, np.random.default_rng(1))
    value, error, effective = log_mean(weights)
    assert error < 0.02
    assert effective > 2000
    assert value == pytest.approx(by_grid(K, y, C), abs=4 * error + 2e-4)


def test_against_plain_monte_carlo(rng: np.random.Generator) -> None:
    """Six rows, where draws from the prior are still good enough."""
    X, y = rng.normal(size=(6, 2)), np.array([1.0, -1, 1, 1, -1, 1])
    found = sollich_evidence(2.0 * RBF(), X, y, C=0.7)
    L = np.linalg.cholesky(2.0 * RBF()(X))
    f = rng.normal(size=(400_000, 6)) @ L.T
    integral, error, _ = log_mean(-0.7 * np.maximum(1 - y * f, 0).sum(axis=1))
    normaliser, other, _ = log_mean(6 * np.log(hinge_normaliser(f, 0.7).mean(axis=1)))
    assert found.log_integral == pytest.approx(integral, abs=4 * np.hypot(error, found.error))
    assert found.log_normaliser == pytest.approx(normaliser, abs=4 * np.hypot(other, found.error))
    value = 6 * log_expit(1.4) + integral - normaliser
    assert found.value == pytest.approx(value, abs=4 * np.hypot(error + other, found.error))
    assert found.error < 0.01


@pytest.mark.parametrize("variance", [0.5, 4.0])
def test_data_sets_sum_to_one(variance: float) -> None:
    """Over all inputs (of two places, each equally likely, repeats included) and all labels.

    Repeated inputs make K singular, which must not need a jitter.
    """
    places, C, n = np.array([[0.0], [1.0]]), 1.0, 2
    kernel = variance * RBF()
    normaliser = sollich_evidence(kernel, places, np.ones(2), C, draws=100_000).log_normaliser
    total = 0.0
    for rows in itertools.product(range(2), repeat=n):
        X = places[list(rows)]
        for labels in itertools.product([-1.0, 1.0], repeat=n):
            one = sollich_evidence(kernel, X, np.array(labels), C, draws=20_000)
            log_p = n * log_expit(2 * C) + one.log_integral - normaliser
            total += np.exp(log_p) / len(places) ** n
    assert total == pytest.approx(1.0, abs=0.01)


def test_small_variance_is_a_coin(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(9, 2)), np.where(rng.random(9) < 0.5, -1.0, 1.0)
    found = sollich_evidence(1e-12 * RBF(), X, y, C=2.0)
    assert found.value == pytest.approx(-9 * np.log(2), abs=4 * found.error)
    assert found.error < 0.01


def test_large_variance_is_an_orthant() -> None:
    """Then only signs count: 1/4 + asin(rho) / (2 pi) for two rows."""
    X = np.array([[0.0], [1.0]])
    rho = float(RBF()(X)[0, 1])
    for label in (1.0, -1.0):
        found = sollich_evidence(1e10 * RBF(), X, np.array([1.0, label]), draws=100_000)
        exact = np.log(0.25 + label * np.arcsin(rho) / (2 * np.pi))
        assert found.value == pytest.approx(exact, abs=4 * found.error + 1e-4)


def test_larger_table_knows_its_error(rng: np.random.Generator) -> None:
    """n = 25, as in the design's example: the integral has an optimum, the normaliser fades."""
    X = rng.normal(size=(25, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    parts = []
    for variance in (1.0, 10.0, 100.0, 1000.0):
        kernel = variance * RBF(2.0)
        first = sollich_evidence(kernel, X, y, rng=0)
        second = sollich_evidence(kernel, X, y, rng=1)
        gap = abs(first.value - second.value)
        assert gap < 4 * np.hypot(first.error, second.error)
        assert first.error < 0.05
        assert first.effective_draws > 500
        parts.append(first.value - first.log_integral)
    # n log kappa - log N_n: from the hinge's missing mass to nothing
    assert abs(parts[-1]) < 0.1 < abs(parts[0])


def test_order_and_sign_do_not_matter(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(8, 2)), np.where(rng.random(8) < 0.5, -1.0, 1.0)
    one = sollich_evidence(3.0 * RBF(), X, y, rng=0)
    turned = sollich_evidence(3.0 * RBF(), X[::-1], -y[::-1], rng=1)
    assert one.value == pytest.approx(turned.value, abs=4 * np.hypot(one.error, turned.error))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.array([0.0, 1.0])}, "-1 and \\+1"),
        ({"y": np.array([1.0])}, "must be"),
        ({"C": 0.0}, "C"),
        ({"draws": 1}, "draws"),
    ],
)
def test_refuses(change: dict, words: str) -> None:
    given = {"X": np.zeros((2, 1)), "y": np.array([1.0, -1.0]), **change}
    with pytest.raises(ValueError, match=words):
        sollich_evidence(RBF(), **given)


def test_refuses_an_indefinite_matrix() -> None:
    with pytest.raises(ValueError, match="semidefinite"):
        square_root(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_data_sets_come_as_often_as_their_evidence_says() -> None:
    """Two places, two rows: the eight data sets against their probabilities."""
    places, kernel, C = np.array([[0.0], [0.8]]), 3.0 * RBF(1.0), 0.7
    rng, count, total = np.random.default_rng(0), {}, 1500
    tries = 0
    for _ in range(total):
        made = sollich_sample(kernel, places, 2, C, rng=rng)
        key = tuple(zip((made.X[:, 0] > 0.4).tolist(), made.y.tolist(), strict=True))
        count[key] = count.get(key, 0) + 1
        tries += made.tries
    K = kernel(places)
    L = np.linalg.cholesky(K)
    f = np.random.default_rng(1).normal(size=(100_000, 2)) @ L.T
    like = {
        (a, y): np.exp(log_expit(2 * C) - C * np.maximum(1 - y * f[:, int(a)], 0))
        for a in (False, True)
        for y in (-1.0, 1.0)
    }
    weights = {
        pair: float((like[pair[0]] * like[pair[1]]).mean())
        for pair in itertools.product(like, repeat=2)
    }
    mass = sum(weights.values())
    assert total / tries == pytest.approx(mass / 4, rel=0.1)  # the chance to be kept
    for pair, weight in weights.items():
        wanted = total * weight / mass
        assert abs(count.get(pair, 0) - wanted) < 4.5 * np.sqrt(wanted) + 1
    with pytest.raises(ValueError, match="fewer rows"):
        sollich_sample(1e-6 * RBF(), places, 200, 5.0, tries=10)
