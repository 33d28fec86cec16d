"""Held at a kink or on a line: the last digits of modes under straight-line losses."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from mercer.inference import Dual
from mercer.inference.base import Task
from mercer.inference.mode.dual import duality_gap, resolve
from mercer.kernels import RBF, White
from mercer.linalg import DenseGram

LOSSES = [losses.Hinge(C=1.0), losses.EpsilonInsensitive(epsilon=0.2), losses.Pinball(0.3)]


def problem(loss, n=40):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.4 * rng.normal(size=n)
    y = np.sign(f) if loss.response == "binary" else f
    return DenseGram(50.0 * RBF(0.8) + White(1e-4), X, keep=True), y, rng


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("k", [0, 1])
def test_a_disturbed_mode_comes_back(loss, k) -> None:
    gram, y, rng = problem(loss)
    n, mean, w = len(y), 0.1 * rng.normal(size=len(y)), rng.uniform(0.5, 2.0, len(y))
    H = np.ones((n, k))
    solution = Dual().solve(gram, y[:, None], loss, mean=mean[:, None], basis=H, weights=w)
    a, f = solution.alpha[:, 0], solution.z[:, 0]
    off = a + 1e-7 * rng.normal(size=n)
    task = Task(gram, y, loss, w, mean, H)
    found = resolve(task, off, f + 1e-7 * rng.normal(size=n))
    assert found is not None
    new, b = found
    assert b.shape == (k,)
    smooth = mean + gram.matrix @ new
    gap = duality_gap(task, new, smooth + H @ b, smooth)
    assert abs(gap) < 1e-11 * max(1.0, solution.report.details["objective"])
    assert np.abs(H.T @ new).max(initial=0.0) < 1e-10
    assert np.abs(new - a).max() < 1e-6


def test_a_singular_system_is_left_alone() -> None:
    loss = losses.Hinge(C=1.0)
    X, y = np.zeros((2, 1)), np.ones(2)
    gram = DenseGram(RBF(), X, keep=True)  # one point twice, and both held
    half = np.full(2, 0.5)
    assert resolve(Task(gram, y, loss, np.ones(2), np.zeros(2)), half, y) is None


@pytest.mark.parametrize("variance", [1.0, 50.0, 5000.0])
def test_separable_modes_reach_the_gap_asked_for(variance) -> None:
    """Rounding of f divided by the proximal width had left 1e-9 here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 12))
    y = np.sign(np.square(X).sum(axis=1) - 11.0)
    gram = DenseGram(variance * (RBF(6.0) + White(1e-6)), X, keep=True)
    report = Dual().solve(gram, y[:, None], losses.Hinge(C=1.0)).report
    assert report.converged
    assert report.gap <= 1e-10 * max(1.0, report.details["objective"])
