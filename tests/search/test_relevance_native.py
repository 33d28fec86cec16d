"""The compiled parts of the relevance search, at sizes that do and do not fill their tiles."""

from __future__ import annotations

import numpy as np
import pytest

from mercer._native import relevance as native
from mercer.kernels import RBF, Matern
from mercer.search.relevance import climb as search
from mercer.search.relevance.kernel import spanning
from mercer.search.relevance.machines import GaussianMachine
from mercer.search.relevance.state import Design, Spanned
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
    m, beta = 9, 3.0
    Phi, t = rng.normal(size=(30, m)), 3.0 * rng.normal(size=30)
    inside, prior = rng.normal(size=(30, p)), np.exp(rng.normal(size=p))
    S, Q = slow.sparsity_and_quality(inside, prior, beta, t, Phi)
    R = np.linalg.cholesky(beta * inside.T @ inside + np.diag(prior)).T
    V = np.vstack([beta * np.linalg.solve(R.T, inside.T @ Phi), np.zeros((m, m))])
    (first, second, *_), alphas, gain = native.additions(
        lambda i: Phi[:, i] @ Phi, beta, S, Q, np.zeros(m), V, p, 1e-6, 0.0, m, 0.0
    )
    assert first == np.argmax(Q**2 / S)
    more, prior = np.column_stack([inside, Phi[:, first]]), np.append(prior, alphas[0])
    without, within = (
        slow.evidence(F, a, beta, t) for F, a in ((inside, prior[:-1]), (more, prior))
    )
    assert within - without == pytest.approx(gain, rel=1e-9)
    S, Q = slow.sparsity_and_quality(more, prior, beta, t, Phi)
    assert alphas[1] == pytest.approx(S[second] ** 2 / (Q[second] ** 2 - S[second]), rel=1e-7)
    np.testing.assert_allclose(
        beta * np.sum(Phi**2, axis=0) - np.sum(V[: p + 1] ** 2, axis=0), S, rtol=1e-9, atol=1e-12
    )


def test_closed_candidates_stay_out(rng) -> None:
    S, Q, least = np.ones(20), np.arange(3.0, 23.0), np.zeros(20)
    for i in range(19, 14, -1):
        chosen, _, _ = native.additions(
            lambda i: np.zeros(20), 1.0, S, Q, least, np.zeros((1, 20)), 0, 0.1, 0.1, 1, 0.0
        )
        assert chosen == [i]
        least[i] = -1.0
    assert native.additions(
        lambda i: np.zeros(20), 1.0, S, Q, 0 * S - 1, np.zeros((1, 20)), 0, 0.1, 0.1, 1, 0.0
    ) == ([], [], 0.0)


def _candidates(rng, n=12, m=7):
    Phi = rng.normal(size=(n, m))
    given = np.ones(m), np.ones(n), rng.normal(size=n), np.ones((1, n)), Phi.sum(axis=0)[None]
    return Phi, native.Candidates(Phi, None, *given, Phi.T @ given[2], 0.0, None)


def test_products_formed_singly_and_together_agree(rng) -> None:
    """From some number of products on all are formed in one go."""
    Phi, t = rng.normal(size=(40, 90)), rng.normal(size=40)
    given = np.ones(90), np.ones(40), t, np.ones((1, 40)), Phi.sum(axis=0)[None], t @ Phi, 0.0
    asked = []
    held = native.Candidates(Phi, None, *given, lambda: asked.append(1) or Phi.T @ Phi)
    for i in range(90):
        row = np.empty((2, 90))
        held.products(np.array([i]), row)
        np.testing.assert_allclose(row[1], Phi[:, i] @ Phi, rtol=1e-12, atol=1e-12)
    assert asked == [1]


