"""Functions that do not change, or change little, when inputs are moved; theory (F15), (F16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix, mirror
from mercer.kernels.base import DIAGONAL, Gradient, Kernel, added, prefixed, scaled
from mercer.kernels.compose import Wrapper
from mercer.kernels.features.fourier import not_frozen
from mercer.kernels.inputs.columns import LinearMap
from mercer.kernels.stationary.base import RBF

MOST = 1000  # elements of a group
LARGE = 1e6  # an entry that no such element has


class Invariant(Wrapper):
    """A kernel averaged over transformations of its inputs, x -> M_g x + s_g, g = 1 .. G.

        k(x, z) = 1/G^2 sum_g sum_h kernel(M_g x + s_g, M_h z + s_h)

    is the prior of f(x) = mean_g u(M_g x + s_g): for a group, of functions that are the same at all
    transforms of a point. For any list of transformations it is a kernel. It costs G^2 evaluations
    of the kernel inside. :meth:`group`, :meth:`reflections`, :meth:`permuted` and :meth:`shifted`
    make the usual lists.

    Parameters
    ----------
    kernel : Kernel; without noise parts, which belong outside.
    maps : array (G, d, d); the matrices M_g.
    shifts : array (G, d) or None, default=None; s_g, zero if None.

    References
    ----------
    Burges, Geometry and invariance in kernel based methods (1999); Haasdonk and Burkhardt,
    Invariant kernel functions for pattern analysis and machine learning (2007), section 4.

    Examples
    --------
    An even function of one column:

    >>> kernel = Invariant(RBF(), np.array([[[1.0]], [[-1.0]]]))
    >>> K = kernel(np.array([[2.0], [-2.0]]), np.array([[0.5]]))
    >>> bool(K[0, 0] == K[1, 0])
    True
    """

    def __init__(self, kernel: Kernel, maps: Array, shifts: Array | None = None) -> None:
        self.kernel, self.maps, self.shifts = kernel, maps, shifts

    @classmethod
    def example(cls) -> Self:
        return cls.reflections(RBF(length_scale=0.9), 2, [0])

    @classmethod
    def group(cls, kernel: Kernel, generators: Sequence[Array]) -> Self:
        """Return the average over the finite group of matrices (d, d) that these generate."""
        given = [np.asarray(g, dtype=np.float64) for g in generators]
        found = [np.eye(len(given[0]))]
        seen = {_key(found[0])}
        for element in found:  # grows behind
            for g in given:
                new = g @ element
                large = np.abs(new).max() > LARGE  # elements of a finite group are bounded
                if not large and _key(new) not in seen:
                    seen.add(_key(new))
                    found.append(new)
                if large or len(found) > MOST:
                    raise ValueError(
                        f"the matrices generate more than {MOST} transformations: give a finite "
                        "group, or a list of some of them as maps"
                    )
        return cls(kernel, np.array(found))

    @classmethod
    def reflections(cls, kernel: Kernel, d: int, columns: Sequence[int]) -> Self:
        """Return the average over the signs of each of these columns, of d."""
        signs = np.ones((2 ** len(columns), d))
        signs[:, list(columns)] = list(product([1.0, -1.0], repeat=len(columns)))
        return cls(kernel, signs[:, :, None] * np.eye(d))

    @classmethod
    def permuted(cls, kernel: Kernel, d: int, columns: Sequence[int]) -> Self:
        """Return the average over all orders of these columns, of d: exchangeable inputs."""
        maps = []
        for order in permutations(columns):
            rows = np.arange(d)
            rows[list(columns)] = order
            maps.append(np.eye(d)[rows])
        return cls(kernel, np.array(maps))

    @classmethod
    def shifted(cls, kernel: Kernel, height: int, width: int, reach: int = 1) -> Self:
        """Return the average over images of height x width columns, moved by up to ``reach``.

        What enters at the border is zero.
        """
        place, maps = np.arange(height * width).reshape(height, width), []
        for up, left in product(range(-reach, reach + 1), repeat=2):
            M = np.zeros((height * width, height * width))
            to = place[max(0, up) : height + min(0, up), max(0, left) : width + min(0, left)]
            start = place[max(0, -up) : height + min(0, -up), max(0, -left) : width + min(0, -left)]
            M[to.ravel(), start.ravel()] = 1.0
            maps.append(M)
        return cls(kernel, np.array(maps))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = np.zeros((len(X), len(X if Z is None else Z)))
        for A, B, weight in self._pairs(X, Z):
            K += self.kernel.multiple(A, B, weight)
        return mirror(0.5 * (K + K.T)) if Z is None else K

    def diag(self, X: Array) -> Array:
        total = np.zeros(len(X))
        for i in range(0, len(X), DIAGONAL):
            rows = slice(i, i + DIAGONAL)
            for A, B, weight in self._pairs(X[rows], None):
                total[rows] += weight * np.diagonal(self.kernel(A, B))
        return total

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        total, gradient = 0.0, Gradient()
        for A, B, weight in self._pairs(X, Z):
            value, slopes = self.kernel._value_and_pullback(A, B, Q)
            total += weight * value
            slopes = scaled(slopes, weight)
            gradient = added(gradient, slopes) if gradient else slopes
        return total, prefixed("kernel", gradient)

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        maps, moved, total = self._maps(Z.shape[1]), self._moved(Z), np.zeros(Z.shape)
        for A in self._moved(X):
            for M, B in zip(maps, moved, strict=True):
                total += self.kernel.pullback_points(A, B, Q) @ M
        return total / len(maps) ** 2

    def features(self, X: Any) -> Any:
        found = [self.kernel.features(A) for A in self._moved(X)]
        return None if found[0] is None else sum(found[1:], start=found[0]) / len(found)

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return Kernel.in_units(self, shift, scale)

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        moved = self._moved(X)
        every = None if weights is None else np.tile(weights, len(moved))
        new = self.kernel.frozen(np.vstack(moved), every)
        return self if new is self.kernel else self._rebuilt({"kernel": new})

    def terms(self) -> list[Kernel]:
        return [self]

    def workspace(self) -> int:
        return 2 + self.kernel.workspace()

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, np.shape(self.maps)[-1]))

    def _pairs(self, X: Array, Z: Array | None) -> Iterator[tuple[Array, Array, float]]:
        """Yield the moved points of both sides, and how much their kernel counts."""
        if self.kernel.noise_free() is not self.kernel or self.kernel.positional:
            raise ValueError("Invariant: add noise outside, Invariant(kernel, maps) + White()")
        left = self._moved(X)
        right = left if Z is None else self._moved(Z)
        unit = 1.0 / len(left) ** 2
        for i, A in enumerate(left):
            for j, B in enumerate(right):
                if Z is not None or i <= j:  # a symmetric Q sees (i, j) and (j, i) alike
                    yield A, B, unit if Z is not None or i == j else 2.0 * unit

    def _moved(self, X: Any) -> list[Array]:
        X = as_matrix(X)
        maps, d = self._maps(X.shape[1]), X.shape[1]
        moves = np.zeros((len(maps), d)) if self.shifts is None else np.asarray(self.shifts)
        if moves.shape != (len(maps), d) or not np.isfinite(moves).all():
            want = f"finite numbers, {len(maps)} x {d}"
            raise ValueError(f"Invariant: shifts must be {want}, got shape {moves.shape}")
        pairs = zip(maps, moves, strict=True)
        return [np.ascontiguousarray(X @ M.T + s, dtype=np.float64) for M, s in pairs]

    def _maps(self, d: int) -> Array:
        maps = np.asarray(self.maps, dtype=np.float64)
        if maps.ndim != 3 or not len(maps) or maps.shape[1:] != (d, d):
            raise ValueError(
                f"Invariant: maps must be matrices of {d} x {d}, for inputs of {d} columns, as an "
                f"array (G, {d}, {d}), got shape {maps.shape}"
            )
        if not np.isfinite(maps).all():
            raise ValueError("Invariant: maps must be finite")
        return maps


def _key(M: Array) -> bytes:
    return bytes((np.round(M, 9) + 0.0).tobytes())  # the bytes of -0 become those of 0


class Tangent(LinearMap):
    """A kernel that looks away from directions in which inputs are changed by transformations.

    A generator A moves x by t = A x, to first order. The kernel inside sees C^(-1/2) x with

        C = I + strength * mean of t t' over the first rows seen and the generators.

    With a :class:`Linear` kernel that is the prior which charges w'x with |w|^2 and with
    ``strength`` times the mean squared change (w't)^2: a small one asks for little invariance, a
    large one takes the directions out.

    Parameters
    ----------
    kernel : Kernel; of the mapped inputs, as many columns as before.
    generators : array (G, d, d); of a rotation, a scaling, a shift of an image, ...
    strength : float, default=1.0; positive, in inverse squared units of the inputs; not searched.
    root : array (d, d) or None, default=None; C^(-1/2), taken from the first rows seen if None.

    References
    ----------
    Schoelkopf, Simard, Smola and Vapnik, Prior knowledge in support vector kernels (1998); Chapelle
    and Schoelkopf, Incorporating invariances in nonlinear support vector machines (2001).

    Examples
    --------
    Only the distance from the origin should count: rotations change nothing there.

    >>> turn = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    >>> X = np.array([[2.0, 0.0], [2.0, 0.1]])
    >>> Tangent(RBF(), turn, 100.0).frozen(X)(X)[0, 1].round(4), RBF()(X)[0, 1].round(4)
    (np.float64(1.0), np.float64(0.995))
    """

    def __init__(
        self, kernel: Kernel, generators: Array, strength: float = 1.0, root: Array | None = None
    ) -> None:
        self.kernel, self.generators, self.strength, self.root = kernel, generators, strength, root

    @classmethod
    def example(cls) -> Self:
        turn = np.array([[[0.0, -1.0], [1.0, 0.0]]])
        return cls(RBF(length_scale=0.8), turn, 2.0, np.array([[0.8, 0.1], [0.1, 0.5]]))

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if self.root is not None:
            return super().frozen(X, weights)
        X = as_matrix(X)
        d, w = X.shape[1], np.ones(len(X)) if weights is None else weights
        maps, strength = np.asarray(self.generators, dtype=np.float64), self.strength
        if maps.ndim != 3 or maps.shape[1:] != (d, d) or not np.isfinite(maps).all():
            raise ValueError(
                f"Tangent: generators must be an array (G, {d}, {d}) of finite numbers"
            )
        if not (np.ndim(strength) == 0 and 0.0 < strength < np.inf):
            raise ValueError(f"Tangent: strength must be positive and finite, got {strength!r}")
        moment = (X * w[:, None]).T @ X / w.sum()  # mean of x x'
        C = np.eye(d) + strength * np.mean([A @ moment @ A.T for A in maps], axis=0)
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        clone = self._restated(root=(vectors / np.sqrt(values)) @ vectors.T)
        clone.kernel = self.kernel.frozen(clone._inside(X), weights)
        return clone

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, np.shape(self.generators)[-1]))

    def _map(self, d: int) -> Array:
        """Return C^(-1/2) (d, d), symmetric: the mapped inputs are X times it."""
        if self.root is None:
            raise not_frozen(self, "root")
        root = np.asarray(self.root, dtype=np.float64)
        if root.shape != (d, d) or not np.isfinite(root).all():
            raise ValueError(f"Tangent: root must be finite, {d} x {d} for inputs of {d} columns")
        return root
