"""What MEDClassifier and the classifiers on graphs share: report and summary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.errors import outside
from mercer.estimators.shared.summary import Summary
from mercer.estimators.support_vector.base import OneAgainstRest
from mercer.inference.base import Inference, Report
from mercer.kernels import Kernel

NO_LEFT_OUT = (
    "none: there is no formula for the scores without one of the rows; "
    "sklearn.model_selection.cross_val_predict fits again without some of them"
)
SECTIONS = ("Data", "Model", "Quality", "Numerics")


class MarginClassifier(OneAgainstRest):
    """The classifier behind MEDClassifier and those on graphs; a child states how it learns."""

    n_features_in_: int
    n_iter_: int

    def _signal(self, X: Any, weights: Array) -> Kernel:
        """Return the kernel without its noise parts, what it takes from data taken from X."""
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        return kernel

    # ------------------------------------------------------------------ report and summary
    def _tell(
        self, inference: Inference | None, report: Report, rows: Mapping[str, Any], **more: Any
    ) -> None:
        """Set ``report_`` of a batch, None of one without labels; warn if it stopped too early."""
        self.report_ = {
            "rows": dict(rows),
            "standardize": {"on": False},
            "search": None,
            "inference": {"name": inference and type(inference).__name__} | report.plain(),
            "gram": "dense",
            "degrees_of_freedom": None,
            "left_out": NO_LEFT_OUT,
            "precision": "float64",
            **more,
        }
        self.n_iter_ = max(1, report.iterations or 0)
        if not report.converged:
            self._warn(report)

    def _warn(self, report: Report) -> None:
        """Warn that the inference stopped before its tolerance."""
        limits = self.get_params(deep=False)
        warnings.warn(
            f"{type(self).__name__} ended after {report.iterations} steps "
            f"(max_iter={limits['max_iter']}) with a duality gap of {report.gap:.2g}, above "
            f"tol={limits['tol']:g}: raise max_iter, choose a larger tol or scale the columns",
            ConvergenceWarning,
            stacklevel=outside(),
        )

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "support_vectors_")
        rows = sorted(self._summary_rows(), key=lambda row: SECTIONS.index(row[0]))
        return Summary(type(self).__name__, tuple(rows))

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        """Return rows (section, label, value) in any order of the sections: those of all."""
        ended = self.report_["inference"]
        text = "converged" if ended["converged"] else "not converged"
        if ended["iterations"] is not None:
            text += f" in {ended['iterations']} steps"
        if ended["gap"] is not None:
            text += f", gap {ended['gap']:.2g}"
        rows = [
            ("Data", "columns", str(self.n_features_in_)),
            ("Data", "classes", ", ".join(str(label) for label in self.classes_)),
            ("Model", "kernel", repr(self.kernel_)),
            ("Numerics", "last batch", text),
        ]
        if ended.get("jitter"):
            text = f"{ended['jitter']:.1g} of the largest kernel value, in the equations of a step"
            rows.append(("Numerics", "added to a diagonal", text))
        return rows
