"""What MEDClassifier says of itself: the report of a batch, and the summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.shared.summary import Summary, joined_discriminations
from mercer.kernels.base import Kernel


class MEDReport:
    """Reports of a machine that has learned a batch."""

    classes_: NDArray[Any]
    report_: dict[str, Any]
    stream_: Array
    kernel_: Kernel
    support_: NDArray[Any]
    feature_weights_: Array
    n_features_in_: int
    max_iter: int
    tol: float
    bias_rule: str

    def _tell(self, reports: list[dict[str, Any]], C: float, held: int, floor: bool) -> None:
        """Join the reports of the machines; warn of one that ended early."""
        params = {"max_iter": self.max_iter, "tol": self.tol}
        report = joined_discriminations(type(self).__name__, params, reports) | {
            "precision": "float64",
            "C": C,
            "batches": int(self.stream_[0]),
            "bias": self.bias_rule,
            "support": held,
        }
        if floor:
            report["schedule"] = (
                f"C / sqrt(t) has reached its floor {C}: from here on every batch counts the "
                "same; start with a larger C and a smaller amplitude for a longer stream"
            )
        self.report_, self.n_iter_ = report, max(1, report["iterations"])

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "support_vectors_")
        report, (batches, rows) = self.report_, self.stream_
        m = self.feature_weights_.shape[1]
        kept = f"{m} weights of its features" if m else f"{len(self.support_)} support vectors"
        gap = f"{report['gap']:.2g}" if report["gap"] is not None else "not finite"
        ended = "converged" if report["converged"] else "not converged"
        lines = [
            ("Data", "rows", f"{int(rows)}, batches: {int(batches)}"),
            ("Data", "columns", str(self.n_features_in_)),
            ("Data", "classes", ", ".join(str(label) for label in self.classes_)),
            ("Model", "kernel", repr(self.kernel_)),
            ("Model", "kept of each machine" if m else "kept", kept),
            ("Model", "C of the last batch", f"{report['C']:.6g}"),
            ("Model", "bias", report["bias"]),
        ]
        if "schedule" in report:
            lines.append(("Model", "schedule", report["schedule"]))
        if "calibration" in report:
            lines.append(("Quality", "probabilities", _calibration(report["calibration"])))
        lines += [
            ("Quality", "support vectors of the last batch", str(report["support"])),
            ("Quality", "divergence from the prior", f"{np.sum(report['objective']):.6g}"),
            ("Numerics", "last batch", f"{ended} in {report['iterations']} steps, gap {gap}"),
        ]
        if report.get("jitter"):  # absent from files written before
            said = f"{report['jitter']:.1g} of the largest kernel value, in the equations of a step"
            lines.append(("Numerics", "added to a diagonal", said))
        return Summary(type(self).__name__, tuple(lines))


def _calibration(given: dict[str, Any]) -> str:
    if given["slope"] is None:
        return "none yet: there are no held-out scores"
    text = f"sigmoid of slope {given['slope']:.4g} on {given['scores']} held-out scores"
    return text if given["slope"] else f"{text}, which say nothing: the shares of the classes"
