"""The spline kernel against its integral, its norm and its mirror in other units."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from tests.reference.spline import kernel as reference

from mercer.kernels import Spline


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_is_the_covariance_of_an_integrated_wiener_process(rng, m):
    """GPML (6.28) with min(x, z) as the upper limit, which the book's text leaves out."""
    from math import factorial

    for x, z in rng.uniform(0.0, 3.0, (6, 2)):
        slow = quad(lambda u, x=x, z=z: ((x - u) * (z - u)) ** (m - 1), 0.0, min(x, z))[0]
        slow /= factorial(m - 1) ** 2
        fast = Spline(m, origin=-1.0)(np.array([[x - 1.0]]), np.array([[z - 1.0]]))[0, 0]
        assert fast == pytest.approx(slow, rel=1e-10)
        assert fast == pytest.approx(reference(x, z, m), rel=1e-13)


def test_norm_is_the_integral_of_the_squared_second_derivative(rng):
    x, a = np.sort(rng.uniform(0.0, 1.0, 6)), rng.normal(size=6)
    knots = np.concatenate([[0.0], x])

    def second(t):  # d2/dt2 of k(t, x) is max(x - t, 0)
        return a @ np.maximum(x - t, 0.0)

    slow = sum(quad(lambda t: second(t) ** 2, *ends)[0] for ends in pairwise(knots))
    assert a @ Spline()(x[:, None]) @ a == pytest.approx(slow, rel=1e-12)


def test_in_other_units(rng):
    X = rng.uniform(0.0, 2.0, (8, 1))
    kernel = Spline(3, origin=-0.5)
    shift, scale = np.array([1.7]), np.array([2.5])
    outside = kernel.in_units(shift, scale)
    np.testing.assert_allclose(outside(X * scale + shift), kernel(X), rtol=1e-10)


def test_refusals():
    with pytest.raises(ValueError, match="below the origin"):
        Spline()(np.array([[-0.1]]))
    with pytest.raises(ValueError, match="one column"):
        Spline()(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="integer of at least 1"):
        Spline(0)(np.ones((2, 1)))
    assert Spline(3).null_degree == 2
