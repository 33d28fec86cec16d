"""Kernels made from one other kernel, multiples and powers; what + and * build."""

from __future__ import annotations

import numbers
from dataclasses import replace
from functools import reduce
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import (
    Gradient,
    Kernel,
    added,
    inner,
    positive,
    prefixed,
    scaled,
    whole,
)
from mercer.kernels.dot import Constant, Linear
from mercer.kernels.features.explicit import Multiplied
from mercer.kernels.markov import MarkovProcess, Slopes, StateSpace, factor_slopes, multiplied
from mercer.kernels.stationary.base import RBF
from mercer.kernels.stationary.matern import Matern


class Wrapper(Kernel, abstract=True):
    """A kernel made from one other kernel, the parameter ``kernel``."""

    kernel: Kernel

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return self.kernel.example_inputs(rng, n)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._rebuilt({"kernel": self.kernel.in_units(shift, scale)})

    def workspace(self) -> int:
        return self.kernel.workspace()

    def terms(self) -> list[Kernel]:
        terms = self.kernel.terms()
        return [self] if len(terms) == 1 else [self._rebuilt({"kernel": t}) for t in terms]

    def noise_free(self) -> Kernel | None:
        signal = self.kernel.noise_free()
        if signal is self.kernel:
            return self
        return None if signal is None else self._rebuilt({"kernel": signal})


class Scale(Wrapper, Multiplied):
    """A kernel times a variance, ``variance * kernel``: the prior of a function times a constant.

    Parameters
    ----------
    kernel : Kernel; the kernel that is scaled.
    variance : float, default=1.0; positive factor.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.4.

    Examples
    --------
    >>> 2.0 * RBF()
    Scale(kernel=RBF(), variance=2.0)
    """

    alike = True

    domains: ClassVar[Domains] = {"variance": POSITIVE}
    words: ClassVar[Words] = {"variance": "variance of the function about its mean"}

    def __init__(self, kernel: Kernel, variance: float = 1.0) -> None:
        self.kernel, self.variance = kernel, variance

    @classmethod
    def example(cls) -> Self:
        return cls(RBF(length_scale=1.3), 2.5)

    def as_rbf(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        form = self.kernel.as_rbf(X, centre)
        return None if form is None else (form[0], form[1] * self.variance)

    def state_space(self) -> StateSpace | None:
        states = self.kernel.state_space()
        if states is None:
            return None
        return replace(states, variances=float(positive(self, "variance")) * states.variances)

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        inside = prefixed("kernel", self.kernel.state_space_pullback(rates, variances))
        return {"variance": float(variances.sum()) / float(self.variance), **inside}

    def markov_process(self) -> MarkovProcess | None:
        process = self.kernel.markov_process()
        return None if process is None else process.scaled(float(positive(self, "variance")))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        process, v = self.kernel.markov_process(), float(self.variance)
        assert process is not None
        own = sum(inner(P, block.P) for (_, P), block in zip(slopes, process.blocks, strict=True))
        inside = self.kernel.markov_pullback([(F, v * P) for F, P in slopes])
        return {"variance": float(own), **prefixed("kernel", inside)}

    def features(self, X: Any) -> Any:
        F = self.kernel.features(X)
        return None if F is None else F * float(np.sqrt(positive(self, "variance")))

    @property
    def takes_sparse(self) -> bool:
        return self.kernel.takes_sparse

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.kernel.multiple(X, Z, float(positive(self, "variance")))

    def _matmul(self, X: Any, Z: Any, V: Array) -> Array:
        return float(positive(self, "variance")) * self.kernel.matmul(X, Z, V)

    def written(self, X: Array, out: Array, factor: float = 1.0, Z: Array | None = None) -> Array:
        if type(self).__call__ is not Scale.__call__:  # a subclass has its own
            return super().written(X, out, factor, Z)
        return self.kernel.written(X, out, factor * float(positive(self, "variance")), Z)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X) * positive(self, "variance")

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        variance = float(positive(self, "variance"))
        value, gradient = self.kernel._value_and_pullback(X, Z, Q)
        slopes = prefixed("kernel", scaled(gradient, variance))
        return variance * value, {"variance": value, **slopes}

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        inside = self.kernel if noise else self.kernel.noise_free()
        value = 0.0 if inside is None else float(q @ inside.diag(X))
        slopes = self.kernel.diag_pullback(X, float(self.variance) * q, noise=noise)
        return {"variance": value, **prefixed("kernel", slopes)}

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        return float(positive(self, "variance")) * self.kernel.pullback_points(X, Z, Q)


