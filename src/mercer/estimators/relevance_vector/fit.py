"""From rows to relevance vectors: candidates, search, the null model, the posterior process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index, group_rows
from mercer.core.basis import Basis, as_basis
from mercer.core.memory import require_memory
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import tied_scales, untied
from mercer.linalg.operators import CholeskyOperator
from mercer.process.features import Augmentation, Augmented, Sparse
from mercer.process.process import Prior
from mercer.search.relevance.climb import RelevanceClimb, judged
from mercer.search.relevance.kernel import Makers, Setting, score_of, tuned
from mercer.search.relevance.state import SparseState


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
    """What the user chose the candidates from: a kernel, own functions, or the columns (neither).

    ``named``: the kernel came by name, so that its length scale may be searched.
    """

    kernel: Kernel | None
    own: Basis | None
    named: bool


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
    """How the functions are searched; see :class:`~mercer.RVRegressor`. ``heal`` in units of y."""

    bias: bool
    search: str | None
    heal: bool | float
    tol: float
    max_iter: int


@dataclass(frozen=True)
class RelevanceFit:
    """What was found for one target."""

    process: Sparse  # the posterior of the function
    active: Index  # (M,) the candidates kept
    precisions: Array  # (M,) of their weights, as given
    state: SparseState  # where the search ended
    kernel: Kernel | None  # as found; None for columns and functions of the user's
    search: dict[str, Any] | None  # report of a search for the kernel, the same for all targets
    report: dict[str, Any]  # of the search for the functions


class RelevanceRows:
    """The rows of a fit, in standardised units, and the candidates, searched for each target.

    ``distinct`` says that no two rows are at the same point; else such rows share one function.
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
        if choice.kernel is not None:
            # what the kernel takes from data, it takes from these rows
            self.choice = replace(choice, kernel=choice.kernel.frozen(points, weights))
            require_memory(len(points), 2)
            first = self.first if distinct else group_rows(points)[0]
            if len(first) < len(points):
                self.first, self.centres = first, np.ascontiguousarray(points[first])

    def fit(self, makers: Makers, variance: float | None) -> list[RelevanceFit]:
        """Search with the likelihoods that ``makers`` put on a design, one for each target.

        ``variance`` is that of an augmenting function by default; None: what the model's prior has.
        """
        options, kernel = self.options, self.choice.kernel
        flat = np.ones((len(self.points), int(options.bias)))
        limits = options.tol, options.max_iter
        setting = Setting(self.points, self.centres, flat, self.weights, makers, *limits)
        searched: dict[str, Any] | None = None
        if kernel is None:
            own = self.choice.own
            Phi = self.points if own is None else own(self.points)
            runs = setting.climbs(np.ascontiguousarray(Phi), options.tol)
        else:
            kernel, runs, searched = self._searched(setting, kernel)
        return [self._found(run, kernel, searched, variance) for run in runs]

    def _searched(
        self, setting: Setting, kernel: Kernel
    ) -> tuple[Kernel, list[RelevanceClimb], dict[str, Any] | None]:
        how = self.options.search
        if how is None or (how == "auto" and not self.choice.named):
            return kernel, setting.run(kernel, setting.tol), None
        best, runs, report = tuned(setting, kernel)
        d = self.points.shape[1]
        if how == "ard" and d > 1 and tied_scales(best):
            moved, found, more = tuned(setting, untied(best, d))
            gain = score_of(found) - score_of(runs)
            report["ard"] = {"gain": gain, "kept": gain > 0.0}
            report["evaluations"] += more["evaluations"]
            if gain > 0.0:
                best, runs = moved, found
        return best, runs, report

    def _found(
        self,
        run: RelevanceClimb,
        kernel: Kernel | None,
        searched: dict[str, Any] | None,
        variance: float | None,
    ) -> RelevanceFit:
        state, null = judged(run.machine, run.state)
        order = np.argsort(state.active)  # by candidate, whatever the way they came
        active = tuple(state.active[i] for i in order)
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
        if kernel is None:
            functions = Functions(bias, own=self.choice.own, columns=active)
        else:
            functions = Functions(bias, kernel, np.ascontiguousarray(self.centres[index]))
            index = self.first[index]
        process = Sparse(functions, state.mu / lengths, spread)
        if self.options.heal and kernel is not None:
            process = self._augmented(process, state, kernel, variance)
        precisions = state.prior * lengths[state.flat :] ** 2
        return RelevanceFit(process, index, precisions, state, kernel, searched, report)

    def _augmented(
        self, process: Sparse, state: SparseState, kernel: Kernel, variance: float | None
    ) -> Augmented:
        if self.options.heal is not True:
            variance = float(self.options.heal)
        elif variance is None:  # what the learned prior has at the rows, on average
            squares = state.F[state.flat :] ** 2 / state.prior[:, None]
            variance = float(self.weights @ squares.sum(axis=0) / self.weights.sum()) or 1.0
        F = process.functions(self.points).T
        added = Augmentation(kernel, self.points, F, state.a, state.b, variance)
        return Augmented(process, added)
