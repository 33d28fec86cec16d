"""C of a posterior by solutions: variances between two bounds, many of them at a time."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.linalg.iterative.gram import ENTRIES, WIDTH, IterativeFactor, IterativeGram, parts
from mercer.linalg.iterative.solver import Enough
from mercer.linalg.operators import PosteriorOperator

WIDEST = 128  # columns that share a space: more take fewer rounds, and n x r numbers each


class IterativeOperator(PosteriorOperator):
    """C of a posterior by solutions: many variances share the products that the mean took.

    ``width`` is that of the bracket (I8) of a variance, relative to itself and the smallest noise.
    """

    knows_variances: ClassVar[bool] = True

    def __init__(self, factor: IterativeFactor, width: float = 0.01) -> None:
        self.factor, self.width = factor, width

    @property
    def W(self) -> Array:
        """The precision of each row, (n,)."""
        return self.factor.W

    def state(self) -> dict[str, Any]:
        """Return what :meth:`restored` needs beside the kernel and the points."""
        gram = self.factor.gram
        told = {"tol": gram.tol, "single": gram.single, "width": self.width}
        centres = gram.reduced.support
        return told | {"centres": centres, "rank": len(centres), "W": self.factor.W}

    @classmethod
    def restored(cls, kernel: Kernel, points: Array, state: dict[str, Any]) -> IterativeOperator:
        """Return the operator of a state; the preconditioner is computed anew."""
        if len(state["centres"]) != state["rank"]:
            raise ValueError(f"there are {len(state['centres'])} centres, and not {state['rank']}")
        told = {"tol": state["tol"], "single": state["single"]}
        gram = IterativeGram(kernel, points, state["centres"], **told)
        return cls(gram.factor(state["W"]), state["width"])

    def __getstate__(self) -> dict[str, Any]:  # not the features of all rows
        gram = self.factor.gram
        return self.state() | {"kernel": gram.kernel, "points": gram.points}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= vars(self.restored(state["kernel"], state["points"], state))

    def var_at(self, X: Array, h: Array | None = None) -> Array:
        gram = self.factor.gram
        prior, noise = gram.signal.diag(X), float(self.factor.D.min())
        found = np.empty(len(X))
        for part in parts(len(X), max(WIDTH, min(WIDEST, ENTRIES // len(gram.points)))):
            given = prior[part]

            def enough(low: Array, rho2: Array, given: Array = given) -> NDArray[np.bool_]:
                return np.asarray(rho2 <= self.width * (given - low - rho2 + noise))

            known = self._known(gram.signal(gram.points, X[part]), enough)[0]
            found[part] = given - known
        return found

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return np.asarray(A.T @ self._absolutely(B)[1])

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        return self._absolutely(A)[0]

    def _absolutely(self, A: Array) -> tuple[Array, Array]:
        tol = 2.0 * self.width * float(self.factor.D.min())
        each = parts(A.shape[1], WIDTH)
        found = [self._known(A[:, part], lambda low, rho2: rho2 <= tol) for part in each]
        return np.concatenate([one[0] for one in found]), np.hstack([one[1] for one in found])

    def _known(self, A: Array, enough: Enough) -> tuple[Array, Array]:
        """Return a'C a for each column of A (n, r), the middle of (I8), and C A."""
        found = self.factor.shared(A, enough)
        if not found.converged:
            warnings.warn(
                f"conjugate gradients ended at rho^2 = {found.rho2.max():.3g} after "
                f"{found.rounds} rounds: variances are certain within half of it only; raise the "
                "rank of Iterative, or the noise",
                ConvergenceWarning,
                stacklevel=2,
            )
        return np.einsum("ij,ij->j", found.V, A + found.residual) + 0.5 * found.rho2, found.V
