"""The compiled parts of the relevance search, at sizes that do and do not fill their tiles."""

from __future__ import annotations

import numpy as np
import pytest

from mercer._native import relevance as native
from mercer.kernels import RBF
from mercer.search.relevance import climb as search
from mercer.search.relevance.machines import GaussianMachine
from mercer.search.relevance.state import Design
from tests.reference import relevance as slow


def settled(F, t, alpha, beta, learns, tol, limit=1000):
    alpha = alpha.copy()
    beta, steps, *counts = native.settle(
        native.Room(),
        np.ascontiguousarray(F.T @ F),
        F.T @ t,
        alpha,
        beta,
        float(t @ t),
        float(len(t)),
        learns,
        1e8,
        tol,
        limit,
    )
    return alpha, beta, np.array(steps) - 0.5 * len(t) * np.log(2 * np.pi), counts


@pytest.mark.parametrize("p", [1, 3, 15, 16, 17, 33, 64, 70])
def test_evidence_of_any_number_of_functions(rng, p) -> None:
    F = rng.normal(size=(120, p)) / 11.0
    t = rng.normal(size=120)
    alpha = np.exp(rng.normal(size=p))
    _, _, steps, _ = settled(F, t, alpha, 2.5, True, 1e99)
    assert steps[0] == pytest.approx(slow.evidence(F, alpha, 2.5, t), rel=1e-11)


@pytest.mark.parametrize("p", [15, 33])
def test_settled_precisions_have_no_slope(rng, p) -> None:
    F = rng.normal(size=(200, p)) / 14.0
    t = F @ rng.normal(scale=6.0, size=p) + 0.3 * rng.normal(size=200)
    alpha, beta, steps, _ = settled(F, t, np.ones(p), 1.0, True, 1e-12)
    assert np.all(np.diff(steps) > 0.0)
    kept = np.isfinite(alpha)
    F, u = F[:, kept], np.log([*alpha[kept], beta])
    assert steps[-1] == pytest.approx(slow.evidence(F, alpha[kept], beta, t), rel=1e-11)

    def at(v):
        return slow.evidence(F, np.exp(v[:-1]), np.exp(v[-1]), t)

    for i in range(len(u)):
        h = 1e-4 * np.eye(len(u))[i]
        assert abs(at(u + h) - at(u - h)) / 2e-4 < 1e-5


@pytest.mark.parametrize("p", [0, 2, 5])
def test_taking_in_is_the_model_with_one_more(rng, p) -> None:
    m, beta, i, alpha = 9, 3.0, 4, 0.7
    Phi, t = rng.normal(size=(30, m)), rng.normal(size=30)
    inside, prior = rng.normal(size=(30, p)), np.exp(rng.normal(size=p))
    S, Q = slow.sparsity_and_quality(inside, prior, beta, t, Phi)
    R = np.linalg.cholesky(beta * inside.T @ inside + np.diag(prior)).T
    V = np.vstack([beta * np.linalg.solve(R.T, inside.T @ Phi), np.zeros((2, m))])
    native.take_in(beta * Phi[:, i] @ Phi, V, p, i, alpha, S, Q)
    more = np.column_stack([inside, Phi[:, i]])
    expected = slow.sparsity_and_quality(more, np.append(prior, alpha), beta, t, Phi)
    np.testing.assert_allclose(S, expected[0], rtol=1e-9)
    np.testing.assert_allclose(Q, expected[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        beta * np.sum(Phi**2, axis=0) - np.sum(V[: p + 1] ** 2, axis=0), S, rtol=1e-9
    )


def test_the_best_candidate_is_open(rng) -> None:
    S, Q = np.exp(rng.normal(size=20)), rng.normal(size=20)
    least = np.zeros(20)
    order = np.argsort(-(Q**2) / S)
    for i in order[:5]:
        assert native.best(S, Q, least) == (i, pytest.approx(Q[i] ** 2 / S[i]))
        least[i] = np.inf
    assert native.best(S, Q, np.full(20, np.inf)) == (-1, 0.0)


def test_rows_are_mixed_and_gathered(rng) -> None:
    rows, places, columns = rng.normal(size=(12, 7)), np.array([3, 0, 11, 5, 9]), np.array([6, 1])
    c, out = rng.normal(size=5), np.zeros(7)
    native.mix(rows, places, c, out)
    np.testing.assert_allclose(out, c @ rows[places], rtol=1e-13, atol=1e-14)
    block = np.empty((5, 2))
    native.gather(rows, places, columns, block)
    np.testing.assert_array_equal(block, rows[np.ix_(places, columns)])


@pytest.mark.parametrize("bad", [-1, 12])
def test_rows_out_of_range_are_refused(bad) -> None:
    rows, places = np.zeros((12, 7)), np.array([bad])
    with pytest.raises(ValueError, match="out of range"):
        native.mix(rows, places, np.ones(1), np.zeros(7))
    with pytest.raises(ValueError, match="out of range"):
        native.gather(rows, places, np.array([0]), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="out of range"):
        native.gather(rows, np.array([0]), np.array([bad]), np.zeros((1, 1)))


def test_shapes_are_checked() -> None:
    three, four = np.zeros(3), np.zeros(4)
    with pytest.raises(ValueError, match="shapes"):
        native.best(three, four, three)
    with pytest.raises(ValueError, match="shapes"):
        native.take_in(three, np.zeros((2, 3)), 2, 0, 1.0, three, three)  # no row is left
    with pytest.raises(ValueError, match="shapes"):
        native.mix(np.zeros((2, 3)), np.array([0, 1]), three, three)
    with pytest.raises(ValueError, match="shapes"):
        native.gather(np.zeros((2, 3)), np.array([0]), np.array([0]), np.zeros((2, 1)))


@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0])
def test_the_noise_begins_below_what_the_data_have(rng, noise) -> None:
    """A few times below, whatever the data: neither far below nor above."""
    x = rng.uniform(-10, 10, (300, 1))
    t = np.sin(x[:, 0]) + noise * rng.normal(size=300)
    design = Design(RBF(1.0)(x), np.ones((300, 1)), np.ones(300))
    begun = 1.0 / search._noise(GaussianMachine(design, t), 1000)
    assert 0.2 < begun * search.KEEN / noise**2 < 5.0


def test_candidates_beyond_the_pool_are_the_same(rng, monkeypatch) -> None:
    """Products formed together and one by one lead the same way."""
    x = rng.uniform(-5, 5, (80, 2))
    t = np.sin(x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=80)
    weights = rng.integers(1, 3, size=80).astype(float)
    design = Design(RBF(1.0)(x), np.ones((80, 1)), weights)
    together = search.climb(GaussianMachine(design, t)).state
    monkeypatch.setattr("mercer.search.relevance.machines.TOGETHER", 0)
    alone = search.climb(GaussianMachine(design, t)).state
    assert set(alone.active) == set(together.active)
    assert alone.evidence == pytest.approx(together.evidence, rel=1e-9)
