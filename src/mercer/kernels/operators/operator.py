"""Kernels of differential operators: a chosen sum of squared derivatives; theory (F6), (F7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._native import core
from mercer.core.arrays import Array, as_matrix, mirror, threads
from mercer.core.component import POSITIVE, REAL, Domain, Domains, Words
from mercer.kernels.base import Gradient, Kernel, blocks, finite, other_points, positive
from mercer.kernels.markov import Block, MarkovProcess, Slopes, StateSpace
from mercer.kernels.operators.factor import block_slopes, process_block
from mercer.kernels.operators.greens import Nodes, contour_nodes, green, green_slope, small_terms
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import RBF, OfDistance, Stationary
from mercer.kernels.stationary.matern import Matern

Mask: TypeAlias = NDArray[np.bool_]


class Penalty(Kernel, abstract=True):
    """A kernel by the ``coefficients`` of its penalty, one for each derivative."""

    coefficients: Array

    @property
    def domains(self) -> Mapping[str, Domain]:  # type: ignore[override]  # depends on the signs
        """Positive if all coefficients are, else the real line."""
        inside = bool(np.all(np.asarray(self.coefficients) > 0.0))
        return {"coefficients": POSITIVE if inside else REAL}


class Operator(Penalty):
    """Green's function of P(-laplacian), P(z) = sum_m coefficients[m] z^m, in ``dims`` dimensions.

    The norm of its function space is |f|^2 = sum_m a_m int |m-th derivatives of f|^2 dx, and its
    spectral density 1 / P(4 pi^2 |s|^2). Coefficients may be negative or zero as long as P(z) > 0
    for all z >= 0; the degree M must satisfy 2 M > dims, or k(0) would be infinite. For
    P = (c + z)^M, :class:`Matern` with nu = M - dims / 2 is faster, up to the variance.

    Parameters
    ----------
    coefficients : array (M + 1,)
        a_0 > 0, ..., a_M > 0. Searched in logarithms while all are positive, else as they are.
    dims : int, default=1; number of columns of the inputs.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equations (6.10) to (6.16);
    with the multinomial weights in (6.10) that make the norm rotation invariant.

    Examples
    --------
    >>> Operator([4.0, 1.0])(np.array([[0.0]]), np.array([[1.0]])).round(6)  # exp(-2) / 4
    array([[0.033834]])
    """

    def __init__(self, coefficients: Array, dims: int = 1) -> None:
        self.coefficients, self.dims = coefficients, dims

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([1.0, 2.0, 0.5, 0.1]), dims=1)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, self.dims))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = self._points(X, Z)
        nodes, D, K = self._nodes(), self.dims, np.empty((X.shape[0], Z.shape[0]))
        terms = small_terms(D, len(self.coefficients) - 1)
        series = [float((nodes.weight @ term.of_q(nodes.q)).real) for term in terms]
        for rows, columns, _ in blocks(len(X), len(Z), same):
            r, near, far = self._distances(nodes, X[rows], Z[columns])
            k = np.zeros(r.shape)
            for c, term in zip(series, terms, strict=True):
                k[near] += c * term.of_r(r[near])
            for weight, q in zip(nodes.weight, nodes.q, strict=True):
                k[far] += (weight * green(D, q, r[far])).real
            K[rows, columns] = k
        return mirror(K) if same else K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self(np.zeros((1, self.dims)))[0, 0])

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # All coefficients from the sums <Q, G(q_l)> and <Q, dG/dz(q_l)>, one pair for each node.
        X, Z, same = self._points(X, Z)
        nodes, D = self._nodes(), self.dims
        terms = small_terms(D, len(self.coefficients) - 1)
        value, slope = np.zeros_like(nodes.q), np.zeros_like(nodes.q)
        single = np.abs(nodes.slope).max(axis=0) > 0.0
        for rows, columns, weight in blocks(len(X), len(Z), same):
            r, near, far = self._distances(nodes, X[rows], Z[columns])
            part = weight * Q[rows, columns]
            for i, q in enumerate(nodes.q):
                value[i] += part[far] @ green(D, q, r[far])
                if single[i]:
                    slope[i] += part[far] @ green_slope(D, q, r[far])
            for term in terms if near.any() else []:
                moment = part[near] @ term.of_r(r[near])
                value += moment * term.of_q(nodes.q)
                slope += moment * term.slope(nodes.q)
        gradient = (nodes.value @ value + nodes.slope @ slope).real
        return float((nodes.weight @ value).real), {"coefficients": gradient}

    def markov_process(self) -> MarkovProcess | None:
        if whole(self, "dims", 1) != 1:
            return None
        return MarkovProcess((process_block(self._checked_coefficients()),))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        return {"coefficients": block_slopes(self._checked_coefficients(), *slopes[0])}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        # k(r / c) has the spectral density c^D / P(c^2 z): a_m becomes a_m c^(2 m - D)
        c = float(scale[0])
        if not (scale == c).all():
            return super().in_units(shift, scale)
        a = np.asarray(self.coefficients, dtype=float)
        return self._restated(coefficients=a * c ** (2.0 * np.arange(len(a)) - self.dims))

    def _points(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        X, Z, same = other_points(X, Z)
        if X.shape[1] != self.dims:
            D, got = self.dims, X.shape[1]
            what = f"Operator(dims={D}) is for inputs of {D} columns"
            raise ValueError(f"{what}, but they have {got}; give dims={got}")
        return X, Z, same

    def _distances(self, nodes: Nodes, X: Array, Z: Array) -> tuple[Array, Mask, Mask]:
        """Return the distances, where the series about r = 0 serves (D > 1), and where not."""
        r = np.empty((X.shape[0], Z.shape[0]))
        core.stationary(-1, X, Z, False, r, 1.0, threads(r.size))
        np.sqrt(r, out=r)
        near = np.asarray(r * np.abs(nodes.q).max() < (1.0 if self.dims > 1 else 0.0))
        return r, near, ~near

    def _nodes(self) -> Nodes:
        return contour_nodes(self._checked_coefficients())

    def _checked_coefficients(self) -> Array:
        a, D = finite(self, "coefficients", len(self.coefficients)), whole(self, "dims", 1)
        if len(a) < 2 or not (a[0] > 0.0 and a[-1] > 0.0):
            what = "the first and the last of at least two coefficients must be positive"
            other = ""
            if len(a) > 2 and a[0] == 0.0 and a[1] > 0.0 and D == 1:
                other = f"; without a penalty on f itself: TensionSpline({a[1:].tolist()})"
            raise ValueError(f"Operator: {what}, got {a.tolist()}{other}")
        if 2 * (len(a) - 1) <= D:
            raise ValueError(
                f"Operator: order M = {len(a) - 1} is too low for dims = {D}: 2 M > dims is "
                "required, otherwise the variance is infinite; add a coefficient"
            )
        z = np.polynomial.polynomial.polyroots(a)
        bad = (z.real > 0.0) & (np.abs(z.imag) <= 1e-7 * np.abs(z))
        if bad.any():
            raise ValueError(
                f"Operator: P(z) = sum_m a_m z^m must be positive for z >= 0, but it is zero at or "
                f"near z = {z[bad][0].real:.6g}; the coefficients are {a.tolist()}"
            )
        return a


class _Named(OfDistance, abstract=True):
    """An operator kernel whose closed form is an amplitude times a stationary kernel."""

    dims: int = 1

    def _form(self) -> tuple[float, float, Stationary, float]:
        """Return amplitude, its derivative by the parameter, the kernel, d length scale."""
        raise NotImplementedError

    def coordinates(self, X: Array, d: int) -> Array:
        return self._form()[2].coordinates(X, d)

    def profile(self, s: Array) -> Array:
        amplitude, _, kernel, _ = self._form()
        return amplitude * kernel.profile(s)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, whole(self, "dims", 1)))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        amplitude, _, kernel, _ = self._form()
        K = kernel(self._checked(X), Z)
        K *= amplitude
        return K

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        amplitude, slope, kernel, stretch = self._form()
        value, gradient = kernel._value_and_pullback(self._checked(X), Z, Q)
        total = slope * value + amplitude * stretch * float(gradient["length_scale"])
        return amplitude * value, {next(iter(self.domains)): total}

    def _checked(self, X: Array) -> Array:
        X, D = as_matrix(X), whole(self, "dims", 1)
        if X.shape[1] != D:
            got = f"but they have {X.shape[1]}"
            raise ValueError(f"{type(self).__name__} is for inputs of {D} columns, {got}")
        return X


class OrnsteinUhlenbeck(_Named):
    """Green's function of rate^2 - d^2/dx^2 in one dimension, k = exp(-rate r) / (2 rate).

    The same as ``Operator([rate**2, 1.0])``: the velocity of a Brownian particle.

    Parameters
    ----------
    rate : float, default=1.0; positive inverse correlation length, in inverse units of the input.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (B.28).

    Examples
    --------
    >>> OrnsteinUhlenbeck(rate=2.0).diag(np.zeros((1, 1)))
    array([0.25])
    """

    domains: ClassVar[Domains] = {"rate": POSITIVE}
    words: ClassVar[Words] = {
        "rate": "rate: the inverse of the distance over which the function changes"
    }

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def _form(self) -> tuple[float, float, Stationary, float]:
        a = float(positive(self, "rate"))
        return 0.5 / a, -0.5 / a**2, Matern(nu=0.5, length_scale=1.0 / a), -1.0 / a**2

    def state_space(self) -> StateSpace:
        rate = positive(self, "rate").reshape(1)
        return StateSpace(np.ones(1, dtype=np.int32), rate, 0.5 / rate)

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        return {"rate": float(rates[0] - variances[0]) / float(self.rate)}

    def markov_process(self) -> MarkovProcess:
        a = positive(self, "rate").reshape(1, 1)
        return MarkovProcess((Block(-a, np.ones((1, 1)), 0.5 / a),))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        (F, P), a = slopes[0], float(self.rate)
        return {"rate": float(-F[0, 0] - 0.5 * P[0, 0] / a**2)}


class SquaredExponentialOperator(_Named):
    """Green's function of exp(-sigma^2 laplacian / 2): a normalised Gaussian of width sigma.

    k = (2 pi sigma^2)^(-dims/2) exp(-r^2 / (2 sigma^2)), the limit of :class:`Operator` with
    a_m = sigma^(2 m) / (m! 2^m).

    Parameters
    ----------
    sigma : float, default=1.0; positive width, in the units of the inputs.
    dims : int, default=1; number of columns of the inputs.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, section 6.2.1, equation (6.18).

    Examples
    --------
    >>> SquaredExponentialOperator(sigma=1.0, dims=2).diag(np.zeros((1, 2))).round(4)  # 1 / (2 pi)
    array([0.1592])
    """

    domains: ClassVar[Domains] = {"sigma": POSITIVE}
    words: ClassVar[Words] = {"sigma": "length scale: the distance over which the function changes"}

    def __init__(self, sigma: float = 1.0, dims: int = 1) -> None:
        self.sigma, self.dims = sigma, dims

    def _form(self) -> tuple[float, float, Stationary, float]:
        sigma, D = float(positive(self, "sigma")), whole(self, "dims", 1)
        amplitude = (2.0 * np.pi * sigma**2) ** (-0.5 * D)
        return amplitude, -D * amplitude / sigma, RBF(length_scale=sigma), 1.0
