"""RelevanceMachine: what RVRegressor and RVClassifier share, from the rows to the report.

read -> merge repeated rows -> standardise -> search the functions -> leave each row out -> report

A child states how its targets are read, their units, the likelihood, and what a left-out row says.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.core.arrays import Array, Index, location_scale
from mercer.estimators.relevance_vector.fit import (
    SEARCHES,
    Choice,
    Options,
    RelevanceFit,
    RelevanceRows,
    choose,
)
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import Table, build_table, restored_on_error
from mercer.estimators.shared.units import Units, describe_rows, describe_units
from mercer.inference.sites.base import cavity
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.process.features import Sparse
from mercer.process.process import Process
from mercer.search.relevance.state import Design, Machine

OUTSIDE = 3  # frames from here to the user's call of fit
AUGMENTED = (
    "augmented predictions (heal) have a model for each point, made of all rows: no row can be "
    "left out without a new fit; use heal=False for these figures"
)
HELD = (
    "each row left out with functions, precisions and noise held at what all rows chose: to "
    "compare with other methods use cross-validation"
)


class RelevanceMachine(ABC):
    """The data flow of a relevance vector machine, its fitted attributes and its summary."""

    kernel: Any
    functions: Any
    bias: bool
    search: Any
    heal: bool | float
    tol: float
    max_iter: int
    standardize: bool | str

    n_features_in_: int
    relevance_rows_: Index
    relevance_vectors_: Array
    weights_: Array
    precisions_: Array
    intercept_: Array
    kernel_: Kernel | None
    loss_: Loss
    losses_: list[Loss]
    units_: Units
    posteriors_: list[Process]
    log_evidence_: float
    n_iter_: int
    report_: dict[str, Any]
    left_out_: LeftOut | None = None  # files written before there were such figures have none

    alike = False  # whether only rows of equal targets are merged

    @property
    def loo_(self) -> LeftOut | None:
        """The same as ``left_out_``."""
        return self.left_out_

    # ------------------------------------------------------------------ what a child states
    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        """Return the rows X (N, d), their targets (N, m) and their weights (N,)."""

    @abstractmethod
    def _target_units(self, table: Table) -> tuple[Array, Array]:
        """Return what is subtracted from each target, and by what it is divided: (m,) each."""

    @abstractmethod
    def _likelihoods(
        self, table: Table, units: Units
    ) -> tuple[list[Callable[[Design], Machine]], float | None]:
        """Return a likelihood on a design for each target.

        With them the variance of an augmenting function by default; None: the prior's at the rows.
        """

    @abstractmethod
    def _settled(self, processes: list[Sparse], loss: Loss, units: Units) -> None:
        """Keep what the predictions need."""

    @abstractmethod
    def _found_loss(self, found: list[RelevanceFit]) -> Loss:
        """Return the loss in standardised units, with what was learned."""

    @abstractmethod
    def _found_evidence(self, found: list[RelevanceFit], total: float) -> float:
        """Return the log evidence in the user's units; ``total`` is the weight of all rows."""

    @abstractmethod
    def _figures(self, mean: Array, variance: Array, table: Table) -> LeftOut:
        """Return the figures of left-out rows with latent moments (N, m), standardised."""

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was.
        """
        with restored_on_error(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        options = self._options()
        X, Y, weights = self._read(X, y, sample_weight)
        choice, standardize = self._choice(X.shape[1])
        table = build_table(X, Y, weights, False, Y.shape[1] == 1, 3, self.alike)
        d, y_units = X.shape[1], self._target_units(table)
        x_units = np.zeros(d), np.ones(d)
        if standardize:
            x_units = location_scale(table.points, table.total)
        units = Units(*x_units, *y_units)
        points = units.standardised(table.points)
        options = options.in_units(float(units.y_scale[0]))
        rows = RelevanceRows(choice, points, table.total, options, distinct=not self.alike)
        found = rows.fit(*self._likelihoods(table, units))
        self._keep_weights(found, table, units, choice.kernel is not None)
        self._settled([one.process for one in found], self._found_loss(found), units)
        kernel = found[0].kernel
        self.kernel_ = None if kernel is None else kernel_in_user_units(units, kernel)
        self.log_evidence_ = self._found_evidence(found, float(table.total.sum()))
        self.left_out_ = None if options.heal else self._leave_out(found, table, units)
        self.report_ = self._describe(found, table, units, standardize)
        if not self.report_["inference"]["converged"]:
            message = f"{type(self).__name__} {self.report_['inference']['message']}"
            warnings.warn(message, ConvergenceWarning, stacklevel=OUTSIDE)
        return self

    def _options(self) -> Options:
        """Check the parameters that all relevance vector machines have."""
        if not isinstance(self.bias, (bool, np.bool_)):
            raise ValueError(f"bias must be True or False, not {self.bias!r}")
        if self.search not in SEARCHES:
            raise ValueError(
                f"search must be 'auto', 'evidence', 'ard' or None, not {self.search!r}"
            )
        heal = self.heal
        if not isinstance(heal, (bool, np.bool_)) and not (
            isinstance(heal, (int, float, np.number)) and 0.0 < heal < np.inf
        ):
            raise ValueError(f"heal must be True, False or a positive variance, not {heal!r}")
        if not (isinstance(self.tol, (int, float, np.number)) and self.tol > 0.0):
            raise ValueError(f"tol must be a positive number, not {self.tol!r}")
        steps = self.max_iter
        if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"max_iter must be a number of steps, at least 1, not {steps!r}")
        heal = bool(heal) if isinstance(heal, (bool, np.bool_)) else float(heal)
        return Options(bool(self.bias), self.search, heal, float(self.tol), int(steps))

    def _choice(self, d: int) -> tuple[Choice, bool]:
        """Return where the candidates come from, and whether the columns are standardised."""
        choice = choose(self.kernel, self.functions, getattr(self, "feature_names_in_", None), d)
        wanted = self.standardize
        if isinstance(wanted, str) and wanted == "auto":
            return choice, choice.named
        if not isinstance(wanted, (bool, np.bool_)):
            raise ValueError(f"standardize must be True, False or 'auto', not {wanted!r}")
        if wanted and not choice.named:
            raise ValueError(
                "standardize=True needs a kernel given by name: the parameters of a kernel object, "
                "and functions of your own, are in your units; scale the columns with "
                "sklearn.preprocessing.StandardScaler in a pipeline instead"
            )
        return choice, bool(wanted)

    def _keep_weights(
        self, found: list[RelevanceFit], table: Table, units: Units, kernel: bool
    ) -> None:
        """Store the functions that were kept; one row of coefficients for each target."""
        rows = np.full(len(table.points), len(table.X), dtype=np.intp)
        np.minimum.at(rows, table.group, table.keep)  # the first row of each group
        named = [rows[one.active] if kernel else one.active for one in found]
        kept = np.unique(np.concatenate(named)) if found else np.zeros(0, dtype=np.intp)
        self.relevance_rows_ = kept.astype(np.intp)
        self.relevance_vectors_ = table.X[kept] if kernel else np.empty((0, table.X.shape[1]))
        self.weights_ = np.zeros((len(found), len(kept)))
        self.precisions_ = np.full((len(found), len(kept)), np.inf)
        self.intercept_ = np.zeros(len(found))
        for j, (one, names) in enumerate(zip(found, named, strict=True)):
            places = np.searchsorted(kept, names)
            scale = units.y_scale[j]
            bias = len(one.process.mu) - len(names)
            self.weights_[j, places] = scale * one.process.mu[bias:]
            self.precisions_[j, places] = one.precisions / scale**2
            self.intercept_[j] = units.y_shift[j] + (scale * one.process.mu[0] if bias else 0.0)

    # ------------------------------------------------------------------ what is reported
    def _leave_out(self, found: list[RelevanceFit], table: Table, units: Units) -> LeftOut:
        """Predict every row from the others, with functions, precisions and noise held.

        The posterior of the weights without row r is that of a Gaussian site less: the cavity of
        GPML (3.56), exact for Gaussian noise. Where rows were merged, each is left out with at most
        unit weight; a row of weight zero is predicted from all that count. NaN where the others say
        nothing of a row.
        """
        g, N = table.group, len(table.X)
        share = np.minimum(table.weights[table.keep], 1.0) / table.total[g]
        rows, unused = units.y_standardised(table.Y), np.flatnonzero(table.weights == 0.0)
        mean, variance = np.empty((2, N, len(found)))
        for j, one in enumerate(found):
            state = one.state
            f, half = state.mu @ state.F, state.factor.half(state.F)
            a = state.a[g]
            if not self.alike:  # the slope of the row itself, not that of the mean at its point
                a = state.b[g] * (rows[table.keep, j] - f[g])
            with np.errstate(divide="ignore", invalid="ignore"):
                var = np.einsum("ij,ij->j", half, half)
                m, v = cavity(f[g], var[g], a, state.b[g], share)
            proper = (v >= 0.0) & np.isfinite(v) & np.isfinite(m)
            mean[table.keep, j] = np.where(proper, m, np.nan)
            variance[table.keep, j] = np.where(proper, v, np.nan)
            if len(unused):
                inside = units.standardised(table.X[unused])
                mean[unused, j] = one.process.mean(inside)[:, 0]
                variance[unused, j] = one.process.var(inside)
        return self._figures(mean, variance, table)

    def _describe(
        self, found: list[RelevanceFit], table: Table, units: Units, standardize: bool
    ) -> dict[str, Any]:
        """What was done to the numbers, as plain values."""
        self.n_iter_ = max(1, sum(one.steps for one in found))
        converged = all(one.report["converged"] for one in found)
        message = (
            f"ended after max_iter={self.max_iter} steps, while a step still promised "
            f"tol={self.tol:g} in log evidence: raise max_iter, or tol if this is near enough"
        )
        return {
            "rows": describe_rows(table, table.weights[table.keep]),
            "standardize": {"on": standardize} | describe_units(units),
            "search": found[0].search,
            "inference": {
                "name": "Laplace" if self.alike else "Exact",
                "converged": converged,
                "iterations": self.n_iter_,
                "gap": None,
                "message": "" if converged else message,
            },
            "gram": "weight_space",
            "degrees_of_freedom": found[0].state.gamma() if len(found) == 1 else None,
            "left_out": AUGMENTED if self.left_out_ is None else HELD,
            "machines": [one.report for one in found],
        }

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        return Summary(type(self).__name__, tuple(self._summary_rows()))

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        """Rows (section, label, value) of the summary."""
        counts, searches = self.report_["rows"], self.report_["machines"]
        rows = [("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct)")]
        if counts["weight"] != counts["used"]:
            rows.append(("Data", "total weight", f"{counts['weight']:.6g}"))
        rows.append(("Data", "columns", str(self.n_features_in_)))
        own = "columns or functions of your own"
        rows.append(("Model", "functions", own if self.kernel_ is None else repr(self.kernel_)))
        rows.append(("Model", "relevance vectors", str(len(self.relevance_rows_))))
        rows += [("Model", label, value) for label, value in self._facts()]
        augmented = "yes" if self.heal else "no: deviations shrink away from the data"
        rows.append(("Model", "augmented error bars", augmented))
        rows.append(("Quality", "log evidence", f"{self.log_evidence_:.4f}"))
        total = None if self.left_out_ is None else self.left_out_.total
        if total is not None:
            text = f"{total:.4f} ({total / counts['weight']:.4f} per observation)"
            rows.append(("Quality", "leave-one-out log density, functions held", text))
        for j, one in enumerate(searches):
            label = "search" if len(searches) == 1 else f"search {j}"
            steps = ", ".join(f"{count} {kind}" for kind, count in one["steps"].items())
            text = f"{'converged' if one['converged'] else 'not converged'}: {steps}"
            if one["null_model"]["kept"]:
                text += "; nothing but noise was found, the model without functions is kept"
            rows.append(("Numerics", label, text))
        return rows

    @abstractmethod
    def _facts(self) -> list[tuple[str, str]]:
        """Return further rows of the summary on the model: (label, value)."""


def kernel_in_user_units(units: Units, kernel: Kernel) -> Kernel:
    """Return the kernel as a function of the user's columns; its amplitude has no meaning here."""
    return Units(units.x_shift, units.x_scale, np.zeros(1), np.ones(1)).kernel_in_user_units(kernel)
