"""The rational quadratic kernel."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, inner
from mercer.kernels.checks import positive
from mercer.kernels.stationary import Stationary


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, k = (1 + s / (2 alpha))^(-alpha): RBF kernels of many scales.

    s is the squared scaled distance. It is a mixture of RBF kernels whose inverse squared length
    scales have a gamma distribution of shape alpha; alpha to infinity gives the RBF kernel.

    Parameters
    ----------
    alpha : float
        Positive; small values mix widely different scales.
    length_scale : float or array (d,)
        One length scale for all columns, or one per column (ARD).

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.19).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.7071]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"length_scale": POSITIVE, "alpha": POSITIVE}

    def __init__(self, alpha: float = 1.0, length_scale: float | Array = 1.0) -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    def profile(self, s: Array) -> Array:
        alpha = positive(self, "alpha")
        return np.asarray(np.exp(-alpha * np.log1p(s / (2.0 * alpha))))

    def slope(self, s: Array) -> Array:
        alpha = positive(self, "alpha")
        return np.asarray(-0.5 * np.exp(-(alpha + 1.0) * np.log1p(s / (2.0 * alpha))))

    def shape_gradient(self, s: Array, Q: Array) -> Gradient:
        # d log k / d alpha = u / (1 + u) - log(1 + u) with u = s / (2 alpha)
        u = s / (2.0 * positive(self, "alpha"))
        return {"alpha": inner(Q, self.profile(s) * (u / (1.0 + u) - np.log1p(u)))}
