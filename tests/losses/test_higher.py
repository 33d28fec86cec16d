"""Third and fourth derivatives of the Gaussian averages against differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from mercer.losses import Loss
from mercer.losses.numbers import quadrature
from mercer.losses.numbers import quadrature as averages

from .cases import SCALAR, name

M = np.linspace(-6.0, 6.0, 25)


@pytest.mark.parametrize("v", [0.01, 0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("loss", SCALAR, ids=name)
def test_higher_against_differences_of_expected(loss: Loss, v: float) -> None:
    """T3 = 2 d2E/dm dv and T4 = 4 d2E/dv2 (heat equation), dE/dv differenced in m and v."""
    y = np.resize(loss.example_targets(np.random.default_rng(3), 9), M.size)
    h = 1e-3 * np.sqrt(v)

    def bend(shift: float, more: float) -> np.ndarray:
        return 2.0 * loss.expected(y, M + shift, np.full(M.size, v + more))[2]

    third, fourth = loss.expected_higher(y, M, np.full(M.size, v))
    slope = (8 * (bend(h, 0) - bend(-h, 0)) - (bend(2 * h, 0) - bend(-2 * h, 0))) / (12 * h)
    k = 1e-3 * v
    curve = (8 * (bend(0, k) - bend(0, -k)) - (bend(0, 2 * k) - bend(0, -2 * k))) / (6 * k)
    size = np.maximum(np.abs(bend(0, 0)), 1e-3) / np.sqrt(v)
    assert np.all(np.abs(third - slope) <= 1e-7 * (np.abs(slope) + size))
    assert np.all(np.abs(fourth - curve) <= 1e-7 * (np.abs(curve) + size / np.sqrt(v)))


CLOSED = [
    losses.Hinge(C=1.5),
    losses.LaplaceNoise(scale=0.7),
    losses.EpsilonInsensitive(C=2.0, epsilon=0.4),
    losses.SquaredHinge(C=2.0),
    losses.Huber(noise=0.5, delta=0.8),
    losses.Gaussian(noise=0.3),
]


@pytest.mark.parametrize("loss", CLOSED, ids=name)
def test_closed_forms_equal_the_quadrature(loss: Loss) -> None:
    y = np.resize(loss.example_targets(np.random.default_rng(3), 9), M.size)
    v = np.resize([0.05, 0.6, 3.0, 20.0], M.size)
    third, fourth = quadrature.by_rows(lambda *a: averages.higher(loss, *a), y, M, v)
    found = loss.expected_higher(y, M, v)
    assert np.allclose(found[0], third, rtol=1e-9, atol=1e-9)
    assert np.allclose(found[1], fourth, rtol=1e-9, atol=1e-8)


def test_a_loss_of_ones_own_needs_no_derivatives() -> None:
    class Plain(Loss):
        response = "binary"

        def value(self, y, f):
            return np.logaddexp(0.0, -y * np.asarray(f))

    y, v = np.ones(M.size), np.resize([0.5, 2.0, 9.0], M.size)
    for mine, theirs in zip(
        Plain().expected_higher(y, M, v), losses.Logistic().expected_higher(y, M, v), strict=True
    ):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-10)
