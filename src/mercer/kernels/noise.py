"""Noise as a part of a kernel."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, Kernel, prefixed, zero_gradient
from mercer.kernels.checks import positive
from mercer.kernels.compose import _Wrapper


class White(Kernel):
    """Independent noise: variance ``noise`` between each point and itself, zero otherwise.

    It contributes to ``k(X)`` and its diagonal, and nothing to ``k(X, Z)``: two rows of the same
    values are still two observations, each with its own noise.

    Parameters
    ----------
    noise : float
        Positive noise variance.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (2.20).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF, White
    >>> (RBF() + White(0.1))(np.zeros((2, 1)))
    array([[1.1, 1. ],
           [1. , 1.1]])
    >>> (RBF() + White(0.1)).noise_free()
    RBF()
    """

    domains: ClassVar[Mapping[str, Domain]] = {"noise": POSITIVE}
    positional = True

    def __init__(self, noise: float = 1.0) -> None:
        self.noise = noise

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = np.zeros((len(X), len(X if Z is None else Z)))
        self._add_to(K, X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), positive(self, "noise"))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        trace = float(np.trace(Q)) if Z is None else 0.0
        return float(positive(self, "noise")) * trace, {"noise": trace}

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        noise = positive(self, "noise")
        if Z is None:
            K.flat[:: K.shape[1] + 1] += noise

    def noise_free(self) -> Kernel | None:
        return None

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self


class Noise(_Wrapper):
    """Coloured noise: a kernel that is part of what is observed, not of the signal.

    ``k(X)`` and its diagonal are those of the kernel inside; ``k(X, Z)`` is zero.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the noise.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 5.4.3 (the fourth,
    noise term of the carbon dioxide model).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF, Matern, Noise
    >>> kernel = RBF() + Noise(0.2 * Matern(nu=0.5, length_scale=0.1))
    >>> kernel.diag(np.zeros((1, 1)))
    array([1.2])
    >>> kernel.noise_free()
    RBF()
    """

    positional = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @classmethod
    def example(cls) -> Self:
        from mercer.kernels import Matern

        return cls(0.3 * Matern(nu=0.5, length_scale=0.4))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel(X) if Z is None else np.zeros((len(X), len(Z)))

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X)

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        if Z is not None:
            return 0.0, zero_gradient(self)
        value, gradient = self.kernel._value_and_pullback(X, None, Q)
        return value, prefixed("kernel", gradient)

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        if Z is None:
            self.kernel._add_to(K, X, None)

    def noise_free(self) -> Kernel | None:
        return None
