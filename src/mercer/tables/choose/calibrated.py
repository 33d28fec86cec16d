"""SigmoidClassifier: probabilities for a classifier that has none, partly labelled rows allowed."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Plain, Record
from mercer.core.record import Recorded
from mercer.estimators.shared.labels import split_labels
from mercer.estimators.shared.table import check_weights
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted
from mercer.persist.pipelines import Step

FOLDS = 5
MANY = 20_000  # rows from which one part is enough


class SigmoidClassifier(ClassifierMixin, Recorded, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A sigmoid (several classes: a softmax) on the outputs of labelled rows that were held out.

    The labels of each fifth are hidden in turn; the rows themselves stay, as rows without a label,
    unless all have one. Of more than 20,000 rows one fifth is held out, once.

    Parameters
    ----------
    machine : a classifier with ``decision_function`` that accepts rows without a label.

    Attributes
    ----------
    machine_ : the machine, fitted with all labels.
    slope_, offsets_ : p = softmax(slope f + offsets), or its sigmoid for two classes.
    classes_, n_features_in_

    References
    ----------
    Platt (1999); Lin, Lin & Weng (2007).
    """

    def __init__(self, machine: Any = None) -> None:
        self.machine = machine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,), None where there is no label.

        ``sample_weight`` (n,): a labelled row of weight w counts as w equal rows.
        """
        X = np.asarray(X, dtype=np.float64)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        weights = check_weights(sample_weight, len(X))
        known, labels = split_labels(y, len(X))
        classes, codes = np.unique(labels, return_inverse=True)
        rows = np.flatnonzero(known)
        folds = min(FOLDS, int(np.bincount(codes).min()))
        if folds < 2:
            raise ValueError("probabilities need at least two labelled rows of every class")
        held = np.empty((len(rows), 1 if len(classes) == 2 else len(classes)))
        parts = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(rows, codes))
        parts = parts[:1] if len(rows) > MANY else parts
        for train, test in parts:
            if len(rows) == len(X):
                some = {name: np.asarray(values)[train] for name, values in given.items()}
                machine = clone(self.machine).fit(X[train], labels[train], **some)
            else:
                hidden = np.empty(len(X), dtype=object)
                hidden[rows] = labels
                hidden[rows[test]] = None
                machine = clone(self.machine).fit(X, hidden, **given)
            held[test] = np.reshape(machine.decision_function(X[rows[test]]), (len(test), -1))
        seen = np.concatenate([test for _, test in parts])
        slope, offsets = fit_sigmoid(held[seen], codes[seen], weights[rows][seen], len(classes))
        held = held if len(parts) == folds else held[seen]
        self.machine_ = clone(self.machine).fit(X, y, **given)
        self.classes_: NDArray[Any] = self.machine_.classes_
        self.n_features_in_ = X.shape[1]
        self.slope_, self.offsets_ = np.array([slope]), np.asarray(offsets)
        self.held_out_, self.folds_ = held, folds
        self.report_ = self.machine_.report_
        return self

    def held_out_proba(self, codes: Array) -> tuple[Array, str]:
        """Return the probabilities of the labelled rows when their labels were hidden, (l, k)."""
        return self._sigmoid(self.held_out_), f"{self.folds_} folds"

    def _sigmoid(self, f: Array) -> Array:
        slope = float(self.slope_[0])
        d = shifted(f, slope, self.offsets_)
        return class_probabilities(d[:, 0] if d.shape[1] == 1 else d, slope)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``."""
        check_is_fitted(self, "slope_")
        f = self.machine_.decision_function(X)
        return self._sigmoid(np.reshape(f, (len(f), -1)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, (q,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def summary(self) -> Any:
        """Return what was fitted, in words."""
        check_is_fitted(self, "slope_")
        return self.machine_.summary()

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {
            "machine_": Step(),
            "slope_": Numbers("1", 0.0),
            "offsets_": Numbers("q"),
            "held_out_": Numbers("h q"),
            "folds_": Plain(int, 2),
        }

    def _stored_params(self) -> dict[str, Any]:
        return {}

    def _restored(self) -> None:
        self.machine = clone(self.machine_)
        self.classes_, self.report_ = self.machine_.classes_, self.machine_.report_
        self.n_features_in_ = self.machine_.n_features_in_
