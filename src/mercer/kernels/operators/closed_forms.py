"""Operator kernels with a name: closed forms of :class:`~mercer.kernels.Operator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, Kernel, positive, whole
from mercer.kernels.stationary.base import RBF, Stationary
from mercer.kernels.stationary.matern import Matern


class _Named(Kernel, abstract=True):
    """An operator kernel whose closed form is an amplitude times a stationary kernel."""

    def _form(self) -> tuple[float, float, Stationary, float]:
        """Return amplitude, its derivative by the parameter, the kernel, d length scale."""
        raise NotImplementedError

    def _columns(self) -> int:
        raise NotImplementedError

    def coordinates(self, X: Array, d: int) -> Array:
        return self._form()[2].coordinates(X, d)

    def profile(self, s: Array) -> Array:
        amplitude, _, kernel, _ = self._form()
        return amplitude * kernel.profile(s)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, self._columns()))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        amplitude, _, kernel, _ = self._form()
        K = kernel(self._checked(X), Z)
        K *= amplitude
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._form()[0])

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        amplitude, slope, kernel, stretch = self._form()
        value, gradient = kernel._value_and_pullback(self._checked(X), Z, Q)
        total = slope * value + amplitude * stretch * float(gradient["length_scale"])
        return amplitude * value, {next(iter(self.domains)): total}

    def _checked(self, X: Array) -> Array:
        X = as_matrix(X)
        if X.shape[1] != self._columns():
            raise ValueError(
                f"{type(self).__name__} is for inputs of {self._columns()} columns, "
                f"but they have {X.shape[1]}"
            )
        return X


class OrnsteinUhlenbeck(_Named):
    """Green's function of rate^2 - d^2/dx^2 in one dimension, k = exp(-rate r) / (2 rate).

    The same as ``Operator([rate**2, 1.0])``: the velocity of a Brownian particle.

    Parameters
    ----------
    rate : float, default=1.0
        Positive inverse correlation length, in inverse units of the input.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 6.2.1 and
    equation (B.28).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import OrnsteinUhlenbeck
    >>> OrnsteinUhlenbeck(rate=2.0).diag(np.zeros((1, 1)))
    array([0.25])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"rate": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {
        "rate": "rate: the inverse of the distance over which the function changes"
    }

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def _form(self) -> tuple[float, float, Stationary, float]:
        a = float(positive(self, "rate"))
        return 0.5 / a, -0.5 / a**2, Matern(nu=0.5, length_scale=1.0 / a), -1.0 / a**2

    def _columns(self) -> int:
        return 1


class SquaredExponentialOperator(_Named):
    """Green's function of exp(-sigma^2 laplacian / 2): a normalised Gaussian of width sigma.

    k = (2 pi sigma^2)^(-dims/2) exp(-r^2 / (2 sigma^2)), the limit of :class:`Operator` with
    a_m = sigma^(2 m) / (m! 2^m).

    Parameters
    ----------
    sigma : float, default=1.0
        Positive width, in the units of the inputs.
    dims : int, default=1
        Number of columns of the inputs.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 6.2.1, equation (6.18).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import SquaredExponentialOperator
    >>> SquaredExponentialOperator(sigma=1.0, dims=2).diag(np.zeros((1, 2))).round(4)  # 1 / (2 pi)
    array([0.1592])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"sigma": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {
        "sigma": "length scale: the distance over which the function changes"
    }

    def __init__(self, sigma: float = 1.0, dims: int = 1) -> None:
        self.sigma = sigma
        self.dims = dims

    def _form(self) -> tuple[float, float, Stationary, float]:
        sigma, D = float(positive(self, "sigma")), whole(self, "dims", 1)
        amplitude = (2.0 * np.pi * sigma**2) ** (-0.5 * D)
        return amplitude, -D * amplitude / sigma, RBF(length_scale=sigma), 1.0

    def _columns(self) -> int:
        return whole(self, "dims", 1)
