"""Networks with infinitely many hidden units."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, mirror
from mercer.core.component import POSITIVE, Domains, Names, Words
from mercer.kernels.base import Gradient, Kernel, inner, like, other_points, positive
from mercer.kernels.stationary.base import squares


class RBFNetwork(Kernel):
    """Kernel of a network of infinitely many Gaussian bumps, their centres spread about the origin.

    Hidden units h_c(x) = exp(-|x - c|^2 / (2 width^2)), with centres c from N(0, spread^2 I) and
    independent weights of unit variance, give in d columns

        k(x, z) = (e / spread)^d exp(-|x|^2 / (2 m)) exp(-|x - z|^2 / (2 s)) exp(-|z|^2 / (2 m)),
        1 / e^2 = 2 / width^2 + 1 / spread^2,    m = 2 spread^2 + width^2,
        s = 2 width^2 + width^4 / spread^2.

    Far from the origin there are no units, and functions tend to zero there; a wide spread makes it
    an :class:`RBF` of length scale sqrt(2) width, up to its variance.

    Parameters
    ----------
    length_scale : float, default=1.0; positive, the width of a unit, in the units of the inputs.
    spread : float, default=3.0; positive, of the centres about the origin, in the same units.

    References
    ----------
    Williams, Computation with infinite neural networks (1998), section 3.2; Rasmussen and Williams,
    Gaussian Processes for Machine Learning, equation (4.30).

    Examples
    --------
    >>> RBFNetwork(length_scale=1.0, spread=1.0).diag(np.array([[0.0], [3.0]])).round(4)
    array([0.5774, 0.0287])
    """

    domains: ClassVar[Domains] = {"length_scale": POSITIVE, "spread": POSITIVE}
    words: ClassVar[Words] = {
        "length_scale": "width of a bump: the distance over which the function changes",
        "spread": "how far from the origin there are bumps",
    }

    def __init__(self, length_scale: float = 1.0, spread: float = 3.0) -> None:
        self.length_scale, self.spread = length_scale, spread

    @classmethod
    def example(cls) -> Self:
        return cls(length_scale=0.9, spread=1.7)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self._values(X, Z)[0]

    def diag(self, X: Array) -> Array:
        X, _, _ = other_points(X, None)
        a, b = self._squared()
        top = (a / (2.0 * b + a)) ** (0.5 * X.shape[1])
        return np.asarray(top * np.exp(-(X**2).sum(axis=1) / (2.0 * b + a)))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # by a = width^2 and b = spread^2, from three sums of M = Q o K
        M, apart, x2, z2 = self._values(X, Z)
        M *= Q
        a, b = self._squared()
        m, s = 2.0 * b + a, 2.0 * a + a**2 / b
        total, d = float(M.sum()), np.shape(X)[1]
        away = 0.5 * float(M.sum(axis=1) @ x2 + M.sum(axis=0) @ z2) / m**2
        near = 0.5 * float(np.vdot(M, apart)) / s**2
        by_a = 0.5 * d * (1.0 / a - 1.0 / m) * total + away + near * (2.0 + 2.0 * a / b)
        by_b = -d / m * total + 2.0 * away - near * a**2 / b**2
        width, spread = np.sqrt([a, b])
        return total, {
            "length_scale": 2.0 * float(width) * by_a,
            "spread": 2.0 * float(spread) * by_b,
        }

    def _values(self, X: Array, Z: Array | None) -> tuple[Array, Array, Array, Array]:
        """Return K, the squared distances (n, m), and |x|^2 (n,), |z|^2 (m,)."""
        X, Z, _ = other_points(X, Z)
        a, b = self._squared()
        apart, x2, z2 = squares(X, Z), (X**2).sum(axis=1), (Z**2).sum(axis=1)
        K = apart * (-0.5 / (2.0 * a + a**2 / b))
        K -= np.add.outer(x2, z2) * (0.5 / (2.0 * b + a))
        np.exp(K, out=K)
        K *= (a / (2.0 * b + a)) ** (0.5 * X.shape[1])
        return K, apart, x2, z2

    def _squared(self) -> tuple[float, float]:
        return float(positive(self, "length_scale")) ** 2, float(positive(self, "spread")) ** 2


class ArcSine(Kernel):
    """Neural network kernel: a layer of infinitely many error-function units.

    With c(x, z) = 2 (bias + sum_d weight_d x_d z_d),

        k = (2 / pi) arcsin( c(x, z) / sqrt((1 + c(x, x)) (1 + c(z, z))) ).

    Parameters
    ----------
    weight : float or array (d,), default=1.0; positive prior variance of the units' input weights.
    bias : float, default=1.0; positive prior variance of the offset of the units.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.29).

    Examples
    --------
    >>> ArcSine()(np.array([[0.0]]), np.array([[0.0], [3.0]])).round(4)
    array([[0.4646, 0.1622]])
    """

    domains: ClassVar[Domains] = {"weight": POSITIVE, "bias": POSITIVE}
    words: ClassVar[Words] = {
        "weight": "variance of the input weights of the units",
        "bias": "variance of the offset of the units",
    }
    names: ClassVar[Names] = {"arcsine": lambda: ArcSine()}

    def __init__(self, weight: float | Array = 1.0, bias: float = 1.0) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        cross, p, q, _, _ = self._products(X, Z)
        np.arctan2(cross, _adjacent(cross, p, q), out=cross)
        cross *= 2.0 / np.pi
        return mirror(cross) if Z is None else cross

    def diag(self, X: Array) -> Array:
        X, _, _ = other_points(X, None)
        p = self._squares(X)
        return np.asarray((2.0 / np.pi) * np.arctan2(p, np.sqrt(1.0 + 2.0 * p)))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # With A = 1 + p, B = 1 + q, t = cross / sqrt(A B):
        # dk = (2 / pi) (dcross - cross (dA / A + dB / B) / 2) / sqrt(A B - cross^2)
        cross, p, q, X, Z = self._products(X, Z)
        adjacent = _adjacent(cross, p, q)
        value = (2.0 / np.pi) * inner(Q, np.arctan2(cross, adjacent))
        M = np.divide((2.0 / np.pi) * Q, adjacent, out=adjacent)
        cross *= M
        rows = 0.5 * cross.sum(axis=1) / (1.0 + p)
        columns = 0.5 * cross.sum(axis=0) / (1.0 + q)
        sums = np.einsum("id,id->d", X, M @ Z) - rows @ (X * X) - columns @ (Z * Z)
        bias = M.sum() - rows.sum() - columns.sum()
        return value, {"weight": like(self.weight, 2.0 * sums), "bias": 2.0 * float(bias)}

    def _products(self, X: Array, Z: Array | None) -> tuple[Array, Array, Array, Array, Array]:
        """Return c(X, Z) (n, m), c(x, x) (n,), c(z, z) (m,) and the two sets of points."""
        X, Z, same = other_points(X, Z)
        root = np.sqrt(2.0 * positive(self, "weight", X.shape[1]))
        p, weighted = self._squares(X), X * root
        cross = weighted @ (weighted if same else Z * root).T
        cross += 2.0 * positive(self, "bias")
        return cross, p, (p if same else self._squares(Z)), X, Z

    def _squares(self, X: Array) -> Array:
        weight = np.broadcast_to(positive(self, "weight", X.shape[1]), X.shape[1])
        return np.asarray(2.0 * (X * X @ weight + positive(self, "bias")))


def _adjacent(cross: Array, p: Array, q: Array) -> Array:
    """Return sqrt((1 + p)(1 + q) - cross^2) (n, m), where p q >= cross^2 but for rounding."""
    excess = np.outer(p, q)
    excess -= cross * cross
    np.maximum(excess, 0.0, out=excess)
    excess += 1.0 + p[:, None]
    excess += q
    return np.asarray(np.sqrt(excess, out=excess))
