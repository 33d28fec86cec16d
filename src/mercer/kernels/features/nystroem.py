"""Nystroem: the part of a kernel that a few points can express; pivots chooses such points."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, Index, as_matrix, back_solve, cholesky, half_solve
from mercer.kernels.base import Gradient, Kernel, other_points, prefixed
from mercer.kernels.features.fourier import Mapped, not_frozen
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import RBF

LEAST = 1e-10  # share of the variance that a point must have left, to be taken


def pivots(
    kernel: Kernel,
    X: Array,
    size: int,
    known: Array | None = None,
    *,
    relative: bool = True,
    least: float = LEAST,
) -> tuple[Index, Array]:
    """Return at most ``size`` rows of X (n, d) and their part of a pivoted Cholesky factor.

    The rows are taken greedily, each the one of which those before it, and what was known, leave
    the largest share of its variance unexplained: k(x, x) - |phi(x)|^2 in units of k(x, x), or of
    the largest variance of all if not ``relative``. It ends where no point has ``least`` left.
    ``known`` is the factor phi (m, n) of what is known of X: k(X, X) is near phi'phi. Returned are
    the rows (p,) and what the factor grows by (p, n); the matrix is never formed.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> chosen, L = pivots(RBF(), X, 2)
    >>> chosen, np.abs(RBF()(X) - L.T @ L).max() < 0.02
    (array([0, 2]), np.True_)
    """
    size = max(0, min(size, len(X)))
    variance = kernel.diag(X) if len(X) else np.zeros(0)
    own = variance if relative else np.full(len(X), variance.max(initial=0.0))
    unit = np.where(own > 0.0, own, 1.0)
    have = 0 if known is None else len(known)
    L = np.empty((have + size, len(X)))
    left = variance.copy()
    if known is not None:
        L[:have] = known
        left -= np.einsum("ij,ij->j", known, known)
    chosen: list[int] = []
    for j in range(have, have + size):
        i = int(np.argmax(left / unit))
        if not left[i] > least * unit[i]:
            break
        L[j] = (kernel(X[i : i + 1], X)[0] - L[:j, i] @ L[:j]) / np.sqrt(left[i])
        left -= L[j] ** 2
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp), np.ascontiguousarray(L[have : have + len(chosen)])


class Nystroem(Mapped):
    """The part of a kernel that some points can express: k(x, P) k(P, P)^-1 k(P, z).

    The features are phi(x) = R^-1 k(P, x) with k(P, P) = R R', one column for each point.

    Parameters
    ----------
    kernel : Kernel; the kernel that is approximated, without its noise parts.
    size : int, default=100; largest number of points, 1 or more.
    points : array (m, d) or None, default=None
        P. None chooses among the first rows seen, and keeps them: one after the other the row with
        the largest variance given those chosen, until none has more than 1e-10 of the largest left.

    References
    ----------
    Williams and Seeger, Using the Nystroem method to speed up kernel machines (2001); on the choice
    Fine and Scheinberg, Efficient SVM training using low-rank kernel representations (2001).

    Examples
    --------
    >>> X = np.linspace(0.0, 2.0, 50)[:, None]
    >>> bool(np.abs(Nystroem(RBF(), size=6).frozen(X)(X) - RBF()(X)).max() < 1e-5)
    True
    """

    positional = False  # of the kernel only its values between two sets are used

    def __init__(self, kernel: Kernel, size: int = 100, points: Array | None = None) -> None:
        self.kernel, self.size, self.points = kernel, size, points

    @classmethod
    def example(cls) -> Self:
        return cls(2.0 * RBF(length_scale=1.5), 4, np.vander([-1.0, 0.2, 0.9, 1.7], 3))

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if self.points is not None:
            return super().frozen(X, weights)
        clone = self._restated(kernel=self.kernel.frozen(X, weights))
        X = as_matrix(X)
        chosen, _ = pivots(clone._signal(), X, whole(self, "size", 1), relative=False)
        clone.points = X[chosen]
        return clone

    def features(self, X: Any) -> Any:
        X = as_matrix(X)
        P, root = self._root(X.shape[1])
        return np.ascontiguousarray(half_solve(root, self.kernel(P, X)).T)

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # K = A M^-1 B': d<Q, K> = <Q B M^-1, dA> + <Q'A M^-1, dB> - <M^-1 A'Q B M^-1, dM>
        X, Z, same = other_points(X, Z)
        P, root = self._root(X.shape[1])
        kernel = self.kernel
        A = back_solve(root, half_solve(root, kernel(P, X))).T  # (n, m): A M^-1
        B = A if same else back_solve(root, half_solve(root, kernel(P, Z))).T
        QB, QA = np.ascontiguousarray(Q @ B), np.ascontiguousarray(Q.T @ A)
        value, slopes = kernel._value_and_pullback(X, P, QB)
        more, less = kernel.pullback(Z, P, QA), kernel.pullback(P, P, -(A.T @ QB))
        total = {path: slope + more[path] + less[path] for path, slope in slopes.items()}
        return value, prefixed("kernel", total)

    def width(self, X: Array) -> int | None:
        return min(whole(self, "size", 1), len(X)) if self.points is None else len(self.points)

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        # F = A R^-T, M = R R': 2 G A M^-1 = D R^-1, and 2 M^-1 A'G A M^-1 = R^-T F'D R^-1
        P, root = self._root(X.shape[1])
        across = np.ascontiguousarray(back_solve(root, D.T).T)
        inner = back_solve(root, F.T @ across)
        slopes, less = self.kernel.pullback(X, P, across), self.kernel.pullback(P, P, -0.5 * inner)
        return prefixed("kernel", {path: slope + less[path] for path, slope in slopes.items()})

    def _signal(self) -> Kernel:
        signal = self.kernel.noise_free()
        if signal is None or signal.positional:
            raise ValueError("Nystroem needs a kernel of the inputs, with more than noise in it")
        return signal

    def _root(self, d: int) -> tuple[Array, Array]:
        """Return P (m, d) and k(P, P) as left by the Cholesky factorisation."""
        if self.points is None:
            raise not_frozen(self, "points")
        P = as_matrix(self.points)
        if P.shape[1] != d or not np.isfinite(P).all():
            raise ValueError(f"Nystroem: points must be finite, in {d} columns, got {P.shape}")
        self._signal()
        root = self.kernel(P, P)
        if cholesky(root):
            raise ValueError(
                "Nystroem: some of the points are the same to the kernel, so that k(P, P) has no "
                "inverse; give fewer or other points, or none, to have them chosen"
            )
        return P, root
