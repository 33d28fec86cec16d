"""Third and fourth derivatives of the Gaussian averages against closed forms and the quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from mercer.losses import Loss
from mercer.losses.numbers import quadrature
from mercer.losses.numbers import quadrature as averages

from .cases import name

M = np.linspace(-6.0, 6.0, 25)


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