class Power(Wrapper):
    """A kernel to a positive integer power, k^exponent.

    Parameters
    ----------
    kernel : Kernel; the base.
    exponent : int, default=2; 1 or more; not searched.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.4.

    Examples
    --------
    >>> (Linear() + 2.0) ** 3
    Power(kernel=Sum(parts=[Linear(), Constant(value=2.0)]), exponent=3)
    """

    alike = True

    def __init__(self, kernel: Kernel, exponent: int = 2) -> None:
        self.kernel, self.exponent = kernel, exponent

    @classmethod
    def example(cls) -> Self:
        return cls(Matern(nu=2.5) + Linear(weight=0.3), 3)

    def workspace(self) -> int:
        return 2 + self.kernel.workspace()

    def terms(self) -> list[Kernel]:
        return [self]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.asarray(self.kernel(X, Z) ** whole(self, "exponent", 1))

    def diag(self, X: Array) -> Array:
        return np.asarray(self.kernel.diag(X) ** whole(self, "exponent", 1))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        p = whole(self, "exponent", 1)
        weights = Q * self.kernel(X, Z) ** (p - 1)
        value, gradient = self.kernel._value_and_pullback(X, Z, weights)
        return value, prefixed("kernel", scaled(gradient, p))

    def markov_process(self) -> MarkovProcess | None:
        return reduce(multiplied, [self.kernel.markov_process()] * whole(self, "exponent", 1))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        factors = [self.kernel.markov_process()] * whole(self, "exponent", 1)
        each = [self.kernel.markov_pullback(own) for own in factor_slopes(factors, slopes)]
        return prefixed("kernel", reduce(added, each))


def add(a: Kernel | float, b: Kernel | float) -> Kernel:
    """Return a + b as one flat sum; a number becomes a :class:`~mercer.kernels.Constant`."""
    from mercer.kernels.compose.parts import Sum  # made of multiples themselves

    parts: list[Kernel] = []
    for part in (a, b):
        if _is_number(part):
            _refuse_nonpositive(part, "added to")
            parts.append(Constant(float(part)))
        elif isinstance(part, Kernel):
            parts += part.parts if type(part) is Sum else [part]
        else:
            raise TypeError(f"a kernel can be added to a kernel or a number, not to {part!r}")
    return Sum(parts)


def multiply(a: Kernel | float, b: Kernel | float) -> Kernel:
    """Return a * b as one flat product; a number is the variance of a :class:`Scale`."""
    if _is_number(a):
        a, b = b, a
    if isinstance(a, Kernel) and _is_number(b):
        _refuse_nonpositive(b, "multiplied with")
        mark = a.mark("variance")
        if type(a) is Scale and mark.bounds is None and mark.prior is None:
            return a._restated(variance=float(a.variance) * float(b))
        return Scale(a, float(b))
    from mercer.kernels.compose.parts import Product

    parts: list[Kernel] = []
    for part in (a, b):
        if not isinstance(part, Kernel):
            raise TypeError(f"a kernel can be multiplied with a kernel or a number, not {part!r}")
        parts += part.parts if type(part) is Product else [part]
    return Product(parts)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _refuse_nonpositive(number: float, verb: str) -> None:
    if not (number > 0.0 and np.isfinite(number)):
        what = f"a number {verb} a kernel must be positive and finite, got {number!r}"
        raise ValueError(f"{what}: otherwise the result is not a kernel")
