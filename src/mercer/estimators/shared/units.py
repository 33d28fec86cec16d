"""Units: standardising a table inside the machine, and stating the result in the user's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, location_scale, median_spread
from mercer.core.basis import Basis
from mercer.estimators.shared.table import Table
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.losses.real.base import LocationLoss


@dataclass(frozen=True)
class Units:
    """x = x_shift + x_scale * x_standardised, y = y_shift + y_scale * y_standardised."""

    x_shift: Array  # (d,)
    x_scale: Array
    y_shift: Array  # (m,)
    y_scale: Array

    def standardised(self, X: Array) -> Array:
        """Return the inputs in standardised units, (n, d)."""
        if not np.any(self.x_shift) and np.all(self.x_scale == 1.0):
            return X
        return np.ascontiguousarray((X - self.x_shift) / self.x_scale)

    def in_user_units(self, X: Array) -> Array:
        """Return the inputs in the user's units, (n, d)."""
        return np.asarray(X * self.x_scale + self.x_shift)

    def y_standardised(self, y: Array) -> Array:
        """Return the targets in standardised units, (n, m)."""
        return np.asarray((y - self.y_shift) / self.y_scale)

    def y_in_user_units(self, y: Array) -> Array:
        """Return the targets in the user's units, (n, m)."""
        return np.asarray(y * self.y_scale + self.y_shift)

    def of_latent(self, loss: Loss) -> Units:
        """Return the units of f: those of y, or of its logarithm for a positive target.

        The same f predicts y / y_scale, and f + log(y_scale) predicts y.
        """
        if loss.response != "positive":
            return self
        return replace(self, y_shift=np.log(self.y_scale), y_scale=np.ones_like(self.y_scale))

    def kernel_in_user_units(self, kernel: Kernel) -> Kernel:
        """Return the kernel in the user's units (variance in units of y squared, one output)."""
        stated = kernel
        if np.any(self.x_shift) or np.any(self.x_scale != 1.0):
            stated = kernel.in_units(self.x_shift, self.x_scale)
        if len(self.y_scale) == 1 and self.y_scale[0] != 1.0:
            stated = float(self.y_scale[0] ** 2) * stated
        return stated

    def loss_in_user_units(self, loss: Loss) -> Loss:
        """Return the loss in the user's units, if it knows how (one output)."""
        if not loss.offers("in_units") or len(self.y_scale) != 1:
            return loss
        return loss.in_units(float(self.y_scale[0]))

    def left_out_in_user_units(self, figures: LeftOut, flat: bool) -> LeftOut:
        """Return the figures of left-out observations (N, m) in the user's units, (N,) if flat."""
        of_targets = (figures.mean, figures.variance, figures.log_density)
        mean, variance, density = cast(tuple[Array, Array, Array], of_targets)
        stated: dict[str, Any] = {
            "mean": self.y_in_user_units(mean),
            "variance": variance * self.y_scale**2,
            "log_density": density - np.log(self.y_scale),
        }
        if flat:
            stated = {name: values[:, 0] for name, values in stated.items()}
        return replace(figures, **stated)

    def evidence_in_user_units(self, value: float, n: float, basis: Basis | None, k: int) -> float:
        """Return the log evidence in the user's units.

        A density of y = y_scale y' picks up -log y_scale per observation (n is their total
        weight); with k flat coefficients, which scale with y, k fewer; and a basis h = T h'
        changes it by -log |det T|.
        """
        m = len(self.y_scale)
        change = -(n - k) * float(np.log(self.y_scale).sum())
        if basis is not None and not basis.raw:
            change -= m * basis.logdet_units(self.x_scale)
        return value + change


def no_units(d: int, m: int) -> Units:
    """Return units that change nothing."""
    return Units(np.zeros(d), np.ones(d), np.zeros(m), np.ones(m))


def target_units(loss: Loss, table: Table) -> tuple[Array, Array]:
    """Return what a fit takes from the targets, and by what it divides them, (m,) each.

    Of Gaussian noise mean and deviation; of other losses of y - f median and spread, which an
    outlier does not move; of losses that do not say how they scale the median alone. A positive
    target is divided by its geometric mean, so that f, its logarithm, begins at its own level.
    Labels, counts and other losses keep their targets.
    """
    m = table.Y.shape[1]
    if loss.response == "positive":
        w = table.weights[table.keep]
        return np.zeros(m), np.exp(w @ np.log(table.Y[table.keep]) / w.sum())
    if loss.offers("quadratic") and loss.offers("in_units"):
        shift, scale = location_scale(table.mean, table.total, table.spread)
    elif loss.offers("in_units") or isinstance(loss, LocationLoss):
        shift, scale = median_spread(table.Y[table.keep], table.weights[table.keep])
    else:
        return np.zeros(m), np.ones(m)
    if not np.all((scale > 1e-140) & (scale < 1e140)):
        raise ValueError(
            f"the targets have deviation {scale.max():.3g}: their squares leave the range of "
            "floating-point numbers; give y in other units"
        )
    return shift, scale if loss.offers("in_units") else np.ones(m)


@dataclass(frozen=True)
class RawBasis:
    """A basis of the user's units as a function of the inputs in standardised units."""

    basis: Basis
    units: Units

    def __call__(self, X: Array) -> Array:
        """Return h at X (n, d): shape (n, k)."""
        return self.basis(self.units.in_user_units(X))


def standardised_basis(basis: Basis | None, units: Units) -> Basis | RawBasis | None:
    """Return the basis as a function of the inputs in standardised units."""
    return basis if basis is None or not basis.raw else RawBasis(basis, units)


def standardised_problem(table: Table, units: Units, points: Array, H: Array | None) -> Problem:
    """Return the problem at the points (n, d) of a table, which are inside already.

    H (n, k) are the values of the basis there.
    """
    return Problem(
        points,
        units.y_standardised(table.mean),
        table.total,
        table.spread / units.y_scale**2,
        H,
        table.group,
        units.y_standardised(table.Y[table.keep]),
        table.weights[table.keep],
    )


def describe_units(units: Units) -> dict[str, Any]:
    """Return what was subtracted from each column and target, and by what it was divided."""
    names = ("x_shift", "x_scale", "y_shift", "y_scale")
    return {name: getattr(units, name).tolist() for name in names}


def describe_rows(table: Table | Problem, weights: Array) -> dict[str, Any]:
    """Return how many rows of these weights count, at how many points, and for how much."""
    return {"used": len(weights), "distinct": len(table.points), "weight": float(weights.sum())}
