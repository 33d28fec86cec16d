"""Functions of a kernel's Hilbert space: expansions, their norms, and a model as one of them.

f = sum_i alpha_i k(., x_i) + h(.)'beta,    <f, g> = alpha' k(X, Z) gamma        GPML (6.6)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.core.basis import PolynomialBasis
from mercer.kernels.base import Kernel
from mercer.process.process import Prior, batched

__all__ = ["Expansion", "representer"]

Functions = Callable[[Array], Array]


class Expansion:
    """f(x) = k(x, P) alpha + h(x)'beta, an element of the Hilbert space of the kernel.

    Norms and inner products are those of the part with the kernel: the basis has no penalty, so a
    function of the basis alone has norm zero. Noise parts of the kernel are left out.

    Parameters
    ----------
    kernel : the kernel k.
    points : (p, d) the points P.
    alpha : (p,) coefficients.
    beta, basis : (k,) coefficients and functions (n, d) -> (n, k); or None.

    Reference: GPML section 6.1.

    Examples
    --------
    The reproducing property, <f, k(., x)> = f(x) (6.7):

    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> f = Expansion(RBF(), np.array([[0.0], [1.0]]), np.array([1.0, -0.5]))
    >>> x = np.array([[0.3]])
    >>> float(f(x)[0] - f.inner(Expansion(RBF(), x, np.ones(1))))
    0.0
    >>> round((f - f).norm(), 12), round((2.0 * f).norm() / f.norm(), 12)
    (0.0, 2.0)
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        alpha: Array,
        beta: Array | None = None,
        basis: Functions | None = None,
    ) -> None:
        signal = kernel.noise_free()
        if signal is None:
            raise ValueError("the kernel consists of noise parts only: it spans no functions")
        if (beta is None) != (basis is None):
            raise ValueError("beta and basis come together: coefficients, and their functions")
        self.kernel = _unmarked(signal)
        self.points = as_matrix(points)
        self.alpha = np.asarray(alpha, dtype=np.float64)
        self.beta = None if beta is None else np.asarray(beta, dtype=np.float64)
        self.basis = basis
        if self.alpha.shape != (len(self.points),):
            raise ValueError(
                f"{len(self.points)} points need as many coefficients, not {self.alpha.shape}; "
                "several outputs are several expansions"
            )

    def __repr__(self) -> str:
        more = "" if self.beta is None else f", {len(self.beta)} basis functions"
        return f"Expansion({self.kernel!r}, {len(self.points)} points{more})"

    def __call__(self, X: Array) -> Array:
        """Return f at X (n, d): shape (n,)."""
        X = as_matrix(X)
        width = len(self.points)
        values = batched(lambda rows: self.kernel(rows, self.points) @ self.alpha, X, width)
        if self.basis is None or self.beta is None:
            return values
        return np.asarray(values + self.basis(X) @ self.beta)

    def inner(self, other: Expansion) -> float:
        """Return <f, g> = alpha' k(P, Q) gamma (6.6)."""
        self._same_space(other)
        return float(self.alpha @ Expansion(self.kernel, other.points, other.alpha)(self.points))

    def norm(self) -> float:
        """Return |f|, the root of alpha' K alpha."""
        return float(np.sqrt(max(self.inner(self), 0.0)))  # rounding can leave -1e-16

    def distance(self, other: Expansion) -> float:
        """Return |f - g|; zero for functions that differ by their basis part alone."""
        return (self - other).norm()

    def __add__(self, other: Expansion) -> Expansion:
        self._same_space(other)
        beta, basis = _added(self, other)
        if np.array_equal(self.points, other.points):  # so that f - f has coefficients zero
            alpha = self.alpha + other.alpha
            return Expansion(self.kernel, self.points, alpha, beta, basis)
        points = np.concatenate([self.points, other.points])
        alpha = np.concatenate([self.alpha, other.alpha])
        return Expansion(self.kernel, points, alpha, beta, basis)

    def __sub__(self, other: Expansion) -> Expansion:
        return self + (-1.0) * other

    def __neg__(self) -> Expansion:
        return (-1.0) * self

    def __mul__(self, factor: float) -> Expansion:
        if np.ndim(factor) != 0:
            raise TypeError("an expansion can be multiplied by a number only")
        beta = None if self.beta is None else factor * self.beta
        return Expansion(self.kernel, self.points, factor * self.alpha, beta, self.basis)

    __rmul__ = __mul__

    def _same_space(self, other: Expansion) -> None:
        if self.kernel != other.kernel:
            raise ValueError(
                "functions of different kernels have no inner product and no sum: "
                f"{self.kernel!r} and {other.kernel!r}"
            )
        d, other_d = self.points.shape[1], other.points.shape[1]
        if d != other_d:
            raise ValueError(f"functions of {d} and of {other_d} columns")


