"""Columns bent by powers of their own, which the evidence finds; theory (F21)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, Index, as_matrix
from mercer.core.component import Domain, Domains, Names, Words
from mercer.kernels.base import Gradient, Kernel, finite, like, prefixed
from mercer.kernels.features.fourier import not_frozen
from mercer.kernels.inputs.columns import OfInputs
from mercer.kernels.stationary.base import RBF
from mercer.kernels.stationary.matern import Matern
from mercer.kernels.stationary.separable import Separable

POWERS = Domain("powers", -1.0, 3.0)  # 1 in the middle: nothing is bent
FAR = 600.0  # logarithm of what is taken for the largest number
SKEWED = 1.0  # third moments, in deviations, from which a column is bent
FLAT = 0.02  # exponents at which the slope by the power is a series


class Warped(OfInputs):
    """A kernel of bent columns, k(T x, T z): scales that are short here and long there.

    Each column has a power p. With u = (x - centre) / unit it is seen as centre + unit b(u),

        b(u) = ((1 + u)^p - 1) / p,    u >= 0,        -((1 - u)^(2 - p) - 1) / (2 - p),    u < 0,

    log(1 + u) at p = 0, and -log(1 - u) at p = 2 (Yeo and Johnson). The order of values is kept.
    A power of 1 bends nothing; one below it draws the upper end together and the lower one apart,
    as the logarithm does with prices, sizes and counts.

    Parameters
    ----------
    kernel : Kernel; of the bent columns, in the units that these have about their centres.
    power : float, array (d,) or None, default=None; between -1 and 3; None: one for each, from 1.
    centre : array (d,) or None, default=None; in units of the inputs; None: the medians.
    unit : array (d,) or None, default=None
        Positive, in units of the inputs; inf leaves a column as it is. None: how far the closer
        quartile is from the median, and inf for a column that is not skewed (a third moment
        below 1, in deviations) or has two values only.

    What is None is taken from the first rows seen. By name ("warped_rbf", "warped_anova32", ...)
    the powers stay at 1 unless the log evidence gains log(n) / 2 for each of them.

    References
    ----------
    Yeo and Johnson, A new family of power transformations to improve normality or symmetry,
    Biometrika 87 (2000), equation (2.1); Snoek et al., Input warping for Bayesian optimization of
    non-stationary functions (2014).

    Examples
    --------
    At a power of zero distances are those of logarithms, here of 1, 2 and 11:

    >>> kernel = Warped(RBF(), power=0.0, centre=np.zeros(1), unit=np.ones(1))
    >>> kernel(np.zeros((1, 1)), np.array([[1.0], [10.0]])).round(4)
    array([[0.7864, 0.0564]])
    """

    domains: ClassVar[Domains] = {"power": POWERS}
    words: ClassVar[Words] = {"power": "power by which a column is bent: 1 leaves it as it is"}
    names: ClassVar[Names] = {
        "warped_rbf": lambda: Warped(RBF()),
        "warped_matern52": lambda: Warped(Matern(nu=2.5)),
        "warped_anova32": lambda: Warped(Separable(1.5, share=0.5)),
        "warped_anova12": lambda: Warped(Separable(0.5, share=0.5)),
    }

    def __init__(
        self,
        kernel: Kernel,
        power: float | Array | None = None,
        centre: Array | None = None,
        unit: Array | None = None,
    ) -> None:
        self.kernel, self.power, self.centre, self.unit = kernel, power, centre, unit

    @classmethod
    def example(cls) -> Self:
        powers, centre = np.array([0.0, 0.4, 2.3]), np.array([0.1, -0.2, 0.3])
        return cls(RBF(length_scale=1.1), powers, centre, np.array([0.7, 1.5, 0.9]))

    @property
    def expects(self) -> str:
        inside = self.kernel.expects
        return inside and f"{inside}, which are bent first"

    @property
    def bends(self) -> int:
        """How many columns are bent at powers other than 1; none before rows were seen."""
        return 0 if self.unit is None else int(np.isfinite(self.unit).sum())

    def as_rbf(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        return self.kernel.as_rbf(self._inside(X), self._inside(centre[None])[0])

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        X = as_matrix(X)
        w = np.ones(len(X)) if weights is None else weights
        news: dict[str, Any] = {}
        if self.power is None:
            news["power"] = np.ones(X.shape[1])
        if self.centre is None or self.unit is None:
            centre, unit = np.array([_place(column, w) for column in X.T]).reshape(-1, 2).T
            news |= {"centre": centre.copy()} if self.centre is None else {}
            news |= {"unit": unit.copy()} if self.unit is None else {}
        clone = self._restated(**news) if news else self
        inside = self.kernel.frozen(clone._inside(X), weights)
        return clone if inside is self.kernel else clone._rebuilt({"kernel": inside})

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # d<Q, k(TX, TZ)>/d power_j = sum_i G_ij dT(x_ij)/d power_j, with G the slopes by the points
        U, V = self._both(X, Z)
        value, gradient = self.kernel._value_and_pullback(U, V, Q)
        if Z is None or V is None:
            by_power = 2.0 * self._along(X, self._slopes(U, U, Q))
        else:
            by_power = self._along(Z, self._slopes(U, V, Q))
            by_power += self._along(X, self._slopes(V, U, np.ascontiguousarray(Q.T)))
        return value, {"power": like(self.power, by_power)} | prefixed("kernel", gradient)

    def _slopes(self, U: Array, V: Array, Q: Array) -> Array:
        """Return d<Q, k(U, V)>/dV (m, d) of the kernel inside, which must know it."""
        try:
            return self.kernel.pullback_points(U, V, Q)
        except NotImplementedError:
            raise NotImplementedError(
                f"{type(self.kernel).__name__} does not say how it changes with its points, so "
                "that powers cannot be learned: give them, with search=None"
            ) from None

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        return Kernel.diag_pullback(self, X, q, noise=noise)

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        inside = self.kernel.pullback_points(self._inside(X), self._inside(Z), Q)
        u, power = self._scaled(as_matrix(Z))[:2]
        # b'(u) = (1 + |u|)^(p - 1), and (1 + |u|)^(1 - p) below zero
        steep = np.sign(u) * (power - 1.0) * np.log1p(np.abs(u))
        return np.asarray(inside * np.exp(np.minimum(steep, FAR)))

    def width(self, X: Array) -> int | None:
        return None  # a finite map says nothing of how it moves with the powers

    def explicit(self, X: Array) -> Any:
        return None

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        if self.centre is None or self.unit is None:
            return Kernel.in_units(self, shift, scale)
        centre, unit, d = *self._place_of(len(shift)), len(shift)
        shift, scale = np.broadcast_to(shift, d), np.broadcast_to(scale, d)
        clone = self._restated(centre=shift + scale * centre, unit=scale * unit)
        return clone._rebuilt({"kernel": self.kernel.in_units(shift, scale)})

    def reordered(self, order: Index) -> Kernel | None:
        inside = self.kernel.reordered(order)
        if inside is None:
            return None
        own: dict[str, Any] = {"power": self.power, "centre": self.centre, "unit": self.unit}
        each = {k: np.asarray(v)[order] for k, v in own.items() if np.shape(v) == np.shape(order)}
        return self.replaced(each)._rebuilt({"kernel": inside})

    def _inside(self, X: Array) -> Array:
        X = as_matrix(X)
        u, power, unit = self._scaled(X)
        bent = _raised(np.maximum(u, 0.0), power) - _raised(np.maximum(-u, 0.0), 2.0 - power)
        flat = np.isinf(unit)
        centre, unit = np.asarray(self.centre, dtype=np.float64), np.where(flat, 0.0, unit)
        return np.ascontiguousarray(np.where(flat, X, centre + unit * bent))

    def _along(self, X: Array, slopes: Array) -> Array:
        """Return sum_i slopes_ij d(T x_ij) / d power_j (d,)."""
        u, power, unit = self._scaled(as_matrix(X))
        by_power = _risen(np.maximum(u, 0.0), power) + _risen(np.maximum(-u, 0.0), 2.0 - power)
        by_power *= np.where(np.isinf(unit), 0.0, unit)
        return np.asarray(np.einsum("ij,ij->j", slopes, by_power))

    def _scaled(self, X: Array) -> tuple[Array, Array, Array]:
        """Return u (n, d), the powers and the units (d,)."""
        if self.power is None:
            raise not_frozen(self, "power")
        d = X.shape[1]
        centre, unit = self._place_of(d)
        power = np.broadcast_to(finite(self, "power", d), d)
        if not ((power >= POWERS.lower) & (power <= POWERS.upper)).all():
            raise ValueError(f"Warped: power must lie between -1 and 3, got {self.power!r}")
        return (X - centre) / unit, power, unit

    def _place_of(self, d: int) -> tuple[Array, Array]:
        if self.centre is None or self.unit is None:
            raise not_frozen(self, "centre" if self.centre is None else "unit")
        centre, unit = (np.asarray(a, dtype=np.float64) for a in (self.centre, self.unit))
        if centre.shape != (d,) or unit.shape != (d,):
            have = f"centre and unit have shapes {centre.shape} and {unit.shape}"
            raise ValueError(f"Warped: {have} but the inputs have {d} columns")
        if not (np.isfinite(centre).all() and (unit > 0.0).all()):
            raise ValueError("Warped: centre must be finite, unit positive")
        return centre, unit


def _raised(v: Array, p: Array) -> Array:
    """Return ((1 + v)^p - 1) / p for v >= 0 (n, d) and p (d,); log(1 + v) where p is zero."""
    log = np.log1p(v)
    none = p == 0.0
    return np.where(none, log, np.expm1(np.minimum(p * log, FAR)) / np.where(none, 1.0, p))


def _risen(v: Array, p: Array) -> Array:
    """Return the derivative of :func:`_raised` by p: log(1 + v)^2 (t e^t - e^t + 1) / t^2.

    Here t = p log(1 + v); close to zero the series 1/2 + t/3 + t^2/8 + ... is taken.
    """
    log = np.log1p(v)
    t = np.minimum(p * log, FAR)
    near = np.abs(t) < FLAT
    safe = np.where(near, 1.0, t)
    series = np.polynomial.polynomial.polyval(t * near, SERIES)
    exact = (safe * np.exp(safe) - np.expm1(safe)) / safe**2
    return np.asarray(log**2 * np.where(near, series, exact))


SERIES = np.array([1 / 2, 1 / 3, 1 / 8, 1 / 30, 1 / 144, 1 / 840])  # (k + 1) / (k + 2)!


def _place(x: Array, weights: Array) -> tuple[float, float]:
    """Return centre and unit of a column x (n,): its median, and the distance of a quartile."""
    values, where = np.unique(x, return_inverse=True)
    if not len(values):
        return 0.0, np.inf
    counts = np.bincount(where, weights)
    passed = np.cumsum(counts) / counts.sum()
    low, centre, high = values[np.searchsorted(passed, [0.25, 0.5, 0.75]).clip(max=len(values) - 1)]
    if len(values) < 3 or abs(_skewness(x, weights)) < SKEWED:
        return float(centre), np.inf
    away = [a for a in (centre - low, high - centre) if a > 0.0]
    if not away:  # more than half of the rows have one value
        away = [np.sqrt(np.average((x - centre) ** 2, weights=weights))]
    return float(centre), float(min(away))


def _skewness(x: Array, weights: Array) -> float:
    """Return the third moment of x (n,) about its mean, in deviations; 0 where all are equal."""
    away = x - np.average(x, weights=weights)
    away = away / (np.abs(away).max(initial=0.0) or 1.0)  # no power of it is beyond all numbers
    variance = float(np.average(away**2, weights=weights))
    return float(np.average(away**3, weights=weights)) / variance**1.5 if variance > 0.0 else 0.0


def skewed(X: Array, weights: Array | None = None) -> Index:
    """Return the positions of the columns of X (n, d) that :class:`Warped` bends by itself.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 20)
    >>> skewed(np.column_stack([x, np.exp(5.0 * x), x > 0.9]))
    array([1])
    """
    w = np.ones(len(X)) if weights is None else weights
    return np.flatnonzero([np.isfinite(_place(column, w)[1]) for column in np.asarray(X).T])
