"""What can be asked of an online learner between two batches: predictions, report and summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.shared.stream import Prequential
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import read_inputs
from mercer.estimators.shared.units import Units, describe_units
from mercer.inference.base import Report
from mercer.kernels.base import Kernel
from mercer.losses.numbers.averages import log_averaged
from mercer.process.stream import StreamPosterior

NOT_KEPT = (
    "a stream is learned in one pass and its rows are not kept, so none can be left out; "
    "prequential_ has the figures of each row predicted before it was learned"
)
COMPUTED = ("standardize", "search", "gram", "degrees_of_freedom", "left_out")  # in report_


class StreamPredictions:
    """Predictions through the process of the stream, and what is reported about it.

    ``_report`` holds the figures that batches add to and that model files keep; ``report_`` is
    made of them when it is asked for.
    """

    classes_: NDArray[Any]
    posteriors_: list[StreamPosterior]
    units_: Units
    kernel_: Kernel
    prequential_: Prequential
    log_evidence_: float
    n_features_in_: int
    _report: dict[str, Any]

    @property
    def stream_(self) -> StreamPosterior:
        """The posterior of the latent functions, given all rows so far: ``posteriors_[0]``."""
        return self.posteriors_[0]

    @property
    def left_out_(self) -> None:
        """None: see ``report_["left_out"]``."""
        check_is_fitted(self, "posteriors_")

    @property
    def loo_(self) -> None:
        """Alias of ``left_out_``."""
        return self.left_out_

    @property
    def report_(self) -> dict[str, Any]:
        """What was done; the divergence lost to the budget is computed when it is asked for."""
        check_is_fitted(self, "posteriors_")
        figures = self._report
        return figures | {
            "standardize": {"on": figures["scales"]["standardize"]} | describe_units(self.units_),
            "search": None,
            "inference": Report().plain() | figures["inference"],
            "gram": "dense",
            "degrees_of_freedom": None,
            "left_out": NOT_KEPT,
            "budget": figures["budget"] | {"divergence_lost": self.stream_.lost()},
        }

    @report_.setter
    def report_(self, given: dict[str, Any]) -> None:
        """Entries of the caller's are kept, in model files too, and batches add to the others."""
        self._report = {key: value for key, value in given.items() if key not in COMPUTED}

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        """Rows of (section, label, value)."""
        report, seen = self.report_, self.prequential_
        rows, kept = report["rows"], report["budget"]
        lines = [
            ("Data", "rows", f"{rows['seen']}, batches: {rows['batches']}"),
            ("Data", "columns", str(self.n_features_in_)),
            ("Model", "kernel", repr(self.kernel_)),
            ("Model", "points kept", str(kept["points"])),
            ("Quality", "log evidence, at least", f"{self.log_evidence_:.4f}"),
        ]
        if seen.weight:
            text = f"log loss {seen.log_loss:.4f}, accuracy {seen.accuracy:.4f}"
            lines.append(("Quality", "before each update", text))
        if kept["projections"]:
            lines.append(("Numerics", "divergence lost", f"{kept['divergence_lost']:.4g}"))
        return lines

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return Summary(type(self).__name__, tuple(self._summary_rows()))

    # ------------------------------------------------------------------ predictions
    def _marginals(self, X: Any) -> tuple[Array, Array]:
        check_is_fitted(self, "posteriors_")
        return self.stream_.marginals(self.units_.standardised(read_inputs(self, X)))

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of f at X: (q,), or (q, k) for several classes."""
        mean, var = self._marginals(X)
        std = np.sqrt(var)
        return (mean[:, 0], std[:, 0]) if mean.shape[1] == 1 else (mean, std)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`; finite."""
        return class_logs(*self._marginals(X))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), averaged over the posterior of f."""
        p = np.exp(self.predict_log_proba(X))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes log probabilities."""
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X: (q,)."""
        check_is_fitted(self, "posteriors_")
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def class_logs(mean: Array, var: Array) -> Array:
    """Return log probabilities (q, k) of the classes from latent means and variances (q, m).

    One latent function is two classes; of several, each is one class against the rest, and the
    probabilities are normalised over the classes.
    """
    if mean.shape[1] == 1:  # the less probable class first: the other is what is left of one
        less = log_averaged(-np.abs(mean), var)
        more = np.where(mean == 0.0, less, np.log1p(-np.exp(less)))
        return np.hstack([np.where(mean < 0.0, more, less), np.where(mean < 0.0, less, more)])
    log_p = log_averaged(mean, var)
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
