"""RelevanceMachine: what RVRegressor and RVClassifier share, from the rows to the model file.

read -> merge repeated rows -> standardise -> search the functions -> report (left_out_: when asked)
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, location_scale
from mercer.core.basis import Basis, PolynomialBasis
from mercer.core.errors import FoundNothingWarning, outside
from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows
from mercer.core.record import COLUMNS, Each, Maybe
from mercer.estimators.relevance_vector.fit import (
    SPARSE,
    Options,
    RelevanceFit,
    RelevanceRows,
    choose,
)
from mercer.estimators.relevance_vector.left_out import HeldRows
from mercer.estimators.shared.machine import KernelMachine
from mercer.estimators.shared.parts import standardizes
from mercer.estimators.shared.record import LEFT_OUT, UNITS, check_left_out
from mercer.estimators.shared.summary import doubts
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.shared.units import (
    Units,
    calibration,
    describe_rows,
    describe_units,
    described_density,
    flat_words,
    measure,
    up_to,
)
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss, is_number
from mercer.process.features import Augmented
from mercer.search.relevance.kernel import Makers

SEARCHES = ("auto", "evidence", "ard", None)
AUGMENTED = (
    "augmented predictions (heal) have a model for each point, made of all rows: no row can be "
    "left out without a new fit; use heal=False for these figures"
)
HEALED = (
    "augmented by one function at each point, too narrow still: on smooth random functions 90 % "
    "bars held 76 to 80 % of them among the data, 40 to 51 % within a length scale outside, 50 to "
    "68 % further out"
)
HELD = (
    "each row left out with functions, precisions and noise held at what all rows chose: to "
    "compare with other methods use cross-validation"
)


class RelevanceMachine(KernelMachine):
    """A child states how targets are read, their units, the likelihood and the left-out figures."""

    posteriors_: list[Any]  # a Sparse each
    kernel_: Any  # a Kernel, or None
    functions: Any
    bias: bool
    heal: bool | float
    tol: float
    max_iter: int
    null_test: bool

    _left: LeftOut | None
    _held: HeldRows | None  # for the figures of left-out rows, until they are asked for
    alike = False  # whether only rows of equal targets are merged

    # ------------------------------------------------------------------ what a child states
    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        """Return the rows X (N, d), their targets (N, m) and their weights (N,)."""

    def _target_units(self, table: Table) -> tuple[Array, Array]:
        """Return what is subtracted from each target, and by what it is divided: (m,) each."""
        m = table.Y.shape[1]
        return np.zeros(m), np.ones(m)

    @abstractmethod
    def _likelihoods(self, table: Table, units: Units) -> tuple[Makers, float | None]:
        """Return a likelihood on a design for each target, and the variance of ``heal=True``."""

    @abstractmethod
    def _found_loss(self, beta: float) -> Loss:
        """Return the loss in standardised units, with the noise precision that was learned."""

    @abstractmethod
    def _figures(self, mean: Array, variance: Array, table: Table) -> LeftOut:
        """Return the figures of left-out rows with latent moments (N, m), standardised."""

    @abstractmethod
    def _facts(self) -> list[tuple[str, str]]:
        """Return further rows of the summary on the model: (label, value)."""

    # ------------------------------------------------------------------ fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        options = self._options()
        X, Y, weights = self._read(X, y, sample_weight)
        d = X.shape[1]
        choice = choose(self.kernel, self.functions, getattr(self, "feature_names_in_", None), d)
        standardize = standardizes(self.standardize, choice.named)
        table = build_table(X, Y, weights, False, Y.shape[1] == 1, 3, self.alike)
        y_units, x_units = self._target_units(table), (np.zeros(d), np.ones(d))
        if standardize:
            x_units = location_scale(table.points, table.total)
        units = Units(*x_units, *y_units)
        if not isinstance(options.heal, bool):
            options = replace(options, heal=options.heal / float(units.y_scale[0]) ** 2)
        points = units.standardised(table.points)
        rows = RelevanceRows(choice, points, table.total, options, distinct=not self.alike)
        found = rows.fit(*self._likelihoods(table, units))
        state, kernel = found[0].state, rows.kernel
        self._keep_weights(found, table, units, kernel is not None)
        self._settled([one.process for one in found], self._found_loss(state.beta), units)
        self.kernel_ = None
        if kernel is not None:  # its amplitude has no meaning here
            stated = replace(units, y_shift=np.zeros(1), y_scale=np.ones(1))
            self.kernel_ = stated.kernel_in_user_units(kernel)
        self.log_evidence_ = units.evidence_in_user_units(
            sum(one.state.evidence for one in found), float(table.total.sum()), None, state.flat
        )
        self._left, self._held = None, None if options.heal else HeldRows.of(found, table)
        self.report_ = self._described(found, table, standardize, rows.searched)
        flat = flat_words(PolynomialBasis(0) if state.flat else None, table.points, table.total)
        loss = self.losses_[0]
        codes = Y.argmax(axis=1) if Y.shape[1] > 1 else Y[:, 0] > 0.0
        y = codes[:, None] if self.alike else Y
        self.report_["density"] = described_density(
            X, y, weights, measure(loss, len(found)) + up_to(flat), measure(loss)
        )
        if self.report_["found_nothing"]:
            message = f"{type(self).__name__} {self.report_['found_nothing']}"
            warnings.warn(message, FoundNothingWarning, stacklevel=outside())
        if not self.report_["inference"]["converged"]:
            message = f"{type(self).__name__} {self.report_['inference']['message']}"
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())
        return self

    def _options(self) -> Options:
        """Check the parameters that all relevance vector machines have."""
        heal, tol, steps, switch = self.heal, self.tol, self.max_iter, (bool, np.bool_)
        switched = isinstance(heal, switch)
        healed = switched or is_number(heal, 0.0, np.inf)
        whole = isinstance(steps, (int, np.integer)) and not isinstance(steps, bool)
        for name, fine, wanted in (
            ("bias", isinstance(self.bias, switch), "True or False"),
            ("search", self.search in SEARCHES, "'auto', 'evidence', 'ard' or None"),
            ("heal", healed, "True, False or a positive variance"),
            ("tol", is_number(tol, 0.0, np.inf) or tol == np.inf, "a positive number"),
            ("max_iter", whole and steps >= 1, "a number of steps, at least 1"),
            ("null_test", isinstance(self.null_test, switch), "True or False"),
        ):
            if not fine:
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)!r}")
        heal = bool(heal) if switched else float(heal)
        limits = float(tol), int(steps), bool(self.null_test)
        return Options(bool(self.bias), self.search, heal, *limits)

    def _keep_weights(
        self, found: list[RelevanceFit], table: Table, units: Units, kernel: bool
    ) -> None:
        """Store the functions that were kept; one row of coefficients for each target."""
        rows = np.full(len(table.points), len(table.X), dtype=np.intp)
        np.minimum.at(rows, table.group, table.keep)  # the first row of each group
        named = [rows[one.active] if kernel else one.active for one in found]
        kept = np.unique(np.concatenate(named))
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

    def _settled(self, processes: list[Any], loss: Loss, units: Units) -> None:
        """Keep what the predictions need."""
        self.posteriors_, self.losses_, self.units_ = processes, [loss], units
        self.basis_, self.flat_ = None, len(processes) == 1
        self.loss_ = units.loss_in_user_units(loss)

    # ------------------------------------------------------------------ what is reported
    @property
    def left_out_(self) -> LeftOut | None:  # computed when it is asked for: many fits never need it
        """Every row from the others, functions, precisions and noise held; None with ``heal``."""
        check_is_fitted(self, "posteriors_")
        held = self._held
        if held is not None:
            self._left = self._figures(*held.moments(self.units_, self.alike), held.table)
            honest = calibration(self._left, held.table.X, held.table.Y)
            self.report_["density"]["calibration"] = honest
            self._held = None
        return self._left

    @left_out_.setter
    def left_out_(self, found: LeftOut | None) -> None:
        self._left, self._held = found, None

    def _described(
        self, found: list[RelevanceFit], table: Table, standardize: bool, searched: Any
    ) -> dict[str, Any]:
        """What was done to the numbers, as plain values."""
        self.n_iter_ = max(1, sum(sum(one.report["steps"].values()) for one in found))
        converged = all(one.report["converged"] for one in found)
        message = (
            f"ended after max_iter={self.max_iter} steps, while a step still promised "
            f"tol={self.tol:g} in log evidence: raise max_iter, or tol if this is near enough"
        )
        return {
            "rows": describe_rows(table, table.weights[table.keep]),
            "standardize": {"on": standardize} | describe_units(self.units_),
            "search": searched,
            "inference": {
                "name": "Laplace" if self.alike else "Exact",
                "converged": converged,
                "iterations": self.n_iter_,
                "gap": None,
                "message": "" if converged else message,
            },
            "gram": "weight_space",
            "degrees_of_freedom": found[0].state.gamma() if len(found) == 1 else None,
            "left_out": AUGMENTED if self._held is None else HELD,
            "error_bars": HEALED if self.heal else "",
            "found_nothing": self._nothing(found, table),
            "machines": [one.report for one in found],
        }

    def _nothing(self, found: list[RelevanceFit], table: Table) -> str:
        """Words for a model without any function; empty if it has some, or none was needed."""
        if any(len(one.active) for one in found) or not np.ptp(table.mean):
            return ""
        tests = [one.report["null_model"] for one in found]
        best = max(tests, key=lambda test: test["gain"] - test["needed"])
        why = "no function raises the log evidence"
        if best["kept"]:
            why = (
                f"the best functions raise the log evidence by {best['gain']:.1f}, "
                f"and noise would by up to {best['needed']:.1f}"
            )
        what = "the share of each class" if self.alike else "the mean"
        return (
            f"found nothing but noise and predicts {what if self.bias else 'zero'} everywhere: "
            f"{why}. If there should be more, choose or scale columns or give a kernel with "
            "another length scale; null_test=False keeps whatever is found"
        )

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        counts, searches = self.report_["rows"], self.report_["machines"]
        rows = [("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct)")]
        if counts["weight"] != counts["used"]:
            rows.append(("Data", "total weight", f"{counts['weight']:.6g}"))
        own = "columns or functions of your own"
        rows += [
            ("Data", "columns", str(self.n_features_in_)),
            ("Model", "functions", own if self.kernel_ is None else repr(self.kernel_)),
            ("Model", "relevance vectors", str(len(self.relevance_rows_))),
            *(("Model", label, value) for label, value in self._facts()),
        ]
        augmented = HEALED if self.heal else "no: deviations shrink away from the data"
        rows.append(("Model", "augmented error bars", augmented))
        rows.append(("Quality", "log evidence", f"{self.log_evidence_:.4f}"))
        total = None if self.left_out_ is None else self.left_out_.total
        if total is not None:
            text = f"{total:.4f} ({total / counts['weight']:.4f} per observation)"
            rows.append(("Quality", "leave-one-out log density, functions held", text))
        rows += [("Quality", "doubtful", text) for text in doubts(self.report_)]
        for j, one in enumerate(searches):
            label = "search" if len(searches) == 1 else f"search {j}"
            steps = ", ".join(f"{count} {kind}" for kind, count in one["steps"].items())
            text = f"{'converged' if one['converged'] else 'not converged'}: {steps}"
            if one["null_model"]["kept"]:
                text += "; nothing but noise was found, the model without functions is kept"
            rows.append(("Numerics", label, text))
        return rows

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        classes: Record = {"classes_": Labels()} if issubclass(cls, ClassifierMixin) else {}
        k = "k" if classes else "1"
        return {
            **COLUMNS,
            **classes,
            "units_": UNITS,
            "kernel_": Maybe(PartOf(Kernel)),
            "losses_": Each(PartOf(Loss), "1"),
            "relevance_rows_": Rows("M"),
            "relevance_vectors_": Numbers("M d | 0 d"),
            "weights_": Numbers(f"{k} M"),
            "precisions_": Numbers(f"{k} M", 0.0, finite=False),
            "intercept_": Numbers(k),
            "n_iter_": Plain(int, 1),
            "log_evidence_": Plain(float),
            "left_out_": Maybe(LEFT_OUT),
            "report_": PlainReport(),
            "posteriors_": Each(SPARSE, k),
            "_augmented_rows": Maybe(Numbers("n d")),
        }

    @property
    def _augmented_rows(self) -> Array | None:
        """The training rows (n, d) of augmented predictions, which all machines share."""
        added = getattr(self.posteriors_[0], "added", None)
        return None if added is None else added.points

    @_augmented_rows.setter
    def _augmented_rows(self, points: Array | None) -> None:
        for process in self.posteriors_:
            if isinstance(process, Augmented) == (points is None):
                raise ValueError("augmented predictions, and they alone, need the training rows")
            if points is not None:
                F = process.functions(points).T
                process.added = replace(process.added, points=points, F=F)

    def _stored_params(self) -> dict[str, Any]:
        params = super()._stored_params()
        given, own = params["functions"], self.posteriors_[0].functions.own
        if own is None or isinstance(given, Basis) or given in (None, "columns"):
            return params
        return params | {"functions": own}  # a bare function is refused there, with the remedy

    def _restored(self) -> None:
        self._settled(self.posteriors_, self.losses_[0], self.units_)

    def _check_fitted(self) -> None:
        kernels = {process.functions.kernel is None for process in self.posteriors_}
        if kernels != {self.kernel_ is None}:
            raise ValueError(
                "there must be a kernel, inside and outside, or functions of one's own"
            )
        for functions in (process.functions for process in self.posteriors_):
            most = functions.own and functions.own.size(self.n_features_in_)
            if most is not None and max(functions.columns, default=-1) >= most:
                raise ValueError(f"the basis of the model has {most} functions, and more are used")
        rows = 0 if self.kernel_ is None else len(self.relevance_rows_)
        if len(self.relevance_vectors_) != rows:
            raise ValueError("relevance_vectors_ are the rows of a kernel's functions")
        check_left_out(self.left_out_, flat=True)
        if rows:
            some = self.relevance_vectors_[:: 1 + len(self.relevance_vectors_) // 8]
            points = self.units_.standardised(some)
            if not all(np.isfinite(p.mean(points)).all() for p in self.posteriors_):
                raise ValueError("the parts of the model do not belong to its arrays")
