"""What a smoothing spline says of new observations that are counts, labels or have outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import inference as inferences
from mercer import losses
from mercer.core.arrays import Array
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.spline.likelihood import response_moments
from mercer.inference.base import Inference
from mercer.inference.mode.prox import has_kinks
from mercer.losses.base import Loss


def resolve_response(loss: Any, inference: Any) -> tuple[Loss | None, Inference | None]:
    """Return the loss and its inference, a copy of its own; None twice for Gaussian noise."""
    named = isinstance(loss, str)
    found = losses.by_name(loss) if named else loss
    if not isinstance(found, Loss):
        raise TypeError(f"loss must be a Loss or the name of one, not {loss!r}")
    if found.offers("quadratic"):
        _check_gaussian(found, named, inference)
        return None, None
    if found.response == "multiclass":
        raise ValueError(
            f"{type(found).__name__} has one curve for each class, and a smoothing spline is one; "
            "use GPClassifier, or one spline for each class"
        )
    method: Any = inference
    if isinstance(inference, str) and inference == "auto":
        method = "ep" if has_kinks(found) else "laplace"
    chosen = inferences.by_name(method, found)
    if not (
        {"derivatives", "tilted"} & set(chosen.needs)
        and chosen.works_in_linear_time
        and chosen.has_evidence
    ):
        raise ValueError(
            f"a smoothing spline knows Laplace and EP inference, not {type(chosen).__name__}; use "
            "inference='laplace' or 'ep', or GPRegressor for others"
        )
    chosen.check(found)
    if not found.convex and "tilted" in chosen.needs:
        raise ValueError(
            f"{type(found).__name__} is not convex: EP would need sites of negative precision, "
            "which the O(n) filter does not have; use inference='laplace'"
        )
    if not found.convex and not hasattr(found, "expected_curvature"):
        raise ValueError(
            f"{type(found).__name__} is not convex, and Laplace needs its expected curvature here "
            "(a method expected_curvature() of the loss); use GPRegressor or GPClassifier"
        )
    found = found.__sklearn_clone__()
    if found.response == "binary" and "scale" in found.domains:
        found = found.fix("scale")  # with a flat prior the scale of the curve is the loss's own
    return found, chosen


def _check_gaussian(loss: Loss, named: bool, inference: Any) -> None:
    if "quadratic" not in inferences.by_name(inference, loss).needs:
        raise ValueError(
            f"Gaussian noise needs no approximation: give inference='auto', not {inference!r}"
        )
    mark = loss.mark("noise")
    if not named and (np.ndim(getattr(loss, "noise", 0.0)) or mark.fixed or mark.bounds):
        raise ValueError(
            "a smoothing spline finds the noise together with lam; for noise that is known give "
            "sample_weight = 1 / noise for each row, or use GPRegressor with the kernel Spline() "
            "and a basis"
        )


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


def _binary(machine: Any) -> bool:
    if not hasattr(machine, "loss_"):
        loss = machine.loss
        found = losses.by_name(loss) if isinstance(loss, str) else loss
        return getattr(found, "response", None) == "binary"
    return bool(machine.loss_.response == "binary")


class SplineResponse(KernelRegressor):
    """Predictions of a regressor, with probabilities for labels."""

    @available_if(_binary)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, 2) of the labels 0 and 1 at X (q, 1)."""
        p = self.predict(X)
        return np.column_stack([1.0 - p, p])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """See :meth:`KernelRegressor.predict_interval`; labels have none."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].response == "binary":
            raise ValueError(
                "a label has no interval: predict gives its probability, predict_latent the curve "
                "behind it with a standard deviation"
            )
        return super().predict_interval(X, coverage)

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_i given x_i and the training data), shape (q,)."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].response == "binary":
            y = labels(y)
        elif not self.losses_[0].offers("quadratic"):
            y = self.losses_[0].check_targets(y)
        return super().predictive_log_density(X, y)

    def _moments(self, inside: Array) -> tuple[Array, Array]:
        if self.losses_[0].response != "binary":
            return super()._moments(inside)
        return response_moments(self.losses_[0], *self._latent(inside, 0))
