"""What is made a kernel: an object, a name, a function, scikit-learn's, and what + and * build."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import REAL, Domains
from mercer.kernels.base import Gradient, Kernel, inner, other_points
from mercer.kernels.compose import Product, Scale, Sum
from mercer.kernels.dot import Constant
from mercer.kernels.equality import Several
from mercer.kernels.given import Function


def kernel_names() -> list[str]:
    """Return the names that :func:`as_kernel` knows."""
    return list(Kernel.known_names())


def is_pairwise(given: Any) -> bool:
    """Return whether rows of X are kernel values: what scikit-learn's tag ``pairwise`` says."""
    if isinstance(given, str):
        made = Kernel.known_names().get(given)
        given = None if made is None else made()
    return isinstance(given, Kernel) and given.pairwise


def as_kernel(given: Any) -> Kernel:
    """Return ``given`` as a kernel.

    Parameters
    ----------
    given : Kernel, str, scikit-learn kernel, or callable
        A kernel is returned unchanged. A string names a kernel with its default parameters (unit
        variance), your own classes included. An object of scikit-learn is adapted by
        :class:`FromSklearn`, any other callable ``k(X, Z)`` by :class:`Function`.

    Examples
    --------
    >>> as_kernel("matern52")
    Matern(nu=2.5)
    """
    if isinstance(given, Kernel):
        given.check_domains()
        return given
    if isinstance(given, str):
        return Kernel.by_name(given)
    if isinstance(given, type) and issubclass(given, Kernel):
        raise TypeError(f"a kernel object is wanted, not its class: write {given.__name__}()")
    if _is_sklearn(given):
        return FromSklearn(given)
    if callable(given):
        return Function(given)
    raise TypeError(
        "a kernel is a Kernel, the name of one, a kernel object of scikit-learn or a callable, "
        f"got {given!r}; the names are: {', '.join(kernel_names())}"
    )


def one_for_each(given: Any, who: str, latents: Sequence[str], joint: bool) -> list[Any] | None:
    """Return what is given for each latent function of the loss ``who``; None if one serves all.

    A list is one for each; those of classes, a ``joint`` loss without names, are counted later. One
    kernel for several functions is taken for each, with parameters of its own.
    """
    given = given.parts if isinstance(given, Several) else given
    listed = isinstance(given, (list, tuple))
    if not listed and not latents:
        return None
    if not joint:
        raise ValueError(
            f"a list of kernels is one for each latent function, and {who} has one function; give "
            "one kernel (a sum of several, if they add up), or a loss of several functions: "
            "'heteroscedastic', 'zero_inflated_poisson', for classes 'softmax'"
        )
    given = list(given) if listed else [given] * len(latents)
    if not given or (latents and len(given) != len(latents)):
        named = f"{len(latents)} latent functions ({', '.join(latents)})" if latents else "classes"
        raise ValueError(
            f"{len(given)} kernels do not fit {who}, which has {named}: give one for each, in this "
            "order, or one kernel for all"
        )
    for one in given:
        if isinstance(one, Kernel) and (one.positional or one.pairwise):
            raise ValueError(
                "kernels of several latent functions are functions of the inputs: leave out noise "
                "parts, and of precomputed values give Precomputed(matrix) with row numbers as X"
            )
    return list(given)


def _is_sklearn(given: Any) -> bool:
    modules = {cls.__module__ for cls in type(given).__mro__}
    return "sklearn.gaussian_process.kernels" in modules and hasattr(given, "theta")


class FromSklearn(Kernel):
    """A kernel object of ``sklearn.gaussian_process.kernels``.

    Its free hyperparameters are searched as the vector ``theta`` of their logarithms; "fixed" ones
    stay, its bounds are not taken over (use :meth:`bound`). A ``WhiteKernel`` inside counts as
    noise. The gradient is what the foreign object offers, an array n x n x p: not for large n.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel; the object; it is not changed.
    theta : array (p,) or None, default=None; logs of its free hyperparameters; None: the object's.

    References
    ----------
    Pedregosa et al., Scikit-learn: Machine Learning in Python (2011).

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> FromSklearn(RBF(2.0) + WhiteKernel(0.5)).diag(np.array([[0.0], [2.0]]))
    array([1.5, 1.5])
    """

    domains: ClassVar[Domains] = {"theta": REAL}

    def __init__(self, kernel: Any, theta: Array | None = None) -> None:
        self.kernel = kernel
        own = np.asarray(kernel.theta, dtype=float)
        self.theta = (own.copy() if own.size else None) if theta is None else theta

    @property
    def positional(self) -> bool:
        return self.noise_free() is not self

    @classmethod
    def example(cls) -> Self:
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        return cls(ConstantKernel(2.0) * RBF([0.8, 1.5, 1.0]))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = other_points(X, Z)
        values = self._current()(X) if same else self._current()(X, Z)
        return np.array(values, dtype=float, order="C")

    def diag(self, X: Array) -> Array:
        X, _, _ = other_points(X, None)
        return np.array(self._current().diag(X), dtype=float)

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        if self.theta is None:
            return inner(Q, self(X, Z)), {}
        X, Z, same = other_points(X, Z)
        if same:
            K, tensor = self._current()(X, eval_gradient=True)
        else:  # gradients are offered for k(X) only: take the block of the joined points
            n = len(X)
            K, tensor = self._current()(np.vstack([X, Z]), eval_gradient=True)
            K, tensor = K[:n, n:], tensor[:n, n:]
        return inner(Q, K), {"theta": np.einsum("ij,ijp->p", Q, tensor)}

    def workspace(self) -> int:
        return 3 + 3 * len(self.kernel.theta)  # its gradient is an n x n x p array

    def noise_free(self) -> Kernel | None:
        current = self._current()
        signal = _signal(current)
        if signal is current:
            return self
        return None if signal is None else FromSklearn(signal)

    def _current(self) -> Any:
        if self.theta is None:
            return self.kernel
        return self.kernel.clone_with_theta(np.asarray(self.theta, dtype=float))


def _signal(kernel: Any) -> Any:
    """Return the kernel without its WhiteKernel parts, or None; itself if it has none."""
    from sklearn.gaussian_process import kernels as foreign

    if isinstance(kernel, foreign.WhiteKernel):
        return None
    if isinstance(kernel, foreign.Exponentiation):
        inside = _signal(kernel.kernel)
        if inside is kernel.kernel:
            return kernel
        return None if inside is None else foreign.Exponentiation(inside, kernel.exponent)
    if not isinstance(kernel, (foreign.Sum, foreign.Product)):
        return kernel
    left, right = _signal(kernel.k1), _signal(kernel.k2)
    if left is kernel.k1 and right is kernel.k2:
        return kernel
    if left is not None and right is not None:
        return type(kernel)(left, right)
    return None if isinstance(kernel, foreign.Product) else (right if left is None else left)


def add(a: Kernel | float, b: Kernel | float) -> Kernel:
    """Return a + b as one flat sum; a number becomes a :class:`~mercer.kernels.Constant`."""
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
