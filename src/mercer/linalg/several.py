"""The operator C of a finished posterior over several latent functions that share a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mercer.arrays import Array, half_solve
from mercer.linalg.contrast_operator import ContrastOperator
from mercer.linalg.operators import CholeskyOperator, ExplicitOperator, Operator, restored


class SeveralOperator(Operator):
    """C_ce = [c = e] E_c - E_c M^-1 E_e; without M the functions are independent.

    Parameters
    ----------
    operators : E_c for each of m functions.
    shared : (n, n) Cholesky factor of M = sum_c E_c (upper triangle), or None.
    """

    def __init__(self, operators: list[Operator], shared: Array | None) -> None:
        self.operators = operators
        self.shared = shared

    def blocks(self, A: Array) -> Array:
        """a_j'C_ce a_j for each column of A (n, p): shape (p, m, m)."""
        m = len(self.operators)
        own = np.column_stack([op.reduce_diag(A, None) for op in self.operators])
        result = own[:, :, None] * np.eye(m)
        if self.shared is not None:
            halves = np.stack(
                [half_solve(self.shared, _product(op, A)) for op in self.operators], axis=2
            )
            result -= np.einsum("npc,npe->pce", halves, halves, optimize=True)
        return np.asarray(result)

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """Refuse: there is a matrix for each pair of functions."""
        raise NotImplementedError("the covariance of several latent functions: use blocks")

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """Refuse: see :meth:`blocks`."""
        raise NotImplementedError("the variance of several latent functions: use blocks")

    def state(self) -> dict[str, Array]:
        """Return the arrays to store: those of each function under its number."""
        found = {
            f"{j}_{name}": array
            for j, op in enumerate(self.operators)
            for name, array in op.state().items()
        }
        return found if self.shared is None else {**found, "shared": np.triu(self.shared)}


def _product(operator: Operator, A: Array) -> Array:
    """E A."""
    if isinstance(operator, CholeskyOperator):
        return operator.half_transposed(operator.half(A))
    assert isinstance(operator, ExplicitOperator)
    return np.zeros_like(A) if operator.C is None else np.asarray(operator.C @ A)


def operator_from(arrays: Mapping[str, Array]) -> Operator:
    """Build the operator of one latent function, or of several, from the arrays of ``state()``."""
    numbers = {int(name.split("_")[0]) for name in arrays if name[0].isdigit()}
    if "anchor" in arrays:
        return ContrastOperator(**arrays)
    if not numbers:
        return restored(arrays)
    operators = []
    for j in sorted(numbers):
        head = f"{j}_"
        own = {name[len(head) :]: a for name, a in arrays.items() if name.startswith(head)}
        operators.append(restored(own))
    return SeveralOperator(operators, arrays.get("shared"))
