"""Which Gram: how the linear algebra of K is done, chosen before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.core.arrays import Array
from mercer.core.basis import Basis
from mercer.inference.base import Inference
from mercer.kernels.base import Kernel
from mercer.linalg.dense.gram import DenseGram, RecycledGrams
from mercer.linalg.gram import Covariance, Gram
from mercer.linalg.line import LineGram, Ordering, state_space_of
from mercer.losses.base import Loss
from mercer.search import GramMaker, Search

LINE_FROM = (
    256  # points from which "auto" walks along the line: below, the dense algebra is as fast
)
NAMES = ("auto", "dense", "markov")


@dataclass(frozen=True)
class Chosen:
    """A way to build Grams; ``linear`` if many points need no n x n array."""

    make: GramMaker
    linear: bool


def choose_gram(
    name: Any,
    kernel: Kernel,
    d: int,
    loss: Loss,
    inference: Inference,
    search: Search | None,
    basis: Basis | None,
) -> Chosen:
    """Return the Gram of a fit on d columns; "auto" chooses among exact ones only."""
    if name not in NAMES:
        known = ", ".join(repr(k) for k in NAMES)
        raise ValueError(f"unknown gram {name!r}; known are {known}")
    dense: GramMaker = kept_gram if inference.factors_repeatedly else RecycledGrams()
    against = _against_the_line(kernel, d, loss, inference, search, basis)
    if name == "markov":
        if against:
            raise ValueError(f"gram='markov' does not serve here: {against}; use gram='auto'")
        return Chosen(LineGrams(), True)
    if name == "dense" or against:
        return Chosen(dense, False)

    line = LineGrams()

    def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        chosen = line if len(points) >= LINE_FROM else dense
        return chosen(kernel, points, scratch=scratch)

    return Chosen(make, True)


def _against_the_line(
    kernel: Kernel,
    d: int,
    loss: Loss,
    inference: Inference,
    search: Search | None,
    basis: Basis | None,
) -> str:
    """Say why the O(n) algebra cannot be used, or nothing."""
    if state_space_of(kernel, d) is None:
        return (
            "the kernel must be a Matern kernel of nu 1/2, 3/2 or 5/2 on one column, or a sum of "
            "at most nine states of them"
        )
    if basis is not None:
        return "an unpenalised basis needs the dense algebra"
    if not inference.works_in_linear_time or loss.response == "multiclass":
        return f"{type(inference).__name__} needs the dense algebra"
    wanted = "evidence" if search is None else search.get_params().get("criterion", "evidence")
    if wanted != "evidence":
        return f"the search by {wanted!r} needs the dense algebra"
    return ""


class LineGrams:
    """The O(n) Grams of one fit: points are sorted when they come first, not for every kernel."""

    def __init__(self) -> None:
        self.ordering: Ordering | None = None

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        """Return the O(n) Gram."""
        assert isinstance(kernel, Kernel)
        gram = LineGram(kernel, points, scratch=scratch, ordering=self.ordering)
        self.ordering = gram.line.ordering
        return gram


def kept_gram(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
    """Return a dense Gram that keeps K for repeated factorisations."""
    return DenseGram(kernel, points, keep=True, scratch=scratch)
