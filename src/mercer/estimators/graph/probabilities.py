"""Probabilities of machines on graphs: a sigmoid of the scores of rows whose labels were unknown.

A label is left out, its row stays in the graph: that is what a machine is asked to predict. In a
stream the scores of a batch are those before its labels are learned, with its graph. The sigmoid
has a slope and no offset, which few labels cannot tell: decisions stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Numbers, Record
from mercer.core.record import Later
from mercer.estimators.discrimination.base import BatchProblem, MarginClassifier
from mercer.estimators.shared.labels import Vertices
from mercer.inference.base import Inference
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.losses.calibration import class_probabilities, fit_slope

WINDOW = 2000  # scores of a stream that are kept: the function changes, and memory must not grow
OLDER = ()  # what files have that were written before there were probabilities


@dataclass(eq=False, repr=False, kw_only=True)
class CalibratedMargins(MarginClassifier):
    """A margin classifier with probabilities where ``calibration`` asks for them."""

    _no_left_out = (
        "none: calibration='sigmoid' leaves out the labels, one by one; of tables with all labels "
        "sklearn.model_selection.cross_val_predict leaves out rows"
    )
    calibration: str | None = None

    def _check_params(self) -> None:
        super()._check_params()
        if self.calibration not in (None, "sigmoid"):
            raise ValueError(f"calibration must be None or 'sigmoid', got {self.calibration!r}")

    def _forget(self) -> None:
        """The state before the first batch; ``intercept_`` is known."""
        self._held = np.zeros((0, len(self.intercept_) + 2))
        self._scores: Array | None = None
        self._figures: LeftOut | None = None
        self.slope_ = np.zeros(0)

    def _calibrate(self, problem: BatchProblem, inference: Inference, loss: Loss) -> dict[str, Any]:
        """Fit the sigmoid to the scores kept and those of a batch; return what to report.

        Before any function was learned they are of fits without each label, else those before it.
        """
        fresh = problem.before is None or not problem.before.any()
        scores: Array | None = problem.left_out(inference, loss) if fresh else problem.before
        by = "labels left out" if fresh else "scores before each batch"
        self._scores, self._figures = scores, None
        if scores is None:
            return {"by": "none: a class of the batch has a single label", "scores": 0}
        scores = scores if fresh else scores + self.intercept_
        new = np.column_stack([scores, problem.codes, problem.weights])
        self._held = np.concatenate([self._held, new])
        k = scores.shape[1]
        codes, weights = self._held[:, k].astype(np.intp), self._held[:, k + 1]
        slope = fit_slope(self._held[:, :k], codes, weights, len(self.classes_))
        self._held, self.slope_ = self._held[-WINDOW:], np.array([slope])
        return {"by": by, "slope": slope, "scores": len(self._held)}

    # ------------------------------------------------------------------ answers
    @property
    def predict_proba(self) -> Any:
        """Probabilities (q, k) in the order of ``classes_``; absent without ``calibration``."""
        if self.calibration is None:
            raise AttributeError(
                f"{type(self).__name__} has no probabilities unless calibration='sigmoid' asks for "
                "them: its loss is not a likelihood, or its labels are not measurements; "
                "sklearn.calibration.CalibratedClassifierCV has other ways, on labelled rows"
            )
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        f = self._latent(X)
        if not len(self.slope_):
            raise ValueError(
                "there is no score of a row whose label was unknown yet: learn one more batch "
                "with labels of at least two classes before asking for probabilities"
            )
        return self._sigmoid(f)

    def _sigmoid(self, f: Array) -> Array:
        """Return the probabilities (q, k) of scores f + b, (q, 1) or (q, k)."""
        z = self.slope_[0] * f
        return class_probabilities(z[:, 0] if z.shape[1] == 1 else z, 1.0)

    def _figure(self, X: Array, codes: Index, batch: Vertices, weights: Array) -> None:
        """Set the figures of the labelled rows X (u, d), of classes (u,) and weights (u,)."""
        if self._scores is None:
            raise ValueError(
                "calibration needs at least two different labelled rows of each class, so that "
                "each can be left out once: label more rows, or give calibration=None"
            )
        k, label = len(self.intercept_), batch.label
        f = self._scores[label]
        if np.any(label < 0):  # a row of weight zero is predicted from all rows that count
            f[label < 0] = self.posteriors_[0].mean(X[label < 0])
        own = codes[:, None] == (np.ones(1) if k == 1 else np.arange(k))
        found = LeftOut.of_classes(self._sigmoid(f), codes, weights)
        self._figures = replace(found, margin=np.where(own, 1.0, -1.0) * f)
        self.report_["left_out"] = (
            "of the labelled rows, by fits without each label (ten folds of more than 60); it is "
            "not part of a model file"
        )

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        # h scores of rows whose labels were unknown, with class and weight
        return {
            **super()._record(),
            "slope_": Later(Numbers("g", 0.0, above=True), OLDER),
            "_held": Later(Numbers("h k+2"), OLDER),
        }

    def _restored(self) -> None:
        super()._restored()
        found: tuple[Any, Any] = (self.slope_, self._held)
        if any(value is None for value in found):
            raise ValueError("the sigmoid of the model is null")
        if found[0] is OLDER:
            self._forget()
        self._scores = self._figures = None

    def _check_fitted(self) -> None:
        super()._check_fitted()
        k, held = len(self.intercept_), self._held
        if len(held) > WINDOW or len(self.slope_) != min(1, len(held)):
            raise ValueError("the scores kept do not fit the functions or their calibration")
        codes = held[:, k]
        known = (codes >= 0.0) & (codes < max(2, k)) & (codes == np.floor(codes))
        if not (known.all() and (held[:, k + 1] > 0.0).all()):
            raise ValueError("the scores kept have classes or weights that cannot be")
