"""What a relevance search needs of a likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mercer.arrays import Array
from mercer.search.relevance_design import Design
from mercer.search.relevance_state import State


@dataclass(frozen=True)
class Inner:
    """A Gaussian model of a given set of functions by its inner products.

    Attributes
    ----------
    gram, right : F W F' (p, p), row-major, and F W t (p,).
    square, total : t'W t and the sum of the weights.
    exact : whether this is the model itself; else it touches it at the present state only.
    """

    gram: Array
    right: Array
    square: float
    total: float
    exact: bool


class Machine(Protocol):
    """Evaluates models: sets of functions with their precisions."""

    design: Design
    learns_noise: bool
    beta_cap: float

    def start(self, beta: float) -> State:
        """Return the model with the flat functions only and this noise precision."""

    def null(self) -> State:
        """Return the best model with the flat functions only."""

    def evaluate(
        self, active: tuple[int, ...], prior: Array, beta: float, near: State | None = None
    ) -> State:
        """Return the model with these functions; ``near`` is a state to start from."""

    def inner(self, state: State) -> Inner:
        """Return the Gaussian model of the functions of ``state``."""

    def outside(self, state: State, spare: int = 0) -> tuple[Array, Array, Array]:
        """S_m = phi_m'C^-1 phi_m, Q_m = phi_m'C^-1 t (m,) each, and V = R^-T F B Phi (p, m).

        V may be followed by ``spare`` or more rows that mean nothing yet.
        """

    def product(self, state: State, i: int) -> Array:
        """phi_i'B phi_m for every candidate m, (m,)."""

    def whole(self, state: State) -> Array | float:
        """phi_m'B phi_m of all candidates: S if nothing were in the model."""

    def third(self, state: State) -> Array | None:
        """Third derivative of each row's loss, times its weight, (n,); None where it is zero."""
