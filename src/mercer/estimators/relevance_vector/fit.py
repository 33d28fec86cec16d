"""From rows to relevance vectors: candidates, search, the null model, the posterior process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index, group_rows
from mercer.core.basis import Basis, as_basis
from mercer.core.kinds import Kind, Numbers, PartOf, Plain, Rows
from mercer.core.memory import require_memory
from mercer.core.record import Fields, One
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import tied_scales, untied
from mercer.linalg.operators import CholeskyOperator
from mercer.process.features import Augmentation, Augmented, Sparse
from mercer.process.process import Prior
from mercer.search.relevance.climb import RelevanceClimb
from mercer.search.relevance.kernel import (
    LADDER,
    NEAR,
    Makers,
    Setting,
    above_noise,
    score_of,
    tuned,
)
from mercer.search.relevance.null import ONCE, judged
from mercer.search.relevance.state import Design, SparseState
from mercer.search.space import price_of_scales


@dataclass(frozen=True)
class Functions:
    """The functions in a model, as a function of the inputs in standardised units."""

    bias: bool  # whether a constant comes first
    kernel: Kernel | None = None  # k(x, c_j), or None
    centres: Array | None = None  # c (M, d)
    own: Basis | None = None  # functions of the user's; without these the columns of X
    columns: tuple[int, ...] = ()  # which of them

    def __call__(self, X: Array) -> Array:
        """Return the functions at X (q, d): shape (q, p)."""
        if self.kernel is not None and self.centres is not None:
            Phi = self.kernel(X, self.centres) if len(self.centres) else np.empty((len(X), 0))
        else:
            table = X if self.own is None else self.own(X)
            Phi = table[:, list(self.columns)]
        flat = np.ones((len(X), 1))
        return np.column_stack([flat, Phi]) if self.bias else np.ascontiguousarray(Phi)


@dataclass(frozen=True)
class Choice:
    """What the candidates are chosen from: a kernel, own functions, or the columns (neither)."""

    kernel: Kernel | None
    own: Basis | None
    named: bool  # the kernel came by name, so that its length scale may be searched


def choose(kernel: Any, functions: Any, names: Any, d: int) -> Choice:
    """Read the parameters ``kernel`` and ``functions`` for d columns, or refuse with a sentence."""
    if functions is not None and kernel is not None:
        raise ValueError(
            "give a kernel, whose functions at the training rows are the candidates, or functions "
            "of your own, not both"
        )
    if isinstance(functions, str) and functions != "columns":
        raise ValueError(
            f"functions must be None, 'columns' or a function X -> (n, m), not {functions!r}"
        )
    if functions is not None:
        return Choice(None, None if isinstance(functions, str) else as_basis(functions), False)
    named = kernel is None or isinstance(kernel, str)
    part = as_kernel("rbf" if kernel is None else kernel).__sklearn_clone__()
    part = part.resolve(None if names is None else [str(name) for name in names], d)
    if part.pairwise:
        return Choice(None, None, False)  # X holds the functions' values already
    return Choice(Prior(part).signal, None, named and not part.positional)


@dataclass(frozen=True)
class Options:
    """How the functions are searched; see :class:`~mercer.RVRegressor`."""

    bias: bool
    search: str | None
    heal: bool | float
    tol: float
    max_iter: int
    null_test: bool


@dataclass(frozen=True)
class RelevanceFit:
    """What was found for one target."""

    process: Sparse  # the posterior of the function
    active: Index  # (M,) the candidates kept
    precisions: Array  # (M,) of their weights, as given
    state: SparseState  # where the search ended
    report: dict[str, Any]  # of the search for the functions


class RelevanceRows:
    """The rows of a fit, in standardised units, and the candidates, searched for each target.

    ``distinct`` says that no two rows are at the same point; else such rows share one function.
    ``kernel`` is as found, if there is one, and ``searched`` the report of a search for it.
    """

    def __init__(
        self, choice: Choice, points: Array, weights: Array, options: Options, distinct: bool
    ) -> None:
        if choice.kernel is None and options.heal:
            raise ValueError(
                "heal adds a function at each new point, which needs a kernel: columns and "
                "functions of your own have none; use heal=False"
            )
        self.choice, self.points, self.weights, self.options = choice, points, weights, options
        self.first, self.centres = np.arange(len(points)), points
        self.kernel: Kernel | None = None
        self.searched: dict[str, Any] | None = None
        if choice.kernel is not None:
            # what the kernel takes from data, it takes from these rows
            self.kernel = choice.kernel.frozen(points, weights)
            require_memory(len(points), 2)
            first = self.first if distinct else group_rows(points)[0]
            if len(first) < len(points):
                self.first, self.centres = first, np.ascontiguousarray(points[first])

    def fit(self, makers: Makers, variance: float | None) -> list[RelevanceFit]:
        """Search with the likelihoods that ``makers`` put on a design, one for each target.

        ``variance`` is that of an augmenting function by default; None: what the model's prior has.
        """
        options = self.options
        flat = np.ones((len(self.points), int(options.bias)))
        limits = options.tol, options.max_iter
        setting = Setting(self.points, self.centres, flat, self.weights, makers, *limits)
        return [self._found(run, variance) for run in self._runs(setting)]

    def _runs(self, setting: Setting) -> list[RelevanceClimb]:
        """Search among the candidates, where that is asked with the best kernel."""
        how, own = self.options.search, self.choice.own
        if self.kernel is None:
            Phi = self.points if own is None else own(self.points)
            design = Design(np.ascontiguousarray(Phi), setting.flat, setting.weights)
            return setting.climbs(design, setting.tol)
        if how is None or (how == "auto" and not self.choice.named):
            return setting.run(self.kernel, setting.tol)
        self.kernel, runs, self.searched = tuned(setting, self.kernel)
        tied = [] if how == "evidence" else tied_scales(self.kernel)
        return self._untied(setting, runs, len(tied)) if tied and self.points.shape[1] > 1 else runs

    def _untied(
        self, setting: Setting, runs: list[RelevanceClimb], tied: int
    ) -> list[RelevanceClimb]:
        """Search from the kernel found with one scale for each column; return the better runs.

        "auto" asks for the price of the scales, as for Gaussian processes; "ard" for any gain. How
        well single functions fit targets in random order, the test of :func:`judged`, would be too
        kind to scales that were fitted: "auto" takes only what the first test there lets pass.
        """
        assert self.kernel is not None
        assert self.searched is not None
        auto = self.options.search == "auto"
        start, ladder = untied(self.kernel, self.points.shape[1]), NEAR if auto else LADDER
        moved, found, more = tuned(setting, start, ladder)
        figure = score_of if self.searched["less"] == more["less"] else above_noise
        gain = figure(found) - figure(runs)
        extra, price = price_of_scales(self.points, float(self.weights.sum()), tied)
        needed, fine = 0.0, True
        if auto:  # and the functions must say more than noise that scales were fitted to
            starts = self.searched["starts"] + more["starts"]
            needed, fine = price, above_noise(found) > ONCE + np.log(starts) + price
        kept = bool(gain > needed and fine)
        told = {"gain": gain, "needed": needed, "extra_parameters": extra, "kept": kept}
        self.searched["ard"] = told
        for count in ("evaluations", "starts"):
            self.searched[count] += more[count]
        if kept:
            self.kernel, runs = moved, found
        return runs

    def _found(self, run: RelevanceClimb, variance: float | None) -> RelevanceFit:
        kernels = self.searched["starts"] if self.searched else 1
        state, null = judged(run.machine, run.state, kernels, self.options.null_test)
        order = np.argsort(state.active)  # by candidate, whatever the way they came
        active = tuple(state.active[i] for i in order)
        if active != state.active:
            state = run.machine.evaluate(active, state.prior[order], state.beta, state)
        report = {
            "converged": run.converged,
            "steps": dict(run.counts),
            "evidence": [float(value) for value in run.trace],
            "null_model": null,
            "relevance_vectors": len(active),
        }
        index, bias = np.array(active, dtype=np.intp), self.options.bias
        lengths = np.concatenate([np.ones(state.flat), run.machine.design.lengths[index]])
        spread = CholeskyOperator(np.ascontiguousarray(state.factor.R), 1.0 / lengths)
        functions = Functions(bias, own=self.choice.own, columns=active)
        if self.kernel is not None:
            functions = Functions(bias, self.kernel, np.ascontiguousarray(self.centres[index]))
            index = self.first[index]
        process = Sparse(functions, state.mu / lengths, spread)
        if self.options.heal and self.kernel is not None:
            if self.options.heal is not True:
                variance = float(self.options.heal)
            elif variance is None:  # what the learned prior has at the rows, on average
                squares = state.F[state.flat :] ** 2 / state.prior[:, None]
                variance = float(self.weights @ squares.sum(axis=0) / self.weights.sum()) or 1.0
            F, rows = functions(self.points).T, self.points
            added = Augmentation(self.kernel, rows, F, state.a, state.b, variance)
            process = Augmented(process, added)
        precisions = state.prior * lengths[state.flat :] ** 2
        return RelevanceFit(process, index, precisions, state, report)


# ---------------------------------------------------------------------- in model files
_BIAS: dict[str, Kind] = {"bias": Plain(bool)}
_KERNEL: dict[str, Kind] = {"kernel": PartOf(Kernel), "centres": Numbers("q d")}
_FORMS = {
    "kernel": Fields(Functions, _BIAS | _KERNEL),
    "columns": Fields(Functions, {**_BIAS, "columns": Rows("q", below="d")}),
    "own": Fields(Functions, {**_BIAS, "own": PartOf(Basis), "columns": Rows("q")}),
}


def _form(functions: Functions) -> str:
    if functions.kernel is not None:
        return "kernel"
    return "columns" if functions.own is None else "own"


def _sparse(functions: Functions, mu: Array, spread: CholeskyOperator) -> Sparse:
    count = len(functions.columns if functions.centres is None else functions.centres)
    if len(mu) != count + functions.bias:
        raise ValueError("there is not one weight for each function")
    return Sparse(functions, mu, spread)


def _augmented(a: Array, b: Array, variance: float, **given: Any) -> Augmented:
    sparse: Any = _sparse(**given)
    rows: Any = None  # the training rows are set by _augmented_rows
    added = Augmentation(sparse.functions.kernel, rows, rows, a, b, variance)
    return Augmented(sparse, added)


def _parts(process: Any) -> dict[str, Any]:
    found = {name: getattr(process, name) for name in ("functions", "mu", "spread")}
    if not isinstance(process, Augmented):
        return found
    return found | {name: getattr(process.added, name) for name in ("a", "b", "variance")}


_FACTOR = {"cholesky": Numbers("p p", upper=True, diagonal="positive"), "scale": Numbers("p", 0.0)}
_SPARSE = {
    "functions": One(_FORMS, _form),
    "mu": Numbers("p"),
    "spread": Fields(CholeskyOperator, _FACTOR),
}
_ADDED = {"a": Numbers("n"), "b": Numbers("n"), "variance": Plain(float, 0.0, above=True)}
# q functions, with a bias p = q + 1; n training rows
SPARSE = One(
    {
        "Sparse": Fields(_sparse, _SPARSE, own="p q", parts=_parts),
        "Augmented": Fields(_augmented, _SPARSE | _ADDED, own="p q", parts=_parts),
    }
)
