"""Regressors whose targets may be labels 0 and 1: curves and surfaces behind a probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.left_out.cavity import response_moments
from mercer.losses.base import Loss


def as_loss(loss: Any) -> Any:
    """Return the loss of a name, or what was given."""
    return Loss.by_name(loss) if isinstance(loss, str) else loss


def labels(y: Array) -> Array:
    """Return labels 0 and 1, or -1 and +1, as -1 and +1."""
    y = np.asarray(y, dtype=np.float64)
    if np.all((y == 0.0) | (y == 1.0)):
        return np.where(y == 1.0, 1.0, -1.0)
    if np.all(np.abs(y) == 1.0):
        return y
    raise ValueError(
        "a binary loss needs the labels 0 and 1 (or -1 and +1): encode the two classes so, or use "
        "GPClassifier, which takes any labels"
    )


def _has_labels(machine: Any) -> bool:
    """Whether the loss, of the fit or as given, is one of labels."""
    return getattr(as_loss(getattr(machine, "loss_", machine.loss)), "response", None) == "binary"


class LabelledRegressor(KernelRegressor):
    """A regressor that predicts the probability of 1 where its loss is one of labels."""

    @available_if(_has_labels)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, 2) of the labels 0 and 1 at X (q, d)."""
        p = self.predict(X)
        return np.column_stack([1.0 - p, p])

    def _check_interval(self, coverage: float) -> None:
        if self.losses_[0].response == "binary":
            raise ValueError(
                "a label has no interval: predict gives its probability, predict_latent the curve "
                "behind it with a standard deviation"
            )
        super()._check_interval(coverage)

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_i given x_i and the training data), shape (q,), or (q, m)."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].response == "binary":
            y = labels(y)
        elif not self.losses_[0].offers("quadratic"):
            y = self.losses_[0].check_targets(y)
        return super().predictive_log_density(X, y)

    def _moments(
        self, inside: Array, latents: list[tuple[Array, Array]] | None = None
    ) -> tuple[Array, Array]:
        if self.losses_[0].response != "binary":
            return super()._moments(inside, latents)
        return response_moments(self.losses_[0], *self._latent(inside, 0))