def representer(model: Any) -> Expansion | list[Expansion]:
    """Return the latent function of a fitted model in representer form, in the user's units.

    The expansion has the kernel, the points and the coefficients with which the model predicts, so
    its norm is the penalty the model paid, in units of y; relevance vectors paid another one, a
    price for each weight. A constant that was taken off y, an offset, a prior mean and the basis
    are its basis part. Several outputs or classes are a list of expansions.

    Reference: GPML section 6.2, the representer theorem.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> X = np.linspace(0.0, 5.0, 20)[:, None]
    >>> model = GPRegressor().fit(X, 3.0 + np.sin(X[:, 0]))
    >>> f = representer(model)
    >>> bool(np.allclose(f(X + 0.1), model.predict(X + 0.1)))
    True
    """
    for mark, read in (
        ("support_vectors_", _supported),
        ("relevance_vectors_", _relevant),
        ("stream_", _streamed),
    ):
        if hasattr(model, mark):
            found = read(model)
            return found[0] if len(found) == 1 else found
    posteriors = getattr(model, "posteriors_", None)
    if posteriors is None:
        raise TypeError(f"{type(model).__name__} is not fitted, or has no representer form")
    if len(posteriors) > 1:
        raise ValueError(
            f"the model averages over {len(posteriors)} draws of its hyperparameters, each with a "
            "kernel of its own: there is no single expansion"
        )
    posterior, units = posteriors[0], model.units_.of_latent(model.losses_[0])
    if getattr(getattr(posterior, "operator", None), "weighs", False):
        raise ValueError(
            "the model is known by the weights of its features, not by points: fit it with "
            "gram='dense' for an expansion"
        )
    prior, alphas = posterior.parent, posterior.alpha
    if getattr(posterior, "straight", False):  # an endless penalty: the basis alone is left
        prior, alphas = Prior(prior.kernel.kernel), 0.0 * alphas
    if not isinstance(prior, Prior):
        raise ValueError("the model was conditioned more than once: it has no single expansion")
    found = []
    for j, (shift, scale) in enumerate(zip(units.y_shift, units.y_scale, strict=True)):
        # y = shift + scale f: variance scale^2 k, coefficients alpha / scale
        kernel = replace(units, y_scale=np.array([scale])).kernel_in_user_units(prior.signal)
        points, alpha = units.in_user_units(posterior.points), alphas[:, j] / scale
        f = Expansion(kernel, points, alpha)
        if posterior.beta is not None:
            linear = partial(_inside, posterior.basis, units)
            f = f + Expansion(kernel, points, 0.0 * alpha, scale * posterior.beta[:, j], linear)
        if shift != 0.0:
            f = f + Expansion(kernel, points, 0.0 * alpha, np.array([shift]), PolynomialBasis(0))
        found.append(f)
    return found[0] if len(found) == 1 else found


def _supported(model: Any) -> list[Expansion]:
    """The functions of a support vector machine: coefficients (k, p) on its support vectors."""
    if model.kernel_.pairwise:
        raise ValueError(
            "the machine was given kernel values, not points: it has no expansion over points; "
            "give Precomputed(matrix), and row numbers of it as X"
        )
    return _raised(model.kernel_, model.support_vectors_, model.dual_coef_, model.intercept_)


def _relevant(model: Any) -> list[Expansion]:
    """The functions of a relevance vector machine, in the space of the kernel of its functions."""
    if model.kernel_ is None:
        raise ValueError(
            "the machine has functions of its own and no kernel: its weights_ are the coefficients"
        )
    if model.heal:
        raise ValueError(
            "with heal each prediction has a function of its own, centred where it is asked: fit "
            "with heal=False for one expansion"
        )
    return _raised(model.kernel_, model.relevance_vectors_, model.weights_, model.intercept_)


def _streamed(model: Any) -> list[Expansion]:
    """The mean of each latent function of a stream; its prior mean is the basis part."""
    stream = model.stream_
    if stream.weighs:
        raise ValueError(
            "the stream is known by the weights of its features, not by points: the expansion "
            "would need the rows, which it does not keep"
        )
    points = model.units_.in_user_units(stream.points)
    return _raised(model.kernel_, points, stream.alpha.T, stream.level)


def _raised(kernel: Kernel, points: Array, rows: Array, offsets: Array) -> list[Expansion]:
    """The expansions of coefficients (k, p) on points (p, d), each with a constant (k,)."""
    constant = PolynomialBasis(0)
    return [
        Expansion(kernel, points, row, np.array([offset]), constant)
        for row, offset in zip(rows, offsets, strict=True)
    ]


def _added(f: Expansion, g: Expansion) -> tuple[Array | None, Functions | None]:
    """Coefficients and functions of the sum of two basis parts."""
    if f.beta is None or f.basis is None:
        return g.beta, g.basis
    if g.beta is None or g.basis is None:
        return f.beta, f.basis
    if f.basis is g.basis or f.basis == g.basis:
        return f.beta + g.beta, f.basis
    return np.concatenate([f.beta, g.beta]), partial(_beside, f.basis, g.basis)


def _beside(f: Functions, g: Functions, X: Array) -> Array:
    return np.column_stack([f(X), g(X)])


def _inside(basis: Functions, units: Any, X: Array) -> Array:
    """A basis of a machine's standardised units at the user's X (n, d)."""
    return basis(units.standardised(X))


def _unmarked(kernel: Kernel) -> Kernel:
    """Return the kernel without bounds and priors: they are no part of the function."""
    if not any(getattr(owner, "_marks", None) for _, owner, _ in kernel.differentiable()):
        return kernel
    clone = kernel.__sklearn_clone__()
    for _, owner, _ in clone.differentiable():
        owner._marks = {}
    return clone
