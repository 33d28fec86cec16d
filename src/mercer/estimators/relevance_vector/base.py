"""What relevance vector machines share: their parameters checked, their summary."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.core.arrays import Array, Index
from mercer.core.rows import location_scale
from mercer.estimators.relevance_vector.fit import SEARCHES, Choice, Options, RelevanceFit, choose
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import Table
from mercer.estimators.shared.units import Units, describe_rows, describe_units
from mercer.kernels.base import Kernel

OUTSIDE = 5  # frames from here to the user's call of fit


class RelevanceMachine:
    """Parameters, fitted attributes and summary of RVRegressor and RVClassifier."""

    relevance_: Index
    relevance_vectors_: Array
    weights_: Array
    precisions_: Array
    intercept_: Any
    report_: dict[str, Any]

    def _options(self) -> Options:
        """Check the parameters that all machines have."""
        given: Any = self
        if not isinstance(given.bias, (bool, np.bool_)):
            raise ValueError(f"bias must be True or False, not {given.bias!r}")
        if given.search not in SEARCHES:
            raise ValueError(
                f"search must be 'auto', 'evidence', 'ard' or None, not {given.search!r}"
            )
        heal = given.heal
        if not isinstance(heal, (bool, np.bool_)) and not (
            isinstance(heal, (int, float, np.number)) and 0.0 < heal < np.inf
        ):
            raise ValueError(f"heal must be True, False or a positive variance, not {heal!r}")
        if not (isinstance(given.tol, (int, float, np.number)) and given.tol > 0.0):
            raise ValueError(f"tol must be a positive number, not {given.tol!r}")
        steps = given.max_iter
        if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"max_iter must be a number of steps, at least 1, not {steps!r}")
        heal = bool(heal) if isinstance(heal, (bool, np.bool_)) else float(heal)
        return Options(bool(given.bias), given.search, heal, float(given.tol), int(steps))

    def _choice(self, d: int) -> tuple[Choice, bool]:
        """Return the candidates' origin, and whether the columns are standardised."""
        given: Any = self
        choice = choose(given.kernel, given.functions, getattr(self, "feature_names_in_", None), d)
        wanted = given.standardize
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

    def _keep(self, found: list[RelevanceFit], table: Table, units: Units, choice: Choice) -> None:
        """Store what all machines report; one column of coefficients for each target."""
        given: Any = self
        rows = np.full(len(table.points), len(table.X), dtype=np.intp)
        np.minimum.at(rows, table.group, table.keep)  # the first row of each group
        kernel = choice.kernel is not None
        named = [rows[one.active] if kernel else one.active for one in found]
        kept = np.unique(np.concatenate(named)) if found else np.zeros(0, dtype=np.intp)
        self.relevance_ = kept.astype(np.intp)
        self.relevance_vectors_ = table.X[kept] if kernel else np.empty((0, table.X.shape[1]))
        self.weights_ = np.zeros((len(found), len(kept)))
        self.precisions_ = np.full((len(found), len(kept)), np.inf)
        intercept = np.zeros(len(found))
        for j, (one, names) in enumerate(zip(found, named, strict=True)):
            places = np.searchsorted(kept, names)
            scale = units.y_scale[j]
            bias = len(one.process.mu) - len(names)
            self.weights_[j, places] = scale * one.process.mu[bias:]
            self.precisions_[j, places] = one.precisions / scale**2
            intercept[j] = units.y_shift[j] + (scale * one.process.mu[0] if bias else 0.0)
        self.intercept_ = intercept
        self.n_iter_ = max(1, sum(sum(one.report["steps"].values()) for one in found))
        self.report_ = {
            "standardize": describe_units(units),
            "rows": describe_rows(table, table.weights[table.keep]),
            "machines": [one.report for one in found],
        }
        if not all(one.report["converged"] for one in found):
            warnings.warn(
                f"{type(self).__name__} ended after max_iter={given.max_iter} steps, while a step "
                f"still promised tol={given.tol:g} in log evidence: raise max_iter, or tol if this "
                "is near enough",
                ConvergenceWarning,
                stacklevel=OUTSIDE,
            )

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        given: Any = self
        report = self.report_
        counts = report["rows"]
        rows = [("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct)")]
        if counts["weight"] != counts["used"]:
            rows.append(("Data", "total weight", f"{counts['weight']:.6g}"))
        rows.append(("Data", "columns", str(given.n_features_in_)))
        functions = "columns or functions of your own"
        rows.append(
            ("Model", "functions", functions if given.kernel_ is None else repr(given.kernel_))
        )
        rows.append(("Model", "relevance vectors", str(len(self.relevance_))))
        rows += [("Model", label, value) for label, value in self._facts()]
        healed = "yes" if given.heal else "no: deviations shrink away from the data"
        rows.append(("Model", "healed error bars", healed))
        rows.append(("Quality", "log evidence", f"{given.log_evidence_:.4f}"))
        for j, one in enumerate(report["machines"]):
            label = "search" if len(report["machines"]) == 1 else f"search {j}"
            steps = ", ".join(f"{count} {kind}" for kind, count in one["steps"].items())
            text = f"{'converged' if one['converged'] else 'not converged'}: {steps}"
            if one["null_model"]["kept"]:
                text += "; nothing but noise was found, the model without functions is kept"
            rows.append(("Numerics", label, text))
        return Summary(type(self).__name__, tuple(rows))

    def _facts(self) -> list[tuple[str, str]]:
        """Further lines of the summary."""
        return []


def column_units(points: Array, total: Array, on: bool) -> tuple[Array, Array]:
    """Shift and scale of the columns of points (n, d), (d,) each; zeros and ones if not ``on``."""
    d = points.shape[1]
    return location_scale(points, total) if on else (np.zeros(d), np.ones(d))


def kernel_outside(units: Units, kernel: Kernel) -> Kernel:
    """Return the kernel as a function of the user's columns; its amplitude has no meaning here."""
    return Units(units.x_shift, units.x_scale, np.zeros(1), np.ones(1)).kernel_outside(kernel)
