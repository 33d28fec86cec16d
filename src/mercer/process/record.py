"""How processes are stored: the kinds of a posterior and of its operator C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.kinds import Kind, Numbers, PartOf, Plain
from mercer.core.record import Each, Fields, Later, Maybe, One
from mercer.core.triangle import Triangle
from mercer.kernels.base import Kernel
from mercer.kernels.equality import Coregionalised
from mercer.kernels.markov import process_of
from mercer.linalg.dense.contrasted import ContrastedOperator
from mercer.linalg.dense.drawn import SharedOperator
from mercer.linalg.graph import RootOperator
from mercer.linalg.iterative.operator import IterativeOperator
from mercer.linalg.line import LineOperator
from mercer.linalg.operators import (
    BasisOperator,
    CholeskyOperator,
    ContrastOperator,
    ExplicitBasisOperator,
    ExplicitOperator,
    InducedOperator,
    PosteriorOperator,
    SeveralOperator,
)
from mercer.linalg.reduced.operator import WeightOperator
from mercer.linalg.structured.additive import AdditiveGram, AdditiveOperator
from mercer.linalg.structured.kronecker import KroneckerGram, KroneckerOperator
from mercer.linalg.structured.outputs import OutputsGram, OutputsOperator, complete
from mercer.process.process import Posterior, Prior

_CHOLESKY: dict[str, Kind] = {
    "cholesky": Triangle("n n"),
    "scale": Numbers("n", 0.0),
}
_BASIS = {"Q": Numbers("n b"), "R": Numbers("b b", diagonal="nonzero")}
_MATRIX_BASIS = {
    "C": Numbers("n n"),
    "T": Numbers("n b"),
    "R": Numbers("b b", upper=True, diagonal="positive"),
}
_CONTRAST = {
    "half": Numbers("n-b n"),
    "anchor": Numbers("n b"),
    "cross": Numbers("n b"),
    "block": Numbers("b b"),
}
_INDUCING = {"gain": Numbers("n-b n"), "tilt": Numbers("n-b b")}
_INDUCED: dict[str, Kind] = {
    "triangle": Triangle("n n"),
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
    "basis": Fields(BasisOperator, _CHOLESKY | _BASIS),
    "matrix_basis": Fields(ExplicitBasisOperator, _MATRIX_BASIS),
}
_ADDITIVE: dict[str, Kind] = {
    "W": Numbers("n", 0.0, above=True),
    "centres": Numbers("z d"),
    "rank": Plain(int),
}
# of p weights; the root of several functions together has q rows
_ROOT = Numbers("p+b p+b | p p | q q", upper=True, diagonal="positive")
_WEIGHTS: dict[str, Kind] = {"weights": Numbers("p f"), "roots": Each(_ROOT)}
_CONTRASTED: dict[str, Kind] = {
    "T": Numbers("n t"),
    "R": Numbers("q q", upper=True, diagonal="positive"),
}
_OF_A_BASIS = (
    "contrasted",
    "basis",
    "matrix_basis",
    "contrast",
    "inducing",
    "additive_basis",
    "line_basis",
)
_SEVERAL: dict[str, Kind] = {"operators": Each(One(_SINGLE, lambda op: _form(op)), "f")}
_SHARED: dict[str, Kind] = {
    "shared": Triangle("n n"),
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
        case ExplicitBasisOperator():
            return "matrix_basis"
        case CholeskyOperator():
            return "cholesky"
        case ContrastOperator():
            return "contrast" if operator.gain is None else "inducing"
        case InducedOperator():
            return "induced"
        case WeightOperator():
            return "weights"
        case ContrastedOperator():
            return "contrasted"
        case SeveralOperator():
            return "several" if operator.shared is None else "coupled"
        case KroneckerOperator() | _Structured(centres=None):
            return "kronecker"
        case OutputsOperator() | _ByOutput():
            return "by_output"
        case AdditiveOperator() | _Structured():
            return "additive" if operator.A is None else "additive_basis"
        case LineOperator():
            return "line" if operator.T is None else "line_basis"
        case IterativeOperator() | StoredIterative():
            return "iterative"
        case RootOperator():
            return "root"
        case SharedOperator():
            return "shared"
    return type(operator).__name__


class StoredIterative(_Stored):
    """What a file says of an iterative operator; the kernel and the points are the posterior's."""

    def __init__(self, **state: Any) -> None:
        self.state = state


def _root(Q: Array) -> RootOperator:
    return RootOperator(partial(np.asarray, Q))


# C on n points, with b functions of a basis and m latent functions
OPERATOR = One(
    {
        "zero": Fields(lambda: ExplicitOperator(None), {}),
        **_SINGLE,
        "contrast": Fields(ContrastOperator, _CONTRAST),
        "inducing": Fields(ContrastOperator, _CONTRAST | _INDUCING),
        "iterative": Fields(
            StoredIterative, _ITERATIVE, own="z", parts=lambda operator: operator.state()
        ),
        "weights": Fields(partial(WeightOperator, None), _WEIGHTS),
        "several": Fields(lambda operators: SeveralOperator(operators, None), _SEVERAL),
        "coupled": Fields(SeveralOperator, _SEVERAL | _SHARED),
        # a draw of latent values: K^+ = Q'Q; the other draws of the same posterior share it
        "root": Fields(_root, {"Q": Numbers("r n")}, own="r"),
        "shared": Fields(lambda: SharedOperator(ExplicitOperator(None)), {}),
        "contrasted": Fields(ContrastedOperator, _SEVERAL | _SHARED | _CONTRASTED, own="t q"),
        # a weight is infinite where there was no noise; the rest is the posterior's
        "line": Fields(
            lambda W: LineOperator(None, None, W),  # type: ignore[arg-type]  # set by _posterior
            {"W": Numbers("n", 0.0, finite=False)},
        ),
        "line_basis": Fields(
            lambda W, T, R: LineOperator(None, None, W, T, R),  # type: ignore[arg-type]  # the same
            {
                "W": Numbers("n", 0.0, finite=False),
                "T": Numbers("n b"),
                "R": Numbers("b b", diagonal="nonzero"),
            },
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
    each = [operator, *(operator.operators if isinstance(operator, SeveralOperator) else [])]
    if beta is None and any(_form(one) in _OF_A_BASIS for one in each):
        raise ValueError("there is an operator of a basis, but no basis")
    if isinstance(operator, (_Structured, _ByOutput)):
        operator = operator.at(kernel, points)
    elif isinstance(operator, WeightOperator):
        operator = replace(operator, kernel=kernel.signal())
        if len(operator.roots) not in (0, 1, operator.weights.shape[1]):
            raise ValueError("there is not a root for each function, or for all")
    elif isinstance(operator, LineOperator):
        states = process_of(kernel, points.shape[1])
        if states is None:
            raise ValueError("weights of an O(n) posterior belong to a Markov kernel on one column")
        operator = LineOperator(states, points, operator.W, operator.T, operator.R)
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
    own="n f b z p q",  # a loss may have f latent functions for each of its outputs
    parts=_parts,
)
