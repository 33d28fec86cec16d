"""Sums and products of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Gradient, Kernel, prefixed
from mercer.kernels.compose.wrappers import Scale
from mercer.kernels.dot import Linear
from mercer.kernels.features.explicit import Stacked
from mercer.kernels.markov import (
    MarkovProcess,
    Slopes,
    StateSpace,
    added,
    factor_slopes,
    multiplied,
    stacked,
)
from mercer.kernels.stationary.matern import Matern


class _Parts(Kernel, abstract=True):
    """A kernel made of a list of kernels; the gradient paths are ``0__name``, ``1__name``, ..."""

    def __init__(self, parts: Sequence[Kernel]) -> None:
        self.parts = parts

    @classmethod
    def example(cls) -> Self:
        return cls([Matern(nu=1.5, length_scale=0.8), Scale(Linear(), 0.5)])

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return self._checked()[0].example_inputs(rng, n)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._rebuilt({k: v.in_units(shift, scale) for k, v in self._parts().items()})

    def _signals(self) -> tuple[list[Kernel | None], bool]:
        """Return the signals of the parts, and whether they are the parts themselves."""
        parts = self._checked()
        signals = [part.noise_free() for part in parts]
        return signals, all(a is b for a, b in zip(signals, parts, strict=True))

    def _checked(self) -> list[Kernel]:
        parts = list(self.parts)
        if not parts or not all(isinstance(part, Kernel) for part in parts):
            raise TypeError(f"{type(self).__name__}: parts must be one or more kernels: {parts!r}")
        return parts


class Sum(_Parts, Stacked):
    """Sum of kernels, k = sum_i k_i: the prior of a sum of independent functions.

    Parameters
    ----------
    parts : sequence of Kernel; the terms, one or more. ``a + b + c`` builds one flat sum.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.4.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> 2.0 * RBF() + Linear()
    Sum(parts=[Scale(kernel=RBF(), variance=2.0), Linear()])
    """

    alike = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        first, *others = self._checked()
        K = first(X, Z)
        for part in others:
            part._add_to(K, X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.asarray(reduce(np.add, [part.diag(X) for part in self._checked()]))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        total, gradient = 0.0, Gradient()
        for i, part in enumerate(self._checked()):
            value, slope = part._value_and_pullback(X, Z, Q)
            total += value
            gradient |= prefixed(str(i), slope)
        return total, gradient

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        gradient = Gradient()
        for i, part in enumerate(self._checked()):
            gradient |= prefixed(str(i), part.diag_pullback(X, q, noise=noise))
        return gradient

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        return np.asarray(
            reduce(np.add, [part.pullback_points(X, Z, Q) for part in self._checked()])
        )

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        for part in self._checked():
            part._add_to(K, X, Z)

    def features(self, X: Any) -> Any:
        found = [part.features(X) for part in self._checked()]
        return None if any(F is None for F in found) else np.hstack(found)

    def state_space(self) -> StateSpace | None:
        return stacked([part.state_space() for part in self._checked()])

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        gradient, start = Gradient(), 0
        for i, part in enumerate(self._checked()):
            states = part.state_space()
            assert states is not None
            own = slice(start, start := start + len(states.rates))
            gradient |= prefixed(str(i), part.state_space_pullback(rates[own], variances[own]))
        return gradient

    def markov_process(self) -> MarkovProcess | None:
        return added([part.markov_process() for part in self._checked()])

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        gradient, start = Gradient(), 0
        for i, part in enumerate(self._checked()):
            process = part.markov_process()
            assert process is not None
            own = slice(start, start := start + len(process.blocks))
            gradient |= prefixed(str(i), part.markov_pullback(slopes[own]))
        return gradient

    def workspace(self) -> int:
        return 1 + max(part.workspace() for part in self._checked())

    def _matmul(self, X: Any, Z: Any, V: Array) -> Array:
        return np.asarray(reduce(np.add, (part.matmul(X, Z, V) for part in self._checked())))

    def terms(self) -> list[Kernel]:
        return [term for part in self._checked() for term in part.terms()]

    def noise_free(self) -> Kernel | None:
        signals, same = self._signals()
        kept = [signal for signal in signals if signal is not None]
        return self if same else kept[0] if len(kept) == 1 else Sum(kept) if kept else None


class Product(_Parts):
    """Product of kernels, k = prod_i k_i: large only where every factor is.

    Parameters
    ----------
    parts : sequence of Kernel; the factors, one or more; ``a * b * c`` builds one flat product.
        Its signal is the product of the signals: none if a factor is noise alone.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.4.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> RBF().on(0) * Linear().on(1)
    Product(parts=[Columns(kernel=RBF(), columns=[0]), Columns(kernel=Linear(), columns=[1])])
    """

    alike = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        first, *others = self._checked()
        K = first(X, Z)
        for part in others:
            K *= part(X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.asarray(reduce(np.multiply, [part.diag(X) for part in self._checked()]))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # d<Q, k> = sum_i <Q o prod_{j != i} k_j, dk_i>. Every Gram matrix is computed once; the
        # products of the factors after i are built from the right, those before i from the left.
        parts = self._checked()
        last = len(parts) - 1
        grams = [part(X, Z) for part in parts] if last else []
        after = [*accumulate(reversed(grams[1:]), np.multiply)][::-1]
        value, gradient, before = 0.0, Gradient(), Q
        for i, part in enumerate(parts):
            if i == last or any(True for _ in part.differentiable()):
                weights = before if i == last else before * after[i]
                value, slope = part._value_and_pullback(X, Z, weights)
                gradient |= prefixed(str(i), slope)
            if i < last:
                before = before * grams[i]
        return value, gradient

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        parts = self._checked()
        grams, total = [part(X, Z) for part in parts], np.zeros(Z.shape)
        for i, part in enumerate(parts):
            others = [gram for j, gram in enumerate(grams) if j != i]
            total += part.pullback_points(X, Z, reduce(np.multiply, others, Q))
        return total

    def markov_process(self) -> MarkovProcess | None:
        return reduce(multiplied, [part.markov_process() for part in self._checked()])

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        gradient = Gradient()
        parts = self._checked()
        each = factor_slopes([part.markov_process() for part in parts], slopes)
        for i, (part, own) in enumerate(zip(parts, each, strict=True)):
            gradient |= prefixed(str(i), part.markov_pullback(own))
        return gradient

    def workspace(self) -> int:
        parts = self._checked()
        return 2 * len(parts) + max(part.workspace() for part in parts)

    def noise_free(self) -> Kernel | None:
        signals, same = self._signals()
        kept = [signal for signal in signals if signal is not None]
        return self if same else Product(kept) if len(kept) == len(signals) else None
