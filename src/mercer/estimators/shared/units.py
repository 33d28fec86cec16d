"""Units: standardising a table inside the machine, and stating the result in the user's units.

What figures are densities of has a unit, too: an evidence is the density of certain targets, in a
certain measure, up to flat directions of the prior, whose own density has one. Every estimator
states these in ``report_["density"]``; two figures can be compared where they are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, cast

import numpy as np

from mercer.core.arrays import (
    Array,
    Index,
    column_order,
    group_rows,
    location_scale,
    median_spread,
)
from mercer.core.basis import Basis, PolynomialBasis
from mercer.estimators.shared.table import Table
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.kernels.equality import Several
from mercer.left_out.figures import LeftOut, class_error, interval_error
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

    def of_latent(self, loss: Loss, j: int = 0) -> Units:
        """Return the units of f: those of y, or of its logarithm for a positive target.

        The same f predicts y / y_scale, and f + log(y_scale) predicts y; where the loss has the
        unit of a positive target itself, f has none. Of several latent functions the loss says
        which have the unit of y.
        """
        if loss.response == "positive" and loss.units:
            return replace(self, y_shift=np.zeros(1), y_scale=np.ones(1))
        if loss.latents and not getattr(loss, "powers", (1.0,))[j]:
            return replace(self, y_shift=np.zeros(1), y_scale=np.ones(1))
        if loss.response != "positive":
            return self
        return replace(self, y_shift=np.log(self.y_scale), y_scale=np.ones_like(self.y_scale))

    def kernel_in_user_units(self, kernel: Kernel) -> Kernel:
        """Return the kernel in the user's units (variance in units of y squared, one output)."""
        stated = kernel
        if isinstance(kernel, Several):
            return kernel.map(self.kernel_in_user_units)
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

    def evidence_in_user_units(
        self, value: float, n: float, basis: Basis | None, k: int, functions: int | None = None
    ) -> float:
        """Return the log evidence in the user's units.

        A density of y = y_scale y' picks up -log y_scale per observation (n is their total
        weight); with k flat coefficients, which scale with y, k fewer; and a basis h = T h'
        changes it by -log |det T| for each of the ``functions`` that have one (None: all outputs).
        """
        m = len(self.y_scale) if functions is None else functions
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


BLOCK = 1 << 20  # entries of a table whose bits are looked at together
_MEASURES = {
    "real": "density of the targets",
    "positive": "density of the targets",
    "binary": "probability of the labels",
    "multiclass": "probability of the labels",
    "count": "probability of the counts",
    "ordinal": "probability of the grades",
}


def described_density(
    X: Array,
    y: Array,
    weights: Array,
    evidence: str | None,
    left_out: str | None,
    figures: LeftOut | None = None,
) -> dict[str, Any]:
    """Return what ``report_["density"]`` says of rows X (N, d), y (N, m) that count ``weights``.

    ``evidence`` and ``left_out`` say in words what these figures are densities of, None if there
    are none: figures of equal words, and of the same rows or targets, can be compared. How honest
    the ``figures`` of rows left out are is the "calibration".
    """
    counted = weights > 0.0
    return {
        "evidence": evidence,
        "left_out": left_out,
        "targets": fingerprint(y[counted], weights[counted]),
        "rows": rows_fingerprint(X, y, weights),
        "calibration": None if figures is None else calibration(figures, X, y),
    }


def calibration(left: LeftOut, X: Array, y: Array) -> float | None:
    """Return by how much the frequencies stated for rows left out are off; None if not known."""
    there = left.weights > 0.0
    w = left.weights[there]
    if left.proba is not None and left.codes is not None:
        proba, codes = left.proba[there], left.codes[there].astype(np.intp)
        if not np.all(np.isfinite(proba)):
            return None
        first, same = group_rows(X[there])
        return class_error(proba, codes, w, same if len(first) < len(same) else None)
    if left.codes is not None or left.mean is None or left.variance is None:
        return None
    Y, mean, std = (np.reshape(a, y.shape)[there] for a in (y, left.mean, np.sqrt(left.variance)))
    each = [interval_error(Y[:, j], mean[:, j], std[:, j], w) for j in range(Y.shape[1])]
    return float(np.mean(each))


def measure(loss: Loss, machines: int = 1) -> str:
    """Return what a loss is minus the logarithm of; summed over so many ``machines``."""
    text = _MEASURES[loss.response]
    if not loss.normalised:
        text = f"no density: exp(-loss) of {type(loss).__name__}"
    return (
        text if machines == 1 else f"{text}, summed over {machines} of one class against the rest"
    )


