"""How processes are stored: the kinds of a posterior and of its operator C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.kinds import Kind, Numbers, PartOf, Plain
from mercer.core.record import Each, Fields, Later, Maybe, One
from mercer.kernels.base import Kernel
from mercer.kernels.equality import Coregionalised
from mercer.linalg.iterative.operator import IterativeOperator
from mercer.linalg.line import LineOperator, state_space_of
from mercer.linalg.operators import (
    BasisOperator,
    CholeskyOperator,
    ContrastOperator,
    ExplicitOperator,
    InducedOperator,
    PosteriorOperator,
    SeveralOperator,
)
from mercer.linalg.structured.additive import AdditiveGram, AdditiveOperator
from mercer.linalg.structured.kronecker import KroneckerGram, KroneckerOperator
from mercer.linalg.structured.outputs import OutputsGram, OutputsOperator, complete
from mercer.process.process import Posterior, Prior

_CHOLESKY = {
    "cholesky": Numbers("n n", upper=True, diagonal="positive"),
    "scale": Numbers("n", 0.0),
}
_BASIS = {"Q": Numbers("n b"), "R": Numbers("b b", diagonal="nonzero")}
_CONTRAST = {
    "half": Numbers("n-b n"),
    "anchor": Numbers("n b"),
    "cross": Numbers("n b"),
    "block": Numbers("b b"),
}
_INDUCING = {"gain": Numbers("n-b n"), "tilt": Numbers("n-b b")}
_INDUCED = {
    "triangle": Numbers("n n", upper=True, diagonal="positive"),
    "root": Numbers("n+b n+b | n n", upper=True, diagonal="positive"),
}
_ITERATIVE = {
    "centres": Numbers("z d"),
    "rank": Plain(int, 1),
    "W": Numbers("n", 0.0, above=True),
    "tol": Plain(float, 0.0, above=True),
    "width": Plain(float, 0.0, above=True),
    "single": Plain(bool),
}
_SINGLE = {
    "matrix": Fields(ExplicitOperator, {"C": Numbers("n n")}),
    "cholesky": Fields(CholeskyOperator, _CHOLESKY),
    "induced": Fields(InducedOperator, _INDUCED),
}
_ADDITIVE: dict[str, Kind] = {
    "W": Numbers("n", 0.0, above=True),
    "centres": Numbers("z d"),
    "rank": Plain(int),
}
_SEVERAL: dict[str, Kind] = {"operators": Each(One(_SINGLE, lambda op: _form(op)), "f")}
_SHARED: dict[str, Kind] = {
    "shared": Numbers("n n", upper=True, diagonal="positive"),
    "ratio": Later(Numbers("n f")),
}


class _Stored(PosteriorOperator):
    """What a file says of an operator that needs its posterior's kernel and points to answer."""

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        raise NotImplementedError("it is not at its points yet")

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        raise NotImplementedError("it is not at its points yet")


@dataclass
class _Structured(_Stored):
    """The arrays of an operator that needs its posterior: an additive one, or without centres."""

    W: Array
    centres: Array | None = None
    rank: int = 0
    T: Array | None = None
    A: Array | None = None

    def at(self, kernel: Kernel, points: Array) -> PosteriorOperator:
        """Return the operator of a kernel at points (n, d)."""
        if self.centres is None:
            return KroneckerGram(kernel, points).factor(self.W).operator()
        if len(self.centres) != self.rank:
            raise ValueError(f"there are {len(self.centres)} centres, not {self.rank}")
        factor = AdditiveGram(kernel, points, self.centres).factor(self.W)
        return AdditiveOperator(factor, self.T, self.A)


@dataclass
class _ByOutput(_Stored):
    """An operator of several outputs at the same points, which its kernel and these determine."""

    count: int

    def at(self, kernel: Kernel, points: Array) -> PosteriorOperator:
        """Return the operator of a kernel at points (nm, d + 1)."""
        fits = isinstance(kernel, Coregionalised) and kernel.noise is not None
        if not fits or not complete(points, self.count) or len(kernel.own) != self.count:  # type: ignore[attr-defined]  # as asked before
            raise ValueError(f"these are not the rows and the kernel of {self.count} outputs")
        assert isinstance(kernel, Coregionalised)
        return (
            OutputsGram(kernel, points, scratch=False)
            .factor(np.full(len(points), np.inf))
            .operator()
        )


