"""Probabilities of MEDClassifier, where they are asked for: Platt's sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mercer.core.arrays import Array, Index
from mercer.estimators.discrimination.base import MarginClassifier
from mercer.inference.med import MED
from mercer.linalg.dense.gram import DenseGram
from mercer.losses.binary.margins import Margin
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted

WINDOW = 2000  # held-out scores that are kept: the function changes, and memory must not grow
FOLDS = 5


class Calibrated(MarginClassifier):
    """A sigmoid on scores of rows that had not been learned, kept up along a stream.

    The scores are f without the bias: in a stream that is the last batch's alone, and the offset of
    the sigmoid, which comes from many, takes its place.

    ``_held`` (N, k + 2) are the last of them: scores, class and weight; ``slope_`` (1,) and
    ``offsets_`` are empty as long as there are none.
    """

    calibration: str | None
    slope_: Array
    offsets_: Array
    _held: Array

    def _begin_calibration(self, k: int) -> None:
        self.slope_, self.offsets_ = np.zeros(0), np.zeros(0)
        self._held = np.zeros((0, k + 2))

    def _calibrate(self, scores: Array | None, codes: Index, weights: Array, by: str) -> None:
        """Fit the sigmoid to the scores kept and those of a batch (n, k), None: it has none."""
        if self.calibration is None:
            return
        if scores is not None:
            new = np.column_stack([scores, codes, weights])
            held = np.concatenate([self._held, new])
            k = scores.shape[1]
            slope, self.offsets_ = fit_sigmoid(
                held[:, :k], held[:, k].astype(np.intp), held[:, k + 1], len(self.classes_)
            )
            self.slope_ = np.array([slope])
            # of a batch larger than the window rows from all over it, of older ones the latest
            rows = np.unique(np.linspace(0, len(new) - 1, WINDOW).astype(np.intp))
            self._held = np.concatenate([self._held, new[rows]])[-WINDOW:]
        self.report_["calibration"] = {
            "by": by if scores is not None else "none: a class of the batch has a single row",
            "slope": float(self.slope_[0]) if len(self.slope_) else None,
            "scores": len(self._held),
        }

    def _shifted(self, f: Array) -> Array:
        """Return f + b (q, k), moved to the middle of the sigmoid where there is one."""
        if not len(self.slope_):
            return f
        return shifted(f - self.intercept_, float(self.slope_[0]), self.offsets_)

    @property
    def predict_proba(self) -> Any:
        """Probabilities (q, k) in the order of ``classes_``; absent without ``calibration``."""
        if self.calibration is None:
            raise AttributeError(
                "maximum entropy discrimination has no probabilities: its variance does not shrink "
                "with the data; calibration='sigmoid' fits some to held-out scores, "
                "sklearn.calibration.CalibratedClassifierCV has other ways"
            )
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        d = self.decision_function(X)
        if not len(self.slope_):
            raise ValueError(
                "there is no held-out score to calibrate with yet: learn one more batch, with "
                "rows of every class, before asking for probabilities"
            )
        return class_probabilities(d, float(self.slope_[0]))

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        rows, found = super()._summary_rows(), self.report_.get("calibration")
        if found is None:
            return rows
        text = f"sigmoid on {found['scores']} held-out scores"
        if found["slope"] is None:
            text = "none yet: there are no held-out scores"
        elif found["slope"]:
            text = f"sigmoid of slope {found['slope']:.4g} on {found['scores']} held-out scores"
        else:
            text += ", which say nothing: the shares of the classes"
        return [*rows, ("Quality", "probabilities", text)]


def held_out_scores(
    inference: MED, loss: Margin, K: Array, Y: Array, weights: Array, before: Array, codes: Index
) -> Array | None:
    """Return f without bias (n, k) of each row by a fit that has not seen it: five folds.

    K (n, n), Y (n, k) of -1 and +1, weights (n,) and the scores before, (n, k), which are those of
    all folds, are those of one batch. The folds are stratified by ``codes`` (n,), fewer where a
    class has fewer rows; None if one has a single row.
    """
    counts = np.bincount(codes)
    folds = int(min(FOLDS, counts[counts > 0].min()))
    if folds < 2 or np.count_nonzero(counts) < 2:
        return None
    scores = np.empty(Y.shape)
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    for train, test in split.split(codes, codes):
        solution = inference.solve(
            DenseGram.given(np.ascontiguousarray(K[np.ix_(train, train)])),
            Y[train],
            loss,
            mean=before[train],
            basis=np.ones((len(train), 1)),
            weights=weights[train],
        )
        coefficients = np.ascontiguousarray(solution.alpha.T)
        scores[test] = before[test] + K[np.ix_(test, train)] @ coefficients.T
    return scores
