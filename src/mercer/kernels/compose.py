"""The algebra of kernels: sums, products, scaling and powers of kernels are kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels import markov
from mercer.kernels.base import Gradient, Kernel, added, inner, positive, prefixed, scaled
from mercer.kernels.dot import Linear
from mercer.kernels.features.explicit import Multiplied, Stacked
from mercer.kernels.markov import MarkovProcess, Slopes, StateSpace
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import RBF
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
    >>> 2.0 * RBF() + Linear()
    Sum(parts=[Scale(kernel=RBF(), variance=2.0), Linear()])
    """

    alike = True
    sign = "+"

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
        return markov.stacked([part.state_space() for part in self._checked()])

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        gradient, start = Gradient(), 0
        for i, part in enumerate(self._checked()):
            states = part.state_space()
            assert states is not None
            own = slice(start, start := start + len(states.rates))
            gradient |= prefixed(str(i), part.state_space_pullback(rates[own], variances[own]))
        return gradient

    def markov_process(self) -> MarkovProcess | None:
        return markov.added([part.markov_process() for part in self._checked()])

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
    >>> RBF().on(0) * Linear().on(1)
    Product(parts=[Columns(kernel=RBF(), columns=[0]), Columns(kernel=Linear(), columns=[1])])
    """

    alike = True
    sign = "*"

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
        return reduce(markov.multiplied, [part.markov_process() for part in self._checked()])

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        gradient = Gradient()
        parts = self._checked()
        each = markov.factor_slopes([part.markov_process() for part in parts], slopes)
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
    sign = "."

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
        return reduce(
            markov.multiplied, [self.kernel.markov_process()] * whole(self, "exponent", 1)
        )

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        factors = [self.kernel.markov_process()] * whole(self, "exponent", 1)
        each = [self.kernel.markov_pullback(own) for own in markov.factor_slopes(factors, slopes)]
        return prefixed("kernel", reduce(added, each))
