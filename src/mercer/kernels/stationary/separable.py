"""Separable: products over the columns, for functions with edges, steps and few interactions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._native import core
from mercer.core.arrays import Array, threads
from mercer.core.component import POSITIVE, UNIT, Domains, Names, Words
from mercer.kernels.base import (
    Gradient,
    Kernel,
    finite,
    like,
    other_points,
    positive,
    rescaled,
    zero_gradient,
)
from mercer.kernels.stationary.matern import half_integer_profile

PROFILES = {0.5: 1, 1.5: 2, 2.5: 3, np.inf: 0}  # their numbers in the compiled core
NOTHING = np.empty(0)
LEAST = {0.5: 0.01, 1.5: 0.002}  # by nu; a tenth of the deviation, and less where it is smoother


class Separable(Kernel):
    """Product over the columns of one-dimensional Matern kernels, each mixed with a constant.

    With m the Matern correlation of smoothness nu (the squared exponential for nu = inf),

        k = prod_d (1 - share_d + share_d m(|x_d - z_d| / length_scale_d)).

    Without shares it is the tensor product: for nu = 1/2 that is exp(-|x - z|_1), the Laplacian
    kernel, whose functions have edges along the axes, as those of trees do. A share is how much of
    the variance of the function needs its column: multiplied out, the kernel is a sum over all
    sets of columns, an additive function where the shares are small and interactions of every
    order where they are close to one. With a short length scale a column is compared by equality,
    as a category.

    Parameters
    ----------
    nu : float, default=0.5; smoothness, 0.5, 1.5, 2.5 or inf; not searched.
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).
    share : float or array (d,), default=None; between 0 and 1, without units. None: no constants.

    References
    ----------
    Gunn and Kandola, Structural modelling with sparse kernels, Machine Learning 48 (2002), section
    3; Durrande et al., ANOVA kernels and RKHS of zero mean functions (2013), equation (2).

    Examples
    --------
    >>> X, Z = np.zeros((1, 2)), np.ones((1, 2))
    >>> Separable(nu=0.5)(X, Z).round(4)
    array([[0.1353]])
    >>> Separable(nu=0.5, share=0.5)(X, Z).round(4)
    array([[0.4678]])
    """

    alike = True
    by_scale = True
    domains: ClassVar[Domains] = {"length_scale": POSITIVE, "share": UNIT}
    words: ClassVar[Words] = {
        "length_scale": "length scale: the distance over which the function changes",
        "share": "share of the variance that needs a column",
    }
    # by name each column has a length scale of its own from the start, see starting_scales
    names: ClassVar[Names] = {
        "laplacian": lambda: Separable(0.5),
        "separable32": lambda: Separable(1.5),
        "anova12": lambda: Separable(0.5, share=0.5),
        "anova32": lambda: Separable(1.5, share=0.5),
        "anova": lambda: Separable(np.inf, share=0.5),
    }

    def __init__(
        self,
        nu: float = 0.5,
        length_scale: float | Array = 1.0,
        share: float | Array | None = None,
    ) -> None:
        self.nu, self.length_scale, self.share = nu, length_scale, share

    @property
    def expects(self) -> str:
        how = "functions with edges" if self.nu == 0.5 else "functions that bend along the axes"
        return how if self.share is None else f"sums of {how}, of one, two and more inputs"

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = self._scaled(X, Z)
        K = np.empty((len(X), len(Z)))
        shares = self._shares(X.shape[1])
        compiled("separable")(self._profile(), X, Z, same, shares, K, 1.0, threads(K.size))
        return K

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        X, Z, same = self._scaled(X, Z)
        by_scale, by_share = np.empty(X.shape[1]), np.empty(X.shape[1])
        given = (X, Z, same, self._shares(X.shape[1]), np.ascontiguousarray(Q))
        value = core.separable_pullback(
            self._profile(), *given, by_scale, by_share, threads(Q.size)
        )
        by_scale /= np.asarray(self.length_scale, dtype=float)
        gradient: Gradient = {"length_scale": like(self.length_scale, by_scale)}
        if self.share is not None:
            gradient["share"] = like(self.share, by_share)
        return value, gradient

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        U, T, _ = self._scaled(X, Z)
        moved, shares = np.empty_like(T), self._shares(T.shape[1])
        turned = np.ascontiguousarray(Q.T)
        given = (self._profile(), T, U, shares, turned, moved, threads(Q.size))
        compiled("separable_moves")(*given)
        return np.asarray(moved * self._unit(T.shape[1]))

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        return zero_gradient(self)  # k(x, x) = 1, whatever the parameters are

    def workspace(self) -> int:
        return 0

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(length_scale=rescaled(self.length_scale, scale))

    @property
    def least_noise(self) -> float:
        """Share of the variance that a search leaves to the noise, where neither is given.

        A rough function with one short length scale is noise that it calls its own: then a row
        with the inputs of a training row is predicted with no error, and another value of it is
        impossible.
        """
        return LEAST.get(self.nu, 0.0)

    def starting_scales(self, spread: Array) -> Array:
        """Return length scales to begin with, by the deviations (d,) of the columns.

        There is one for each from the start: which columns matter is what the kernel is for.
        """
        far = len(spread) if self.nu == 0.5 else np.sqrt(len(spread))
        return np.where(spread > 0.0, spread, 1.0) * (far if self.share is None else 0.5 * far)

    def correlation(self, r: Any) -> Any:
        """Return m at scaled distances r >= 0 along one column, as a formula."""
        self._profile()
        if np.isinf(self.nu):
            return np.exp(-0.5 * r * r)
        return half_integer_profile(self.nu, float(np.sqrt(2.0 * self.nu)) * r)

    def _profile(self) -> int:
        found = PROFILES.get(self.nu)
        if found is None:
            raise ValueError(f"Separable: nu must be 0.5, 1.5, 2.5 or inf, got {self.nu!r}")
        return found

    def _scaled(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        """Return the points by their length scales, so that a profile has no constants."""
        X, Z, same = other_points(X, Z)
        scale = self._unit(X.shape[1])
        U = X * scale
        return U, (U if same else Z * scale), same

    def _unit(self, d: int) -> Array:
        unit = 1.0 if np.isinf(self.nu) else float(np.sqrt(2.0 * self.nu))
        return np.asarray(unit / positive(self, "length_scale", d))

    def _shares(self, d: int) -> Array:
        if self.share is None:
            return NOTHING
        share = finite(self, "share", d)
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise ValueError(f"Separable: share must lie between 0 and 1, got {self.share!r}")
        # a share of one, less what rounding does: a slope over a factor of zero is no number
        return np.minimum(np.broadcast_to(share, (d,)), np.nextafter(1.0, 0.0))


def compiled(name: str) -> Any:
    """Return a function of the compiled core; refuse one that was built from older sources."""
    found = getattr(core, name, None)
    if found is None:
        raise ValueError(
            "Separable: the compiled core was built before this kernel existed; install mercer "
            "again (in a clone: pip install --no-build-isolation -e .)"
        )
    return found
