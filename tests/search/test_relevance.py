"""The relevance search against dense algebra, brute force and known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from mercer._native import relevance as native
from mercer.kernels import RBF
from mercer.losses import Logistic
from mercer.search.relevance.climb import Scan, climb
from mercer.search.relevance.kernel import Setting, slope_in_functions, tuned
from mercer.search.relevance.machines import GaussianMachine, LaplaceMachine
from mercer.search.relevance.null import judged
from mercer.search.relevance.state import Design
from tests.reference import relevance as slow
from tests.reference.relevance import best_precision, share


def regression(rng, n=60, bias=True, noise=0.2):
    x = np.sort(rng.uniform(-5, 5, n))[:, None]
    t = np.sin(x[:, 0]) + noise * rng.normal(size=n) + (1.0 if bias else 0.0)
    flat = np.ones((n, int(bias)))
    return x, t, Design(RBF(1.0)(x), flat, np.ones(n))


def unit(design):
    return design.Phi / design.lengths


@pytest.mark.parametrize("bias", [False, True])
def test_state_is_the_dense_answer(rng, bias) -> None:
    _x, t, design = regression(rng, bias=bias)
    machine = GaussianMachine(design, t)
    active, prior, beta = (3, 20, 41), np.array([0.5, 2.0, 0.1]), 30.0
    state = machine.evaluate(active, prior, beta)
    F, flat = unit(design)[:, list(active)], design.flat if bias else None
    assert state.evidence == pytest.approx(slow.evidence(F, prior, beta, t, flat), rel=1e-10)
    S, Q, _ = machine.outside(state)
    expected = slow.sparsity_and_quality(F, prior, beta, t, unit(design), flat)
    np.testing.assert_allclose(S, expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(Q, expected[1], rtol=1e-7, atol=1e-7)


def test_weights_are_copies(rng) -> None:
    _x, t, design = regression(rng, n=20)
    counts = rng.integers(1, 4, size=20)
    rows = np.repeat(np.arange(20), counts)
    many = t[rows] + 0.1 * rng.normal(size=len(rows))
    mean = np.bincount(rows, many) / counts
    spread = float(((many - mean[rows]) ** 2).sum())
    merged = GaussianMachine(
        Design(design.Phi, design.flat, counts.astype(float)), mean, spread=spread
    )
    whole = GaussianMachine(Design(design.Phi[rows], design.flat[rows], np.ones(len(rows))), many)
    a = merged.evaluate((2, 9), np.array([0.3, 0.7]), 5.0)
    b = whole.evaluate((2, 9), np.array([0.3, 0.7]), 5.0)
    assert a.evidence == pytest.approx(b.evidence, rel=1e-11)
    np.testing.assert_allclose(a.mu, b.mu, rtol=1e-9)


def test_gains_are_those_of_the_evidence(rng) -> None:
    _x, t, design = regression(rng)
    machine = GaussianMachine(design, t)
    state = machine.evaluate((5, 30), np.array([0.2, 0.4]), 20.0)
    scan = Scan(machine, state)
    chosen, alphas, first = scan.additions(set(), 1e-3)
    assert len(chosen) > 1
    assert len(set(chosen)) == len(chosen)
    one = machine.evaluate((5, 30, chosen[0]), np.append(state.prior, alphas[0]), 20.0)
    assert one.evidence - state.evidence == pytest.approx(first, rel=1e-8)
    S, Q, _ = machine.outside(one)  # the updates of rank one against a fresh start
    assert alphas[1] == pytest.approx(best_precision(S[chosen[1]], Q[chosen[1]]), rel=1e-6)
    brute = max(
        machine.evaluate((5, 30, i), np.append(state.prior, best), 20.0).evidence
        for i in range(len(t))
        if i not in (5, 30)
        if np.isfinite(best := best_precision(scan.S[i], scan.Q[i]))
    )
    assert one.evidence == pytest.approx(brute, rel=1e-12)


def test_exchanges_are_those_of_the_evidence(rng) -> None:
    _x, t, design = regression(rng)
    machine = GaussianMachine(design, t)
    state = machine.evaluate((5, 30), np.array([0.2, 0.4]), 20.0)
    moves = Scan(machine, state).exchanges(1e-3)
    assert moves
    for move in moves:
        active, prior = list(state.active), state.prior.copy()
        active[move.goes], prior[move.goes] = move.comes, move.alpha
        new = machine.evaluate(tuple(active), prior, 20.0)
        assert new.evidence - state.evidence == pytest.approx(move.gain, rel=1e-6)


@pytest.mark.parametrize(("s", "q"), [(1.0, 3.0), (0.01, 0.2), (5.0, 2.4)])
def test_best_precision_is_the_maximum(s, q) -> None:
    """Of the reference, and the gain of the compiled search is the share there."""
    found = minimize_scalar(lambda u: -share(np.exp(u), s, q), bounds=(-20, 20))
    assert np.exp(found.x) == pytest.approx(best_precision(s, q), rel=1e-3)
    one, V = np.zeros(1), np.zeros((1, 1))
    chosen, alphas, gain = native.additions(
        lambda i: one, 1.0, one + s, one + q, one, V, 0, 1e-9, 0.1, 1, 0.0
    )
    assert chosen == [0]
    assert alphas[0] == pytest.approx(best_precision(s, q), rel=1e-12)
    assert gain == pytest.approx(share(alphas[0], s, q), rel=1e-9)
    assert native.additions(
        lambda i: one, 1.0, one + 2.0, one + 1.0, one, V, 0, 1e-9, 0.1, 1, 0.0
    ) == ([], [], 0.0)
    assert best_precision(2.0, 1.0) == np.inf


@pytest.mark.parametrize("bias", [False, True])
def test_evidence_rises_at_every_step_and_ends_stationary(rng, bias) -> None:
    _x, t, design = regression(rng, bias=bias)
    machine = GaussianMachine(design, t)
    run = climb(machine, tol=1e-3)
    assert run.converged
    assert np.all(np.diff(run.trace) > 0.0)
    assert run.trace[-1] == pytest.approx(run.state.evidence, rel=1e-9)
    state = run.state
    for j in range(len(state.active)):
        sides = []
        for h in (1e-5, -1e-5):
            prior = state.prior.copy()
            prior[j] *= np.exp(h)
            sides.append(machine.evaluate(state.active, prior, state.beta).evidence)
        assert abs(sides[0] - sides[1]) / 2e-5 < 2e-3
    up = machine.evaluate(state.active, state.prior, state.beta * np.exp(1e-5)).evidence
    down = machine.evaluate(state.active, state.prior, state.beta * np.exp(-1e-5)).evidence
    assert abs(up - down) / 2e-5 < 2e-3


def test_the_search_is_deterministic(rng) -> None:
    _x, t, design = regression(rng)
    first, second = (climb(GaussianMachine(design, t)) for _ in range(2))
    assert first.state.active == second.state.active
    assert first.trace == second.trace


def test_smooth_kernels_keep_their_digits() -> None:
    """methods 8.2: noise-free sinc, noise 0.01; explicit inverses break down here."""
    x = np.linspace(0, 20, 100)
    t = np.sinc((x - 10) / np.pi)
    low = np.minimum(x[:, None], x)
    spline = 1 + x[:, None] * x + np.abs(x[:, None] - x) * low**2 / 2 + low**3 / 3
    run = climb(GaussianMachine(Design(spline, np.ones((100, 0)), np.ones(100)), t, noise=1e-4))
    assert run.state.evidence == pytest.approx(311.54, abs=0.02)
    assert len(run.state.active) == 8
    for ell, bar in ((4.0, 301.08), (2.0, 329.05)):  # the constant is one of the functions
        Phi = np.hstack([np.ones((100, 1)), RBF(ell)(x[:, None])])
        run = climb(GaussianMachine(Design(Phi, np.ones((100, 0)), np.ones(100)), t, noise=1e-4))
        assert run.state.evidence > bar
        assert np.all(np.diff(run.trace) > 0.0)


def test_duplicate_and_collinear_functions(rng) -> None:
    _x, t, design = regression(rng)
    alone = climb(GaussianMachine(design, t))
    Phi = design.Phi
    twice = np.column_stack([Phi, Phi, -3.0 * Phi, np.zeros(60), np.ones(60)])
    run = climb(GaussianMachine(Design(twice, design.flat, design.weights), t))
    assert run.converged
    assert run.state.evidence > alone.state.evidence - 0.5  # local maxima differ a little
    assert max(run.state.active) < 180  # neither the zero column nor the second constant
    assert len({i % 60 for i in run.state.active}) == len(run.state.active)  # no function twice


def test_pure_noise_is_the_constant() -> None:
    empty = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-5, 5, (80, 1))
        design = Design(RBF(1.0)(x), np.ones((80, 1)), np.ones(80))
        machine = GaussianMachine(design, rng.normal(size=80))
        state, report = judged(machine, climb(machine).state)
        empty += not state.active
        if report["kept"]:
            assert state.beta == pytest.approx(79 / np.sum((machine.t - machine.t.mean()) ** 2))
    assert empty == 10


def test_a_signal_is_not_taken_for_noise(rng) -> None:
    x = np.sort(rng.uniform(0, 20, 150))[:, None]  # many bumps: no single function fits well
    design = Design(RBF(0.4)(x), np.ones((150, 1)), np.ones(150))
    machine = GaussianMachine(design, np.sin(4 * x[:, 0]) + 0.2 * rng.normal(size=150))
    state, report = judged(machine, climb(machine).state)
    assert not report["kept"]
    assert len(state.active) > 10


def labels(rng, n=100):
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, Design(RBF(1.0)(X), np.ones((n, 1)), np.ones(n))


def test_laplace_state(rng) -> None:
    _X, y, design = labels(rng)
    machine = LaplaceMachine(design, y, Logistic())
    active, prior = (2, 50, 77), np.array([0.1, 0.3, 0.05])
    state = machine.evaluate(active, prior, 1.0)
    F = np.column_stack([np.ones(100), unit(design)[:, list(active)]])
    A = np.diag([0.0, *prior])
    f = F @ state.mu
    p = 1 / (1 + np.exp(-f))
    np.testing.assert_allclose(F.T @ ((y + 1) / 2 - p) - A @ state.mu, 0.0, atol=1e-6)
    hessian = F.T @ ((p * (1 - p))[:, None] * F) + A
    value = -np.log1p(np.exp(-y * f)).sum() - 0.5 * state.mu @ A @ state.mu
    value += 0.5 * np.log(prior).sum() - 0.5 * np.linalg.slogdet(hessian)[1]
    assert state.evidence == pytest.approx(value + 0.5 * np.log(2 * np.pi), rel=1e-9)
    _, Q, _ = machine.outside(state)
    np.testing.assert_allclose(Q, unit(design).T @ ((y + 1) / 2 - p), atol=1e-8)


def test_laplace_evidence_near_importance_sampling(rng) -> None:
    _X, y, design = labels(rng)
    design = Design(design.Phi, np.ones((100, 0)), design.weights)
    machine = LaplaceMachine(design, y, Logistic())
    state = machine.evaluate((2, 50, 77), np.array([0.1, 0.3, 0.05]), 1.0)
    R = state.factor.R
    z = rng.standard_normal((3, 20000))
    w = state.mu[:, None] + np.linalg.solve(R, z)
    fit = -np.logaddexp(0.0, -y * (w.T @ state.F)).sum(axis=1)
    prior = 0.5 * (np.log(state.prior).sum() - (state.prior @ w**2))
    proposal = np.log(np.abs(np.diagonal(R))).sum() - 0.5 * (z**2).sum(axis=0)
    weights = fit + prior - proposal
    sampled = np.logaddexp.reduce(weights) - np.log(len(weights))
    assert state.evidence == pytest.approx(sampled, abs=0.3)


def test_laplace_evidence_rises(rng) -> None:
    _X, y, design = labels(rng, 200)
    run = climb(LaplaceMachine(design, y, Logistic()))
    assert run.converged
    assert len(run.trace) > 3
    assert np.all(np.diff(run.trace) > 0.0)


@pytest.mark.parametrize("kind", ["gaussian", "logistic"])
def test_slope_in_the_length_scales(rng, kind) -> None:
    n = 50
    X = rng.uniform(-3, 3, (n, 2))
    t = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    w = rng.uniform(0.5, 2.0, n)
    centres = X[[3, 10, 30]]

    def at(scales):
        design = Design(RBF(scales)(X, centres), np.ones((n, 1)), w)
        if kind == "gaussian":
            machine = GaussianMachine(design, t)
        else:
            machine = LaplaceMachine(design, np.sign(t), Logistic())
        return machine, machine.evaluate((0, 1, 2), np.array([0.4, 0.1, 0.9]), 7.0)

    machine, state = at(np.array([1.0, 1.5]))
    slope = RBF(np.array([1.0, 1.5])).pullback(X, centres, slope_in_functions(machine, state))
    for i, step in enumerate(np.eye(2) * 1e-5):
        up, down = (at(np.array([1.0, 1.5]) + sign * step)[1].evidence for sign in (1, -1))
        assert np.ravel(slope["length_scale"])[i] == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_the_length_scale_is_found(rng) -> None:
    x = np.linspace(-10, 10, 120)[:, None]
    t = np.sinc(x[:, 0] / np.pi) + 0.1 * rng.normal(size=120)
    setting = Setting(x, x, np.ones((120, 1)), np.ones(120), (lambda d: GaussianMachine(d, t),))
    kernel, (run,), report = tuned(setting, RBF(8.0))
    assert 0.5 < kernel.length_scale < 4.0
    assert run.state.evidence >= max(report["rungs"]) - 20.0
    assert report["shortest"] == pytest.approx(20 / 119)


def test_settle_refuses_shapes() -> None:
    with pytest.raises(ValueError, match="shapes"):
        native.settle(
            native.Room(), np.eye(2), np.ones(3), np.ones(1), 1.0, 1.0, 3.0, True, 1e6, 1e-6, 10
        )


def test_steps_are_limited(rng) -> None:
    _x, t, design = regression(rng)
    run = climb(GaussianMachine(design, t), max_iter=2)
    assert not run.converged
    assert sum(run.counts.values()) <= 4


def test_settling_reaches_the_optimum_of_a_given_set(rng) -> None:
    """Compiled Newton steps against a general optimiser on the dense evidence."""
    _, _, design = regression(rng, bias=False)
    F = unit(design)[:, [5, 20, 40]]
    t = F @ np.array([4.0, -5.0, 3.0]) + 0.3 * rng.normal(size=60)  # all three are needed
    alpha = np.ones(3)
    beta, steps, deleted, _, _ = native.settle(
        native.Room(), F.T @ F, F.T @ t, alpha, 3.0, float(t @ t), 60.0, True, 1e8, 1e-10, 1000
    )
    assert deleted == 0
    found = minimize(
        lambda u: -slow.evidence(F, np.exp(u[:3]), np.exp(u[3]), t),
        np.zeros(4),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 5000, "maxfev": 5000},
    )
    np.testing.assert_allclose(np.log([*alpha, beta]), found.x, atol=1e-3)
    value = steps[-1] - 30.0 * np.log(2 * np.pi)
    assert value == pytest.approx(-found.fun, abs=1e-6)
    assert np.all(np.diff(steps) > 0.0)


def test_settling_deletes_what_does_not_help(rng) -> None:
    _, t, design = regression(rng, bias=False)
    F = np.column_stack([unit(design)[:, [8, 25, 45]], rng.normal(size=(60, 4)) / 8])
    alpha = np.ones(7)
    beta, _steps, deleted, _, _ = native.settle(
        native.Room(), F.T @ F, F.T @ t, alpha, 20.0, float(t @ t), 60.0, False, np.inf, 1e-10, 1000
    )
    assert beta == 20.0
    assert deleted > 0
    kept = np.isfinite(alpha)
    assert not kept.all()
    S, Q = slow.sparsity_and_quality(F[:, kept], alpha[kept], 20.0, t, F[:, ~kept])
    assert np.all(Q**2 <= S)  # none of them wants in
