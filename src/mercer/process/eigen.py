"""Eigenfunctions of a kernel under a measure: Mercer's expansion, and norms by its coefficients.

    int k(x, z) phi_i(z) dmu(z) = lambda_i phi_i(x),    k(x, z) = sum_i lambda_i phi_i(x) phi_i(z)
    f = sum_i c_i phi_i,    |f|^2 = sum_i c_i^2 / lambda_i                  GPML (6.1) to (6.4)

Theory (F1), (F2), (F3), (F4), (F5).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, Index, as_matrix
from mercer.kernels.base import Kernel
from mercer.process.function import Expansion

LEAST = 1e-13  # share of the largest eigenvalue below which an eigenvector of a sample is rounding


class Eigenfunctions:
    """The first eigenfunctions of a kernel under a measure, orthonormal under it.

    :meth:`gaussian` knows those of an RBF kernel in closed form, :meth:`sampled` estimates those of
    any kernel from points of the measure.

    Parameters
    ----------
    values : (m,) eigenvalues, positive, the largest first.
    functions : X (n, d) -> phi(X) (n, m).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> found = Eigenfunctions.gaussian(RBF(), count=20)
    >>> x = np.array([[0.3], [1.0]])
    >>> bool(np.allclose(found.kernel(x, x), RBF()(x)))
    True
    >>> f = Expansion(RBF(), x, np.array([1.0, -0.5]))  # its norm, by (6.6) and by (6.1)
    >>> bool(np.isclose(found.norm(found.coefficients(f)), f.norm()))
    True
    """

    def __init__(self, values: Array, functions: Callable[[Array], Array]) -> None:
        self.values, self._functions = values, functions

    @classmethod
    def gaussian(
        cls,
        kernel: Kernel,
        mean: float | Array = 0.0,
        std: float | Array = 1.0,
        count: int = 20,
        d: int | None = None,
    ) -> Self:
        """Return those of an RBF kernel under N(mean, diag(std^2)), in closed form: Hermite's.

        With a = 1 / (4 std^2), b = 1 / (2 length_scale^2), c = sqrt(a^2 + 2 a b), A = a + b + c in
        each column, lambda_k = sqrt(2 a / A) (b / A)^k: GPML (4.39), (4.40); products over columns.

        Parameters
        ----------
        kernel : an RBF kernel, one or several length scales, times a variance.
        mean, std : floats or (d,) of the normal measure, in the units of the inputs.
        count : m.
        d : number of columns, where neither mean nor std says it.
        """
        d = max(np.size(mean), np.size(std)) if d is None else d
        centre, spread = (np.broadcast_to(np.asarray(a, dtype=float), d) for a in (mean, std))
        form = kernel.signal().as_rbf(np.eye(d), np.zeros(d))
        if form is None or np.count_nonzero(form[0] - np.diag(np.diagonal(form[0]))):
            raise ValueError(
                "closed eigenfunctions are those of an RBF kernel with a length scale of each "
                "column; use Eigenfunctions.sampled(kernel, X) for other kernels"
            )
        if not (np.isfinite(centre).all() and np.isfinite(spread).all() and (spread > 0.0).all()):
            raise ValueError("mean must be finite, std positive and finite")
        a, b = 0.25 / spread**2, 0.5 * np.diagonal(form[0]) ** 2
        c = np.sqrt(a**2 + 2.0 * a * b)
        A = a + b + c
        first, ratio = np.sqrt(2.0 * a / A), b / A
        powers = _largest(np.log(ratio), count)  # (m, d)
        values = form[1] * np.prod(first * ratio**powers, axis=1)

        def functions(X: Array) -> Array:
            total = np.ones((len(X), len(powers)))
            for j in range(d):
                x = X[:, j] - centre[j]
                h = np.empty((int(powers[:, j].max()) + 1, len(X)))  # normalised, by recursion
                h[0] = (c[j] / a[j]) ** 0.25 * np.exp(-(c[j] - a[j]) * x**2)
                for k in range(1, len(h)):
                    h[k] = np.sqrt(2.0 / k) * np.sqrt(2.0 * c[j]) * x * h[k - 1]
                    if k > 1:
                        h[k] -= np.sqrt((k - 1.0) / k) * h[k - 2]
                total *= h[powers[:, j]].T
            return total

        return cls(values, functions)

    @classmethod
    def sampled(cls, kernel: Kernel, X: Any, weights: Array | None = None, count: int = 20) -> Self:
        """Return estimates from points X (n, d) of the measure, with weights (n,): Nystroem's.

        phi_i(x) = k(x, X) S u_i / lambda_i, S = diag(sqrt(w / sum w)), and u_i, lambda_i those of
        S k(X, X) S: GPML (4.44). The measure of the points themselves has exactly these.

        Parameters
        ----------
        kernel : any kernel; noise parts are left out.
        X : (n, d) points.
        weights : (n,) not negative, or None: all alike.
        count : m at most; eigenvalues that are rounding are left out.
        """
        X, signal = as_matrix(X), kernel.signal()
        w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
        if w.shape != (len(X),) or not (w >= 0.0).all() or not w.sum() > 0.0:
            raise ValueError(f"weights must be {len(X)} numbers, none negative, of positive sum")
        root = np.sqrt(w / w.sum())
        values, vectors = np.linalg.eigh(root[:, None] * signal(X) * root)
        kept = np.flatnonzero(values > LEAST * len(X) * values[-1])[::-1][:count]
        values, B = values[kept], root[:, None] * vectors[:, kept] / values[kept]
        return cls(values, lambda Z: np.asarray(signal(Z, X) @ B))

    def __call__(self, X: Any) -> Array:
        """Return phi(X) (n, m) for X (n, d)."""
        return self._functions(as_matrix(X))

    def kernel(self, X: Any, Z: Any) -> Array:
        """Return sum_i lambda_i phi_i(x) phi_i(z), (n, p): Mercer's theorem, cut off at m."""
        return np.asarray((self(X) * self.values) @ self(Z).T)

    def coefficients(self, f: Expansion) -> Array:
        """Return c (m,) of f = sum_j alpha_j k(., x_j): c_i = lambda_i sum_j alpha_j phi_i(x_j)."""
        return np.asarray(self.values * (self(f.points).T @ f.alpha))

    def norm(self, c: Array) -> float:
        """Return the norm of sum_i c_i phi_i, the root of sum_i c_i^2 / lambda_i (6.1)."""
        return float(np.sqrt((np.asarray(c, dtype=float) ** 2 / self.values).sum()))

    def draw(self, rng: np.random.Generator) -> Array:
        """Return coefficients (m,) of a draw of the process: N(0, lambda_i) each.

        The squared norm of a draw is chi^2 with m degrees of freedom: with all eigenfunctions it is
        infinite, and draws lie outside of the space (6.4).
        """
        return np.asarray(rng.standard_normal(len(self.values)) * np.sqrt(self.values))


def _largest(logs: Array, count: int) -> Index:
    """Return the ``count`` vectors (count, d) of whole k >= 0 with the largest sum k_j logs_j."""
    start = (0,) * len(logs)
    heap, seen = [(0.0, start)], {start}
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        cost, k = heapq.heappop(heap)
        found.append(k)
        for j in range(len(logs)):
            more = (*k[:j], k[j] + 1, *k[j + 1 :])
            if more not in seen:
                seen.add(more)
                heapq.heappush(heap, (cost - float(logs[j]), more))
    return np.array(found, dtype=np.intp)
