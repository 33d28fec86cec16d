"""Newton's method in a trust region, for functions whose Hessian is known by its products.

Reference: T. Steihaug (1983), The conjugate gradient method and trust regions in large scale
optimization; A. Conn, N. Gould and P. Toint (2000), Trust-region methods, 17.4.2 for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.deadline import check_time

FORCING = 0.03  # relative accuracy of the linear system while far from the solution
NOISE = 1e-12  # relative rounding error of the objective that a step is forgiven
LEAST = 1e-4  # share of the predicted decrease that a step must bring
STUCK = 1e-10  # a radius below which nothing moves any more


class Objective(Protocol):
    """An objective at a point: its value (to be minimised), gradient, and Hessian."""

    value: float
    gradient: Array

    def product(self, v: Array) -> Array:
        """Return the Hessian times v."""


P = TypeVar("P", bound=Objective)


@dataclass
class Count:
    """What a descent took: steps accepted, evaluations, and products with the Hessian."""

    steps: int = 0
    evaluations: int = 1
    products: int = 0


def minimise(
    at: Callable[[Array], P | None], x: Array, limits: Array, radius: float, tol: float, most: int
) -> tuple[Array, P, Count]:
    """Return a point where no component of the gradient is above ``tol``, or the best on the way.

    ``at`` gives the objective at x (p,), None where it is not finite, and is called at most
    ``most`` times. A step changes no coordinate by more than ``limits`` (p,), and is at first
    no longer than ``radius``.
    """
    place = at(x)
    if place is None:
        raise ValueError("the objective is not finite where the descent begins")
    count = Count()
    while np.abs(place.gradient).max() > tol and count.evaluations < most and radius > STUCK:
        check_time()
        length = float(np.linalg.norm(place.gradient))
        step, hoped = steihaug(place, radius, length * min(FORCING, np.sqrt(length)), count)
        if np.any(np.abs(step) > limits):
            step = np.clip(step, -limits, limits)
            hoped = -float(place.gradient @ step + 0.5 * (step @ place.product(step)))
            count.products += 1
        trial = at(x + step)
        count.evaluations += 1
        noise = NOISE * (1.0 + abs(place.value))
        gain = -np.inf if trial is None else place.value - trial.value
        ratio = (gain + noise) / (hoped + noise)
        went = float(np.linalg.norm(step))
        if ratio < 0.25:
            radius = 0.25 * went
        elif ratio > 0.75 and went > 0.99 * radius:
            radius = 2.0 * radius
        if trial is not None and ratio > LEAST:
            x, place = x + step, trial
            count.steps += 1
    return x, place, count


def steihaug(place: Objective, radius: float, accuracy: float, count: Count) -> tuple[Array, float]:
    """A step no longer than ``radius``, and the decrease that the quadratic model promises.

    Conjugate gradients until the residual is below ``accuracy``; where the curvature is negative,
    or the region is left, to its edge.
    """
    step = np.zeros_like(place.gradient)
    curved = np.zeros_like(step)  # Hessian times step
    residual = -place.gradient
    direction = residual.copy()
    square = float(residual @ residual)
    for _ in range(len(step)):
        product = place.product(direction)
        count.products += 1
        bend = float(direction @ product)
        length = square / bend if bend > 0.0 else np.inf
        ahead = step + length * direction if bend > 0.0 else step
        if bend <= 0.0 or float(np.linalg.norm(ahead)) >= radius:
            # the positive t with |step + t direction| = radius
            a, b = float(direction @ direction), float(step @ direction)
            c = float(step @ step) - radius**2
            length = float((np.sqrt(max(b * b - a * c, 0.0)) - b) / a)
            step, curved = step + length * direction, curved + length * product
            break
        step, curved = ahead, curved + length * product
        residual = residual - length * product
        before, square = square, float(residual @ residual)
        if np.sqrt(square) <= accuracy:
            break
        direction = residual + (square / before) * direction
    return step, -float(place.gradient @ step + 0.5 * (step @ curved))