def up_to(flat: str | None) -> str:
    """Return what is added to a measure for flat directions of the prior."""
    return "" if flat is None else f", {flat}"


def flat_words(basis: Basis | None, points: Array, weights: Array) -> str | None:
    """Return the flat directions of a basis at distinct points (n, d) in the user's units.

    A flat density of coefficients is one per unit of each: those of other functions, or of the same
    in other units, are another prior. Only a constant has no unit but that of the targets.
    """
    if basis is None:
        return None
    if isinstance(basis, PolynomialBasis) and basis.degree == 0:
        return "flat in a constant"
    own = "functions of your own"
    if isinstance(basis, PolynomialBasis):
        own = f"polynomials of degree {basis.degree}"
    return f"flat in {own} of these inputs ({fingerprint(basis(points), weights)[:6]})"


def spline_density(x: Array, y: Array, weights: Array, loss: Loss, degree: int) -> dict[str, Any]:
    """Return what the figures of a curve y(x) are of, flat in x^j / j! up to j = ``degree``.

    Rows x, y, ``weights`` (n,) each.
    """
    points, group = np.unique(x[weights > 0.0], return_inverse=True)
    total = np.asarray(np.bincount(group, weights[weights > 0.0]), dtype=np.float64)
    flat = up_to(flat_words(PolynomialBasis(int(degree)), points[:, None], total))
    evidence = measure(loss) + flat + (", divided by factorials" if degree > 1 else "")
    return described_density(x[:, None], y[:, None], weights, evidence, measure(loss))


def fingerprint(*arrays: Array) -> str:
    """Return 12 hexadecimal digits for arrays of numbers, the order of rows included."""
    found = sha256()
    for array in arrays:
        found.update((np.asarray(array, dtype=np.float64) + 0.0).tobytes())  # 0.0 for -0.0
    return found.hexdigest()[:12]


def rows_fingerprint(X: Array, y: Array, weights: Array) -> str:
    """Return 32 hexadecimal digits for rows X (N, d), y (N, m), whatever their order.

    A row of weight two is the same as two rows, one of weight zero as none: a sum of hashes.
    """
    counts = np.fmod(np.round(weights * 2.0**20), 2.0**63).astype(np.uint64)
    sums = np.zeros(2, dtype=np.uint64)
    d = X.shape[1]
    step = max(1, BLOCK // (d + y.shape[1]))
    factors = _factors(d + y.shape[1])
    for i in range(0, len(X), step):
        part = slice(i, i + step)
        hashes = _mixed(_bits(X[part]) @ factors[:d] + _bits(y[part]) @ factors[d:])
        for j, each in enumerate((hashes, _mixed(hashes))):
            # modulo 2^64: as an array, for which NumPy does not warn of it
            sums[j : j + 1] += (each * counts[part]).sum(dtype=np.uint64)
    return "".join(f"{int(value):016x}" for value in sums)


@lru_cache(maxsize=8)
def _factors(count: int) -> Any:
    """Return odd numbers (count,), one for each column."""
    return _mixed(np.arange(count, dtype=np.uint64)) | np.uint64(1)


def _bits(A: Array) -> Any:
    """Return the bits of each number of A (n, d), those of 0.0 for -0.0."""
    return np.ascontiguousarray(np.asarray(A, dtype=np.float64) + 0.0).view(np.uint64)


def _mixed(values: Any) -> Any:
    """Return 64-bit numbers with every bit spread over all (Steele et al. 2014, splitmix64)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class AsGiven:
    """The way back from columns in the ``order`` (d,) of a search; None: they are as given."""

    order: Index | None = None

    def __call__(self, kernel: Kernel) -> Kernel:
        """Return the kernel of the columns as they were given."""
        if self.order is None:
            return kernel
        return kernel.reordered(np.argsort(self.order)) or kernel


def in_column_order(kernel: Kernel, problem: Problem) -> tuple[Kernel, Problem, AsGiven]:
    """Return kernel and problem with the columns in an order of their own, and the way back.

    Else the rounding of sums over columns, and with it the last digits of what a search finds and
    sometimes where it ends, would depend on the order in which they were given.
    """
    if kernel.pairwise or problem.points.shape[1] < 2:
        return kernel, problem, AsGiven()
    order = column_order(problem.points, problem.y, problem.weights)
    same = kernel.reordered(order)
    if same is None:
        return kernel, problem, AsGiven()
    points = np.ascontiguousarray(problem.points[:, order])
    return same, replace(problem, points=points), AsGiven(order)