def _form(operator: Any) -> str:
    """Return the name of the form in which an operator is stored."""
    match operator:
        case ExplicitOperator():
            return "zero" if operator.C is None else "matrix"
        case BasisOperator():
            return "basis"
        case CholeskyOperator():
            return "cholesky"
        case ContrastOperator():
            return "contrast" if operator.gain is None else "inducing"
        case InducedOperator():
            return "induced"
        case SeveralOperator():
            return "several" if operator.shared is None else "coupled"
        case KroneckerOperator() | _Structured(centres=None):
            return "kronecker"
        case OutputsOperator() | _ByOutput():
            return "by_output"
        case AdditiveOperator() | _Structured():
            return "additive" if operator.A is None else "additive_basis"
        case IterativeOperator() | StoredIterative():
            return "iterative"
    return "line" if operator.walks else type(operator).__name__


class StoredIterative(_Stored):
    """What a file says of an iterative operator; the kernel and the points are the posterior's."""

    def __init__(self, **state: Any) -> None:
        self.state = state


# C on n points, with b functions of a basis and m latent functions
OPERATOR = One(
    {
        "zero": Fields(lambda: ExplicitOperator(None), {}),
        **_SINGLE,
        "basis": Fields(BasisOperator, _CHOLESKY | _BASIS),
        "contrast": Fields(ContrastOperator, _CONTRAST),
        "inducing": Fields(ContrastOperator, _CONTRAST | _INDUCING),
        "iterative": Fields(
            StoredIterative, _ITERATIVE, own="z", parts=lambda operator: operator.state()
        ),
        "several": Fields(lambda operators: SeveralOperator(operators, None), _SEVERAL),
        "coupled": Fields(SeveralOperator, _SEVERAL | _SHARED),
        # a weight is infinite where there was no noise; the rest is the posterior's
        "line": Fields(
            lambda W: LineOperator(None, None, W),  # type: ignore[arg-type]  # set by _posterior
            {"W": Numbers("n", 0.0, finite=False)},
        ),
        "kronecker": Fields(_Structured, {"W": Numbers("n", 0.0, above=True)}),
        "by_output": Fields(_ByOutput, {"count": Plain(int, 1)}),
        "additive": Fields(_Structured, _ADDITIVE),
        "additive_basis": Fields(
            _Structured, _ADDITIVE | {"T": Numbers("n b"), "A": Numbers("b b", diagonal="positive")}
        ),
    },
    _form,
)


def _posterior(
    kernel: Kernel, points: Array, alpha: Array, beta: Array | None, operator: PosteriorOperator
) -> Posterior:
    if beta is None and _form(operator) in ("basis", "contrast", "inducing", "additive_basis"):
        raise ValueError("there is an operator of a basis, but no basis")
    if isinstance(operator, (_Structured, _ByOutput)):
        operator = operator.at(kernel, points)
    elif operator.walks:
        states = state_space_of(kernel, points.shape[1])
        if states is None:
            raise ValueError("weights of an O(n) posterior belong to a Matern kernel on one column")
        operator = LineOperator(states, points, operator.W)  # type: ignore[attr-defined]  # it walks
    if isinstance(operator, StoredIterative):
        operator = IterativeOperator.restored(kernel, points, operator.state)
    return Posterior(Prior(kernel, alpha.shape[1]), points, alpha, operator, beta=beta)


def _parts(posterior: Posterior) -> dict[str, Any]:
    prior: Any = posterior.parent
    return vars(posterior) | {"kernel": prior.kernel}


# on n points of d columns; whoever keeps it sets the functions of its basis
POSTERIOR = Fields(
    _posterior,
    {
        "kernel": PartOf(Kernel),
        "points": Numbers("n d"),
        "alpha": Numbers("n f | n m"),
        "beta": Maybe(Numbers("b m")),
        "operator": OPERATOR,
    },
    own="n f b z",  # a loss may have f latent functions for each of its outputs
    parts=_parts,
)
