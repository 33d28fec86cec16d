"""The last steps under Laplace's evidence, against differences and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import RVClassifier
from mercer.kernels import RBF
from mercer.losses import Logistic, Probit
from mercer.search.relevance.bend import bent_pull, bent_weights, least_precision
from mercer.search.relevance.climb import Scan, climb
from mercer.search.relevance.machines import LaplaceMachine
from mercer.search.relevance.state import Design, SparseState


def labels(seed: int) -> LaplaceMachine:
    """A table of labels: a product, a wave or a plane with noise, by the seed."""
    rng = np.random.default_rng(seed)
    n, scale = ((40, 1.0), (60, 0.5), (100, 2.0))[seed % 3]
    X = rng.normal(size=(n, 2))
    f = (X[:, 0] * X[:, 1], np.sin(2 * X[:, 0]) * np.cos(X[:, 1]), X[:, 0])[seed // 3 % 3]
    y = np.where(f + (0.6, 0.3, 1.0)[seed // 9 % 3] * rng.normal(size=n) > 0, 1.0, -1.0)
    return LaplaceMachine(Design(RBF(scale)(X), np.ones((n, 1)), np.ones(n)), y, Logistic())


@pytest.mark.parametrize("loss", [Logistic(), Probit()])
def test_slopes_of_the_evidence_are_its_differences(loss) -> None:
    machine = labels(0)
    machine.loss = loss
    active, prior = (2, 20, 31), np.array([0.1, 0.3, 0.05])
    state = machine.evaluate(active, prior, 1.0)
    slope = 0.5 * (1.0 - prior * (state.variances + bent_weights(machine, state) ** 2)[1:])
    for j, step in enumerate(np.eye(3) * 1e-4):
        up, down = (machine.evaluate(active, prior * np.exp(s * step), 1.0) for s in (1, -1))
        assert slope[j] == pytest.approx((up.evidence - down.evidence) / 2e-4, abs=1e-6)
    scan = Scan(machine, state)
    pull = bent_pull(machine, state, scan.Q)
    for i in np.flatnonzero(pull)[[3, 9]]:
        grown = machine.evaluate((*active, int(i)), np.append(prior, 1e6), 1.0)
        expected = 0.5 * (pull[i] ** 2 - scan.S[i])
        assert (grown.evidence - state.evidence) * 1e6 == pytest.approx(expected, rel=1e-2)


def ascended(machine: LaplaceMachine, state: SparseState) -> SparseState:
    """Climb by one precision after the other, in steps of many sizes, as far as it goes."""
    least, before = least_precision(machine), -np.inf
    while state.evidence > before + 1e-5:
        before = state.evidence
        for j in range(len(state.active)):
            for step in (1.0, -1.0, 0.2, -0.2, 0.04, -0.04):
                prior = state.prior.copy()
                prior[j] *= np.exp(step)
                new = machine.evaluate(state.active, prior, 1.0, state)
                if prior[j] >= least and new.evidence > state.evidence:
                    state = new
    return state


@pytest.mark.parametrize("seed", [0, 1, 3, 7, 8, 10, 13, 16, 19, 25])
def test_the_search_ends_where_the_evidence_does(seed) -> None:
    machine = labels(seed)
    run = climb(machine)
    assert run.converged
    assert np.all(np.diff(run.trace) > 0.0)
    assert ascended(machine, run.state).evidence < run.state.evidence + 1e-3


SLOW = [seed for seed in range(25) if seed not in (1, 6)]


@pytest.mark.parametrize(
    "seed", [1, 6, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)]
)
def test_no_single_step_raises_the_evidence(seed) -> None:
    """Brute force: no function outside gains by coming in, at any precision, nor one inside."""
    machine = labels(seed)
    run = climb(machine)
    state, least = run.state, least_precision(machine)
    assert run.converged
    tried = [0.0]

    def gains(active: tuple[int, ...], prior: np.ndarray) -> None:
        tried.append(machine.evaluate(active, prior, 1.0, state).evidence - state.evidence)

    outside = set(np.flatnonzero(machine.design.usable)) - set(state.active)
    for i in outside:
        for alpha in np.maximum(least, np.exp(np.arange(-9.0, 3.0, 1.5))):
            gains((*state.active, int(i)), np.append(state.prior, alpha))
    for j in range(len(state.active)):
        gains(state.active[:j] + state.active[j + 1 :], np.delete(state.prior, j))
        for step in np.linspace(-4.0, 4.0, 17):
            prior = state.prior.copy()
            prior[j] = max(least, prior[j] * np.exp(step))
            gains(state.active, prior)
    assert max(tried) < 0.01


def test_labels_that_can_be_separated_do_not_run_away(rng) -> None:
    X = np.concatenate([rng.normal(size=(20, 2)) - 4.0, rng.normal(size=(20, 2)) + 4.0])
    y = np.repeat([0, 1], 20)
    for scale in (1.0, 5.0):
        model = RVClassifier(RBF(scale)).fit(X, y)
        right = model.predict_proba(X)[np.arange(40), y]
        assert np.median(right) > 0.9  # weights without end have deviations without end: one half