def test_shapes_are_checked(rng) -> None:
    three, four = np.zeros(3), np.zeros(4)
    with pytest.raises(ValueError, match="shapes"):
        native.additions(lambda i: three, 1.0, three, four, three, np.zeros((9, 3)), 0, 1, 1, 1, 0)
    with pytest.raises(ValueError, match="shapes"):  # no row is left
        native.additions(lambda i: three, 1.0, three, three, three, np.zeros((2, 3)), 2, 1, 1, 2, 0)
    with pytest.raises(ValueError, match="shapes"):
        native.additions(
            lambda i: four, 1.0, three + 1, three + 9, three, np.zeros((9, 3)), 0, 1, 1, 2, 0
        )
    with pytest.raises(ValueError, match="shapes"):
        _candidates(rng)[1].products(np.array([0, 1]), np.zeros((2, 7)))


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


def test_a_smooth_kernel_spans_few_functions(rng) -> None:
    """The search among them is that among all columns of the matrix."""
    x = rng.uniform(-10, 10, (420, 1))
    t, weights = np.sinc(x[:, 0] / np.pi) + 0.1 * rng.normal(size=420), rng.uniform(0.5, 2.0, 420)
    L = spanning(RBF(2.0), x)
    assert L is not None
    assert L.shape[1] < 52
    whole = Design(RBF(2.0)(x), np.ones((420, 1)), weights)
    few = Spanned(L, whole.flat, weights)
    V = rng.normal(size=(2, 420))
    np.testing.assert_allclose(few.lengths, whole.lengths, rtol=1e-11)
    np.testing.assert_allclose(few.dots(V), whole.dots(V), atol=1e-11)
    np.testing.assert_allclose(few.column(7), whole.column(7), atol=1e-12)
    b = rng.uniform(0.1, 1.0, 420)
    np.testing.assert_allclose(few.unit_squares(b), whole.unit_squares(b), rtol=1e-10)
    runs = [search.climb(GaussianMachine(design, t)) for design in (few, whole)]
    assert set(runs[0].state.active) == set(runs[1].state.active)
    assert runs[0].state.evidence == pytest.approx(runs[1].state.evidence, abs=1e-8)


def test_kernels_that_span_all_rows_are_left_as_they_are(rng) -> None:
    assert spanning(RBF(1.0), rng.uniform(size=(399, 1))) is None  # few rows
    assert spanning(RBF(0.01), rng.uniform(size=(400, 1))) is None  # a function for each row
    assert spanning(Matern(0.3), rng.uniform(size=(400, 1))) is None


@pytest.mark.parametrize("wavelength", [1.0, 12.0])
def test_a_climb_ends_where_nothing_is_left_to_gain(rng, wavelength) -> None:
    """Models of few functions and of many, which BLAS sees, against the dense covariance."""
    x = np.sort(rng.uniform(0, 20, 160))[:, None]
    t = np.sin(2 * np.pi * x[:, 0] / wavelength) + 0.1 * rng.normal(size=160)
    design = Design(RBF(0.25 * wavelength)(x), np.ones((160, 0)), np.ones(160))
    run = search.climb(GaussianMachine(design, t), tol=1e-3)
    state, unit = run.state, design.Phi / design.lengths
    assert run.converged
    assert (len(state.active) > 24) == (wavelength < 2.0)
    F = unit[:, list(state.active)]
    found = slow.evidence(F, state.prior, state.beta, t)
    assert run.trace[-1] == pytest.approx(state.evidence, rel=1e-12)
    assert state.evidence == pytest.approx(found, abs=1e-6)
    S, Q = slow.sparsity_and_quality(F, state.prior, state.beta, t, unit)
    outside = np.setdiff1d(np.arange(160), state.active)
    ratio = np.maximum(Q[outside] ** 2 / np.maximum(S[outside], 1e-6), 1.0)
    assert np.max(0.5 * (ratio - 1.0 - np.log(ratio))) < 1e-3
    for j in range(len(state.active)):  # nor by one in the place of another
        rest = np.arange(len(state.active)) != j
        S, Q = slow.sparsity_and_quality(F[:, rest], state.prior[rest], state.beta, t, unit)
        gains = slow.evidence(F[:, rest], state.prior[rest], state.beta, t) - found
        ratio = np.maximum(Q[outside] ** 2 / np.maximum(S[outside], 1e-6), 1.0)
        assert np.max(gains + 0.5 * (ratio - 1.0 - np.log(ratio))) < 1.1e-3
