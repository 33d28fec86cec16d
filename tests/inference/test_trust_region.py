"""Newton's method in a trust region on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.inference.variational.trust_region import Count, minimise, steihaug

FREE = np.array([np.inf, np.inf])


class Quadratic:
    """1/2 x'H x - b'x."""

    def __init__(self, H, b, x) -> None:
        self.H, self.value, self.gradient = H, 0.5 * x @ H @ x - b @ x, H @ x - b

    def product(self, v):
        return self.H @ v


class Valley:
    """Rosenbrock's: not convex, minimum 0 at (1, 1)."""

    def __init__(self, x) -> None:
        a, b = x
        self.value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        self.gradient = np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])
        self.H = np.array([[2 - 400 * b + 1200 * a * a, -400 * a], [-400 * a, 200.0]])

    def product(self, v):
        return self.H @ v


def test_a_quadratic_takes_one_step() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    H, b = root @ root.T + np.eye(6), 1e-3 * rng.normal(size=6)
    free = np.full(6, np.inf)
    x, place, count = minimise(lambda x: Quadratic(H, b, x), np.zeros(6), free, 10.0, 1e-8, 50)
    np.testing.assert_allclose(x, np.linalg.solve(H, b), atol=1e-7)
    assert count.steps <= 3
    assert np.abs(place.gradient).max() <= 1e-8


def test_the_model_decreases_as_promised_within_the_region() -> None:
    H = np.diag([1.0, -2.0, 3.0])
    place = Quadratic(H, np.array([1.0, 0.1, -1.0]), np.zeros(3))
    for radius in (0.1, 1.0, 10.0):
        step, hoped = steihaug(place, radius, 1e-10, Count())
        assert np.linalg.norm(step) == pytest.approx(radius)  # negative curvature: to the edge
        after = Quadratic(H, np.array([1.0, 0.1, -1.0]), step)
        assert hoped == pytest.approx(place.value - after.value, rel=1e-12)
        assert hoped > 0.0


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 3.0), (5.0, -5.0)])
def test_a_curved_valley(start) -> None:
    x, place, count = minimise(Valley, np.array(start), FREE, 1.0, 1e-9, 200)
    np.testing.assert_allclose(x, 1.0, atol=1e-8)
    assert count.evaluations < 60
    assert place.value < 1e-16


def test_no_step_is_longer_than_its_limits() -> None:
    seen = []

    def watched(x):
        seen.append(x)
        return Quadratic(np.eye(2), np.array([5.0, 5.0]), x)

    x, _, _ = minimise(watched, np.zeros(2), np.array([np.inf, 0.5]), 100.0, 1e-9, 50)
    np.testing.assert_allclose(x, 5.0, atol=1e-8)
    assert np.abs(np.diff(seen, axis=0)[:, 1]).max() <= 0.5 + 1e-12
    assert np.abs(np.diff(seen, axis=0)[:, 0]).max() > 4.0


def test_places_that_are_not_finite_are_walked_around() -> None:
    def walled(x):
        return None if x[0] <= 0.0 else Logarithm(x)

    class Logarithm:
        """x - log x, defined for x > 0 only."""

        def __init__(self, x) -> None:
            self.value, self.gradient = float(x[0] - np.log(x[0])), 1.0 - 1.0 / x
            self.x = x

        def product(self, v):
            return v / self.x**2

    free = np.array([np.inf])
    x, _, count = minimise(walled, np.array([5.0]), free, 10.0, 1e-10, 100)
    assert x[0] == pytest.approx(1.0, abs=1e-9)
    assert count.evaluations > count.steps + 1  # some were refused
    with pytest.raises(ValueError, match="not finite where the descent begins"):
        minimise(walled, np.array([-1.0]), free, 10.0, 1e-10, 100)
    _, place, count = minimise(walled, np.array([5.0]), free, 0.01, 1e-10, 3)
    assert count.evaluations == 3
    assert np.abs(place.gradient).max() > 1e-10
