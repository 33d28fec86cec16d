"""What classifiers by margins share: the process of what was learned, report and summary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.labels import decided
from mercer.estimators.shared.summary import OUTSIDE, Summary
from mercer.estimators.shared.table import read_any_inputs
from mercer.estimators.support_vector.base import SupportVectorMachine
from mercer.inference.base import Inference, Report
from mercer.kernels import Kernel
from mercer.left_out.figures import LeftOut
from mercer.linalg.operators import ExplicitOperator, PosteriorOperator
from mercer.process.process import Posterior, Prior, Process

NO_LEFT_OUT = (
    "none: there is no formula for what this machine says without one of its rows; "
    "sklearn.model_selection.cross_val_predict refits it without some of them"
)
SECTIONS = ("Data", "Model", "Quality", "Numerics")
# report_ of files written before 0.2: where the names of an inference stood, and other names
_OF_INFERENCE = ("converged", "iterations", "gap", "message", "objective", "jitter")
_RENAMED = {"C k(x, x)": "margin_scale", "let go": "dropped_support_vectors"}


class MarginClassifier(ClassifierMixin, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """The classifier behind MEDClassifier and those on graphs; a child states how it learns.

    The function is ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``.
    """

    classes_: NDArray[Any]
    n_features_in_: int
    n_iter_: int

    # ------------------------------------------------------------------ what was learned
    @property
    def posteriors_(self) -> list[Process]:
        """The process of what was learned: one entry, its mean is f + b."""
        check_is_fitted(self, "support_vectors_")
        return [self._posterior(self.intercept_)]

    @property
    def left_out_(self) -> LeftOut | None:
        """None; ``report_["left_out"]`` says why."""
        check_is_fitted(self, "support_vectors_")
        return None

    @property
    def loo_(self) -> LeftOut | None:
        """Another name of ``left_out_``."""
        return self.left_out_

    def _posterior(self, bias: Array | None) -> Process:
        """Formulas (1) and (2), with constants ``bias`` (k,) added to the k functions, or none."""
        return Posterior(
            Prior(self.kernel_, len(self.intercept_)),
            self.support_vectors_,
            self.dual_coef_.T,
            self._operator(),
            beta=None if bias is None else bias[None, :],
            basis=PolynomialBasis(0),
        )

    def _operator(self) -> PosteriorOperator:
        """C of formula (2): zero for a mode."""
        return ExplicitOperator(None)

    def _signal(self, X: Any, weights: Array) -> Kernel:
        """Return the kernel without its noise parts, what it takes from data taken from X."""
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        return kernel

    # ------------------------------------------------------------------ predictions
    def _takes_sparse(self) -> bool:
        return False

    def _latent(self, X: Any) -> Array:
        """Return f + b (q, k) at new inputs X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        X = read_any_inputs(self, X, sparse=self._takes_sparse())
        if self._precomputed():  # the columns of X are the training rows
            X = X[:, self.support_]
        return self.posteriors_[0].mean(X)

    def _shifted(self, f: Array) -> Array:
        """Return the scores (q, k) by which classes are told apart; f + b itself."""
        return f

    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._shifted(self._latent(X))
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        return decided(self.classes_, self.decision_function(X))

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
            stacklevel=OUTSIDE,
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

    # ------------------------------------------------------------------ model files
    def _check_kernel(self) -> None:
        """Refuse a kernel that does not fit the arrays: predict one of the support vectors."""
        self.report_ = current_report(self.report_)
        if self._precomputed():
            if not self.kernel_.pairwise or self.support_.max(initial=-1) >= self.n_features_in_:
                raise ValueError("a precomputed kernel has a column for each training row")
            return
        if self.kernel_.pairwise:
            raise ValueError("the kernel is a precomputed one, and the parameter kernel is not")
        point = self.support_vectors_[:1]
        if not np.isfinite(self.posteriors_[0].mean(point)).all():
            raise ValueError("the kernel of the model does not belong to its support vectors")


def current_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a file written before 0.2 under the names of today.

    Examples
    --------
    >>> report = current_report({"converged": True, "iterations": 9, "C": 10.0, "C k(x, x)": 4.0})
    >>> report["inference"]["iterations"], report["C"], report["margin_scale"]
    (9, 10.0, 4.0)
    """
    if "inference" in report:
        return report
    blank = {"name": None} | Report(iterations=0).plain()
    inference = blank | {key: report[key] for key in _OF_INFERENCE if key in report}
    frame = {"rows": None, "standardize": {"on": False}, "search": None, "inference": inference}
    frame |= {"gram": "dense", "degrees_of_freedom": None, "left_out": NO_LEFT_OUT}
    rest = {key: value for key, value in report.items() if key not in _OF_INFERENCE}
    return frame | _renamed(rest)


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    return {
        _RENAMED.get(key, key): _renamed(value) if isinstance(value, dict) else value
        for key, value in values.items()
    }
